/* store/meta.c - the synchronous, checked forms of the meta operations; those that look at many records are in meta_scan.c, those that
 * change something in meta_commit.c.
 *
 * Every call of an engine comes through these three, so engines may rely on what is checked: keys of 1 to PT_META_KEY_MAX
 * bytes (a scan's bounds may be empty), bounded values and batches, no record written twice in a batch. */
#include "store/meta.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/meta_ahead.h"
#include "store/meta_away.h"
#include "store/meta_cache.h"
#include "store/meta_int.h"

int pt_meta_check_key(size_t len)
{
	if (len < 1 || len > PT_META_KEY_MAX)
		return pt_fail(EINVAL, "an index key has 1 to %d bytes, not %zu; use a shorter name", PT_META_KEY_MAX, len);
	return 0;
}

int pt_meta_check_writable(const struct pt_meta *m)
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
	pt_meta_cache_free(m->cache);
	pt_meta_asks_free(m);
	m->cache = NULL;
	m->ops = NULL;
	m->h = NULL;
}

int pt_meta_cache_on(struct pt_meta *m)
{
	bool marks = m->ops->ask_mark ? m->ops->marks(m->h) : m->ops->mark != NULL;

	int rc = marks && !m->cache ? pt_meta_cache_create(PT_META_CACHE_BYTES, &m->cache) : 0;

	return rc == 0 && pt_meta_is_away(m) && !m->asks ? pt_meta_asks_create(m) : rc;
}

void pt_meta_counters(struct pt_meta *m, struct pt_meta_counters *ret_counters)
{
	ret_counters->queries = __atomic_load_n(&m->counters.queries, __ATOMIC_RELAXED);
	ret_counters->hits = __atomic_load_n(&m->counters.hits, __ATOMIC_RELAXED);
	ret_counters->shared = __atomic_load_n(&m->counters.shared, __ATOMIC_RELAXED);
}

bool pt_meta_mark_here(struct pt_meta *m, struct pt_meta_mark *ret_mark)
{
	return m->cache && m->ops->mark && m->ops->mark(m->h, ret_mark);
}

bool pt_meta_mark(struct pt_meta *m, struct pt_meta_mark *ret_mark)
{
	return pt_meta_is_away(m) ? pt_meta_away_mark(m, ret_mark) : pt_meta_mark_here(m, ret_mark);
}

bool pt_meta_mark_holds(struct pt_meta *m, const struct pt_meta_mark *mark)
{
	struct pt_meta_mark now;

	return m->ops->mark(m->h, &now) && memcmp(&now, mark, sizeof(now)) == 0;
}

/* Once for each mark: without it a commit of our own could not tell that it was the only one. */
static void learn_version(struct pt_meta *m, const struct pt_meta_mark *mark)
{
	uint64_t highest = 0;
	struct pt_wait w;

	if (pt_meta_cache_highest(m->cache, mark))
		return;
	pt_meta_count(&m->counters.queries);
	pt_wait_init(&w);
	m->ops->watch(m->h, 0, 0, &highest, &w.done);
	if (pt_wait_finish(&w) == 0 && pt_meta_mark_holds(m, mark))
		pt_meta_cache_advance(m->cache, mark, highest, false);
}

/* at: of an engine that is away. */
static int get_from_engine(struct pt_meta *m, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version, struct pt_meta_at *at)
{
	struct pt_wait w;

	pt_meta_count(&m->counters.queries);
	pt_wait_init(&w);
	w.done.at = at;
	m->ops->get(m->h, key, ret_value, ret_version, &w.done);
	return pt_wait_finish(&w);
}

/* What the cache has of a record: 1; 0: nothing; -ENOMEM. mark: NULL for any. */
static int find_in_cache(struct pt_meta *m, const struct pt_meta_mark *mark, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_meta_cached *e = pt_meta_cache_find(m->cache, mark, false, key->data, key->len);
	struct pt_buf copy = PT_BUF_INIT;

	if (!e)
		return 0;
	*ret_version = e->version;
	if (ret_value && e->version) {
		copy = *ret_value;
		pt_buf_reset(&copy);
		pt_buf_append(&copy, pt_meta_cached_value(e), e->value_len);
		*ret_value = copy;
	}
	pt_meta_cached_unref(e);
	return pt_buf_failed(&copy) ? pt_fail_nomem() : 1;
}

