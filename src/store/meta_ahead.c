/* store/meta_ahead.c - see meta_ahead.h. What was read is in a cache of its own, all of it at one mark. */
#include "store/meta_ahead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "store/meta_away.h"
#include "store/meta_cache.h"

struct pt_meta_ahead {
	struct pt_meta *m;
	struct pt_meta_cache *cache;
};

static __thread struct pt_meta_ahead *current;
static const struct pt_meta_mark always;

int pt_meta_ahead_begin(struct pt_meta *m, struct pt_meta_ahead **ret_ahead)
{
	struct pt_meta_ahead *a;
	int rc;

	*ret_ahead = NULL;
	if (current || !pt_meta_looks_max(m))
		return 0;
	a = pt_calloc(1, sizeof(*a));
	if (!a)
		return pt_fail_nomem();
	a->m = m;
	rc = pt_meta_cache_create(PT_META_CACHE_BYTES, &a->cache);
	if (rc < 0) {
		free(a);
		return rc;
	}
	current = *ret_ahead = a;
	pt_meta_moment_begin(m);
	return 0;
}

void pt_meta_ahead_end(struct pt_meta_ahead *a)
{
	if (!a)
		return;
	current = NULL;
	pt_meta_moment_end(a->m);
	pt_meta_cache_free(a->cache);
	free(a);
}

/* ---- loading ---- */

struct kept {
	struct pt_meta *m;
	const struct pt_meta_asking *asking;
};

struct load {
	struct pt_meta_ahead *ahead;
	const struct pt_meta_look *looks;
	size_t count, at;               /* what comes is of looks[at] or of a later one */
	struct pt_buf rows;             /* of looks[at], if it begins so */
	bool seen;                      /* its record, if it is a look for one */
};

/* looks[at] is done with. */
static void settle(struct load *l)
{
	const struct pt_meta_look *k = &l->looks[l->at++];

	if (k->begins && !pt_buf_failed(&l->rows))
		pt_meta_cache_add(l->ahead->cache, &always, true, k->key.data, k->key.len, l->rows.data, l->rows.len, 0);
	else if (!k->begins && !l->seen)
		pt_meta_cache_add(l->ahead->cache, &always, false, k->key.data, k->key.len, NULL, 0, 0);
	pt_buf_done(&l->rows);
	l->rows = (struct pt_buf)PT_BUF_INIT;
	l->seen = false;
}

static int keep_row(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	const struct kept *k = ctx;

	pt_meta_away_keep(k->m, k->asking, false, &(struct pt_meta_key){ key, key_len }, value, value_len, version);
	return 0;
}

static bool is_of(const struct pt_meta_look *k, const void *key, size_t key_len)
{
	return (k->begins ? key_len >= k->key.len : key_len == k->key.len) && memcmp(k->key.data, key, k->key.len) == 0;
}

static int loaded(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct load *l = ctx;

	/* No record comes twice for one look, so with one seen this is of a later look for the same. */
	while (l->at < l->count && (l->seen || !is_of(&l->looks[l->at], key, key_len)))
		settle(l);
	if (l->at == l->count)
		return pt_fail(EIO, "the daemon tells what was not asked for; use the same release of ptio on both sides");
	/* A record that came with others is known by itself, too. */
	pt_meta_cache_add(l->ahead->cache, &always, false, key, key_len, value, value_len, version);
	if (l->looks[l->at].begins)
		pt_meta_rows_add(&l->rows, key, key_len, value, value_len, version);
	else
		l->seen = true;
	return 0;
}

static bool is_same(const struct pt_meta_look *a, const struct pt_meta_look *b)
{
	return a->begins == b->begins && a->key.len == b->key.len && memcmp(a->key.data, b->key.data, a->key.len) == 0;
}

/* The order stays: what is looked at first matters. */
static int without_repeats(struct pt_meta_look *looks, size_t *count)
{
	size_t room = 16, kept = 0, i, at;
	uint32_t *table;

	while (room < 2 * *count)
		room *= 2;
	table = pt_reallocarray(NULL, room, sizeof(*table));
	if (!table)
		return pt_fail_nomem();
	memset(table, 0xff, room * sizeof(*table));
	for (i = 0; i < *count; i++) {
		const struct pt_meta_look *k = &looks[i];

		at = pt_hash64(k->key.data, k->key.len) & (room - 1);
		while (table[at] != UINT32_MAX && !is_same(&looks[table[at]], k))
			at = (at + 1) & (room - 1);
		if (table[at] != UINT32_MAX)
			continue;
		table[at] = (uint32_t)kept;
		looks[kept++] = *k;
	}
	free(table);
	*count = kept;
	return 0;
}

