/* base/buf.c - the growable buffer and the checked reader. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define BUF_CAP_MIN 64

void pt_buf_done(struct pt_buf *b)
{
	free(b->data);
	*b = (struct pt_buf)PT_BUF_INIT;
}

bool pt_buf_failed(const struct pt_buf *b)
{
	return b->failed;
}

void pt_buf_reset(struct pt_buf *b)
{
	b->len = 0;
	b->failed = false;
}

/* Room for len more bytes; NULL once memory has run out. */
static uint8_t *buf_extend(struct pt_buf *b, size_t len)
{
	size_t need, cap;
	uint8_t *data;

	if (b->failed)
		return NULL;
	if (__builtin_add_overflow(b->len, len, &need) || need > SIZE_MAX / 2) {
		b->failed = true;
		return NULL;
	}
	if (need > b->cap) {
		cap = b->cap + b->cap / 2;
		if (cap < BUF_CAP_MIN)
			cap = BUF_CAP_MIN;
		if (cap < need)
			cap = need;
		data = pt_realloc(b->data, cap);
		if (!data) {
			b->failed = true;
			return NULL;
		}
		b->data = data;
		b->cap = cap;
	}
	data = b->data ? b->data + b->len : NULL;
	b->len = need;
	return data;
}

void pt_buf_append(struct pt_buf *b, const void *data, size_t len)
{
	uint8_t *to = len ? buf_extend(b, len) : NULL;

	if (to)
		memcpy(to, data, len);
}

void pt_buf_append_fill(struct pt_buf *b, uint8_t byte, size_t len)
{
	uint8_t *to = len ? buf_extend(b, len) : NULL;

	if (to)
		memset(to, byte, len);
}

void pt_buf_append_zeros(struct pt_buf *b, size_t len)
{
	pt_buf_append_fill(b, 0, len);
}

void pt_buf_append_str(struct pt_buf *b, const char *s)
{
	pt_buf_append(b, s, strlen(s));
}

void pt_buf_append_u8(struct pt_buf *b, uint8_t v)
{
	pt_buf_append(b, &v, 1);
}

void pt_buf_append_le16(struct pt_buf *b, uint16_t v)
{
	uint8_t bytes[2];

	pt_put_le16(bytes, v);
	pt_buf_append(b, bytes, sizeof(bytes));
}

void pt_buf_append_le32(struct pt_buf *b, uint32_t v)
{
	uint8_t bytes[4];

	pt_put_le32(bytes, v);
	pt_buf_append(b, bytes, sizeof(bytes));
}

void pt_buf_append_le64(struct pt_buf *b, uint64_t v)
{
	uint8_t bytes[8];

	pt_put_le64(bytes, v);
	pt_buf_append(b, bytes, sizeof(bytes));
}

void pt_buf_append_lenstr(struct pt_buf *b, const void *s, uint32_t len)
{
	pt_buf_append_le32(b, len);
	pt_buf_append(b, s, len);
}

void pt_buf_printf(struct pt_buf *b, const char *fmt, ...)
{
	size_t room = b->failed ? 0 : b->cap - b->len;
	va_list args, again;
	uint8_t *to;
	int len;

	va_start(args, fmt);
	va_copy(again, args);
	/* Mostly there is room. */
	len = vsnprintf(room ? (char *)b->data + b->len : NULL, room, fmt, args);
	if (len < 0) {
		b->failed = true;
	} else if ((size_t)len < room) {
		b->len += (size_t)len;
	} else {
		to = buf_extend(b, (size_t)len + 1);
		if (to) {
			vsnprintf((char *)to, (size_t)len + 1, fmt, again);
			b->len--;       /* the terminator is room, not content */
		}
	}
	va_end(again);
	va_end(args);
}

void pt_reader_init(struct pt_reader *r, const void *data, size_t len)
{
	r->data = data;
	r->len = len;
	r->off = 0;
	r->bad = false;
}

size_t pt_reader_left(const struct pt_reader *r)
{
	return r->bad ? 0 : r->len - r->off;
}

const void *pt_reader_bytes(struct pt_reader *r, size_t len)
{
	static const uint8_t nothing[1];
	const uint8_t *p;

	if (r->bad || len > r->len - r->off) {
		r->bad = true;
		return NULL;
	}
	if (!len)
		return r->data ? r->data + r->off : nothing;
	p = r->data + r->off;
	r->off += len;
	return p;
}

uint8_t pt_reader_u8(struct pt_reader *r)
{
	const uint8_t *p = pt_reader_bytes(r, 1);

	return p ? *p : 0;
}

uint16_t pt_reader_le16(struct pt_reader *r)
{
	const void *p = pt_reader_bytes(r, 2);

	return p ? pt_get_le16(p) : 0;
}

uint32_t pt_reader_le32(struct pt_reader *r)
{
	const void *p = pt_reader_bytes(r, 4);

	return p ? pt_get_le32(p) : 0;
}

uint64_t pt_reader_le64(struct pt_reader *r)
{
	const void *p = pt_reader_bytes(r, 8);

	return p ? pt_get_le64(p) : 0;
}

const void *pt_reader_lenstr(struct pt_reader *r, uint32_t *ret_len)
{
	uint32_t len = pt_reader_le32(r);
	const void *p = pt_reader_bytes(r, len);

	if (p)
		*ret_len = len;
	return p;
}
