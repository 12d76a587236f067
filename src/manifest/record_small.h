/* manifest/record_small.h - the records that hold a few fields: directory entries, times, blobs, hashes, garbage, counters;
 * and what the record files share. Decoders fail with -EIO and a sentence. */
#ifndef PT_MANIFEST_RECORD_SMALL_H
#define PT_MANIFEST_RECORD_SMALL_H

#include "manifest/record.h"

#define PT_RECORD_VERSION 1
#define PT_FORMAT_VERSION 1             /* of the index and the objects; a store of another one is refused */
#define PT_SET_MAX 65536                /* parts of one set */

/* -EIO: "the index holds a damaged WHAT record ...". */
int pt_record_bad(const char *what) __attribute__((cold));
void pt_record_append_id(struct pt_buf *b, const struct pt_id *id);
void pt_record_read_id(struct pt_reader *r, struct pt_id *ret_id);
/* A string of at most max bytes without NUL; ret_text has room for max + 1. False (and r->bad) otherwise. */
bool pt_record_read_text(struct pt_reader *r, char *ret_text, uint32_t max);

struct pt_entry {
	uint64_t id;
	enum pt_node_kind kind;
};

/* A sealed blob that somebody refers to. */
struct pt_blob_rec {
	enum pt_blob_kind kind;
	uint32_t refs;
	uint64_t bytes;                 /* of the blob */
	uint64_t payload_off;
};

struct pt_format_rec {
	uint32_t version;
	struct pt_id store_id;
	int64_t created_ns;
};

void pt_record_entry_encode(const struct pt_entry *e, struct pt_buf *out);
int pt_record_entry_decode(const void *data, size_t len, struct pt_entry *ret_entry);
void pt_record_times_encode(int64_t ns, struct pt_buf *out);
int pt_record_times_decode(const void *data, size_t len, int64_t *ret_ns);
void pt_record_blob_encode(const struct pt_blob_rec *r, struct pt_buf *out);
int pt_record_blob_decode(const void *data, size_t len, struct pt_blob_rec *ret_rec);
/* Chunk hashes, 8 bytes each, little-endian. *ret_hashes points into data. */
void pt_record_hashes_encode(const struct pt_buf *hashes, struct pt_buf *out);
int pt_record_hashes_decode(const void *data, size_t len, const uint8_t **ret_hashes, uint64_t *ret_chunk_count);
/* A list of blobs, grown entry by entry; an empty buffer is an empty list. */
void pt_record_garbage_add(struct pt_buf *list, const struct pt_blob_ref *ref);
/* *ret_refs is allocated. */
int pt_record_garbage_decode(const void *data, size_t len, struct pt_blob_ref **ret_refs, size_t *ret_count);
void pt_record_counter_encode(uint64_t value, struct pt_buf *out);
int pt_record_counter_decode(const void *data, size_t len, uint64_t *ret_value);
void pt_record_format_encode(const struct pt_format_rec *f, struct pt_buf *out);
int pt_record_format_decode(const void *data, size_t len, struct pt_format_rec *ret_format);

#endif
