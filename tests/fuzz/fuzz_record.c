/* Index records: the first byte picks the decoder, the rest are the record's bytes. What decodes must encode to the same bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/record.h"
#include "manifest/record_small.h"
#include "manifest/repo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct pt_buf *b, const uint8_t *data, size_t size, const char *what)
{
	if (b->failed || (b->len == size && (!size || !memcmp(b->data, data, size))))
		return;
	fprintf(stderr, "%s: encodes to other bytes than it was decoded from\n", what);
	abort();
}

static void try_node(const uint8_t *data, size_t size, struct pt_buf *b)
{
	struct pt_node node;

	if (pt_record_node_decode(data, size, &node) < 0)
		return;
	pt_record_node_encode(&node, b);
	same(b, data, size, "node");
	pt_node_done(&node);
}

static void try_manifest(const uint8_t *data, size_t size, struct pt_buf *b)
{
	struct pt_manifest *m;

	if (pt_record_manifest_decode(data, size, &m) < 0)
		return;
	pt_record_manifest_encode(m, b);
	same(b, data, size, "manifest");
	pt_manifest_unref(m);
}

static void try_pending(const uint8_t *data, size_t size, struct pt_buf *b)
{
	struct pt_manifest *part;
	struct pt_pending *p;

	if (pt_record_pending_decode(data, size, &p) < 0)
		return;
	pt_record_pending_encode(p, b);
	same(b, data, size, "pending set");
	if (p->object_count && !pt_pending_part(p, p->objects[0].part.rank, &part))
		pt_manifest_unref(part);
	pt_pending_free(p);
}

static void try_small(unsigned int which, const uint8_t *data, size_t size, struct pt_buf *b)
{
	struct pt_format_rec format;
	struct pt_blob_ref *refs;
	struct pt_blob_rec blob;
	struct pt_entry entry;
	const uint8_t *hashes;
	uint64_t n;
	int64_t ns;
	size_t count, i;

	switch (which) {
	case 0:
		if (!pt_record_entry_decode(data, size, &entry)) {
			pt_record_entry_encode(&entry, b);
			same(b, data, size, "entry");
		}
		break;
	case 1:
		if (!pt_record_times_decode(data, size, &ns)) {
			pt_record_times_encode(ns, b);
			same(b, data, size, "times");
		}
		break;
	case 2:
		if (!pt_record_blob_decode(data, size, &blob)) {
			pt_record_blob_encode(&blob, b);
			same(b, data, size, "object");
		}
		break;
	case 3:
		if (!pt_record_hashes_decode(data, size, &hashes, &n) && (hashes != data + 1 || n != (size - 1) / 8))
			abort();
		break;
	case 4:
		if (!pt_record_garbage_decode(data, size, &refs, &count)) {
			for (i = 0; i < count; i++)
				pt_record_garbage_add(b, &refs[i]);
			if (count)
				same(b, data, size, "garbage");
			free(refs);
		}
		break;
	case 5:
		if (!pt_record_counter_decode(data, size, &n)) {
			pt_record_counter_encode(n, b);
			same(b, data, size, "counter");
		}
		break;
	default:
		if (!pt_record_format_decode(data, size, &format)) {
			pt_record_format_encode(&format, b);
			same(b, data, size, "format");
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_buf b = PT_BUF_INIT;

	if (!size)
		return 0;
	switch (data[0] % 16) {
	case 0: case 1: case 2:
		try_node(data + 1, size - 1, &b);
		break;
	case 3: case 4: case 5: case 6:
		try_manifest(data + 1, size - 1, &b);
		break;
	case 7: case 8:
		try_pending(data + 1, size - 1, &b);
		break;
	default:
		try_small(data[0] % 16 - 9u, data + 1, size - 1, &b);
	}
	pt_buf_done(&b);
	return 0;
}
