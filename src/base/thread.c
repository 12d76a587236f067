/* base/thread.c - what thread.h says. */
#include "base/thread.h"

#include <signal.h>

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
