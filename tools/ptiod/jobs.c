/* tools/ptiod/jobs.c - the workers, and the ways to them and back. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "tools/ptiod/server.h"

struct job *job_create(struct conn *conn, enum job_kind kind)
{
	struct job *job = pt_calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->kind = kind;
	job->conn = conn;
	pt_wire_arena_init(&job->arena, 0, 0);
	return job;
}

void job_free(struct server *s, struct job *job)
{
	if (!job)
		return;
	pt_wire_arena_done(&job->arena);
	out_free(s, job->out);
	free(job->body);
	free(job->refs);
	free(job);
}

void job_submit(struct server *s, struct job *job)
{
	s->jobs_out++;
	pthread_mutex_lock(&s->work_lock);
	TAILQ_INSERT_TAIL(&s->todo, job, link);
	pthread_cond_signal(&s->work_cond);
	pthread_mutex_unlock(&s->work_lock);
}

void job_return(struct server *s, struct job *job)
{
	uint64_t one = 1;
	bool first;
	ssize_t n;

	pthread_mutex_lock(&s->back_lock);
	first = TAILQ_EMPTY(&s->back);
	TAILQ_INSERT_TAIL(&s->back, job, link);
	pthread_mutex_unlock(&s->back_lock);
	if (first) {
		n = write(s->wake_fd, &one, sizeof(one));
		(void)n;
	}
}

static void *work(void *arg)
{
	struct server *s = arg;
	struct job *job;

	for (;;) {
		pthread_mutex_lock(&s->work_lock);
		while (!(job = TAILQ_FIRST(&s->todo)) && !s->stopping)
			pthread_cond_wait(&s->work_cond, &s->work_lock);
		if (job)
			TAILQ_REMOVE(&s->todo, job, link);
		pthread_mutex_unlock(&s->work_lock);
		if (!job)
			return NULL;
		job_run(s, job);
	}
}

int workers_start(struct server *s)
{
	int rc;

	while (s->worker_count < s->options->workers) {
		rc = pt_thread_start(&s->workers[s->worker_count], work, s);
		if (rc)
			return pt_fail(rc, "cannot start a thread: %s", strerror(rc));
		s->worker_count++;
	}
	return 0;
}

void workers_stop(struct server *s)
{
	pthread_mutex_lock(&s->work_lock);
	s->stopping = true;
	pthread_cond_broadcast(&s->work_cond);
	pthread_mutex_unlock(&s->work_lock);
	for (uint32_t i = 0; i < s->worker_count; i++)
		pthread_join(s->workers[i], NULL);
	s->worker_count = 0;
}
