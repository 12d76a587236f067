/* net/auth.c - secrets from files, and HMAC over what a connection is about. */
#include "net/auth.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"

int pt_secret_load(const char *path, struct pt_secret *ret_secret)
{
	uint8_t bytes[PT_SECRET_MAX + 1];
	struct stat st;
	int64_t len;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int rc = 0;

	if (fd < 0)
		return pt_fail(errno, "cannot open the secret file %s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0) {
		rc = pt_fail(errno, "cannot look at the secret file %s: %s", path, strerror(errno));
		goto out;
	}
	if (S_ISREG(st.st_mode) && (st.st_mode & 077)) {
		rc = pt_fail(EPERM, "the secret file %s can be used by other users; chmod 600 it, and take a new secret if it was read", path);
		goto out;
	}
	len = pt_io_pread(fd, bytes, sizeof(bytes), 0);
	if (len < 0) {
		rc = pt_fail((int)-len, "cannot read the secret file %s: %s", path, strerror((int)-len));
		goto out;
	}
	while (len > 0 && isspace(bytes[len - 1]))
		len--;
	if (len < PT_SECRET_MIN || len > PT_SECRET_MAX) {
		rc = pt_fail(EINVAL, "the secret file %s must hold %d to %d bytes; make one with: openssl rand -hex 32", path, PT_SECRET_MIN, PT_SECRET_MAX);
		goto out;
	}
	memcpy(ret_secret->bytes, bytes, (size_t)len);
	ret_secret->len = (size_t)len;
out:
	OPENSSL_cleanse(bytes, sizeof(bytes));
	close(fd);
	return rc;
}

void pt_secret_wipe(struct pt_secret *secret)
{
	OPENSSL_cleanse(secret, sizeof(*secret));
}

int pt_random_bytes(void *buf, size_t len)
{
	if (RAND_bytes(buf, (int)len) != 1)
		return pt_fail(EIO, "OpenSSL has no random bytes to give");
	return 0;
}

static int hmac(const struct pt_secret *secret, const void *data, size_t len, uint8_t ret_mac[PT_WIRE_MAC])
{
	unsigned int mac_len = 0;

	if (!HMAC(EVP_sha256(), secret->bytes, (int)secret->len, data, len, ret_mac, &mac_len) || mac_len != PT_WIRE_MAC)
		return pt_fail(EIO, "OpenSSL cannot compute an HMAC");
	return 0;
}

int pt_auth_proof(const struct pt_secret *secret, const struct pt_auth *auth, enum pt_auth_side side, uint8_t ret_mac[PT_WIRE_MAC])
{
	uint8_t text[16 + 4 + 2 * PT_WIRE_NONCE + 16] = { 0 };
	uint8_t *p = text;

	memcpy(p, side == PT_AUTH_CLIENT ? "ptio client" : "ptio server", 11);
	p += 16;
	pt_put_le32(p, auth->version);
	p += 4;
	memcpy(p, auth->client_nonce, PT_WIRE_NONCE);
	p += PT_WIRE_NONCE;
	memcpy(p, auth->server_nonce, PT_WIRE_NONCE);
	p += PT_WIRE_NONCE;
	memcpy(p, auth->session.b, sizeof(auth->session.b));
	return hmac(secret, text, sizeof(text), ret_mac);
}

bool pt_auth_proof_ok(const struct pt_secret *secret, const struct pt_auth *auth, enum pt_auth_side side, const void *mac, size_t mac_len)
{
	uint8_t want[PT_WIRE_MAC];

	return mac_len == PT_WIRE_MAC && pt_auth_proof(secret, auth, side, want) == 0 && CRYPTO_memcmp(want, mac, PT_WIRE_MAC) == 0;
}

int pt_secret_derive(const struct pt_secret *secret, const char *label, uint8_t ret_key[PT_WIRE_MAC])
{
	return hmac(secret, label, strlen(label), ret_key);
}
