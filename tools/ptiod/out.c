/* tools/ptiod/out.c - replies on their way: memory and files, sent as far as the socket takes them. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tools/ptiod/server.h"

#define IOV_AT_ONCE 64

struct out *out_create(void)
{
	struct out *o = pt_calloc(1, sizeof(*o));

	if (o)
		o->fd = -1;
	return o;
}

void out_free(struct server *s, struct out *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; i < o->map_count; i++)
		pt_data_unmap(&s->store->data, o->maps[i]);
	free(o->maps);
	free(o->pieces);
	free(o->buffer);
	pt_buf_done(&o->frame);
	if (o->fd >= 0)
		close(o->fd);
	free(o);
}

/* What is left of frame and pieces. */
static int out_iov(const struct out *o, struct iovec *iov)
{
	int n = 0;

	if (o->done < o->frame.len)
		iov[n++] = (struct iovec){ o->frame.data + o->done, o->frame.len - o->done };
	for (uint32_t i = o->piece; i < o->piece_count && n < IOV_AT_ONCE; i++)
		iov[n++] = o->pieces[i];
	return n;
}

static void pieces_forward(struct out *o, uint64_t n)
{
	while (o->piece < o->piece_count) {
		struct iovec *v = &o->pieces[o->piece];
		uint64_t step = n < v->iov_len ? n : v->iov_len;

		v->iov_base = (uint8_t *)v->iov_base + step;
		v->iov_len -= step;
		n -= step;
		if (v->iov_len)
			return;
		o->piece++;
	}
}

int out_send(struct out *o, struct pt_stream *stream, uint64_t *ret_moved)
{
	struct iovec iov[IOV_AT_ONCE];
	uint64_t frame_left;
	int64_t n;

	pieces_forward(o, 0);
	while (o->done < o->bytes) {
		n = pt_stream_send(stream, iov, out_iov(o, iov));
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		frame_left = o->done < o->frame.len ? o->frame.len - o->done : 0;
		if ((uint64_t)n > frame_left)
			pieces_forward(o, (uint64_t)n - frame_left);
		o->done += (uint64_t)n;
		*ret_moved += (uint64_t)n;
	}
	while (o->fd >= 0 && o->done < o->bytes + o->file_bytes) {
		n = pt_stream_send_file(stream, o->fd, o->done - o->bytes, o->bytes + o->file_bytes - o->done);
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		o->done += (uint64_t)n;
		*ret_moved += (uint64_t)n;
	}
	return 1;
}
