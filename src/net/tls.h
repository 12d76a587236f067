/* net/tls.h - TLS 1.3 between peers that share a secret: its key is a pre-shared key, so nobody without it gets past the handshake, and neither
 * side needs a certificate. */
#ifndef PT_NET_TLS_H
#define PT_NET_TLS_H

#include <stdbool.h>

#include "net/auth.h"

struct pt_tls;

/* One for all connections of a daemon or client; thread-safe afterwards. -EINVAL without a secret, -EIO when OpenSSL fails. */
int pt_tls_create(const struct pt_secret *secret, bool server, struct pt_tls **ret_tls);
void pt_tls_free(struct pt_tls *tls);
/* An SSL object on the descriptor, in its server or client state; NULL without memory. */
void *pt_tls_attach(struct pt_tls *tls, int fd);

#endif
