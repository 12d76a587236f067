/* store/sqlite_news.h - waiting until another process may have committed to an index file, without asking SQLite all the time.
 *
 * The kernel tells when somebody writes to the log (inotify; what SQLite does by mmap it would not tell). The log's header, by which a commit counts, follows a moment later: after
 * the fsync, if there is one. So for a while after such news the caller looks often, and less and less so. Where there is no inotify to be had (the user's limit of 128 of them), looks
 * are 10 ms apart. One thread at a time. */
#ifndef PT_STORE_SQLITE_NEWS_H
#define PT_STORE_SQLITE_NEWS_H

#include <stdint.h>

struct pt_sqlite_news {
	int fd;                         /* -1: none */
	int64_t since_ns;               /* CLOCK_MONOTONIC: the last news, or the start */
};

/* log: path of the log. What is written from now on is news. fd: that of an earlier wait for the same log, which is taken over (making one and closing it is dear), or -1. */
void pt_sqlite_news_init(struct pt_sqlite_news *news, const char *log, int fd);
void pt_sqlite_news_done(struct pt_sqlite_news *news);
/* Until it is time to look again, at most until then. */
void pt_sqlite_news_wait(struct pt_sqlite_news *news, int64_t until_ns);

#endif
