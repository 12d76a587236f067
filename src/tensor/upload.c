/* tensor/upload.c - a file's bytes go in, the owned slice of its one tensor is stored, and is published when asked.
 *
 * The parser's sink: payload bytes of the tensor's storage pass through the slice filter into the object writer; everything else is
 * dropped as it comes. Memory is bounded by the parser's header and the writer's window. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tensor/known.h"
#include "tensor/upload_int.h"

static int fail_for_good(struct pt_upload *u, int rc)
{
	u->state = UPLOAD_FAILED;
	u->error = rc;
	snprintf(u->sentence, sizeof(u->sentence), "%s", pt_fail_sentence());
	return rc;
}

static int failed_before(const struct pt_upload *u)
{
	return pt_fail(-u->error, "%s", u->sentence);
}

/* ---- opening ---- */

static int decide(struct pt_upload *u)
{
	const struct pt_axis *tp = pt_layout_find(&u->req.layout, PT_AXIS_TP);
	bool shard = u->req.target == PT_TARGET_SHARD;

	u->cut = (struct pt_partition){ .rank = 0, .size = 1, .dim = -1 };
	if (u->req.target == PT_TARGET_AS_STORED)
		return pt_fail(EACCES, "as_stored is read-only: write to `full`, or to `shard` below an axis");
	if (u->req.has_partition) {
		u->written = PT_WRITTEN_WRITER;
		u->cut = u->req.partition;
		u->object_only = shard;
	} else if (tp) {
		u->written = shard ? PT_WRITTEN_TP_SHARD : PT_WRITTEN_TP_SLICE;
		u->cut = (struct pt_partition){ .rank = tp->rank, .size = tp->size, .dim = tp->dim };
	} else {
		u->written = u->req.layout.axis_count ? PT_WRITTEN_SCOPE : PT_WRITTEN_FULL;
	}
	return 0;
}

static bool dim_is_missing(const struct pt_request *req)
{
	const struct pt_axis *tp = pt_layout_find(&req->layout, PT_AXIS_TP);

	return req->has_partition ? req->partition.dim < 0 : tp && tp->dim < 0;
}

/* dtype and shape of a bare payload: those of the revision that is there, of this scope or else of any. */
static void hint_from_revision(struct pt_upload *u)
{
	struct pt_request req = u->req;
	struct pt_parse_hint *hint = &u->options.hint;
	const struct pt_axis *tp = pt_layout_find(&u->req.layout, PT_AXIS_TP);
	struct pt_view *v = NULL;
	int rc;

	req.target = u->written == PT_WRITTEN_TP_SHARD ? PT_TARGET_SHARD : PT_TARGET_FULL;
	req.axis_count = 0;
	rc = pt_view_resolve(u->repo, u->node, &req, &v);
	if (rc < 0) {
		req.has_partition = false;
		req.layout.axis_count = 0;
		if (tp && req.target == PT_TARGET_SHARD)
			pt_layout_add(&req.layout, tp);
		rc = pt_view_resolve(u->repo, u->node, &req, &v);
	}
	if (rc < 0) {
		pt_fail_clear();
		return;
	}
	if (pt_view_info(v)->complete) {
		if (hint->dtype == PT_DTYPE_INVALID)
			hint->dtype = pt_view_info(v)->dtype;
		/* The shape makes plain bytes a tensor, which only a name that says bin asks for; under another name they are a mistake. */
		if (!hint->has_shape && u->options.format == PT_FORMAT_BIN) {
			hint->shape = pt_view_info(v)->shape;
			hint->has_shape = true;
		}
	}
	pt_view_unref(v);
}

