/* tree/shard_sink.c - what the parser finds in a rank's state dict: tensors, then the storages that they lie on, one after the other. Only the uploads of tensors on
 * the storage that is coming in are open. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tree/shard_int.h"

#define STORAGE_TENSORS 512             /* uploads open at once, each with a window and a descriptor */

static int on_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	struct pt_shard_writer *w = ctx;
	uint64_t *more;

	if (!(storage & (storage - 1))) {
		more = pt_reallocarray(w->storage_bytes, storage ? 2 * (size_t)storage : 1, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		w->storage_bytes = more;
	}
	w->storage_bytes[storage] = bytes;
	w->storage_count = storage + 1;
	return 0;
}

static int on_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	struct pt_shard_writer *w = ctx;
	struct pt_shard_tensor *more, *n;

	if (w->tensor_count == w->tensor_cap) {
		more = pt_reallocarray(w->tensors, w->tensor_cap ? 2 * (size_t)w->tensor_cap : 16, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		w->tensors = more;
		w->tensor_cap = w->tensor_cap ? 2 * w->tensor_cap : 16;
	}
	n = &w->tensors[w->tensor_count];
	memset(n, 0, sizeof(*n));
	n->t = *t;
	n->t.name = "";
	n->t.obj = NULL;
	n->name = pt_strdup(t->name[0] ? t->name : w->stem);
	if (!n->name)
		return pt_fail_nomem();
	w->tensor_count++;
	if (t->obj && !t->obj->full)
		return pt_fail(EINVAL, "%.300s: a tensor object that is a shard goes to its key: KEY/tp=RofN,dim=D/shard", n->name);
	return pt_shape_bytes(&t->shape, t->dtype, &n->bytes);
}

static __thread const struct pt_shard_tensor *sort_tensors;        /* qsort has no argument of its own */

static int by_storage(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b, sx = sort_tensors[x].t.storage, sy = sort_tensors[y].t.storage;

	return sx != sy ? (sx < sy ? -1 : 1) : (x > y) - (x < y);
}

static int on_header_done(void *ctx)
{
	struct pt_shard_writer *w = ctx;
	uint32_t i;
	int rc = 0;

	if (!w->tensor_count)
		return pt_fail(EINVAL, "the file holds no tensor");
	w->header_done = true;
	w->order = pt_reallocarray(NULL, w->tensor_count, sizeof(*w->order));
	if (!w->order)
		return pt_fail_nomem();
	for (i = 0; i < w->tensor_count; i++)
		w->order[i] = i;
	sort_tensors = w->tensors;
	qsort(w->order, w->tensor_count, sizeof(*w->order), by_storage);
	/* Those without bytes will never see any. */
	for (i = 0; i < w->tensor_count && !rc; i++) {
		if (w->tensors[i].bytes)
			continue;
		rc = pt_shard_tensor_begin(w, &w->tensors[i]);
		if (!rc)
			rc = pt_shard_tensor_end(w, &w->tensors[i]);
	}
	return rc;
}

static int storage_open(struct pt_shard_writer *w, uint32_t storage)
{
	uint32_t lo = 0, hi = w->tensor_count, i, begun = 0;
	int rc = 0;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (w->tensors[w->order[mid]].t.storage < storage)
			lo = mid + 1;
		else
			hi = mid;
	}
	w->open_storage = storage;
	w->open_first = w->open_end = lo;
	for (i = lo; i < w->tensor_count && w->tensors[w->order[i]].t.storage == storage && !rc; i++) {
		struct pt_shard_tensor *t = &w->tensors[w->order[i]];

		w->open_end = i + 1;
		if (!t->bytes)
			continue;
		if (begun++ == STORAGE_TENSORS)
			return pt_fail(EFBIG, "more than %d tensors of the file share one storage: clone() them before saving", STORAGE_TENSORS);
		rc = pt_shard_tensor_begin(w, t);
		if (!rc && !t->skip && !t->t.contiguous && w->spool.fd < 0)
			rc = pt_spool_open(&w->spool, pt_repo_store(w->repo)->dir, w->storage_bytes[storage]);
	}
	return rc;
}

static int gathered(void *ctx, const void *data, uint64_t len)
{
	return pt_upload_feed_tensor(ctx, data, len);
}

static int storage_close(struct pt_shard_writer *w)
{
	uint32_t i;
	int rc = 0;

	for (i = w->open_first; i < w->open_end && !rc; i++) {
		struct pt_shard_tensor *t = &w->tensors[w->order[i]];

		if (!t->bytes)
			continue;
		if (!t->skip && !t->t.contiguous)
			rc = pt_spool_gather(&w->spool, &t->t, gathered, t->upload);
		if (rc < 0)
			pt_fail_context(rc, "%.300s", t->name);
		else
			rc = pt_shard_tensor_end(w, t);
	}
	pt_spool_done(&w->spool);
	w->open_storage = UINT32_MAX;
	return rc;
}

static int on_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	struct pt_shard_writer *w = ctx;
	uint32_t i;
	int rc = 0;

	if (w->open_storage != storage) {
		if (w->open_storage != UINT32_MAX || off)
			return pt_fail(EINVAL, "a storage comes in pieces");
		rc = storage_open(w, storage);
	}
	if (!rc && w->spool.fd >= 0)
		rc = pt_spool_write(&w->spool, data, len, off);
	for (i = w->open_first; i < w->open_end && !rc; i++) {
		struct pt_shard_tensor *t = &w->tensors[w->order[i]];
		uint64_t first = pt_size_max(off, t->t.storage_off), last = pt_size_min(off + len, t->t.storage_off + t->bytes);

		if (t->skip || !t->t.contiguous || first >= last)
			continue;
		rc = pt_upload_feed_tensor(t->upload, data ? (const uint8_t *)data + (first - off) : NULL, last - first);
		if (rc < 0)
			pt_fail_context(rc, "%.300s", t->name);
	}
	if (!rc && off + len == w->storage_bytes[storage])
		rc = storage_close(w);
	return rc;
}

void pt_shard_sink(struct pt_shard_writer *w, struct pt_parse_sink *ret_sink)
{
	*ret_sink = (struct pt_parse_sink){ .ctx = w, .storage = on_storage, .tensor = on_tensor, .header_done = on_header_done, .data = on_data };
}
