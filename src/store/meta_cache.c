/* store/meta_cache.c - see meta_cache.h. A hash table, and a list from the newest to the oldest. What was found since it was made, or since it was last the
 * oldest, becomes the newest instead of going: so finding something touches nothing but itself.
 *
 * Invariants: 1. an entry whose epoch is the cache's was read at the cache's mark; others are dead, and go when they are met or are oldest; 2. bytes is the sum of
 * cost() over linked entries, at most limit; 3. refs counts the link and what callers hold; 4. what a commit of this process changed has been dropped before its version
 * is in own[], and nothing older can be added after that (pt_meta_cache_keep). */
#include "store/meta_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

#define BUCKETS_FIRST 256
#define BUCKETS_EACH 4                  /* about: each step along a chain is a wait for memory */
#define OWN_MAX 64
#define KEEP_GROUP 32                   /* records added while the lock is held */

struct pt_meta_cache {
	pthread_mutex_t lock;           /* all below, and the links of entries */
	struct pt_meta_mark mark;       /* what entries of this epoch were read at */
	uint64_t highest;               /* version at that mark, 0: not known */
	uint64_t epoch;
	uint64_t limit, bytes;
	struct pt_meta_cached **bucket;
	size_t bucket_count, entry_count;
	struct pt_meta_cached *newest, *oldest;
	uint64_t prefixes;              /* bit n: scans of a prefix of n bytes have been kept */
	uint64_t forgets;               /* atomic to read: commits of this process that changed something */
	uint32_t committing;            /* commits of this process under way */
	uint64_t own_run;               /* all versions above `highest` up to this one are of this process's own */
	uint32_t own_count;
	uint64_t own[OWN_MAX];          /* and these, beyond */
};

int pt_meta_cache_create(uint64_t limit, struct pt_meta_cache **ret_cache)
{
	struct pt_meta_cache *c = pt_calloc(1, sizeof(*c));

	if (!c)
		return pt_fail_nomem();
	c->bucket = pt_calloc(BUCKETS_FIRST, sizeof(*c->bucket));
	if (!c->bucket) {
		free(c);
		return pt_fail_nomem();
	}
	c->bucket_count = BUCKETS_FIRST;
	c->limit = limit;
	pthread_mutex_init(&c->lock, NULL);
	*ret_cache = c;
	return 0;
}

