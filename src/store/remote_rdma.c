/* store/remote_rdma.c - the RDMA connection to a daemon. Reads of its objects: where each object is comes over TCP once, and is kept while its lease holds; the bytes
 * come without the daemon's doing.
 *
 * One thread owns the connection and the places; others queue reads to it. What cannot go this way (no connection, an object that does not fit the
 * daemon's arena, a lease that ran out while it was read) goes by TCP, so nothing is ever wrong, only slower. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/thread.h"
#include "store/remote_rdma_int.h"

#define PUTS_MAX 32u                            /* of one call */

/* ---- reads ---- */

static int prepare(struct pt_remote_rdma *p, const struct pt_remote_rdma_job *rd, int64_t *ret_until_ns)
{
	struct pt_remote_found found = { .key = 0 };
	struct pt_remote_place *place = NULL;
	int64_t until = INT64_MAX;
	int rc;

	if (rd->count > p->range_room) {
		struct pt_rdma_range *grown = pt_reallocarray(p->ranges, rd->count, sizeof(*grown));

		if (!grown)
			return pt_fail_nomem();
		p->ranges = grown;
		p->range_room = rd->count;
	}
	for (size_t i = 0; i < rd->count; i++) {
		const struct pt_data_range *r = &rd->ranges[i];

		if (!place || !pt_blob_ref_equal(&place->node.ref, &r->blob)) {
			rc = pt_remote_place_get(p, &r->blob, &place);
			if (rc < 0)
				return rc;
			until = place->until_ns < until ? place->until_ns : until;
		}
		if (r->len > place->bytes || r->off > place->bytes - r->len || place->off > pt_rdma_span(p->rdma) ||
		    place->bytes > pt_rdma_span(p->rdma) - place->off)
			return pt_fail(EIO, "bytes beyond the end of an object");
		p->ranges[i] = (struct pt_rdma_range){ place->off + r->off, r->len, r->buf, r->len ? pt_remote_rdma_key_of(p, r->buf, r->len, &found) : 0 };
	}
	*ret_until_ns = until;
	return 0;
}

static int read_now(struct pt_remote_rdma *p, const struct pt_remote_rdma_job *rd)
{
	int64_t until = 0;
	int rc = pt_remote_rdma_connected(p);

	if (rc < 0)
		return rc;
	if (p->places.count >= PT_REMOTE_PLACES_MAX)
		pt_remote_places_clear(p);
	if (rd->count > UINT32_MAX)
		return -E2BIG;
	rc = prepare(p, rd, &until);
	if (rc < 0 || rd->locate)
		return rc;
	rc = pt_rdma_read(p->rdma, p->ranges, (uint32_t)rd->count, pt_time_boot_ns() + PT_REMOTE_RDMA_NS);
	if (rc < 0) {
		pt_remote_rdma_disconnect(p);
		return rc;
	}
	/* The memory was the object's for certain only while the lease held. */
	return pt_time_boot_ns() < until ? 0 : -ESTALE;
}

/* ---- writes ---- */

static int write_now(struct pt_remote_rdma *p, struct pt_remote_put *const *puts, uint32_t count)
{
	struct pt_rdma_put rdma[PUTS_MAX];
	struct pt_remote_found found = { .key = 0 };
	int rc = pt_remote_rdma_connected(p);

	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		rdma[i] = (struct pt_rdma_put){ puts[i]->buf, puts[i]->len, pt_remote_rdma_key_of(p, puts[i]->buf, puts[i]->len, &found), puts[i]->addr, puts[i]->key };
		if (!rdma[i].key || puts[i]->connection != p->connection)
			rc = pt_fail(ENOTCONN, "the RDMA connection that a window was given on is no more");
	}
	if (rc == 0) {
		rc = pt_rdma_write(p->rdma, rdma, count, pt_time_boot_ns() + PT_REMOTE_RDMA_NS);
		/* Before the buffers are anybody else's. */
		if (rc < 0)
			pt_remote_rdma_disconnect(p);
	}
	return rc;
}

/* Those that were queued, all at once; those of a connection that is gone fail together with others, and go by TCP. */
static void write_all(struct pt_remote_rdma *p, struct pt_remote_puts *queued)
{
	struct pt_remote_put *puts[PUTS_MAX], *put;
	uint64_t bytes;
	uint32_t count;
	int rc;

	while (!STAILQ_EMPTY(queued)) {
		bytes = 0;
		for (count = 0; count < PUTS_MAX && (put = STAILQ_FIRST(queued)); count++) {
			STAILQ_REMOVE_HEAD(queued, link);
			puts[count] = put;
			bytes += put->len;
		}
		rc = write_now(p, puts, count);
		pthread_mutex_lock(&p->lock);
		if (rc == 0) {
			p->status.writes += count;
			p->status.bytes_written += bytes;
		} else {
			p->status.write_fallbacks += count;
		}
		pthread_mutex_unlock(&p->lock);
		for (uint32_t i = 0; i < count; i++)
			puts[i]->done(puts[i], rc);
	}
}

void pt_remote_rdma_put(struct pt_remote_rdma *p, struct pt_remote_put *put)
{
	pthread_mutex_lock(&p->lock);
	STAILQ_INSERT_TAIL(&p->puts, put, link);
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
}

