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

/* log: path of the log. What is written from now on is news. */
void pt_sqlite_news_init(struct pt_sqlite_news *news, const char *log);
/* Takes over what an earlier wait for the same log has left, for making one and closing it is dear: its descriptor (>= 0), and since when there was no news, so that a log at rest
 * is not looked at as often as one that has just been opened. What was written meanwhile is news. */
void pt_sqlite_news_resume(struct pt_sqlite_news *news, int fd, int64_t since_ns);
void pt_sqlite_news_done(struct pt_sqlite_news *news);
/* Until it is time to look again, at most until then. */
void pt_sqlite_news_wait(struct pt_sqlite_news *news, int64_t until_ns);

#endif