void pt_meta_cached_unref(struct pt_meta_cached *e)
{
	if (e && __atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(e);
}

static uint64_t cost(const struct pt_meta_cached *e)
{
	return sizeof(*e) + e->key_len + e->value_len + BUCKETS_EACH * sizeof(void *);
}

static void age_unlink(struct pt_meta_cache *c, struct pt_meta_cached *e)
{
	*(e->newer ? &e->newer->older : &c->newest) = e->older;
	*(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void age_link(struct pt_meta_cache *c, struct pt_meta_cached *e)
{
	e->newer = NULL;
	e->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = e;
	c->newest = e;
}

static void drop_locked(struct pt_meta_cache *c, struct pt_meta_cached *e)
{
	struct pt_meta_cached **at = &c->bucket[e->hash & (c->bucket_count - 1)];

	while (*at != e)
		at = &(*at)->hash_next;
	*at = e->hash_next;
	age_unlink(c, e);
	c->bytes -= cost(e);
	c->entry_count--;
	pt_meta_cached_unref(e);
}

void pt_meta_cache_free(struct pt_meta_cache *c)
{
	if (!c)
		return;
	while (c->oldest)
		drop_locked(c, c->oldest);
	pthread_mutex_destroy(&c->lock);
	free(c->bucket);
	free(c);
}

static uint64_t hash_of(bool scan, const void *key, size_t key_len)
{
	uint64_t h = pt_hash64(key, key_len);

	return scan ? (h ^ h >> 32) * 0x9e3779b97f4a7c15u : h;
}

static struct pt_meta_cached *find_locked(struct pt_meta_cache *c, uint64_t hash, bool scan, const void *key, size_t key_len)
{
	struct pt_meta_cached *e;

	for (e = c->bucket[hash & (c->bucket_count - 1)]; e; e = e->hash_next)
		if (e->hash == hash && e->scan == scan && e->key_len == key_len && memcmp(e->bytes, key, key_len) == 0)
			return e;
	return NULL;
}

static bool same(const struct pt_meta_mark *a, const struct pt_meta_mark *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* As find_locked, of this epoch; it is not the next to go. */
static struct pt_meta_cached *find_used_locked(struct pt_meta_cache *c, uint64_t hash, bool scan, const void *key, size_t key_len)
{
	struct pt_meta_cached *e = find_locked(c, hash, scan, key, key_len);

	if (e && e->epoch != c->epoch) {
		drop_locked(c, e);
		e = NULL;
	}
	if (e)
		e->used = true;
	return e;
}

struct pt_meta_cached *pt_meta_cache_find(struct pt_meta_cache *c, const struct pt_meta_mark *mark, bool scan, const void *key, size_t key_len)
{
	uint64_t hash = hash_of(scan, key, key_len);
	struct pt_meta_cached *e = NULL;

	pthread_mutex_lock(&c->lock);
	if (!mark || same(&c->mark, mark))
		e = find_used_locked(c, hash, scan, key, key_len);
	if (e)
		__atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&c->lock);
	return e;
}

size_t pt_meta_cache_missing(struct pt_meta_cache *c, const struct pt_meta_mark *mark, const struct pt_meta_key *keys, size_t n, struct pt_meta_key *ret_missing)
{
	size_t missing = 0, i;

	pthread_mutex_lock(&c->lock);
	for (i = 0; i < n; i++)
		if (!same(&c->mark, mark) || !find_used_locked(c, hash_of(false, keys[i].data, keys[i].len), false, keys[i].data, keys[i].len))
			ret_missing[missing++] = keys[i];
	pthread_mutex_unlock(&c->lock);
	return missing;
}

/* Everything is of another mark from now on. */
static void begin_locked(struct pt_meta_cache *c, const struct pt_meta_mark *mark)
{
	if (same(&c->mark, mark))
		return;
	c->mark = *mark;
	c->highest = 0;
	c->epoch++;
}

static void grow_locked(struct pt_meta_cache *c)
{
	size_t count = c->bucket_count * 4, b;
	struct pt_meta_cached **bucket, *e;

	if (2 * c->entry_count < c->bucket_count)
		return;
	bucket = pt_calloc(count, sizeof(*bucket));
	if (!bucket)
		return;                 /* longer chains will do */
	for (b = 0; b < c->bucket_count; b++)
		while ((e = c->bucket[b])) {
			c->bucket[b] = e->hash_next;
			e->hash_next = bucket[e->hash & (count - 1)];
			bucket[e->hash & (count - 1)] = e;
		}
	free(c->bucket);
	c->bucket = bucket;
	c->bucket_count = count;
}

static struct pt_meta_cached *entry_make(bool scan, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct pt_meta_cached *e;

	if (value_len > PT_META_CACHE_ENTRY || !key_len || (scan && key_len >= PT_META_CACHE_PREFIX))
		return NULL;
	e = pt_malloc(sizeof(*e) + key_len + value_len);
	if (!e)
		return NULL;
	*e = (struct pt_meta_cached){ .hash = hash_of(scan, key, key_len), .refs = 1, .version = version, .key_len = (uint32_t)key_len,
				      .value_len = (uint32_t)value_len, .scan = scan };
	memcpy(e->bytes, key, key_len);
	if (value_len)
		memcpy(e->bytes + key_len, value, value_len);
	return e;
}

struct pt_meta_cached *pt_meta_cached_make(const struct pt_meta_key *key, const void *value, size_t value_len, uint64_t version)
{
	return entry_make(false, key->data, key->len, value, value_len, version);
}

/* One goes; there is one. */
static void make_room_locked(struct pt_meta_cache *c)
{
	struct pt_meta_cached *e;

	for (e = c->oldest; e->used && e->epoch == c->epoch; e = c->oldest) {
		e->used = false;
		age_unlink(c, e);
		age_link(c, e);
	}
	drop_locked(c, e);
}

/* Takes over the entry. */
static void add_locked(struct pt_meta_cache *c, const struct pt_meta_mark *mark, struct pt_meta_cached *e)
{
	struct pt_meta_cached *old;

	begin_locked(c, mark);
	old = find_locked(c, e->hash, e->scan, e->bytes, e->key_len);
	if (old)
		drop_locked(c, old);
	while (c->oldest && c->bytes + cost(e) > c->limit)
		make_room_locked(c);
	grow_locked(c);
	e->epoch = c->epoch;
	e->hash_next = c->bucket[e->hash & (c->bucket_count - 1)];
	c->bucket[e->hash & (c->bucket_count - 1)] = e;
	age_link(c, e);
	c->bytes += cost(e);
	c->entry_count++;
	if (e->scan)
		c->prefixes |= (uint64_t)1 << e->key_len;
}

void pt_meta_cache_add(struct pt_meta_cache *c, const struct pt_meta_mark *mark, bool scan, const void *key, size_t key_len, const void *value,
		       size_t value_len, uint64_t version)
{
	struct pt_meta_cached *e = entry_make(scan, key, key_len, value, value_len, version);

	if (!e)
		return;
	pthread_mutex_lock(&c->lock);
	add_locked(c, mark, e);
	pthread_mutex_unlock(&c->lock);
}

/* Takes over the entries. */
static void keep(struct pt_meta_cache *c, const struct pt_meta *m, const struct pt_meta_mark *mark, struct pt_meta_cached **e, size_t count)
{
	struct pt_meta_mark now;
	bool kept;
	size_t i;

	pthread_mutex_lock(&c->lock);
	/* Another mark while a commit of our own is under way: it will say how much of what is here stays. */
	kept = m->ops->mark(m->h, &now) && same(&now, mark) && (same(&c->mark, mark) || !c->committing);
	for (i = 0; kept && i < count; i++)
		add_locked(c, mark, e[i]);
	pthread_mutex_unlock(&c->lock);
	for (i = 0; !kept && i < count; i++)
		pt_meta_cached_unref(e[i]);
}

void pt_meta_cache_keep(struct pt_meta_cache *c, const struct pt_meta *m, const struct pt_meta_mark *mark, bool scan, const void *key, size_t key_len,
			const void *value, size_t value_len, uint64_t version)
{
	struct pt_meta_cached *e = entry_make(scan, key, key_len, value, value_len, version);

	if (e)
		keep(c, m, mark, &e, 1);
}

void pt_meta_cache_keep_made(struct pt_meta_cache *c, const struct pt_meta *m, const struct pt_meta_mark *mark, struct pt_meta_cached **made, size_t count)
{
	size_t i, n;

	for (i = 0; i < count; i += n) {
		n = count - i < KEEP_GROUP ? count - i : KEEP_GROUP;
		keep(c, m, mark, made + i, n);
	}
}

uint64_t pt_meta_cache_highest(struct pt_meta_cache *c, const struct pt_meta_mark *mark)
{
	uint64_t highest;

	pthread_mutex_lock(&c->lock);
	highest = same(&c->mark, mark) ? c->highest : 0;
	pthread_mutex_unlock(&c->lock);
	return highest;
}

static void forget_locked(struct pt_meta_cache *c, bool scan, const void *key, size_t key_len)
{
	struct pt_meta_cached *e = find_locked(c, hash_of(scan, key, key_len), scan, key, key_len);

	if (e)
		drop_locked(c, e);
}

static void forget_ops_locked(struct pt_meta_cache *c, const struct pt_meta_op *ops, size_t count)
{
	size_t i, n;

	for (i = 0; i < count; i++) {
		if (ops[i].kind == PT_META_COMPARE)
			continue;
		forget_locked(c, false, ops[i].key.data, ops[i].key.len);
		for (n = 1; n <= ops[i].key.len && n < PT_META_CACHE_PREFIX; n++)
			if (c->prefixes >> n & 1)
				forget_locked(c, true, ops[i].key.data, n);
	}
}

/* Lengthens the run, and drops what it covers. */
static void own_gather_locked(struct pt_meta_cache *c)
{
	uint32_t i = 0;

	while (i < c->own_count) {
		if (c->own[i] > c->own_run + 1) {
			i++;
			continue;
		}
		if (c->own[i] == c->own_run + 1) {
			c->own_run++;
			c->own[i] = c->own[--c->own_count];
			i = 0;
		} else {
			c->own[i] = c->own[--c->own_count];
		}
	}
}

void pt_meta_cache_begin(struct pt_meta_cache *c)
{
	pthread_mutex_lock(&c->lock);
	c->committing++;
	pthread_mutex_unlock(&c->lock);
}

bool pt_meta_cache_committed(struct pt_meta_cache *c, const struct pt_meta_op *ops, size_t count, uint64_t version)
{
	if (!pt_meta_writes(ops, count))
		return false;           /* the version is whoever's was last */
	pthread_mutex_lock(&c->lock);
	__atomic_add_fetch(&c->forgets, 1, __ATOMIC_RELEASE);
	forget_ops_locked(c, ops, count);
	if (c->own_count < OWN_MAX)
		c->own[c->own_count++] = version;
	own_gather_locked(c);
	pthread_mutex_unlock(&c->lock);
	return true;
}

void pt_meta_cache_end(struct pt_meta_cache *c)
{
	pthread_mutex_lock(&c->lock);
	c->committing--;
	pthread_mutex_unlock(&c->lock);
}

static void highest_locked(struct pt_meta_cache *c, uint64_t highest)
{
	c->highest = highest;
	if (c->own_run < highest)
		c->own_run = highest;
	own_gather_locked(c);
}

static void advance_locked(struct pt_meta_cache *c, const struct pt_meta_mark *mark, uint64_t highest, bool committing)
{
	if (!same(&c->mark, mark) && c->highest && c->highest <= highest && highest <= c->own_run) {
		c->mark = *mark;
		highest_locked(c, highest);
	} else if (same(&c->mark, mark) || c->committing <= committing) {
		begin_locked(c, mark);
		highest_locked(c, highest);
	}
	/* Else others of our own may be done in the index and not have said so yet: the last of them decides. */
}

void pt_meta_cache_advance(struct pt_meta_cache *c, const struct pt_meta_mark *mark, uint64_t highest, bool committing)
{
	pthread_mutex_lock(&c->lock);
	advance_locked(c, mark, highest, committing);
	pthread_mutex_unlock(&c->lock);
}

uint64_t pt_meta_cache_forgets(const struct pt_meta_cache *c)
{
	return __atomic_load_n(&c->forgets, __ATOMIC_ACQUIRE);
}

bool pt_meta_cache_holds(struct pt_meta_cache *c, bool scan, const void *key, size_t key_len)
{
	uint64_t hash = hash_of(scan, key, key_len);
	struct pt_meta_cached *e;
	bool holds;

	pthread_mutex_lock(&c->lock);
	e = find_locked(c, hash, scan, key, key_len);
	holds = e && e->epoch == c->epoch;
	pthread_mutex_unlock(&c->lock);
	return holds;
}

/* Versions that another run of the daemon gave mean nothing to this one, which may have got the index back as it was before; of one run the later mark counts. */
static void told_locked(struct pt_meta_cache *c, const struct pt_meta_mark *mark, bool committing)
{
	if (memcmp(c->mark.word, mark->word, 2 * sizeof(mark->word[0])) != 0) {
		c->highest = c->own_run = 0;
		c->own_count = 0;
	} else if (mark->word[2] < c->mark.word[2]) {
		return;
	}
	advance_locked(c, mark, mark->word[2], committing);
}

void pt_meta_cache_told(struct pt_meta_cache *c, const struct pt_meta_mark *mark, bool committing)
{
	pthread_mutex_lock(&c->lock);
	told_locked(c, mark, committing);
	pthread_mutex_unlock(&c->lock);
}

void pt_meta_cache_keep_told(struct pt_meta_cache *c, const struct pt_meta_mark *mark, uint64_t forgets, bool scan, const void *key, size_t key_len,
			     const void *value, size_t value_len, uint64_t version)
{
	struct pt_meta_cached *e = entry_make(scan, key, key_len, value, value_len, version);
	bool kept;

	if (!e)
		return;
	pthread_mutex_lock(&c->lock);
	told_locked(c, mark, false);
	/* What a commit of our own has changed since it was asked for has been dropped already; a commit that is still under way will drop it. */
	kept = same(&c->mark, mark) && c->forgets == forgets;
	if (kept)
		add_locked(c, mark, e);
	pthread_mutex_unlock(&c->lock);
	if (!kept)
		pt_meta_cached_unref(e);
}

void pt_meta_rows_add(struct pt_buf *rows, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	pt_buf_append_le32(rows, (uint32_t)key_len);
	pt_buf_append_le64(rows, value_len);
	pt_buf_append_le64(rows, version);
	pt_buf_append(rows, key, key_len);
	pt_buf_append(rows, value, value_len);
}

int pt_meta_rows_play(const void *rows, size_t len, pt_meta_scan_fn *fn, void *ctx)
{
	struct pt_reader r;
	int rc = 0;

	pt_reader_init(&r, rows, len);
	while (rc == 0 && pt_reader_left(&r)) {
		size_t key_len = pt_reader_le32(&r);
		size_t value_len = (size_t)pt_reader_le64(&r);
		uint64_t version = pt_reader_le64(&r);
		const void *key = pt_reader_bytes(&r, key_len);
		const void *value = pt_reader_bytes(&r, value_len);

		rc = fn(ctx, key, key_len, value, value_len, version);
	}
	return rc < 0 ? rc : 0;
}
