/* store/sqlite_watch.h - whether somebody has committed to an index, and waiting until somebody has. Thread-safe, but for init, start and done. */
#ifndef PT_STORE_SQLITE_WATCH_H
#define PT_STORE_SQLITE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/meta.h"
#include "store/sqlite_conn.h"

struct pt_sqlite_watch {
	enum pt_sqlite_mode mode;
	char *log;                              /* SQLite's; NULL: in memory */
	const uint64_t volatile *log_header;    /* files that can change: twice the log's header, in memory that all processes share */
	pthread_mutex_t lock;                   /* highest */
	pthread_cond_t cond;
	uint64_t highest;                       /* version of the last commit in this process; set atomically, too */
	atomic_int news_fd;                     /* of a watch that has ended, for the next one; -1: none */
	_Atomic int64_t news_since_ns;          /* the same; that of another watch than the descriptor is only a wrong pace */
};

/* The highest version that the index has now; an error fails the wait. */
typedef int pt_sqlite_highest_fn(void *ctx, uint64_t *ret_version);

/* Of the index at `path`, as SQLite is told it (NULL: in memory), which is not open yet. -ENOMEM: call done all the same. */
int pt_sqlite_watch_init(struct pt_sqlite_watch *w, const char *path);
void pt_sqlite_watch_done(struct pt_sqlite_watch *w);
/* The index is open, by a connection for writing, and has this version. */
void pt_sqlite_watch_start(struct pt_sqlite_watch *w, enum pt_sqlite_mode mode, struct pt_sqlite_conn *writer, uint64_t highest);
/* What stays the same as long as nobody commits. False: that cannot be told now. */
bool pt_sqlite_watch_mark(struct pt_sqlite_watch *w, struct pt_meta_mark *ret_mark);
/* This process has made this version. To be called before anybody can read what is new: in memory this is the mark. */
void pt_sqlite_watch_committed(struct pt_sqlite_watch *w, uint64_t version);
/* Until the version is above `seen` or the time is up; the version then. Several threads may wait. Errors are those of `highest`. */
int pt_sqlite_watch_wait(struct pt_sqlite_watch *w, uint64_t seen, int64_t timeout_ns, pt_sqlite_highest_fn *highest, void *ctx, uint64_t *ret_version);

#endif