static int open_upload(struct pt_upload *u, const struct pt_request *req)
{
	struct pt_node node;
	struct pt_known k = { 0 };
	int rc;

	rc = pt_request_check(req);
	if (!rc && req->target == PT_TARGET_AS_STORED)
		rc = pt_fail(EACCES, "as_stored is read-only: write to `full`, or to `shard` below an axis");
	if (rc)
		return rc;
	if (!u->options.new_key) {
		rc = pt_node_get(u->repo, u->node, &node);
		if (rc < 0)
			return rc;
		u->split = node.split;
		pt_node_done(&node);
		rc = pt_known_load(u->repo, u->node, &k);
		if (rc < 0)
			return rc;
	}
	rc = pt_request_complete_known(&k, req, true, &u->req);
	if (rc)
		goto out;
	rc = decide(u);
	if (rc)
		goto out;
	/* Shards say themselves how they were cut; the rule that fits is found when all are here. */
	if (req->split != PT_SPLIT_UNSET || u->written == PT_WRITTEN_TP_SHARD)
		u->split = req->split;
	else if (u->split == PT_SPLIT_UNSET)
		u->split = PT_SPLIT_BALANCED;
	pt_layout_scope(&u->req.layout, &u->scope_axes);
	pt_layout_format(&u->scope_axes, u->scope);
	u->dim_defaulted = dim_is_missing(req) && (u->req.has_partition || !(req->has_plan_dim || pt_known_defines_dim(&k, u->scope, u->cut.dim)));
	if (u->options.put && pt_known_manifest(&k, u->scope))
		rc = pt_fail(EEXIST, "%s%sa revision is stored already: put only makes new ones; upsert (ptio put without -n) replaces it", u->scope, *u->scope ? ": " : "");
out:
	pt_known_done(&k);
	return rc;
}

int pt_upload_open(struct pt_repo *repo, uint64_t node, const struct pt_request *req, const struct pt_upload_options *options, struct pt_upload **ret_u)
{
	struct pt_upload *u = pt_calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return pt_fail_nomem();
	u->spool.fd = -1;
	u->repo = repo;
	u->node = node;
	u->options = *options;
	rc = open_upload(u, req);
	if (rc) {
		free(u);
		return rc;
	}
	if (!options->new_key && (options->format == PT_FORMAT_COUNT || options->format == PT_FORMAT_BIN) &&
	    (u->options.hint.dtype == PT_DTYPE_INVALID || !u->options.hint.has_shape))
		hint_from_revision(u);
	*ret_u = u;
	return 0;
}

int pt_upload_set_hint(struct pt_upload *u, const struct pt_parse_hint *hint)
{
	if (u->state != UPLOAD_OPEN || u->parser)
		return pt_fail(EBUSY, "dtype and shape can only be set before the first byte is written");
	u->options.hint = *hint;
	return 0;
}

/* ---- the parser's sink ---- */

static int on_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	struct pt_upload *u = ctx;
	uint64_t *grown;

	if (storage != u->storage_count)
		return pt_fail(EINVAL, "storages are announced out of order");
	if (!(storage & (storage - 1))) {
		grown = pt_reallocarray(u->storage_bytes, storage ? 2 * (size_t)storage : 1, sizeof(*grown));
		if (!grown)
			return pt_fail_nomem();
		u->storage_bytes = grown;
	}
	u->storage_bytes[u->storage_count++] = bytes;
	return 0;
}

static int on_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	struct pt_upload *u = ctx;

	if (u->tensor_count++)
		return 0;
	if (t->storage >= u->storage_count)
		return pt_fail(EINVAL, "a tensor names a storage that is not there");
	u->tensor = *t;
	u->tensor.name = "";
	u->tensor.obj = NULL;
	u->tensor_storage_bytes = u->storage_bytes[t->storage];
	if (t->obj) {
		u->obj = *t->obj;
		u->has_obj = true;
	}
	return 0;
}

static int on_header_done(void *ctx)
{
	struct pt_upload *u = ctx;
	int rc;

	if (u->tensor_count != 1)
		return pt_fail(EINVAL, "the file holds %llu tensors, and one is wanted here: write a file with several into a directory, or save one tensor",
			       (unsigned long long)u->tensor_count);
	free(u->storage_bytes);
	u->storage_bytes = NULL;
	if (!u->tensor.contiguous) {
		rc = pt_spool_open(&u->spool, pt_repo_store(u->repo)->dir, u->tensor_storage_bytes);
		if (rc)
			return rc;
	}
	return pt_upload_begin(u, u->tensor.dtype, &u->tensor.shape, u->has_obj ? &u->obj : NULL);
}

