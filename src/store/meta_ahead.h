/* store/meta_ahead.h - records that one thread has read ahead, for what it is about to look up one by one: of an engine that is away, in few round trips.
 *
 * While it lasts, gets and scans of a prefix by that thread are answered from it where it has them, as they were when they were loaded. So it is for calls that
 * tell what there is, and ends before anything that must not rest on what was: pins, commits. */
#ifndef PT_STORE_META_AHEAD_H
#define PT_STORE_META_AHEAD_H

#include "store/meta.h"

struct pt_meta_ahead;

/* Begins it for this thread. *ret is NULL where there is nothing to gain, or one is under way; the other calls take that. -ENOMEM. */
int pt_meta_ahead_begin(struct pt_meta *m, struct pt_meta_ahead **ret_ahead);
/* What it has not yet of these. Keys live during the call. */
int pt_meta_ahead_load(struct pt_meta_ahead *ahead, const struct pt_meta_look *looks, size_t count);
void pt_meta_ahead_end(struct pt_meta_ahead *ahead);

/* For pt_meta_prefetch: records into the one that this thread has under way, if it has. */
int pt_meta_ahead_prefetch(struct pt_meta *m, const struct pt_meta_key *keys, size_t count);
/* For meta.c: 1 when it has the record, 0, -ENOMEM. */
int pt_meta_ahead_get(struct pt_meta *m, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version);
/* Whether it has all with the prefix; then *ret_rc is as of the scan. */
bool pt_meta_ahead_scan(struct pt_meta *m, const void *prefix, size_t prefix_len, pt_meta_scan_fn *fn, void *ctx, int *ret_rc);

#endif