static void *own(void *arg)
{
	struct pt_remote_rdma *p = arg;
	struct pt_remote_rdma_job *rd;
	struct pt_remote_puts puts;
	bool stop;
	int rc;

	for (;;) {
		STAILQ_INIT(&puts);
		pthread_mutex_lock(&p->lock);
		while (!(rd = TAILQ_FIRST(&p->queue)) && STAILQ_EMPTY(&p->puts) && !p->stopping)
			pthread_cond_wait(&p->cond, &p->lock);
		if (rd)
			TAILQ_REMOVE(&p->queue, rd, link);
		STAILQ_CONCAT(&puts, &p->puts);
		stop = !rd && STAILQ_EMPTY(&puts);
		pthread_mutex_unlock(&p->lock);
		if (stop)
			return NULL;
		write_all(p, &puts);
		if (!rd)
			continue;
		rc = read_now(p, rd);
		pthread_mutex_lock(&p->lock);
		if (!rd->locate && rc == 0)
			p->status.reads++;
		else if (!rd->locate)
			p->status.fallbacks++;
		pt_remote_rdma_count_locked(p);
		pthread_mutex_unlock(&p->lock);
		if (rc == 0 || rd->locate)
			pt_done_call(rd->done, rc);
		else
			pt_remote_read_tcp(p->remote, rd->ranges, rd->count, rd->done);
		free(rd);
	}
}

static void submit(struct pt_remote_rdma *p, const struct pt_data_range *ranges, size_t count, bool locate, struct pt_done *done)
{
	struct pt_remote_rdma_job *rd = pt_malloc(sizeof(*rd));

	if (!rd) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	*rd = (struct pt_remote_rdma_job){ .ranges = ranges, .count = count, .done = done, .locate = locate };
	pthread_mutex_lock(&p->lock);
	TAILQ_INSERT_TAIL(&p->queue, rd, link);
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
}

void pt_remote_rdma_read(struct pt_remote_rdma *p, const struct pt_data_range *ranges, size_t count, struct pt_done *done)
{
	submit(p, ranges, count, false, done);
}

bool pt_remote_rdma_direct(struct pt_remote_rdma *p, const struct pt_blob_ref *ref)
{
	struct pt_data_range range = { .blob = *ref };
	struct pt_wait w;

	pt_wait_init(&w);
	submit(p, &range, 1, true, &w.done);
	return pt_wait_finish(&w) == 0;
}

void pt_remote_rdma_status(struct pt_remote_rdma *p, struct pt_remote_rdma_status *ret_status)
{
	pthread_mutex_lock(&p->lock);
	*ret_status = p->status;
	pthread_mutex_unlock(&p->lock);
}

/* ---- start and stop ---- */

/* must: until the timeout. */
static int connect_first(struct pt_remote_rdma *p, bool must)
{
	int64_t until = pt_time_boot_ns() + p->remote->timeout_ns, left;
	int rc;

	for (;;) {
		rc = pt_remote_rdma_connected(p);
		if (rc == 0 || !must || rc == -EOPNOTSUPP || rc == -EACCES || rc == -ENODEV || p->retry_at_ns >= until)
			return rc;
		left = p->retry_at_ns - pt_time_boot_ns();
		if (left > 0)
			nanosleep(&(struct timespec){ left / 1000000000, left % 1000000000 }, NULL);
	}
}

int pt_remote_rdma_start(struct pt_remote *r, bool must, struct pt_remote_rdma **ret_rdma)
{
	struct pt_remote_rdma *p = pt_calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return pt_fail_nomem();
	p->remote = r;
	TAILQ_INIT(&p->queue);
	STAILQ_INIT(&p->puts);
	LIST_INIT(&p->regions);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->cond, NULL);
	rc = pt_refmap_init(&p->places);
	/* What is named wrongly is said now, also where there may be no need of it. */
	if (rc == 0)
		rc = pt_remote_rdma_options(p, r->options);
	if (rc < 0) {
		pt_remote_rdma_stop(p);
		return rc;
	}
	rc = connect_first(p, must);
	if (rc < 0 && rc != -ENODEV && !must) {
		bool later = r->session.rdma_port && rc != -EOPNOTSUPP;

		if (!later) {
			pt_remote_rdma_stop(p);
			*ret_rdma = NULL;
			return 0;
		}
		rc = 0;
	}
	if (rc == 0) {
		rc = pt_thread_start(&p->thread, own, p);
		rc = rc ? pt_fail(rc, "cannot start a thread: %s", strerror(rc)) : 0;
		p->started = rc == 0;
	}
	if (rc < 0) {
		pt_remote_rdma_stop(p);
		return rc;
	}
	*ret_rdma = p;
	return 0;
}

void pt_remote_rdma_stop(struct pt_remote_rdma *p)
{
	struct pt_remote_region *region;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
	if (p->started)
		pthread_join(p->thread, NULL);
	pt_remote_rdma_disconnect(p);
	while ((region = LIST_FIRST(&p->regions))) {
		LIST_REMOVE(region, link);
		free(region);
	}
	pt_refmap_done(&p->places);
	free(p->ranges);
	pthread_cond_destroy(&p->cond);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
