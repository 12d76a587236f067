/* manifest/pump.c - the threads, and the queue of streams that have windows to write.
 *
 * Invariants, under the lock: 1. a stream that is running is in the queue, or one thread has it and it is not; 2. job[first] of a running stream is the one that is written
 * next, or now; the first `begun` ones are on their way to an engine that is away; 3. under_way is the number of jobs of all streams.
 *
 * A process that was forked after threads were made has none: it writes by itself, cannot have what the threads were to write, and leaves the lock and the conditions alone,
 * which are as the threads had them. */
#include "manifest/pump.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "manifest/window.h"

void pt_pump_init(struct pt_pump *p)
{
	memset(p, 0, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->done, NULL);
	pthread_cond_init(&p->away, NULL);
	p->last = &p->first;
}

/* The threads are those of the process that this one was forked from. */
static bool forked(const struct pt_pump *p)
{
	pid_t pid = __atomic_load_n(&p->pid, __ATOMIC_RELAXED);

	return pid && pid != getpid();
}

void pt_pump_done(struct pt_pump *p)
{
	if (forked(p))
		return;
	if (p->threads) {
		pthread_mutex_lock(&p->lock);
		p->stop = true;
		pthread_cond_broadcast(&p->work);
		pthread_mutex_unlock(&p->lock);
		while (p->threads)
			pthread_join(p->thread[--p->threads], NULL);
	}
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->done);
	pthread_cond_destroy(&p->away);
	pthread_mutex_destroy(&p->lock);
}

static void enqueue_locked(struct pt_pump *p, struct pt_pump_stream *s)
{
	s->next = NULL;
	*p->last = s;
	p->last = &s->next;
	pthread_cond_signal(&p->work);
}

int pt_pump_write(struct pt_repo *repo, void *blob, const void *data, uint64_t len, uint64_t off)
{
	int rc = pt_data_write(&repo->store->data, blob, data, len, off);

	return pt_repo_room_made(repo, rc) ? pt_data_write(&repo->store->data, blob, data, len, off) : rc;
}

static void failed_locked(struct pt_pump_stream *s, int rc)
{
	if (s->rc < 0)
		return;
	s->rc = rc;
	snprintf(s->sentence, sizeof(s->sentence), "%s", pt_fail_sentence());
}

/* On the engine's thread. */
static void job_ended(struct pt_done *done, int rc)
{
	struct pt_pump_job *job = (struct pt_pump_job *)((uint8_t *)done - offsetof(struct pt_pump_job, wait.done));
	struct pt_pump *p = job->pump;

	job->tell(done, rc);
	pthread_mutex_lock(&p->lock);
	job->ended = true;
	pthread_cond_broadcast(&p->away);
	pthread_mutex_unlock(&p->lock);
}

static void job_begin(struct pt_pump_stream *s, struct pt_pump_job *job)
{
	pt_wait_init(&job->wait);
	job->tell = job->wait.done.fn;
	job->wait.done.fn = job_ended;
	job->pump = &s->repo->pump;
	pt_data_write_begin(&s->repo->store->data, s->blob, job->data, job->len, job->off, &job->wait.done);
}

/* Until the stream's next window has been written, all that are put meanwhile go on their way, too. The lock is let go now and then. */
static void away_locked(struct pt_pump *p, struct pt_pump_stream *s)
{
	while (!s->job[s->first].ended) {
		if (s->rc == 0 && s->begun < s->count) {
			struct pt_pump_job *job = &s->job[(s->first + s->begun++) % PT_PUMP_DEPTH];

			job->begun = true;
			pthread_mutex_unlock(&p->lock);
			job_begin(s, job);
			pthread_mutex_lock(&p->lock);
		} else if (s->job[s->first].begun) {
			pthread_cond_wait(&p->away, &p->lock);
		} else {
			return;
		}
	}
}

/* As pt_pump_write. */
static int write_end(struct pt_pump_stream *s, struct pt_pump_job *job)
{
	int rc = pt_wait_finish(&job->wait);

	return pt_repo_room_made(s->repo, rc) ? pt_data_write(&s->repo->store->data, s->blob, job->data, job->len, job->off) : rc;
}

