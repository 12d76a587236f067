/* manifest/object_write.c - writing native objects, files of tensors and plain blobs in order.
 *
 * Bytes gather in one window, which stands at a multiple of its size in the blob and goes out whole, in another thread when there is one (pump.h); what is at least a
 * window is written from the caller's memory. Long runs of zeros are skipped: the staged blob keeps a hole, and hashes are told of zeros. A native object's header is the first thing in the first window.
 * The blob is pinned before it is sealed, so no collector can take it for an orphan between seal and commit. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/serve.h"
#include "manifest/checked.h"
#include "manifest/internal.h"
#include "manifest/pump.h"
#include "manifest/window.h"

#define HASH_STEP ((uint64_t)64 << 10)          /* bytes that all hashes take before the next ones: they stay in the first caches */
#define ZERO_RUN_MIN ((uint64_t)64 << 10)       /* shorter runs of zeros are written */

struct pt_object_writer {
	struct pt_repo *repo;
	struct pt_blob_ref ref;
	void *blob;                     /* the engine's handle */
	bool fixed;                     /* bytes_want is the size; else it is a limit */
	int failed;                     /* the first error; what follows repeats it */
	uint64_t payload_off;
	uint64_t bytes_want;            /* of payload */
	uint64_t bytes;                 /* of payload so far */
	uint8_t *window;
	uint64_t window_off;            /* in the blob, where the window's first byte goes */
	uint64_t window_len;
	struct pt_pump_stream stream;
	struct pt_hasher *hasher;       /* NULL: plain, without hashes and crc */
	uint32_t crc;
	struct pt_object object;        /* what the spec says of it */
};

static const char *written_name(enum pt_written w)
{
	switch (w) {
	case PT_WRITTEN_FULL: return "full";
	case PT_WRITTEN_SCOPE: return "scope";
	case PT_WRITTEN_TP_SHARD: return "tp-shard";
	case PT_WRITTEN_TP_SLICE: return "tp-slice";
	case PT_WRITTEN_WRITER: return "writer";
	}
	return NULL;
}

#define SHAPE_TEXT_MAX (PT_DIMS_MAX * 21 + 3)

/* The metadata names are described in docs/SPEC-store.md "Objects". */
struct header_text {
	char off[SHAPE_TEXT_MAX], ext[SHAPE_TEXT_MAX], global[SHAPE_TEXT_MAX];
	char rank[12], size[12], dim[12];
	char axes[PT_AXIS_KINDS * (PT_LAYOUT_TEXT_MAX + 1)];
	char object[PT_ID_HEX_LEN + 1];
	char format[12];
};

static void axes_text(const struct pt_object_spec *spec, char *ret_text, size_t room)
{
	char one[PT_LAYOUT_TEXT_MAX];
	size_t at = 0;
	uint32_t i;

	ret_text[0] = '\0';
	for (i = 0; i < spec->axis_count; i++) {
		pt_axis_format(&spec->axes[i], one);
		at += (size_t)snprintf(ret_text + at, room - at, "%s%s", i ? "/" : "", one);
	}
}

static int header_build(const struct pt_object_spec *spec, const struct pt_id *id, struct pt_buf *ret_header)
{
	const char *metadata[32];
	struct header_text *t;
	struct pt_shape s;
	size_t n = 0;
	int rc;

	t = pt_malloc(sizeof(*t));
	if (!t)
		return pt_fail_nomem();
#define META(name, value) (metadata[n++] = (name), metadata[n++] = (value))
	snprintf(t->format, sizeof(t->format), "%d", PT_FORMAT_VERSION);
	META("ptio.format", t->format);
	META("ptio.key", spec->key);
	META("ptio.dtype", pt_dtype_info(spec->dtype)->name);
	META("ptio.written", written_name(spec->written));
	if (spec->global) {
		pt_shape_format(spec->global, t->global, sizeof(t->global));
		META("ptio.global_shape", t->global);
	}
	if (spec->box) {
		s.ndim = spec->box->ndim;
		memcpy(s.dim, spec->box->off, sizeof(s.dim));
		pt_shape_format(&s, t->off, sizeof(t->off));
		META("ptio.offset", t->off);
	}
	pt_shape_format(&spec->local, t->ext, sizeof(t->ext));
	META("ptio.extent", t->ext);
	snprintf(t->rank, sizeof(t->rank), "%" PRId32, spec->part.rank);
	snprintf(t->size, sizeof(t->size), "%" PRId32, spec->part.size);
	snprintf(t->dim, sizeof(t->dim), "%" PRId32, spec->part.dim);
	META("ptio.rank", t->rank);
	META("ptio.size", t->size);
	META("ptio.dim", t->dim);
	axes_text(spec, t->axes, sizeof(t->axes));
	META("ptio.axes", t->axes);
	pt_id_hex(id, t->object);
	META("ptio.object", t->object);
	if (spec->step && spec->step[0])
		META("ptio.step", spec->step);
	metadata[n] = NULL;
#undef META
	rc = pt_serve_object_header(spec->dtype, &spec->local, metadata, ret_header);
	free(t);
	return rc;
}

