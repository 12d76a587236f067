/* store/meta_away.h - the cache of an index that is away, whose marks are a round trip. Internal to meta.c and meta_ahead.c.
 *
 * A thread that is in a moment (pt_meta_moment_begin) asks for the mark once, when there is something in memory that it could be answered from, and takes every answer of
 * that moment by it; each answer of the engine tells its own mark, which is the moment's from then on. So no answer is older than the beginning of the moment,
 * and none older than one before it. Outside of moments all questions go to the engine, as a mark would cost as much. */
#ifndef PT_STORE_META_AWAY_H
#define PT_STORE_META_AWAY_H

#include "store/meta.h"

/* A question on its way. */
struct pt_meta_asking {
	struct pt_meta_at at;
	uint64_t forgets;               /* changes by commits of our own, of which the cache knew when it was sent */
};

static inline bool pt_meta_is_away(const struct pt_meta *m)
{
	return m->cache && m->ops->ask_mark;
}

/* For questions for the mark, which are shared. */
int pt_meta_asks_create(struct pt_meta *m);
void pt_meta_asks_free(struct pt_meta *m);

/* 1: the mark of this thread's moment, if it is in one and memory may have the answer; 0: ask the engine; -errno: the daemon was asked for the mark in this moment, and did not answer. */
int pt_meta_away_mark_for(struct pt_meta *m, bool scan, const struct pt_meta_key *key, struct pt_meta_mark *ret_mark);
/* 1: it certainly has; 0, -errno: the same. */
int pt_meta_away_has(struct pt_meta *m, const struct pt_meta_look *look);
/* The mark of this thread's moment, or of now. */
bool pt_meta_away_mark(struct pt_meta *m, struct pt_meta_mark *ret_mark);

/* Around a question to the engine whose struct pt_done has &asking->at. Every answer; a failure, too. */
void pt_meta_away_ask(struct pt_meta *m, struct pt_meta_asking *asking);
void pt_meta_away_answered(struct pt_meta *m, const struct pt_meta_asking *asking);
/* Keeps what was answered. */
void pt_meta_away_keep(struct pt_meta *m, const struct pt_meta_asking *asking, bool scan, const struct pt_meta_key *key, const void *value, size_t value_len,
		       uint64_t version);
/* A commit of this process has ended, between pt_meta_cache_begin and _end. ops: it worked. */
void pt_meta_away_committed(struct pt_meta *m, const struct pt_meta_asking *asking, const struct pt_meta_op *ops, size_t count, uint64_t version);

/* pt_meta_look_first (0: no limit), and what all of it was told at. */
int pt_meta_look_asking(struct pt_meta *m, const struct pt_meta_look *looks, size_t count, uint64_t limit, pt_meta_scan_fn *fn, void *ctx, struct pt_meta_asking *asking);

#endif