/* The stream's next window; what comes after a failure, and is not on its way yet, is dropped. */
static void write_one_locked(struct pt_pump *p, struct pt_pump_stream *s)
{
	struct pt_pump_job *job = &s->job[s->first];
	bool good;
	int rc = 0;

	if (s->repo->store->data.ops->away)
		away_locked(p, s);
	good = s->rc == 0;
	pthread_mutex_unlock(&p->lock);
	pt_fail_clear();
	if (job->begun)
		rc = write_end(s, job);
	else if (good)
		rc = pt_pump_write(s->repo, s->blob, job->data, job->len, job->off);
	pt_window_put(&s->repo->windows, job->window);
	pthread_mutex_lock(&p->lock);
	if (rc < 0)
		failed_locked(s, rc);
	s->begun -= job->begun;
	s->first = (s->first + 1) % PT_PUMP_DEPTH;
	s->count--;
	p->under_way--;
}

static void *pump(void *arg)
{
	struct pt_pump *p = arg;
	struct pt_pump_stream *s;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		s = p->first;
		if (!s) {
			p->idle++;
			pthread_cond_wait(&p->work, &p->lock);
			p->idle--;
			continue;
		}
		p->first = s->next;
		if (!p->first)
			p->last = &p->first;
		write_one_locked(p, s);
		s->running = s->count > 0;
		if (s->running)
			enqueue_locked(p, s);           /* behind the others */
		pthread_cond_broadcast(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* A thread will take one more stream soon. */
static bool thread_free_locked(struct pt_pump *p)
{
	uint32_t queued = 0, most = PT_PUMP_THREADS;
	struct pt_pump_stream *s;
	long cpus;

	for (s = p->first; s; s = s->next)
		queued++;
	if (p->idle > queued)
		return true;
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > 0 && cpus < most)
		most = (uint32_t)cpus;
	if (p->threads == most)
		return false;
	__atomic_store_n(&p->pid, getpid(), __ATOMIC_RELAXED);
	if (pt_thread_start(&p->thread[p->threads], pump, p) == 0)
		p->threads++;
	else
		most = 0;
	return most > 0;
}

static int failure_locked(const struct pt_pump_stream *s)
{
	return s->rc < 0 ? pt_fail(-s->rc, "%s", s->sentence) : 0;
}

/* What it has put has been written, in a process that was forked. */
static int failure_forked(const struct pt_pump_stream *s)
{
	return s->running ? pt_fail(EIO, "the upload was begun before fork(): begin it in the process that writes it") : failure_locked(s);
}

void pt_pump_stream_init(struct pt_pump_stream *s, struct pt_repo *repo, void *blob)
{
	s->repo = repo;
	s->blob = blob;
	s->first = s->count = s->begun = 0;
	s->running = false;
	s->rc = 0;
}

int pt_pump_put(struct pt_pump_stream *s, void *window, const void *data, uint64_t len, uint64_t off)
{
	struct pt_pump *p = &s->repo->pump;
	int rc;

	if (forked(p)) {
		rc = failure_forked(s);
		goto own;
	}
	pthread_mutex_lock(&p->lock);
	while (s->count == PT_PUMP_DEPTH)
		pthread_cond_wait(&p->done, &p->lock);
	if (p->under_way < PT_PUMP_WINDOWS && (s->running || thread_free_locked(p))) {
		struct pt_pump_job *job = &s->job[(s->first + s->count++) % PT_PUMP_DEPTH];

		job->window = window;
		job->data = data;
		job->len = len;
		job->off = off;
		job->begun = job->ended = false;
		p->under_way++;
		if (!s->running) {
			s->running = true;
			enqueue_locked(p, s);
		} else if (s->repo->store->data.ops->away) {
			pthread_cond_broadcast(&p->away);
		}
		rc = failure_locked(s);
		pthread_mutex_unlock(&p->lock);
		return rc;
	}
	while (s->running)
		pthread_cond_wait(&p->done, &p->lock);
	rc = failure_locked(s);
	pthread_mutex_unlock(&p->lock);
own:
	if (rc == 0)
		rc = pt_pump_write(s->repo, s->blob, data, len, off);
	pt_window_put(&s->repo->windows, window);
	return rc;
}

int pt_pump_wait(struct pt_pump_stream *s)
{
	struct pt_pump *p = &s->repo->pump;
	int rc;

	if (forked(p))
		return failure_forked(s);
	pthread_mutex_lock(&p->lock);
	while (s->running)
		pthread_cond_wait(&p->done, &p->lock);
	rc = failure_locked(s);
	pthread_mutex_unlock(&p->lock);
	return rc;
}
