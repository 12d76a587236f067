/* net/auth.h - the shared secret, and the proofs that both sides know it.
 *
 * A proof is HMAC-SHA256 over a label, the version, both nonces and the session's id, so that no proof is good for another connection, another
 * version, or the other direction. Thread-safe. */
#ifndef PT_NET_AUTH_H
#define PT_NET_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "net/wire.h"

#define PT_SECRET_MIN 16
#define PT_SECRET_MAX 4096

struct pt_secret {
	size_t len;                     /* 0: none */
	uint8_t bytes[PT_SECRET_MAX];
};

struct pt_auth {                        /* what the proofs of one connection are about */
	uint32_t version;
	uint8_t client_nonce[PT_WIRE_NONCE];
	uint8_t server_nonce[PT_WIRE_NONCE];
	struct pt_id session;
};

enum pt_auth_side { PT_AUTH_CLIENT, PT_AUTH_SERVER };

/* The file's bytes without white space at its end. -ENOENT and others of open(2); -EINVAL: too short or long; -EPERM: others may read it. */
int pt_secret_load(const char *path, struct pt_secret *ret_secret);
void pt_secret_wipe(struct pt_secret *secret);
int pt_random_bytes(void *buf, size_t len);
/* -EIO when the library fails. */
int pt_auth_proof(const struct pt_secret *secret, const struct pt_auth *auth, enum pt_auth_side side, uint8_t ret_mac[PT_WIRE_MAC]);
/* In a time that does not depend on the bytes. */
bool pt_auth_proof_ok(const struct pt_secret *secret, const struct pt_auth *auth, enum pt_auth_side side, const void *mac, size_t mac_len);
/* A key for another use of the secret, which says nothing of it. */
int pt_secret_derive(const struct pt_secret *secret, const char *label, uint8_t ret_key[PT_WIRE_MAC]);

#endif
