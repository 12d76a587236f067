/* base/thread.c - what thread.h says. */
#include "base/thread.h"

#include <signal.h>
#include <time.h>

#include "base/io.h"

int pt_thread_start(pthread_t *ret_thread, void *(*run)(void *ctx), void *ctx)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);    /* which the thread takes over */
	rc = pthread_create(ret_thread, NULL, run, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACES 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define RACES 1
#endif

bool pt_mutex_lock_within(pthread_mutex_t *mutex, int64_t ns)
{
	struct timespec until = pt_time_until(ns);

#ifdef RACES                            /* ThreadSanitizer does not know pthread_mutex_clocklock() everywhere */
	while (pthread_mutex_trylock(mutex) != 0) {
		struct timespec now = pt_time_until(0);

		if (now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec))
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	}
	return true;
#else
	return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until) == 0;
#endif
}
