/* net/tls.c - OpenSSL contexts with a pre-shared key derived from the secret. */
#include "net/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/alloc.h"
#include "base/error.h"

static const char identity[] = "ptio";
static const unsigned char suite[2] = { 0x13, 0x01 };   /* TLS_AES_128_GCM_SHA256 */

struct pt_tls {
	SSL_CTX *ctx;
	bool server;
	uint8_t key[PT_WIRE_MAC];
};

/* The session that a pre-shared key stands for. */
static SSL_SESSION *psk_session(SSL *ssl)
{
	struct pt_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && cipher && SSL_SESSION_set1_master_key(session, tls->key, sizeof(tls->key)) && SSL_SESSION_set_cipher(session, cipher) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **ret_session)
{
	*ret_session = NULL;
	if (id_len != sizeof(identity) - 1 || memcmp(id, identity, id_len) != 0)
		return 1;
	*ret_session = psk_session(ssl);
	return *ret_session != NULL;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **ret_id, size_t *ret_id_len, SSL_SESSION **ret_session)
{
	*ret_session = NULL;
	if (md && md != EVP_sha256() && EVP_MD_get_type(md) != NID_sha256)
		return 1;
	*ret_session = psk_session(ssl);
	*ret_id = (const unsigned char *)identity;
	*ret_id_len = sizeof(identity) - 1;
	return *ret_session != NULL;
}

int pt_tls_create(const struct pt_secret *secret, bool server, struct pt_tls **ret_tls)
{
	struct pt_tls *tls;
	int rc;

	if (!secret->len)
		return pt_fail(EINVAL, "TLS needs a shared secret, which is its key; give a secret file");
	tls = pt_calloc(1, sizeof(*tls));
	if (!tls)
		return pt_fail_nomem();
	tls->server = server;
	rc = pt_secret_derive(secret, "ptio tls 1.3 key", tls->key);
	if (rc < 0)
		goto fail;
	tls->ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	if (!tls->ctx || !SSL_CTX_set_min_proto_version(tls->ctx, TLS1_3_VERSION) || !SSL_CTX_set_ciphersuites(tls->ctx, "TLS_AES_128_GCM_SHA256")) {
		rc = pt_fail(EIO, "OpenSSL cannot do TLS 1.3");
		goto fail;
	}
	SSL_CTX_set_app_data(tls->ctx, tls);
	SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(tls->ctx, 0);
	SSL_CTX_set_mode(tls->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_options(tls->ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
	if (server)
		SSL_CTX_set_psk_find_session_callback(tls->ctx, find_session);
	else
		SSL_CTX_set_psk_use_session_callback(tls->ctx, use_session);
	*ret_tls = tls;
	return 0;
fail:
	pt_tls_free(tls);
	return rc;
}

void pt_tls_free(struct pt_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->ctx);
	OPENSSL_cleanse(tls->key, sizeof(tls->key));
	free(tls);
}

void *pt_tls_attach(struct pt_tls *tls, int fd)
{
	SSL *ssl = SSL_new(tls->ctx);

	if (ssl && !SSL_set_fd(ssl, fd)) {
		SSL_free(ssl);
		return NULL;
	}
	if (ssl && tls->server)
		SSL_set_accept_state(ssl);
	else if (ssl)
		SSL_set_connect_state(ssl);
	return ssl;
}