static int on_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	struct pt_upload *u = ctx;
	uint64_t first, last, begin, end;

	if (storage != u->tensor.storage)
		return 0;
	if (!u->tensor.contiguous)
		return pt_spool_write(&u->spool, data, len, off);
	begin = u->tensor.storage_off;
	end = begin + u->slice.total;
	first = pt_size_max(off, begin);
	last = pt_size_min(off + len, end);
	if (first >= last)
		return 0;
	if (first - begin != u->slice.pos)
		return pt_fail(EINVAL, "payload bytes came out of order");
	return pt_slice_feed(&u->slice, data ? (const uint8_t *)data + (first - off) : NULL, last - first);
}

static int feed_gathered(void *ctx, const void *data, uint64_t len)
{
	struct pt_upload *u = ctx;

	return pt_slice_feed(&u->slice, data, len);
}

static int on_complete(void *ctx)
{
	struct pt_upload *u = ctx;
	int rc = 0;

	if (u->state != UPLOAD_BEGUN)
		return pt_fail(EINVAL, "the file ended without a tensor");
	if (!u->tensor.contiguous) {
		rc = pt_spool_gather(&u->spool, &u->tensor, feed_gathered, u);
		pt_spool_done(&u->spool);
	}
	if (!rc && u->slice.pos != u->slice.total)
		rc = pt_fail(EINVAL, "the tensor reaches beyond the end of its storage");
	return rc ? rc : pt_upload_seal(u);
}

static int parser_make(struct pt_upload *u)
{
	struct pt_parse_sink sink = { .ctx = u, .storage = on_storage, .tensor = on_tensor, .header_done = on_header_done, .data = on_data,
				      .complete = on_complete };

	return u->parser ? 0 : pt_parser_create(u->options.format, &sink, &u->options.hint, &u->parser);
}

/* ---- feeding ---- */

int pt_upload_feed(struct pt_upload *u, const void *data, uint64_t len)
{
	int rc;

	if (u->state == UPLOAD_FAILED)
		return failed_before(u);
	if (!len)
		return 0;
	rc = parser_make(u);
	if (!rc)
		rc = pt_parser_feed(u->parser, data, len);
	return rc < 0 ? fail_for_good(u, rc) : 0;
}

int pt_upload_begin_tensor(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape)
{
	int rc;

	if (u->state == UPLOAD_FAILED)
		return failed_before(u);
	if (u->state != UPLOAD_OPEN || u->parser)
		return pt_fail(EINVAL, "the upload has begun already");
	rc = pt_upload_begin(u, dtype, shape, NULL);
	if (!rc && !u->slice.total)
		rc = pt_upload_seal(u);
	return rc < 0 ? fail_for_good(u, rc) : 0;
}

int pt_upload_feed_tensor(struct pt_upload *u, const void *data, uint64_t len)
{
	int rc;

	if (u->state == UPLOAD_FAILED)
		return failed_before(u);
	if (!len)
		return 0;
	if (u->state != UPLOAD_BEGUN || u->parser)
		return pt_fail(EINVAL, "more bytes than the tensor has");
	rc = pt_slice_feed(&u->slice, data, len);
	if (!rc && u->slice.pos == u->slice.total)
		rc = pt_upload_seal(u);
	return rc < 0 ? fail_for_good(u, rc) : 0;
}

int pt_upload_refer(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape, const struct pt_object *object)
{
	int rc;

	if (u->state == UPLOAD_FAILED)
		return failed_before(u);
	if (u->state != UPLOAD_OPEN || u->parser)
		return pt_fail(EINVAL, "the upload has begun already");
	rc = pt_upload_begin_stored(u, dtype, shape, object);
	if (!rc)
		rc = pt_upload_seal(u);
	return rc < 0 ? fail_for_good(u, rc) : 0;
}

uint64_t pt_upload_fed(const struct pt_upload *u)
{
	return u->parser ? pt_parser_fed(u->parser) : u->slice.pos;
}