static int get_from_cache(struct pt_meta *m, const struct pt_meta_mark *mark, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version)
{
	int rc = find_in_cache(m, mark, key, ret_value, ret_version);

	if (rc)
		pt_meta_count(&m->counters.hits);
	return rc;
}

struct prefetch {
	const struct pt_meta_key *keys;
	struct pt_meta_cached **made;   /* room for as many */
	size_t count;
};

/* What there is no memory for is not kept. */
static int prefetched(void *ctx, size_t at, const void *value, size_t value_len, uint64_t version)
{
	struct prefetch *p = ctx;
	struct pt_meta_cached *e = pt_meta_cached_make(&p->keys[at], value, value_len, version);

	if (e)
		p->made[p->count++] = e;
	return 0;
}

/* None of them may be longer than allowed. */
static int prefetch(struct pt_meta *m, const struct pt_meta_mark *mark, const struct pt_meta_key *keys, size_t n)
{
	struct prefetch p = { .keys = keys, .made = pt_calloc(n, sizeof(struct pt_meta_cached *)) };
	struct pt_wait w;
	int rc;

	if (!p.made)
		return pt_fail_nomem();
	pt_meta_count(&m->counters.queries);
	pt_wait_init(&w);
	m->ops->get_many(m->h, keys, n, prefetched, &p, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0 && pt_meta_mark_holds(m, mark))
		pt_meta_cache_keep_made(m->cache, m, mark, p.made, p.count);
	else
		while (p.count)
			pt_meta_cached_unref(p.made[--p.count]);
	free(p.made);
	return rc;
}

/* The record, which is not in memory, and those beside it: 1; 0: it is to be asked for by itself. */
static int get_with(struct pt_meta *m, const struct pt_meta_mark *mark, const struct pt_meta_key *key, const struct pt_meta_key *beside, size_t count,
		    struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_meta_key keys[1 + PT_META_BESIDE_MAX] = { *key };
	size_t i;
	int rc;

	for (i = 0; i < count; i++)
		keys[1 + i] = beside[i];
	rc = prefetch(m, mark, keys, 1 + count);
	if (rc < 0) {
		/* Perhaps only one beside it is damaged. */
		pt_fail_clear();
		return 0;
	}
	learn_version(m, mark);
	return find_in_cache(m, mark, key, ret_value, ret_version);
}

static int get_here(struct pt_meta *m, const struct pt_meta_key *key, const struct pt_meta_key *beside, size_t count, struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_meta_mark mark;
	bool marked = pt_meta_mark_here(m, &mark);
	int rc = marked ? get_from_cache(m, &mark, key, ret_value, ret_version) : 0;

	if (rc == 0 && marked && count && m->ops->get_many)
		rc = get_with(m, &mark, key, beside, count, ret_value, ret_version);
	if (rc)
		return rc < 0 ? rc : 0;
	rc = get_from_engine(m, key, ret_value, ret_version, NULL);
	if (rc == 0 && marked && (ret_value || !*ret_version) && pt_meta_mark_holds(m, &mark)) {
		pt_meta_cache_keep(m->cache, m, &mark, false, key->data, key->len, *ret_version ? ret_value->data : NULL, *ret_version ? ret_value->len : 0,
				   *ret_version);
		learn_version(m, &mark);
	}
	return rc;
}

static int get_away(struct pt_meta *m, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_meta_asking asking;
	struct pt_meta_mark mark;
	int rc = pt_meta_away_mark_for(m, false, key, &mark);

	if (rc > 0)
		rc = get_from_cache(m, &mark, key, ret_value, ret_version);
	if (rc)
		return rc < 0 ? rc : 0;
	pt_meta_away_ask(m, &asking);
	rc = get_from_engine(m, key, ret_value, ret_version, &asking.at);
	pt_meta_away_answered(m, &asking);
	if (rc == 0 && (ret_value || !*ret_version))
		pt_meta_away_keep(m, &asking, false, key, *ret_version ? ret_value->data : NULL, *ret_version ? ret_value->len : 0, *ret_version);
	return rc;
}

