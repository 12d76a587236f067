/* store/meta_commit.c - the checked forms of batches, and what the cache and the list of own versions learn from them. */
#include "store/meta.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "store/meta_away.h"
#include "store/meta_cache.h"
#include "store/meta_int.h"

static bool same_key(const struct pt_meta_op *a, const struct pt_meta_op *b)
{
	return a->key.len == b->key.len && memcmp(a->key.data, b->key.data, a->key.len) == 0;
}

/* No record is written twice: an open-addressed table of the operations that write. */
static int check_once(const struct pt_meta_op *ops, size_t count)
{
	uint32_t few[2 * PT_META_BATCH_MAX], *table = few;
	size_t room = 2 * PT_META_BATCH_MAX, at;
	int rc = 0;

	while (room < 2 * count)
		room *= 2;
	if (room > 2 * PT_META_BATCH_MAX) {
		table = pt_reallocarray(NULL, room, sizeof(*table));
		if (!table)
			return pt_fail_nomem();
	}
	memset(table, 0xff, room * sizeof(*table));
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (ops[i].kind == PT_META_COMPARE)
			continue;
		for (at = pt_hash64(ops[i].key.data, ops[i].key.len) & (room - 1); table[at] != UINT32_MAX && rc == 0; at = (at + 1) & (room - 1))
			if (same_key(&ops[table[at]], &ops[i]))
				rc = pt_fail(EINVAL, "operations %u and %zu of an index batch change the same record", table[at], i);
		table[at] = (uint32_t)i;
	}
	if (table != few)
		free(table);
	return rc;
}

static int check_batch(const struct pt_meta_op *ops, size_t count)
{
	if (count < 1)
		return pt_fail(EINVAL, "an index batch without operations");
	if (count > PT_META_GROUP_MAX)
		return pt_fail(EFBIG, "%zu changes of the index are more than fit in one batch (%d): write fewer tensors in one file", count, PT_META_GROUP_MAX);
	for (size_t i = 0; i < count; i++) {
		int rc = pt_meta_check_key(ops[i].key.len);

		if (rc < 0)
			return rc;
		if (ops[i].kind != PT_META_COMPARE && ops[i].kind != PT_META_PUT && ops[i].kind != PT_META_DELETE)
			return pt_fail(EINVAL, "operation %zu of an index batch is of unknown kind %d", i, (int)ops[i].kind);
		if (ops[i].kind == PT_META_PUT && ops[i].value_len > PT_META_VALUE_MAX)
			return pt_fail(EFBIG, "an index record of %zu bytes is above the limit of %u", ops[i].value_len,
				       PT_META_VALUE_MAX);
	}
	return check_once(ops, count);
}

/* What was read before stays, if nobody else has committed meanwhile; the version that the store has by now tells. */
static void cache_after(struct pt_meta *m, const struct pt_meta_op *ops, size_t count, uint64_t committed)
{
	struct pt_meta_mark mark;
	uint64_t highest = 0;
	struct pt_wait w;

	pt_meta_cache_committed(m->cache, ops, count, committed);
	if (!m->ops->mark(m->h, &mark))
		return;
	pt_wait_init(&w);
	m->ops->watch(m->h, 0, 0, &highest, &w.done);
	if (pt_wait_finish(&w) == 0 && pt_meta_mark_holds(m, &mark))
		pt_meta_cache_advance(m->cache, &mark, highest, true);
}

static int commit(struct pt_meta *m, bool lazy, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version)
{
	struct pt_meta_asking asking;
	uint64_t version = 0;
	struct pt_wait w;
	int rc = pt_meta_check_writable(m);

	if (rc == 0)
		rc = check_batch(ops, count);
	if (rc < 0)
		return rc;
	__atomic_add_fetch(&m->committing, 1, __ATOMIC_SEQ_CST);
	if (m->cache)
		pt_meta_cache_begin(m->cache);
	pt_meta_away_ask(m, &asking);
	pt_wait_init(&w);
	w.done.at = &asking.at;
	(lazy && m->ops->commit_lazy ? m->ops->commit_lazy : m->ops->commit)(m->h, ops, count, &version, &w.done);
	rc = pt_wait_finish(&w);
	if (pt_meta_is_away(m))
		pt_meta_away_committed(m, &asking, rc == 0 ? ops : NULL, count, version);
	else if (rc == 0 && m->cache)
		cache_after(m, ops, count, version);
	if (m->cache)
		pt_meta_cache_end(m->cache);
	if (rc == 0 && pt_meta_writes(ops, count))      /* the version of one that only compares is that of another */
		__atomic_store_n(&m->own[version % PT_META_OWN], version, __ATOMIC_RELEASE);
	__atomic_sub_fetch(&m->committing, 1, __ATOMIC_SEQ_CST);
	if (rc == 0 && ret_version)
		*ret_version = version;
	return rc;
}

bool pt_meta_committing(struct pt_meta *m)
{
	return __atomic_load_n(&m->committing, __ATOMIC_SEQ_CST) != 0;
}

bool pt_meta_own(struct pt_meta *m, uint64_t after, uint64_t upto)
{
	uint64_t v;

	if (upto < after || upto - after > PT_META_OWN)
		return false;
	for (v = after + 1; v <= upto; v++)
		if (__atomic_load_n(&m->own[v % PT_META_OWN], __ATOMIC_ACQUIRE) != v)
			return false;
	return true;
}

int pt_meta_commit(struct pt_meta *m, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version)
{
	return commit(m, false, ops, count, ret_version);
}

int pt_meta_commit_lazy(struct pt_meta *m, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version)
{
	return commit(m, true, ops, count, ret_version);
}

int pt_meta_settle(struct pt_meta *m)
{
	return m->ops->commit_lazy && !m->read_only ? pt_meta_sync(m) : 0;
}
