/* manifest/record_small.c - coding of the small records. */
#include "manifest/record_small.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define GARBAGE_ENTRY (16 + 1)

int pt_record_bad(const char *what)
{
	return pt_fail(EIO, "the index holds a damaged %s record: run ptio verify to see which tensors can still be read, and restore a copy of the index", what);
}

void pt_record_append_id(struct pt_buf *b, const struct pt_id *id)
{
	pt_buf_append(b, id->b, sizeof(id->b));
}

void pt_record_read_id(struct pt_reader *r, struct pt_id *ret_id)
{
	const void *p = pt_reader_bytes(r, sizeof(ret_id->b));

	if (p)
		memcpy(ret_id->b, p, sizeof(ret_id->b));
	else
		memset(ret_id->b, 0, sizeof(ret_id->b));
}

bool pt_record_read_text(struct pt_reader *r, char *ret_text, uint32_t max)
{
	uint32_t len;
	const void *p = pt_reader_lenstr(r, &len);

	if (r->bad || !p || len > max || memchr(p, 0, len)) {
		r->bad = true;
		ret_text[0] = '\0';
		return false;
	}
	memcpy(ret_text, p, len);
	ret_text[len] = '\0';
	return true;
}

static void record_start(struct pt_reader *r, const void *data, size_t len)
{
	pt_reader_init(r, data, len);
	if (pt_reader_u8(r) != PT_RECORD_VERSION)
		r->bad = true;
}

static bool record_ended(const struct pt_reader *r)
{
	return !r->bad && !pt_reader_left(r);
}

void pt_record_entry_encode(const struct pt_entry *e, struct pt_buf *out)
{
	pt_buf_append_u8(out, PT_RECORD_VERSION);
	pt_buf_append_u8(out, (uint8_t)e->kind);
	pt_buf_append_le64(out, e->id);
}

int pt_record_entry_decode(const void *data, size_t len, struct pt_entry *ret_entry)
{
	struct pt_reader r;
	struct pt_entry e;

	record_start(&r, data, len);
	e.kind = pt_reader_u8(&r);
	e.id = pt_reader_le64(&r);
	if (!record_ended(&r) || e.kind < PT_NODE_DIR || e.kind > PT_NODE_CONTAINER || e.id <= PT_NODE_ROOT)
		return pt_record_bad("directory entry");
	*ret_entry = e;
	return 0;
}

void pt_record_times_encode(int64_t ns, struct pt_buf *out)
{
	pt_buf_append_u8(out, PT_RECORD_VERSION);
	pt_buf_append_le64(out, (uint64_t)ns);
}

int pt_record_times_decode(const void *data, size_t len, int64_t *ret_ns)
{
	struct pt_reader r;
	uint64_t ns;

	record_start(&r, data, len);
	ns = pt_reader_le64(&r);
	if (!record_ended(&r))
		return pt_record_bad("times");
	*ret_ns = (int64_t)ns;
	return 0;
}

void pt_record_blob_encode(const struct pt_blob_rec *rec, struct pt_buf *out)
{
	pt_buf_append_u8(out, PT_RECORD_VERSION);
	pt_buf_append_u8(out, (uint8_t)rec->kind);
	pt_buf_append_le32(out, rec->refs);
	pt_buf_append_le64(out, rec->bytes);
	pt_buf_append_le64(out, rec->payload_off);
}

int pt_record_blob_decode(const void *data, size_t len, struct pt_blob_rec *ret_rec)
{
	struct pt_reader r;
	struct pt_blob_rec rec;

	record_start(&r, data, len);
	rec.kind = pt_reader_u8(&r);
	rec.refs = pt_reader_le32(&r);
	rec.bytes = pt_reader_le64(&r);
	rec.payload_off = pt_reader_le64(&r);
	if (!record_ended(&r) || (rec.kind != PT_BLOB_TENSOR && rec.kind != PT_BLOB_PLAIN) || !rec.refs ||
	    rec.payload_off > rec.bytes)
		return pt_record_bad("object");
	*ret_rec = rec;
	return 0;
}

void pt_record_hashes_encode(const struct pt_buf *hashes, struct pt_buf *out)
{
	pt_buf_append_u8(out, PT_RECORD_VERSION);
	pt_buf_append(out, hashes->data, hashes->len);
}

int pt_record_hashes_decode(const void *data, size_t len, const uint8_t **ret_hashes, uint64_t *ret_chunk_count)
{
	const uint8_t *b = data;

	if (!len || b[0] != PT_RECORD_VERSION || (len - 1) % 8)
		return pt_record_bad("checksum");
	*ret_hashes = b + 1;
	*ret_chunk_count = (len - 1) / 8;
	return 0;
}

void pt_record_garbage_add(struct pt_buf *list, const struct pt_blob_ref *ref)
{
	if (!list->len)
		pt_buf_append_u8(list, PT_RECORD_VERSION);
	pt_record_append_id(list, &ref->id);
	pt_buf_append_u8(list, (uint8_t)ref->kind);
}

int pt_record_garbage_decode(const void *data, size_t len, struct pt_blob_ref **ret_refs, size_t *ret_count)
{
	struct pt_reader r;
	struct pt_blob_ref *refs;
	size_t count, i;

	record_start(&r, data, len);
	count = pt_reader_left(&r) / GARBAGE_ENTRY;
	if (r.bad || pt_reader_left(&r) % GARBAGE_ENTRY)
		return pt_record_bad("garbage");
	refs = pt_calloc(count ? count : 1, sizeof(*refs));
	if (!refs)
		return pt_fail_nomem();
	for (i = 0; i < count; i++) {
		pt_record_read_id(&r, &refs[i].id);
		refs[i].kind = pt_reader_u8(&r);
		if (refs[i].kind != PT_BLOB_TENSOR && refs[i].kind != PT_BLOB_PLAIN) {
			free(refs);
			return pt_record_bad("garbage");
		}
	}
	*ret_refs = refs;
	*ret_count = count;
	return 0;
}

void pt_record_counter_encode(uint64_t value, struct pt_buf *out)
{
	pt_buf_append_u8(out, PT_RECORD_VERSION);
	pt_buf_append_le64(out, value);
}

int pt_record_counter_decode(const void *data, size_t len, uint64_t *ret_value)
{
	struct pt_reader r;
	uint64_t value;

	record_start(&r, data, len);
	value = pt_reader_le64(&r);
	if (!record_ended(&r))
		return pt_record_bad("counter");
	*ret_value = value;
	return 0;
}

void pt_record_format_encode(const struct pt_format_rec *f, struct pt_buf *out)
{
	pt_buf_append_u8(out, PT_RECORD_VERSION);
	pt_buf_append_le32(out, f->version);
	pt_record_append_id(out, &f->store_id);
	pt_buf_append_le64(out, (uint64_t)f->created_ns);
}

int pt_record_format_decode(const void *data, size_t len, struct pt_format_rec *ret_format)
{
	struct pt_reader r;
	struct pt_format_rec f;

	record_start(&r, data, len);
	f.version = pt_reader_le32(&r);
	pt_record_read_id(&r, &f.store_id);
	f.created_ns = (int64_t)pt_reader_le64(&r);
	if (!record_ended(&r) || !f.version)
		return pt_record_bad("format");
	*ret_format = f;
	return 0;
}
