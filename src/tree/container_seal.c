/* tree/container_seal.c - the end of a container that is being written: its record, its publication, or its bytes once more for a file that is none.
 *
 * What has been fed is read back out of the blob that was sealed as far as it came, and checked by the hashes that were made on its way in; what is in memory comes from there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/size.h"
#include "tree/container_write.h"

static int part_seal(struct pt_container_writer *w)
{
	struct pt_object_writer *open = w->open;

	w->open = NULL;
	return pt_object_writer_seal(open, &w->part);
}

/* The blob is the only object, and the only segment; where tensors lie in it is known now. */
static int describe_verbatim(struct pt_container_writer *w)
{
	struct pt_container_segment all = { .end = w->image.size };
	uint32_t i, n = (uint32_t)(w->image.tensors.len / sizeof(struct pt_container_tensor));
	struct pt_container_tensor *t;

	for (i = 0; i < n; i++) {
		t = pt_writer_tensor(w, i);
		t->off += pt_writer_storage(w, t->object)->at;
		t->object = 0;
	}
	w->image.verbatim = true;
	pt_buf_reset(&w->image.segments);
	pt_buf_append(&w->image.segments, &all, sizeof(all));
	return w->image.segments.failed ? pt_fail_nomem() : 0;
}

static int describe(struct pt_container_writer *w)
{
	const struct pt_object *o = &w->part.object;
	struct pt_container_object object = { o->blob, o->payload_off, o->bytes, o->hash, o->crc32 };
	uint64_t *numbers = (uint64_t *)(void *)w->image.numbers.data;
	uint32_t i, n = (uint32_t)(w->image.tensors.len / sizeof(struct pt_container_tensor));
	struct pt_container_tensor *t;

	w->image.format = pt_parser_format(w->parser);
	pt_buf_append(&w->image.objects, &object, sizeof(object));
	if (w->image.objects.failed)
		return pt_fail_nomem();
	for (i = 0; i < n; i++) {
		t = pt_writer_tensor(w, i);
		if (t->summed)
			numbers[t->dims + t->ndim] = w->body == PT_BODY_VERBATIM ? pt_writer_storage(w, t->object)->crc : o->crc32;
	}
	return w->body == PT_BODY_VERBATIM ? describe_verbatim(w) : 0;
}

static int blob_store(struct pt_container_writer *w)
{
	struct pt_buf bytes = PT_BUF_INIT;
	struct pt_object_writer *out;
	int rc;

	rc = pt_container_encode(&w->image, &bytes);
	if (!rc)
		rc = pt_plain_writer_create(w->repo, &out);
	if (!rc) {
		rc = pt_object_writer_append(out, bytes.data, bytes.len);
		if (!rc)
			rc = pt_plain_writer_seal(out, &w->blob, &w->blob_bytes);
		else
			pt_object_writer_abort(out);
	}
	pt_buf_done(&bytes);
	return rc;
}

int pt_container_writer_seal(struct pt_container_writer *w)
{
	int rc = 0;

	if (w->state == PT_WRITER_SEALED || w->state == PT_WRITER_PUBLISHED)
		return 0;
	if (w->state != PT_WRITER_FEEDING)
		return pt_writer_failed(w);
	rc = pt_parser_end(w->parser);
	if (rc < 0)
		return rc;
	if (!w->open)                   /* the only tensor is empty */
		rc = pt_writer_object_open(w);
	if (!rc)
		rc = part_seal(w);
	if (!rc)
		rc = describe(w);
	if (!rc)
		rc = blob_store(w);
	if (rc < 0)
		return pt_writer_fail(w, rc, true);
	w->state = PT_WRITER_SEALED;
	return 0;
}

int pt_container_writer_publish(struct pt_container_writer *w, struct pt_node *node)
{
	struct pt_container_sealed sealed = { .blob = w->blob, .blob_bytes = w->blob_bytes, .size = w->image.size, .parts = &w->part, .part_count = 1 };

	if (w->state != PT_WRITER_SEALED)
		return pt_writer_failed(w);
	w->publish_rc = pt_container_publish(w->repo, &sealed, node);
	if (!w->publish_rc)
		w->state = PT_WRITER_PUBLISHED;
	return w->publish_rc;
}

/* ---- reading back ---- */

/* The first len bytes of the payload, checked by the hashes that were made on their way in. */
static int payload_back(struct pt_container_writer *w, uint64_t len, pt_container_out_fn *fn, void *ctx)
{
	const struct pt_object *o = &w->part.object;
	struct pt_data_range r = { .blob = o->blob };
	uint64_t off;
	int rc = 0;

	r.buf = pt_malloc(PT_HASH_CHUNK);
	if (!r.buf)
		return pt_fail_nomem();
	for (off = 0; !rc && off < len; off += r.len) {
		r.off = o->payload_off + off;
		r.len = pt_size_min(PT_HASH_CHUNK, o->bytes - off);
		rc = pt_data_read(&pt_repo_store(w->repo)->data, &r, 1);
		if (!rc && pt_hash64(r.buf, r.len) != pt_get_le64(w->part.chunk_hashes.data + off / PT_HASH_CHUNK * 8))
			rc = pt_fail(EIO, "the store gives other bytes of a file than were just written to it: its disk or memory is damaged");
		if (!rc)
			rc = fn(ctx, r.buf, pt_size_min(r.len, len - off));
	}
	free(r.buf);
	return rc;
}

static int segments_back(struct pt_container_writer *w, pt_container_out_fn *fn, void *ctx)
{
	const struct pt_container_segment *s = (const void *)w->image.segments.data;
	size_t i, n = w->image.segments.len / sizeof(*s);
	uint64_t at = 0;
	int rc = 0;

	for (i = 0; !rc && i < n; at = s[i++].end) {
		if (s[i].object == PT_CONTAINER_LITERAL)
			rc = fn(ctx, w->image.literals.data + s[i].off, s[i].end - at);
		else
			rc = payload_back(w, s[i].end - at, fn, ctx);
	}
	return rc;
}

int pt_container_writer_replay(struct pt_container_writer *w, pt_container_out_fn *fn, void *ctx)
{
	int rc = 0;

	if (w->state != PT_WRITER_FEEDING && !(w->state == PT_WRITER_FAILED && w->content) && w->state != PT_WRITER_SEALED)
		return pt_writer_failed(w);
	w->state = PT_WRITER_REPLAYED;
	if (w->image.size != w->fed)
		return pt_fail(EIO, "a file's first bytes cannot be read back");
	if (w->open && w->body == PT_BODY_OBJECT)
		rc = pt_object_writer_append(w->open, NULL, pt_writer_storage(w, 0)->bytes - pt_writer_storage(w, 0)->seen);
	if (!rc && w->open)
		rc = part_seal(w);
	if (rc < 0)
		return rc;
	rc = w->body == PT_BODY_VERBATIM ? payload_back(w, w->fed, fn, ctx) : segments_back(w, fn, ctx);
	return rc < 0 ? pt_writer_fail(w, rc, true) : 0;        /* who tries again is told the same */
}

void pt_container_writer_free(struct pt_container_writer *w)
{
	if (!w)
		return;
	pt_parser_free(w->parser);
	pt_object_writer_abort(w->open);
	if (w->state != PT_WRITER_PUBLISHED) {
		pt_blob_discard(w->repo, &w->blob, w->publish_rc);
		pt_blob_discard(w->repo, &w->part.object.blob, w->publish_rc);
	}
	pt_part_done(&w->part);
	pt_container_image_done(&w->image);
	pt_buf_done(&w->storages);
	free(w->dir_key);
	free(w);
}
