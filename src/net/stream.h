/* net/stream.h - bytes over a connected, nonblocking socket: as they are, or in TLS keyed by the shared secret (no certificates).
 *
 * Belongs to one thread. */
#ifndef PT_NET_STREAM_H
#define PT_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct pt_tls;                          /* tls.h */

struct pt_stream {
	int fd;                         /* -1: closed */
	void *ssl;                      /* an OpenSSL connection; NULL: plain */
	bool want_read, want_write;     /* what the last call waits for */
};

/* Takes the descriptor over. tls NULL: plain. -ENOMEM (closes it). */
int pt_stream_open(struct pt_stream *s, int fd, struct pt_tls *tls);
void pt_stream_close(struct pt_stream *s);
/* Bytes moved (1 or more), or -EAGAIN with what it waits for in want_*; -ECONNRESET at the peer's end or another failure, with a sentence. */
int64_t pt_stream_recv(struct pt_stream *s, const struct iovec *iov, int count);
int64_t pt_stream_send(struct pt_stream *s, const struct iovec *iov, int count);
/* From a file, by sendfile where that works. */
int64_t pt_stream_send_file(struct pt_stream *s, int fd, uint64_t off, uint64_t len);
/* More bytes are decrypted and waiting, so that the socket will not become readable for them. */
bool pt_stream_pending(const struct pt_stream *s);

#endif
