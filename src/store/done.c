/* store/done.c - waiting for the completion of an asynchronous store operation. */
#include "store/done.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static void wait_done(struct pt_done *done, int rc)
{
	struct pt_wait *w = (struct pt_wait *)done;     /* done is its first member */

	pthread_mutex_lock(&w->lock);
	w->rc = rc;
	if (rc < 0)
		snprintf(w->sentence, sizeof(w->sentence), "%s", pt_fail_sentence());
	w->ended = true;
	/* Under the lock: the waiter frees w as soon as it has it. */
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

void pt_wait_init(struct pt_wait *w)
{
	w->done.fn = wait_done;
	w->done.at = NULL;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->cond, NULL);
	w->ended = false;
	w->rc = 0;
	w->sentence[0] = '\0';
}

int pt_wait_finish(struct pt_wait *w)
{
	int rc;

	pthread_mutex_lock(&w->lock);
	while (!w->ended)
		pthread_cond_wait(&w->cond, &w->lock);
	rc = w->rc;
	pthread_mutex_unlock(&w->lock);
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
	if (rc < 0)
		pt_fail(-rc, "%s", w->sentence[0] ? w->sentence : strerror(-rc));
	return rc;
}