static void writer_free(struct pt_object_writer *w)
{
	if (w->blob)
		pt_pump_wait(&w->stream);
	pt_data_abort(&w->repo->store->data, w->blob);
	pt_window_put(&w->repo->windows, w->window);
	pt_hasher_free(w->hasher);
	free(w);
}

/* Engines that hold objects in memory say here that they are full. */
static int blob_create(struct pt_object_writer *w, uint64_t bytes)
{
	struct pt_data *data = &w->repo->store->data;
	int rc = pt_data_create(data, &w->ref, bytes, &w->blob);

	return pt_repo_room_made(w->repo, rc) ? pt_data_create(data, &w->ref, bytes, &w->blob) : rc;
}

static int writer_new(struct pt_repo *repo, enum pt_blob_kind kind, uint64_t bytes, bool hashes, struct pt_object_writer **ret_w)
{
	struct pt_object_writer *w;
	int rc;

	if (repo->store->read_only)
		return pt_fail(EROFS, "the store is open read-only");
	w = pt_calloc(1, sizeof(*w));
	if (!w)
		return pt_fail_nomem();
	w->repo = repo;
	w->ref.kind = kind;
	w->fixed = kind == PT_BLOB_TENSOR;
	w->bytes_want = bytes;
	rc = pt_id_random(&w->ref.id);
	if (!rc) {
		w->window = pt_window_get(&repo->windows);
		if (!w->window)
			rc = pt_fail_nomem();
	}
	if (!rc && hashes)
		rc = pt_hasher_create(&w->hasher);
	if (rc < 0) {
		writer_free(w);
		return rc;
	}
	*ret_w = w;
	return 0;
}

/* The window goes out now, behind what is under way. */
static int window_flush(struct pt_object_writer *w)
{
	int rc = pt_pump_wait(&w->stream);

	if (!rc && w->window_len)
		rc = pt_pump_write(w->repo, w->blob, w->window, w->window_len, w->window_off);
	w->window_off += w->window_len;
	w->window_len = 0;
	return rc;
}

/* The full window goes out while the next one is filled. */
static int window_next(struct pt_object_writer *w)
{
	void *fresh = pt_window_get(&w->repo->windows);
	int rc;

	if (!fresh)
		return window_flush(w);
	rc = pt_pump_put(&w->stream, w->window, w->window, w->window_len, w->window_off);
	w->window = fresh;
	w->window_off += w->window_len;
	w->window_len = 0;
	return rc;
}

/* Bytes that the window takes before it reaches a multiple of its size in the blob. */
static uint64_t window_room(const struct pt_object_writer *w)
{
	return PT_WINDOW_BYTES - (w->window_off + w->window_len) % PT_WINDOW_BYTES;
}

static bool window_passed(const struct pt_object_writer *w, uint64_t len)
{
	return !w->window_len && len >= PT_WINDOW_BYTES && window_room(w) == PT_WINDOW_BYTES;
}

/* At most to the end of the window. */
static int store_bytes(struct pt_object_writer *w, const uint8_t *data, uint64_t len)
{
	memcpy(w->window + w->window_len, data, len);
	w->window_len += len;
	return window_room(w) == PT_WINDOW_BYTES ? window_next(w) : 0;
}

/* A whole window, from the caller's memory, which lasts until the stream has been waited for. */
static int store_window(struct pt_object_writer *w, const uint8_t *data)
{
	int rc = pt_pump_put(&w->stream, NULL, data, PT_WINDOW_BYTES, w->window_off);

	w->window_off += PT_WINDOW_BYTES;
	return rc;
}

