/* store/meta_scan.c - the checked forms of the meta operations that look at many records: scans, and looks of many at once. */
#include "store/meta.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "store/meta_ahead.h"
#include "store/meta_away.h"
#include "store/meta_cache.h"
#include "store/meta_int.h"

static int scan_asking(struct pt_meta *m, const void *start, size_t start_len, const void *end, size_t end_len, uint64_t limit, pt_meta_scan_fn *fn, void *ctx,
		       struct pt_meta_asking *asking)
{
	struct pt_meta_key s = { start, start_len };
	struct pt_meta_key e = { end, end_len };
	struct pt_wait w;
	int rc;

	if (start_len > PT_META_KEY_MAX || end_len > PT_META_KEY_MAX)
		return pt_meta_check_key(start_len > end_len ? start_len : end_len);
	pt_meta_count(&m->counters.queries);
	pt_meta_away_ask(m, asking);
	pt_wait_init(&w);
	w.done.at = &asking->at;
	m->ops->scan(m->h, &s, &e, limit, fn, ctx, &w.done);
	rc = pt_wait_finish(&w);
	pt_meta_away_answered(m, asking);
	return rc;
}

int pt_meta_scan(struct pt_meta *m, const void *start, size_t start_len, const void *end, size_t end_len, uint64_t limit,
		 pt_meta_scan_fn *fn, void *ctx)
{
	struct pt_meta_asking asking;

	return scan_asking(m, start, start_len, end, end_len, limit, fn, ctx, &asking);
}

static int scan_prefix(struct pt_meta *m, const void *prefix, size_t prefix_len, uint64_t limit, pt_meta_scan_fn *fn, void *ctx, struct pt_meta_asking *asking)
{
	uint8_t end[PT_META_KEY_MAX];
	size_t end_len = prefix_len;

	if (prefix_len > PT_META_KEY_MAX)
		return pt_meta_check_key(prefix_len);
	if (prefix_len)
		memcpy(end, prefix, prefix_len);
	/* The first key after all with the prefix: drop trailing 0xff bytes, add one to the last that is left. */
	while (end_len && end[end_len - 1] == 0xff)
		end_len--;
	if (end_len)
		end[end_len - 1]++;
	return scan_asking(m, prefix, prefix_len, end, end_len, limit, fn, ctx, asking);
}

/* A scan whose rows are kept while they pass, until they are too many. */
struct keeping {
	pt_meta_scan_fn *fn;
	void *ctx;
	struct pt_buf rows;
	bool broken;                    /* stopped, or too long */
};

static int keep_row(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct keeping *k = ctx;
	int rc;

	if (!k->broken && k->rows.len + key_len + value_len <= PT_META_CACHE_ENTRY)
		pt_meta_rows_add(&k->rows, key, key_len, value, value_len, version);
	else
		k->broken = true;
	rc = k->fn(k->ctx, key, key_len, value, value_len, version);
	if (rc)
		k->broken = true;
	return rc;
}

int pt_meta_scan_prefix(struct pt_meta *m, const void *prefix, size_t prefix_len, uint64_t limit, pt_meta_scan_fn *fn, void *ctx)
{
	struct keeping k = { .fn = fn, .ctx = ctx };
	struct pt_meta_key key = { prefix, prefix_len };
	const bool away = pt_meta_is_away(m);
	struct pt_meta_asking asking;
	struct pt_meta_cached *e;
	struct pt_meta_mark mark;
	int marked = 0, rc;

	if (!limit && pt_meta_ahead_scan(m, prefix, prefix_len, fn, ctx, &rc))
		return rc;
	if (!limit)
		marked = away ? pt_meta_away_mark_for(m, true, &key, &mark) : pt_meta_mark_here(m, &mark);
	if (marked < 0)
		return marked;
	if (limit || (!marked && !away))
		return scan_prefix(m, prefix, prefix_len, limit, fn, ctx, &asking);
	e = !marked ? NULL : pt_meta_cache_find(m->cache, &mark, true, prefix, prefix_len);
	if (e) {
		pt_meta_count(&m->counters.hits);
		rc = pt_meta_rows_play(pt_meta_cached_value(e), e->value_len, fn, ctx);
		pt_meta_cached_unref(e);
		return rc;
	}
	rc = scan_prefix(m, prefix, prefix_len, 0, keep_row, &k, &asking);
	if (rc < 0 || k.broken || pt_buf_failed(&k.rows))
		;
	else if (away)
		pt_meta_away_keep(m, &asking, true, &key, k.rows.data, k.rows.len, 0);
	else if (pt_meta_mark_holds(m, &mark))
		pt_meta_cache_keep(m->cache, m, &mark, true, prefix, prefix_len, k.rows.data, k.rows.len, 0);
	pt_buf_done(&k.rows);
	return rc;
}

size_t pt_meta_looks_max(struct pt_meta *m)
{
	return m->ops->look ? m->ops->looks_max(m->h) : 0;
}

static int check_look(const struct pt_meta_look *look)
{
	if (look->begins && look->key.len < PT_META_BEGINS_MIN)
		return pt_fail(EINVAL, "a look for all keys that begin with %zu bytes; give %d at least", look->key.len, PT_META_BEGINS_MIN);
	return pt_meta_check_key(look->key.len);
}

int pt_meta_look_asking(struct pt_meta *m, const struct pt_meta_look *looks, size_t n, uint64_t limit, pt_meta_scan_fn *fn, void *ctx, struct pt_meta_asking *asking)
{
	size_t most = pt_meta_looks_max(m), some;
	struct pt_meta_asking one;
	struct pt_buf value = PT_BUF_INIT;
	uint64_t version;
	struct pt_wait w;
	int rc = 0;

	pt_meta_away_ask(m, asking);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = check_look(&looks[i]);
	for (size_t i = 0; most && i < n && rc == 0; i += some) {
		some = n - i < most ? n - i : most;
		pt_meta_count(&m->counters.queries);
		pt_meta_away_ask(m, &one);
		pt_wait_init(&w);
		w.done.at = &one.at;
		m->ops->look(m->h, looks + i, some, limit, fn, ctx, &w.done);
		rc = pt_wait_finish(&w);
		pt_meta_away_answered(m, &one);
		if (i == 0)
			*asking = one;
		else if (memcmp(asking, &one, sizeof(one)) != 0)
			asking->at.marked = false;
	}
	for (size_t i = 0; !most && i < n && rc == 0; i++) {
		if (looks[i].begins) {
			rc = pt_meta_scan_prefix(m, looks[i].key.data, looks[i].key.len, limit, fn, ctx);
			continue;
		}
		rc = pt_meta_get(m, looks[i].key.data, looks[i].key.len, &value, &version);
		if (rc == 0 && version)
			rc = fn(ctx, looks[i].key.data, looks[i].key.len, value.data, value.len, version);
	}
	pt_buf_done(&value);
	return rc < 0 ? rc : 0;
}

int pt_meta_look(struct pt_meta *m, const struct pt_meta_look *looks, size_t n, pt_meta_scan_fn *fn, void *ctx)
{
	return pt_meta_look_first(m, looks, n, 0, fn, ctx);
}

int pt_meta_look_first(struct pt_meta *m, const struct pt_meta_look *looks, size_t n, uint64_t limit, pt_meta_scan_fn *fn, void *ctx)
{
	struct pt_meta_asking asking;

	return pt_meta_look_asking(m, looks, n, limit, fn, ctx, &asking);
}
