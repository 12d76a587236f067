/* net/stream.c - sockets, plain and in TLS, behind one pair of calls. */
#include "net/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "net/tls.h"

#define FILE_PIECE 16384

int pt_stream_open(struct pt_stream *s, int fd, struct pt_tls *tls)
{
	*s = (struct pt_stream){ .fd = fd };
	if (!tls)
		return 0;
	s->ssl = pt_tls_attach(tls, fd);
	if (s->ssl)
		return 0;
	pt_stream_close(s);
	return pt_fail_nomem();
}

void pt_stream_close(struct pt_stream *s)
{
	SSL_free(s->ssl);
	s->ssl = NULL;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static int64_t fail_lost(int err)
{
	return pt_fail(ECONNRESET, "the connection was lost: %s", err ? strerror(err) : "the peer closed it");
}

/* What an OpenSSL call that moved nothing means. */
static int64_t ssl_verdict(struct pt_stream *s, int ret)
{
	unsigned long code;
	int err = errno;

	switch (SSL_get_error(s->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		s->want_read = true;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		s->want_write = true;
		return -EAGAIN;
	case SSL_ERROR_SSL:
		code = ERR_get_error();
		ERR_clear_error();
		return pt_fail(ECONNRESET, "TLS with the peer failed (%s); see that both sides use TLS and the same secret",
			       code && ERR_reason_error_string(code) ? ERR_reason_error_string(code) : "no reason given");
	case SSL_ERROR_SYSCALL:
		ERR_clear_error();
		return fail_lost(err);
	default:
		ERR_clear_error();
		return fail_lost(0);
	}
}

int64_t pt_stream_recv(struct pt_stream *s, const struct iovec *iov, int count)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count };
	ssize_t n;

	s->want_read = s->want_write = false;
	if (s->ssl) {
		int ret;

		while (count && !iov->iov_len)
			iov++, count--;
		errno = 0;
		ret = SSL_read(s->ssl, iov->iov_base, (int)pt_size_min(iov->iov_len, PT_MIB));
		return ret > 0 ? ret : ssl_verdict(s, ret);
	}
	do
		n = recvmsg(s->fd, &m, 0);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		s->want_read = true;
		return -EAGAIN;
	}
	return fail_lost(n < 0 ? errno : 0);
}

static int64_t ssl_send(struct pt_stream *s, const void *data, size_t len)
{
	int ret;

	errno = 0;
	ret = SSL_write(s->ssl, data, (int)pt_size_min(len, PT_MIB));
	return ret > 0 ? ret : ssl_verdict(s, ret);
}

int64_t pt_stream_send(struct pt_stream *s, const struct iovec *iov, int count)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count };
	ssize_t n;

	s->want_read = s->want_write = false;
	if (s->ssl) {
		while (count && !iov->iov_len)
			iov++, count--;
		return ssl_send(s, iov->iov_base, iov->iov_len);
	}
	do
		n = sendmsg(s->fd, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EWOULDBLOCK) {
		s->want_write = true;
		return -EAGAIN;
	}
	return fail_lost(errno);
}

int64_t pt_stream_send_file(struct pt_stream *s, int fd, uint64_t off, uint64_t len)
{
	uint8_t piece[FILE_PIECE];
	off_t at = (off_t)off;
	int64_t n;

	s->want_read = s->want_write = false;
	if (s->ssl) {
		n = pt_io_pread(fd, piece, pt_size_min(len, sizeof(piece)), off);
		if (n <= 0)
			return fail_lost(n ? (int)-n : EIO);
		return ssl_send(s, piece, (size_t)n);
	}
	do
		n = sendfile(s->fd, fd, &at, pt_size_min(len, PT_GIB));
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		s->want_write = true;
		return -EAGAIN;
	}
	return fail_lost(n < 0 ? errno : EIO);
}

bool pt_stream_pending(const struct pt_stream *s)
{
	return s->ssl && SSL_has_pending(s->ssl);
}