/* CRC after len more zeros, by doubling runs: a few dozen combinations whatever len is. */
static uint32_t crc_of_zeros(uint32_t crc, uint64_t len)
{
	static const uint8_t zero;
	uint32_t run_crc = (uint32_t)crc32(0, &zero, 1);
	uint64_t run;

	for (run = 1; len; run *= 2, len >>= 1) {
		if (len & 1)
			crc = (uint32_t)crc32_combine(crc, run_crc, (z_off_t)run);
		if (len > 1)
			run_crc = (uint32_t)crc32_combine(run_crc, run_crc, (z_off_t)run);
	}
	return crc;
}

static void hash_data(struct pt_object_writer *w, const uint8_t *data, uint64_t len)
{
	uint64_t n;

	for (; len; data += n, len -= n) {
		n = pt_size_min(len, HASH_STEP);
		pt_hasher_update(w->hasher, data, n);
		w->crc = pt_crc32(w->crc, data, n);
	}
}

/* Hashing goes with storing piece by piece, while the bytes are in the processor's cache. */
static int append_data(struct pt_object_writer *w, const uint8_t *data, uint64_t len)
{
	bool passed, borrowed = false;
	int rc = 0, waited;
	uint64_t n;

	for (; len && !rc; data += n, len -= n) {
		passed = window_passed(w, len);
		n = passed ? PT_WINDOW_BYTES : pt_size_min(pt_size_min(len, HASH_STEP), window_room(w));
		borrowed |= passed;
		if (passed)
			rc = store_window(w, data);
		if (w->hasher)
			hash_data(w, data, n);
		if (!passed)
			rc = store_bytes(w, data, n);
	}
	waited = borrowed ? pt_pump_wait(&w->stream) : 0;
	return rc ? rc : waited;
}

static int append_zeros(struct pt_object_writer *w, uint64_t len)
{
	uint64_t n;
	int rc;

	if (w->hasher) {
		pt_hasher_zeros(w->hasher, len);
		w->crc = crc_of_zeros(w->crc, len);
	}
	if (len >= ZERO_RUN_MIN) {
		rc = window_flush(w);
		w->window_off += len;
		return rc;
	}
	while (len) {
		n = pt_size_min(len, window_room(w));
		memset(w->window + w->window_len, 0, n);
		w->window_len += n;
		if (window_room(w) == PT_WINDOW_BYTES) {
			rc = window_next(w);
			if (rc < 0)
				return rc;
		}
		len -= n;
	}
	return 0;
}

int pt_object_writer_create(struct pt_repo *repo, const struct pt_object_spec *spec, struct pt_object_writer **ret_w)
{
	struct pt_buf header = PT_BUF_INIT;
	struct pt_object_writer *w;
	uint64_t bytes, at, n;
	int rc;

	rc = pt_shape_bytes(&spec->local, spec->dtype, &bytes);
	if (rc < 0)
		return rc;
	if (bytes > PT_OBJECT_BYTES_MAX)
		return pt_fail(EFBIG, "one object may hold 4 TiB: store this tensor in more parts");
	if (!written_name(spec->written) || spec->axis_count > PT_AXIS_KINDS)
		return pt_fail(EINVAL, "the object's description makes no sense");
	rc = writer_new(repo, PT_BLOB_TENSOR, bytes, true, &w);
	if (rc < 0)
		return rc;
	rc = header_build(spec, &w->ref.id, &header);
	if (rc < 0)
		goto fail;
	w->payload_off = header.len;
	w->object = (struct pt_object){ .blob = w->ref, .payload_off = header.len, .bytes = bytes, .part = spec->part, .axis_count = spec->axis_count };
	if (spec->axis_count)
		memcpy(w->object.axis, spec->axes, spec->axis_count * sizeof(*spec->axes));
	if (spec->box)
		w->object.box = *spec->box;
	rc = blob_create(w, header.len + bytes);
	if (rc < 0)
		goto fail;
	pt_pump_stream_init(&w->stream, repo, w->blob);
	for (at = 0; at < header.len && !rc; at += n) {
		n = pt_size_min(header.len - at, window_room(w));
		rc = store_bytes(w, header.data + at, n);
	}
	if (rc < 0)
		goto fail;
	pt_buf_done(&header);
	*ret_w = w;
	return 0;
fail:
	pt_buf_done(&header);
	writer_free(w);
	return rc;
}

