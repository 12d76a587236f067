/* store/meta_cache.h - records and short scans of an index, kept in memory as long as nobody has committed anything.
 *
 * Works with engines that can tell at once whether a batch has been committed since (struct pt_meta_mark): what was read at one mark answers while the mark is the same,
 * so nothing is ever stale, whichever process commits. A commit of this process drops only what it changes if it was the only one. Absent records are
 * answers, too. Bounded; what has not been used for long goes first. Thread-safe. Internal to meta.c. */
#ifndef PT_STORE_META_CACHE_H
#define PT_STORE_META_CACHE_H

#include "store/meta.h"

#define PT_META_CACHE_BYTES ((uint64_t)96 << 20)        /* of keys, values and what holds them */
#define PT_META_CACHE_ENTRY (16u << 10)                 /* longer values and scans are not kept */
#define PT_META_CACHE_PREFIX 64

struct pt_meta_cache;

int pt_meta_cache_create(uint64_t limit, struct pt_meta_cache **ret_cache);
void pt_meta_cache_free(struct pt_meta_cache *cache);                  /* NULL is fine */

/* What was read: a record's value, or a scan's rows as pt_meta_rows_add packs them. Immutable, counted. */
struct pt_meta_cached {
	struct pt_meta_cached *hash_next, *newer, *older;       /* cache's lock */
	uint64_t epoch;                 /* the same */
	uint64_t hash;
	int refs;                       /* atomic */
	uint64_t version;               /* records: 0 when absent */
	uint32_t key_len, value_len;
	bool scan;
	bool used;                      /* cache's lock: found since it was last passed by */
	uint8_t bytes[];                /* key (a scan's prefix), value */
};

static inline const uint8_t *pt_meta_cached_value(const struct pt_meta_cached *c)
{
	return c->bytes + c->key_len;
}

/* Found (a reference), or NULL. mark NULL: at whatever mark the cache is. scan: the key is the prefix of a scan without a limit. */
struct pt_meta_cached *pt_meta_cache_find(struct pt_meta_cache *cache, const struct pt_meta_mark *mark, bool scan, const void *key, size_t key_len);
void pt_meta_cached_unref(struct pt_meta_cached *c);
/* Of n records those that are not there, in ret_missing (room for n); how many. */
size_t pt_meta_cache_missing(struct pt_meta_cache *cache, const struct pt_meta_mark *mark, const struct pt_meta_key *keys, size_t n, struct pt_meta_key *ret_missing);
/* Keeps what was read while the mark was the same before and after. Prefixes are shorter than PT_META_CACHE_PREFIX. Without memory nothing is kept. */
void pt_meta_cache_add(struct pt_meta_cache *cache, const struct pt_meta_mark *mark, bool scan, const void *key, size_t key_len, const void *value,
		       size_t value_len, uint64_t version);
/* The same, if the mark is that of the engine at this moment: so whoever commits afterwards finds it, and drops it if it has to. */
void pt_meta_cache_keep(struct pt_meta_cache *cache, const struct pt_meta *m, const struct pt_meta_mark *mark, bool scan, const void *key, size_t key_len,
			const void *value, size_t value_len, uint64_t version);
/* As pt_meta_cache_keep, of many records that are made first, where they are read; takes them over. Made: NULL where it would not be kept; version 0: absent. */
struct pt_meta_cached *pt_meta_cached_make(const struct pt_meta_key *key, const void *value, size_t value_len, uint64_t version);
void pt_meta_cache_keep_made(struct pt_meta_cache *cache, const struct pt_meta *m, const struct pt_meta_mark *mark, struct pt_meta_cached **made, size_t count);
/* The highest version at that mark; 0: not known. */
uint64_t pt_meta_cache_highest(struct pt_meta_cache *cache, const struct pt_meta_mark *mark);
/* `highest` was read while the mark was the same before and after. What the cache holds stays if every version since then is of this process's own commits. committing: between
 * pt_meta_cache_committed and _end. */
void pt_meta_cache_advance(struct pt_meta_cache *cache, const struct pt_meta_mark *mark, uint64_t highest, bool committing);
/* Around a commit of this process: begin; when it has worked, what it changes is dropped (version: that it got); end, whether it worked or not. */
void pt_meta_cache_begin(struct pt_meta_cache *cache);
/* Whether it changed something. */
bool pt_meta_cache_committed(struct pt_meta_cache *cache, const struct pt_meta_op *ops, size_t count, uint64_t version);
void pt_meta_cache_end(struct pt_meta_cache *cache);

/* Of an index that is away (meta_away.h), whose marks come with answers (struct pt_meta_at), maybe late and in any order. */
/* How often commits of this process have changed something. */
uint64_t pt_meta_cache_forgets(const struct pt_meta_cache *cache);
/* Whether there is something, if the mark still is what it was. */
bool pt_meta_cache_holds(struct pt_meta_cache *cache, bool scan, const void *key, size_t key_len);
/* As pt_meta_cache_advance. */
void pt_meta_cache_told(struct pt_meta_cache *cache, const struct pt_meta_mark *mark, bool committing);
/* As pt_meta_cache_keep, of what was asked for after so many forgets. */
void pt_meta_cache_keep_told(struct pt_meta_cache *cache, const struct pt_meta_mark *mark, uint64_t forgets, bool scan, const void *key, size_t key_len,
			     const void *value, size_t value_len, uint64_t version);

/* Packing rows of a scan, and playing them. */
void pt_meta_rows_add(struct pt_buf *rows, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version);
int pt_meta_rows_play(const void *rows, size_t len, pt_meta_scan_fn *fn, void *ctx);

#endif