/* 1, 0; -errno: nobody can tell. */
static int is_known(const struct pt_meta_ahead *a, const struct pt_meta_look *k)
{
	struct pt_meta_cached *e = pt_meta_cache_find(a->cache, &always, k->begins, k->key.data, k->key.len);

	pt_meta_cached_unref(e);
	return e ? 1 : pt_meta_away_has(a->m, k);
}

/* What came, for later, too. */
static void keep(struct pt_meta_ahead *a, const struct pt_meta_look *k, const struct pt_meta_asking *asking)
{
	struct pt_meta_cached *e = pt_meta_cache_find(a->cache, &always, k->begins, k->key.data, k->key.len);

	if (e)
		pt_meta_away_keep(a->m, asking, k->begins, &k->key, pt_meta_cached_value(e), e->value_len, e->version);
	if (e && k->begins)
		pt_meta_rows_play(pt_meta_cached_value(e), e->value_len, keep_row, &(struct kept){ a->m, asking });
	pt_meta_cached_unref(e);
}

int pt_meta_ahead_load(struct pt_meta_ahead *a, const struct pt_meta_look *looks, size_t count)
{
	struct pt_meta_look *wanted = a ? pt_calloc(count ? count : 1, sizeof(*wanted)) : NULL;
	struct load l = { .ahead = a, .looks = wanted, .rows = PT_BUF_INIT };
	struct pt_meta_asking asking;
	int rc = 0;

	if (!a)
		return 0;
	if (!wanted)
		return pt_fail_nomem();
	for (size_t i = 0; i < count && rc >= 0; i++) {
		rc = is_known(a, &looks[i]);
		if (rc == 0)
			wanted[l.count++] = looks[i];
	}
	if (rc >= 0)
		rc = without_repeats(wanted, &l.count);
	if (rc == 0 && l.count)
		rc = pt_meta_look_asking(a->m, wanted, l.count, 0, loaded, &l, &asking);
	while (rc == 0 && l.at < l.count)
		settle(&l);
	for (size_t i = 0; rc == 0 && i < l.count; i++)
		keep(a, &wanted[i], &asking);
	pt_buf_done(&l.rows);
	free(wanted);
	return rc;
}

int pt_meta_ahead_prefetch(struct pt_meta *m, const struct pt_meta_key *keys, size_t count)
{
	struct pt_meta_ahead *fresh = NULL;
	struct pt_meta_look *looks;
	int rc = 0;

	/* Without one under way: into the cache, from which they are answered in the same moment. */
	if (!current && count && pt_meta_is_away(m))
		rc = pt_meta_ahead_begin(m, &fresh);
	if (rc < 0 || !current || current->m != m || !count)
		return rc;
	looks = pt_calloc(count, sizeof(*looks));
	for (size_t i = 0; looks && i < count; i++)
		looks[i].key = keys[i];
	rc = looks ? pt_meta_ahead_load(current, looks, count) : pt_fail_nomem();
	free(looks);
	pt_meta_ahead_end(fresh);
	return rc;
}

/* ---- answering ---- */

int pt_meta_ahead_get(struct pt_meta *m, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_meta_cached *e;
	int rc = 1;

	if (!current || current->m != m)
		return 0;
	e = pt_meta_cache_find(current->cache, &always, false, key->data, key->len);
	if (!e)
		return 0;
	if (ret_value && e->version) {
		pt_buf_reset(ret_value);
		pt_buf_append(ret_value, pt_meta_cached_value(e), e->value_len);
		rc = pt_buf_failed(ret_value) ? pt_fail_nomem() : 1;
	}
	if (rc == 1 && ret_version)
		*ret_version = e->version;
	pt_meta_cached_unref(e);
	return rc;
}

bool pt_meta_ahead_scan(struct pt_meta *m, const void *prefix, size_t prefix_len, pt_meta_scan_fn *fn, void *ctx, int *ret_rc)
{
	struct pt_meta_cached *e;

	if (!current || current->m != m)
		return false;
	e = pt_meta_cache_find(current->cache, &always, true, prefix, prefix_len);
	if (!e)
		return false;
	*ret_rc = pt_meta_rows_play(pt_meta_cached_value(e), e->value_len, fn, ctx);
	pt_meta_cached_unref(e);
	return true;
}
