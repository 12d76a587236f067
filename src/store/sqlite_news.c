/* store/sqlite_news.c - what sqlite_news.h says. */
#include "store/sqlite_news.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define STEP_MIN_NS INT64_C(100000)
#define STEP_MAX_NS INT64_C(10000000)
#define IDLE_NS INT64_C(50000000)               /* without news; a safety net */

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void pt_sqlite_news_resume(struct pt_sqlite_news *news, int fd, int64_t since_ns)
{
	news->fd = fd;
	news->since_ns = since_ns;
}

void pt_sqlite_news_init(struct pt_sqlite_news *news, const char *log)
{
	news->since_ns = now_ns();
	news->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (news->fd >= 0 && inotify_add_watch(news->fd, log, IN_MODIFY) < 0)
		pt_sqlite_news_done(news);
}

void pt_sqlite_news_done(struct pt_sqlite_news *news)
{
	if (news->fd >= 0)
		close(news->fd);
	news->fd = -1;
}

static bool drain(int fd)
{
	char events[4096];
	bool some = false;

	while (read(fd, events, sizeof(events)) > 0)
		some = true;
	return some;
}

/* A quarter of the time since the last news: what takes long is seen as much later as it took long. */
void pt_sqlite_news_wait(struct pt_sqlite_news *news, int64_t until_ns)
{
	struct pollfd p = { .fd = news->fd, .events = POLLIN };
	int64_t now = now_ns(), step = (now - news->since_ns) / 4;
	struct timespec t;

	if (step < STEP_MIN_NS)
		step = STEP_MIN_NS;
	if (step > STEP_MAX_NS)
		step = news->fd >= 0 ? IDLE_NS : STEP_MAX_NS;
	if (step > until_ns - now)
		step = until_ns > now ? until_ns - now : 0;
	t.tv_sec = step / INT64_C(1000000000);
	t.tv_nsec = step % INT64_C(1000000000);
	ppoll(&p, 1, &t, NULL);
	if (news->fd >= 0 && drain(news->fd))
		news->since_ns = now_ns();
}
