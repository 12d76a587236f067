/* base/buf.h - a growable byte buffer with little-endian encoders, and a checked reader.
 *
 * A buffer that ran out of memory remembers it: appends become no-ops and pt_buf_failed() is true, so that
 * a long encoding needs one check at its end. Not thread-safe. */
#ifndef PT_BASE_BUF_H
#define PT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pt_buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	bool failed;
};

#define PT_BUF_INIT { 0 }

void pt_buf_done(struct pt_buf *b);                     /* frees; leaves an empty buffer */
bool pt_buf_failed(const struct pt_buf *b);
void pt_buf_reset(struct pt_buf *b);                    /* length 0, memory kept */
void pt_buf_append(struct pt_buf *b, const void *data, size_t len);
void pt_buf_append_zeros(struct pt_buf *b, size_t len);
void pt_buf_append_fill(struct pt_buf *b, uint8_t byte, size_t len);
void pt_buf_append_str(struct pt_buf *b, const char *s);
void pt_buf_append_u8(struct pt_buf *b, uint8_t v);
void pt_buf_append_le16(struct pt_buf *b, uint16_t v);
void pt_buf_append_le32(struct pt_buf *b, uint32_t v);
void pt_buf_append_le64(struct pt_buf *b, uint64_t v);
void pt_buf_append_lenstr(struct pt_buf *b, const void *s, uint32_t len);   /* u32 length, bytes */
void pt_buf_printf(struct pt_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reads past the end give zeros and set bad; check bad once at the end. */
struct pt_reader {
	const uint8_t *data;
	size_t len;
	size_t off;
	bool bad;
};

void pt_reader_init(struct pt_reader *r, const void *data, size_t len);
size_t pt_reader_left(const struct pt_reader *r);
uint8_t pt_reader_u8(struct pt_reader *r);
uint16_t pt_reader_le16(struct pt_reader *r);
uint32_t pt_reader_le32(struct pt_reader *r);
uint64_t pt_reader_le64(struct pt_reader *r);
/* A pointer to len bytes inside the data, or NULL (and bad) when fewer are left. */
const void *pt_reader_bytes(struct pt_reader *r, size_t len);
const void *pt_reader_lenstr(struct pt_reader *r, uint32_t *ret_len);

static inline uint16_t pt_get_le16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t pt_get_le32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t pt_get_le64(const void *p)
{
	const uint8_t *b = p;

	return (uint64_t)pt_get_le32(b) | (uint64_t)pt_get_le32(b + 4) << 32;
}

static inline void pt_put_le16(void *p, uint16_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)v;
	b[1] = (uint8_t)(v >> 8);
}

static inline void pt_put_le32(void *p, uint32_t v)
{
	pt_put_le16(p, (uint16_t)v);
	pt_put_le16((uint8_t *)p + 2, (uint16_t)(v >> 16));
}

static inline void pt_put_le64(void *p, uint64_t v)
{
	pt_put_le32(p, (uint32_t)v);
	pt_put_le32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

#endif