static int get(struct pt_meta *m, const struct pt_meta_key *key, const struct pt_meta_key *beside, size_t count, struct pt_buf *ret_value, uint64_t *ret_version)
{
	uint64_t version = 0;
	int rc = pt_meta_check_key(key->len);

	if (rc < 0)
		return rc;
	rc = pt_meta_ahead_get(m, key, ret_value, ret_version);
	if (rc)
		return rc < 0 ? rc : 0;
	rc = pt_meta_is_away(m) ? get_away(m, key, ret_value, &version) : get_here(m, key, beside, count, ret_value, &version);
	if (rc == 0 && ret_version)
		*ret_version = version;
	return rc;
}

int pt_meta_get_lasting(struct pt_meta *m, const void *key, size_t key_len, struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_meta_key k = { key, key_len };
	uint64_t version = 0;
	int rc = pt_meta_check_key(key_len);

	if (rc == 0 && pt_meta_is_away(m))
		rc = get_from_cache(m, NULL, &k, ret_value, &version);
	if (rc <= 0 || !version)
		return rc < 0 ? rc : pt_meta_get(m, key, key_len, ret_value, ret_version);
	if (ret_version)
		*ret_version = version;
	return 0;
}

int pt_meta_get(struct pt_meta *m, const void *key, size_t key_len, struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_meta_key k = { key, key_len };

	return get(m, &k, NULL, 0, ret_value, ret_version);
}

int pt_meta_get_beside(struct pt_meta *m, const struct pt_meta_key *key, const struct pt_meta_key *beside, size_t count, struct pt_buf *ret_value, uint64_t *ret_version)
{
	size_t i;
	int rc = 0;

	for (i = 0; i < count && rc == 0; i++)
		rc = pt_meta_check_key(beside[i].len);
	assert(count <= PT_META_BESIDE_MAX);
	return rc < 0 ? rc : get(m, key, beside, count, ret_value, ret_version);
}

int pt_meta_prefetch(struct pt_meta *m, const struct pt_meta_key *keys, size_t n)
{
	struct pt_meta_key *wanted;
	struct pt_meta_mark mark;
	size_t i, left;
	int rc;

	rc = pt_meta_ahead_prefetch(m, keys, n);
	if (rc < 0 || !m->ops->get_many || !pt_meta_mark_here(m, &mark))
		return rc;
	wanted = pt_calloc(n ? n : 1, sizeof(*wanted));
	if (!wanted)
		return pt_fail_nomem();
	for (i = 0; i < n && rc == 0; i++)
		rc = pt_meta_check_key(keys[i].len);
	left = rc < 0 ? 0 : pt_meta_cache_missing(m->cache, &mark, keys, n, wanted);
	if (left)
		rc = prefetch(m, &mark, wanted, left);
	free(wanted);
	return rc;
}

uint64_t pt_meta_version_known(struct pt_meta *m)
{
	struct pt_meta_mark mark;

	return pt_meta_mark_here(m, &mark) ? pt_meta_cache_highest(m->cache, &mark) : 0;
}

int pt_meta_version(struct pt_meta *m, uint64_t *ret_version)
{
	struct pt_meta_mark mark;
	bool marked = pt_meta_mark_here(m, &mark);
	uint64_t version = marked ? pt_meta_cache_highest(m->cache, &mark) : 0;
	int rc;

	if (version) {
		pt_meta_count(&m->counters.hits);
	} else {
		pt_meta_count(&m->counters.queries);
		rc = pt_meta_watch(m, 0, 0, &version);
		if (rc < 0)
			return rc;
		if (marked && pt_meta_mark_holds(m, &mark))
			pt_meta_cache_advance(m->cache, &mark, version, false);
	}
	*ret_version = version;
	return 0;
}

int pt_meta_watch(struct pt_meta *m, uint64_t seen, int64_t timeout_ns, uint64_t *ret_version)
{
	uint64_t version = 0;
	struct pt_wait w;
	int rc;

	pt_wait_init(&w);
	m->ops->watch(m->h, seen, timeout_ns < 0 ? 0 : timeout_ns, &version, &w.done);
	rc = pt_wait_finish(&w);
	pt_meta_moment_renew(m);
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

int pt_meta_snapshot(struct pt_meta *m, int dirfd, const char *path)
{
	struct pt_wait w;

	pt_wait_init(&w);
	m->ops->snapshot(m->h, dirfd, path, &w.done);
	return pt_wait_finish(&w);
}