static int plain_create(struct pt_repo *repo, uint64_t limit, bool hashes, struct pt_object_writer **ret_w)
{
	struct pt_object_writer *w;
	int rc;

	rc = writer_new(repo, PT_BLOB_PLAIN, limit, hashes, &w);
	if (rc < 0)
		return rc;
	w->object = (struct pt_object){ .blob = w->ref, .part = { .rank = 0, .size = 1, .dim = -1 } };
	rc = blob_create(w, 0);
	if (rc < 0) {
		writer_free(w);
		return rc;
	}
	pt_pump_stream_init(&w->stream, repo, w->blob);
	*ret_w = w;
	return 0;
}

int pt_plain_writer_create(struct pt_repo *repo, struct pt_object_writer **ret_w)
{
	return plain_create(repo, UINT64_MAX, false, ret_w);
}

int pt_file_writer_create(struct pt_repo *repo, struct pt_object_writer **ret_w)
{
	return plain_create(repo, PT_OBJECT_BYTES_MAX, true, ret_w);
}

uint32_t pt_object_writer_crc(const struct pt_object_writer *w)
{
	return w->crc;
}

int pt_object_writer_append(struct pt_object_writer *w, const void *data, uint64_t len)
{
	int rc;

	if (w->failed)
		return pt_fail(-w->failed, "this upload has failed before: start it again");
	if (len > w->bytes_want - w->bytes && !w->fixed)
		return pt_fail(EFBIG, "one file of tensors may hold 4 TiB: save it in several");
	if (len > w->bytes_want - w->bytes)
		return pt_fail(EINVAL, "the payload has %" PRIu64 " bytes: %" PRIu64 " more than that were given", w->bytes_want,
			       len - (w->bytes_want - w->bytes));
	rc = data ? append_data(w, data, len) : append_zeros(w, len);
	if (rc < 0) {
		w->failed = rc;
		return rc;
	}
	w->bytes += len;
	return 0;
}

/* Everything out, pinned, sealed. The handle is used up. */
static int writer_seal(struct pt_object_writer *w)
{
	struct pt_data *data = &w->repo->store->data;
	void *blob = w->blob;
	int rc;

	if (w->failed)
		return pt_fail(-w->failed, "this upload has failed before: start it again");
	rc = window_flush(w);
	if (!rc)
		rc = pt_data_pin(data, &w->ref, 1);
	if (rc < 0)
		return rc;
	w->blob = NULL;
	if (w->hasher && w->bytes >= PT_CHECKED_KEPT_MIN)
		pt_data_hashed(data, blob);
	rc = pt_data_seal(data, blob, w->payload_off + w->bytes);
	if (rc < 0) {
		pt_data_unpin(data, &w->ref, 1);
		return rc;
	}
	pt_count(&w->repo->counters.bytes_stored, w->bytes);
	return 0;
}

int pt_object_writer_seal(struct pt_object_writer *w, struct pt_part *part)
{
	struct pt_buf chunks = PT_BUF_INIT;
	int rc;

	if (!w->hasher || (w->fixed && w->bytes != w->bytes_want)) {
		rc = pt_fail(EINVAL, "only %" PRIu64 " of the payload's %" PRIu64 " bytes were given", w->bytes, w->bytes_want);
		goto out;
	}
	rc = pt_hasher_finish(w->hasher, &w->object.hash, &chunks);
	if (!rc)
		rc = writer_seal(w);
	if (rc < 0) {
		pt_buf_done(&chunks);
		goto out;
	}
	w->object.bytes = w->bytes;
	w->object.crc32 = w->crc;
	part->object = w->object;
	pt_buf_done(&part->chunk_hashes);
	part->chunk_hashes = chunks;
out:
	writer_free(w);
	return rc;
}

int pt_plain_writer_seal(struct pt_object_writer *w, struct pt_blob_ref *ret_blob, uint64_t *ret_bytes)
{
	int rc;

	rc = !w->hasher ? writer_seal(w) : pt_fail(EINVAL, "what has hashes cannot be sealed without");
	if (!rc) {
		*ret_blob = w->ref;
		*ret_bytes = w->bytes;
	}
	writer_free(w);
	return rc;
}

void pt_object_writer_abort(struct pt_object_writer *w)
{
	if (w)
		writer_free(w);
}

void pt_object_discard(struct pt_repo *repo, struct pt_part *part)
{
	if (pt_id_is_zero(&part->object.blob.id))
		return;
	pt_blob_give_up(repo, &part->object.blob, !part->shared);
	pt_part_done(part);
}