bool pt_upload_complete(const struct pt_upload *u)
{
	return u->state == UPLOAD_SEALED || u->state == UPLOAD_PUBLISHED;
}

/* ---- publishing ---- */

/* A described bare payload that is too short to tell from the beginning of another format is one when the file ends with its last byte. */
static bool bare_payload_is_here(const struct pt_upload *u)
{
	const struct pt_parse_hint *hint = &u->options.hint;
	uint64_t bytes;

	return hint->dtype != PT_DTYPE_INVALID && hint->has_shape && !pt_shape_bytes(&hint->shape, hint->dtype, &bytes) && bytes == pt_parser_fed(u->parser);
}

/* Says what is missing; completes an empty payload. More bytes may follow an early flush, so nothing of this is for good. */
static int end_of_file(struct pt_upload *u)
{
	int rc = 0;

	if (u->state == UPLOAD_OPEN)
		rc = parser_make(u);
	if (rc)
		return rc;
	if (!u->parser)
		return pt_fail(EIO, "the tensor is not complete: %llu of %llu bytes came", (unsigned long long)u->slice.pos, (unsigned long long)u->slice.total);
	if (pt_parser_fed(u->parser) && pt_parser_format(u->parser) == PT_FORMAT_COUNT && !bare_payload_is_here(u))
		return pt_fail(EIO, "the file ended after %llu bytes that are no tensor file's first; to write plain payload bytes set user.ptio.dtype and "
			       "user.ptio.shape first", (unsigned long long)pt_parser_fed(u->parser));
	rc = pt_parser_end(u->parser);
	if (!rc && !pt_upload_complete(u))
		rc = pt_fail(EIO, "the file ended before its tensor was complete");
	return rc == -EINVAL ? -EIO : rc;
}

int pt_upload_publish(struct pt_upload *u, struct pt_published *ret_published)
{
	int rc;

	if (u->state == UPLOAD_FAILED)
		return failed_before(u);
	if (!pt_upload_complete(u)) {
		rc = end_of_file(u);
		if (rc)
			return rc;
	}
	if (u->state == UPLOAD_SEALED) {
		rc = pt_commit_part(u->repo, u->node, &u->part, u->options.put, &u->published);
		if (rc < 0)
			return fail_for_good(u, rc);
		u->state = UPLOAD_PUBLISHED;
	}
	*ret_published = u->published;
	return 0;
}

int pt_upload_take(struct pt_upload *u, struct pt_part *ret_part)
{
	if (u->state == UPLOAD_FAILED)
		return failed_before(u);
	if (u->state != UPLOAD_SEALED)
		return pt_fail(EIO, "the tensor is not complete");
	*ret_part = u->part;
	memset(&u->part, 0, sizeof(u->part));
	u->state = UPLOAD_PUBLISHED;
	return 0;
}

int pt_upload_set_attrs(struct pt_upload *u, uint32_t mode, uint32_t uid, uint32_t gid, int64_t mtime_ns)
{
	struct pt_manifest *m;
	int rc;

	u->options.mode = u->part.mode = mode;
	u->options.uid = u->part.uid = uid;
	u->options.gid = u->part.gid = gid;
	u->options.mtime_ns = u->part.mtime_ns = mtime_ns;
	if (u->state != UPLOAD_PUBLISHED || !u->published.revision)
		return 0;
	rc = pt_manifest_get(u->repo, u->node, u->scope, &m);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	rc = m->revision == u->published.revision ? pt_manifest_touch(u->repo, m, mode, uid, gid, mtime_ns) : 0;
	pt_manifest_unref(m);
	return rc == -ESTALE ? 0 : rc;
}

void pt_upload_free(struct pt_upload *u)
{
	if (!u)
		return;
	pt_parser_free(u->parser);
	pt_object_writer_abort(u->writer);
	if (!pt_id_is_zero(&u->part.object.blob.id))    /* sealed; publication empties it */
		pt_object_discard(u->repo, &u->part);
	pt_part_done(&u->part);
	pt_slice_done(&u->slice);
	pt_spool_done(&u->spool);
	free(u->storage_bytes);
	free(u);
}
