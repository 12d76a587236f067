/* store/meta.c - the synchronous, checked forms of the meta operations.
 *
 * Every call of an engine comes through here, so engines may rely on what is checked: keys of 1 to PT_META_KEY_MAX
 * bytes (a scan's bounds may be empty), bounded values and batches, no record written twice in a batch. */
#include "store/meta.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

static int check_key(size_t len)
{
	if (len < 1 || len > PT_META_KEY_MAX)
		return pt_fail(EINVAL, "an index key has 1 to %d bytes, not %zu; use a shorter name", PT_META_KEY_MAX, len);
	return 0;
}

static int check_writable(const struct pt_meta *m)
{
	if (m->read_only)
		return pt_fail(EROFS, "the store was opened read-only; open it for writing to change it");
	return 0;
}

void pt_meta_close(struct pt_meta *m)
{
	if (!m || !m->ops)
		return;
	m->ops->close(m->h);
	m->ops = NULL;
	m->h = NULL;
}

int pt_meta_get(struct pt_meta *m, const void *key, size_t key_len, struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_meta_key k = { key, key_len };
	uint64_t version = 0;
	struct pt_wait w;
	int rc = check_key(key_len);

	if (rc < 0)
		return rc;
	pt_wait_init(&w);
	m->ops->get(m->h, &k, ret_value, &version, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0 && ret_version)
		*ret_version = version;
	return rc;
}

int pt_meta_scan(struct pt_meta *m, const void *start, size_t start_len, const void *end, size_t end_len, uint64_t limit,
		 pt_meta_scan_fn *fn, void *ctx)
{
	struct pt_meta_key s = { start, start_len };
	struct pt_meta_key e = { end, end_len };
	struct pt_wait w;

	if (start_len > PT_META_KEY_MAX || end_len > PT_META_KEY_MAX)
		return check_key(start_len > end_len ? start_len : end_len);
	pt_wait_init(&w);
	m->ops->scan(m->h, &s, &e, limit, fn, ctx, &w.done);
	return pt_wait_finish(&w);
}

int pt_meta_scan_prefix(struct pt_meta *m, const void *prefix, size_t prefix_len, uint64_t limit, pt_meta_scan_fn *fn, void *ctx)
{
	uint8_t end[PT_META_KEY_MAX];
	size_t end_len = prefix_len;

	if (prefix_len > PT_META_KEY_MAX)
		return check_key(prefix_len);
	if (prefix_len)
		memcpy(end, prefix, prefix_len);
	/* The first key after all with the prefix: drop trailing 0xff bytes, add one to the last that is left. */
	while (end_len && end[end_len - 1] == 0xff)
		end_len--;
	if (end_len)
		end[end_len - 1]++;
	return pt_meta_scan(m, prefix, prefix_len, end, end_len, limit, fn, ctx);
}

static int check_batch(const struct pt_meta_op *ops, size_t count)
{
	if (count < 1 || count > PT_META_BATCH_MAX)
		return pt_fail(EINVAL, "an index batch has 1 to %d operations, not %zu; split it", PT_META_BATCH_MAX, count);
	for (size_t i = 0; i < count; i++) {
		int rc = check_key(ops[i].key.len);

		if (rc < 0)
			return rc;
		if (ops[i].kind != PT_META_COMPARE && ops[i].kind != PT_META_PUT && ops[i].kind != PT_META_DELETE)
			return pt_fail(EINVAL, "operation %zu of an index batch is of unknown kind %d", i, (int)ops[i].kind);
		if (ops[i].kind == PT_META_PUT && ops[i].value_len > PT_META_VALUE_MAX)
			return pt_fail(EFBIG, "an index record of %zu bytes is above the limit of %u", ops[i].value_len,
				       PT_META_VALUE_MAX);
		if (ops[i].kind == PT_META_COMPARE)
			continue;
		for (size_t j = 0; j < i; j++)
			if (ops[j].kind != PT_META_COMPARE && ops[j].key.len == ops[i].key.len &&
			    memcmp(ops[j].key.data, ops[i].key.data, ops[i].key.len) == 0)
				return pt_fail(EINVAL, "operations %zu and %zu of an index batch change the same record", j, i);
	}
	return 0;
}

int pt_meta_commit(struct pt_meta *m, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version)
{
	uint64_t version = 0;
	struct pt_wait w;
	int rc = check_writable(m);

	if (rc == 0)
		rc = check_batch(ops, count);
	if (rc < 0)
		return rc;
	pt_wait_init(&w);
	m->ops->commit(m->h, ops, count, &version, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0 && ret_version)
		*ret_version = version;
	return rc;
}

int pt_meta_watch(struct pt_meta *m, uint64_t seen, int64_t timeout_ns, uint64_t *ret_version)
{
	uint64_t version = 0;
	struct pt_wait w;
	int rc;

	pt_wait_init(&w);
	m->ops->watch(m->h, seen, timeout_ns < 0 ? 0 : timeout_ns, &version, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0 && ret_version)
		*ret_version = version;
	return rc;
}

int pt_meta_space(struct pt_meta *m, struct pt_meta_space *ret_space)
{
	struct pt_meta_space space = { 0 };
	struct pt_wait w;
	int rc;

	pt_wait_init(&w);
	m->ops->space(m->h, &space, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0)
		*ret_space = space;
	return rc;
}

int pt_meta_sync(struct pt_meta *m)
{
	struct pt_wait w;

	pt_wait_init(&w);
	m->ops->sync(m->h, &w.done);
	return pt_wait_finish(&w);
}

int pt_meta_snapshot(struct pt_meta *m, const char *path)
{
	struct pt_wait w;

	pt_wait_init(&w);
	m->ops->snapshot(m->h, path, &w.done);
	return pt_wait_finish(&w);
}
