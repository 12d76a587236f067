/* tree/seal_queue.c - sealing objects a few at a time. */
#include "tree/seal_queue.h"

#include <stdio.h>
#include <string.h>

#include "base/thread.h"

static void *seal(void *arg)
{
	struct pt_seal_job *job = arg;

	job->rc = pt_object_writer_seal(job->writer, &job->part);
	if (job->rc < 0)
		snprintf(job->sentence, sizeof(job->sentence), "%s", pt_fail_sentence());
	return NULL;
}

static struct pt_seal_job *oldest(struct pt_seal_queue *q)
{
	struct pt_seal_job *job = &q->job[q->first];

	if (job->threaded)
		pthread_join(job->thread, NULL);
	q->first = (q->first + 1) % PT_SEAL_QUEUE;
	q->count--;
	return job;
}

static int collect(struct pt_seal_queue *q, pt_seal_done_fn *fn, void *ctx)
{
	struct pt_seal_job *job = oldest(q);

	if (job->rc < 0)
		return pt_fail(-job->rc, "%s", job->sentence);
	return fn(ctx, job->tag, &job->part);
}

int pt_seal_queue_add(struct pt_seal_queue *q, struct pt_object_writer *writer, uint32_t tag, pt_seal_done_fn *fn, void *ctx)
{
	struct pt_seal_job *job;
	int rc;

	if (q->count == PT_SEAL_QUEUE) {
		rc = collect(q, fn, ctx);
		if (rc < 0) {
			pt_object_writer_abort(writer);
			return rc;
		}
	}
	job = &q->job[(q->first + q->count++) % PT_SEAL_QUEUE];
	memset(&job->part, 0, sizeof(job->part));
	job->writer = writer;
	job->tag = tag;
	job->threaded = pt_thread_start(&job->thread, seal, job) == 0;
	if (!job->threaded)
		seal(job);
	return 0;
}

int pt_seal_queue_drain(struct pt_seal_queue *q, pt_seal_done_fn *fn, void *ctx)
{
	int rc = 0;

	while (q->count && !rc)
		rc = collect(q, fn, ctx);
	return rc;
}

void pt_seal_queue_done(struct pt_seal_queue *q, struct pt_repo *repo)
{
	struct pt_seal_job *job;

	while (q->count) {
		job = oldest(q);
		if (job->rc >= 0)
			pt_object_discard(repo, &job->part);
	}
}
