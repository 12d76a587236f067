/* store/snapshots.h - copies of a dir: store's index, kept below its snapshots/ for the day on which the index is lost or damaged.
 *
 * They are SQLite's online backups, each of one state of the index, named index-TIME-VERSION.db: UTC as 20261130T231500Z, and a version of the index that all of it is at least as new
 * as. A copy appears whole or not at all; one process makes one at a time. Of those that are there the newest two stay, the newest that is a day old, and the oldest younger one. */
#ifndef PT_STORE_SNAPSHOTS_H
#define PT_STORE_SNAPSHOTS_H

#include "store/store.h"

#define PT_SNAPSHOTS_DIR "snapshots"
#define PT_SNAPSHOTS_EVERY_S 900        /* the default */

struct pt_snapshots;

struct pt_snapshots_counters {
	uint64_t made, given_up;        /* given up: for want of room, or for an error */
};

/* A thread that makes a copy some seconds after the first commit, and then at most every every_ns, when something has been committed since, and at its end if one is due. What it could
 * not do it tells failed(). *ret NULL: of stores that are no directory or read only, or when every_ns is 0. Stop it before the store is closed. -ENOMEM, -EAGAIN. */
int pt_snapshots_start(struct pt_store *store, int64_t every_ns, void (*failed)(const char *sentence), struct pt_snapshots **ret_s);
void pt_snapshots_stop(struct pt_snapshots *s);                         /* NULL is fine */
void pt_snapshots_count(struct pt_snapshots *s, struct pt_snapshots_counters *ret);     /* NULL: zeros */

struct pt_snapshot {
	char name[64];                  /* in the directory */
	int64_t time_ns;
	uint64_t version;
};

/* dirfd: of the store. The newest first. *ret_list is allocated; none: NULL. -EIO and what pt_folder_open fails with, -ENOMEM. */
int pt_snapshots_list(int dirfd, struct pt_snapshot **ret_list, size_t *ret_count);
/* Makes one now, unless another process is at it or nothing was committed since the newest (*ret_made false). -ENOSPC: too little room for it to be harmless. */
int pt_snapshots_make(struct pt_store *store, bool *ret_made);

#endif
