/* tools/ptiod/session.c - sessions: the pins of a client and the answers it may ask for again, which outlive its connection by the time of a lease.
 *
 * Invariants:
 * 1. A pin is in the session's set exactly while the session holds one pin on the store for it.
 * 2. The set is changed by one job at a time (busy), or by the loop while none runs.
 * 3. When the set is emptied because the lease ran out, the epoch changes, so that the client learns of it with its next renewal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "tools/ptiod/server.h"

#define LOOK_AGAIN_NS (NS_PER_S / 10)           /* when a session to expire is busy */

struct session *session_get(struct server *s, const struct pt_id *id, bool *ret_resumed)
{
	struct session *ses;

	LIST_FOREACH(ses, &s->sessions, link)
		if (pt_id_compare(&ses->id, id) == 0) {
			*ret_resumed = true;
			return ses;
		}
	if (s->session_count >= SESSIONS_MAX)
		return NULL;
	ses = pt_calloc(1, sizeof(*ses));
	if (!ses)
		return NULL;
	if (pt_refmap_init(&ses->pins) < 0) {
		free(ses);
		return NULL;
	}
	ses->id = *id;
	ses->epoch = s->next_epoch++;
	LIST_INSERT_HEAD(&s->sessions, ses, link);
	s->session_count++;
	*ret_resumed = false;
	return ses;
}

void session_renew(struct session *ses)
{
	ses->granted_ns = pt_time_boot_ns();
}

void session_remember(struct session *ses, uint64_t id, const struct pt_buf *frame)
{
	struct remembered *r = &ses->remembered[ses->next_remembered];

	ses->next_remembered = (ses->next_remembered + 1) % REMEMBERED;
	pt_buf_reset(&r->frame);
	pt_buf_append(&r->frame, frame->data, frame->len);
	r->id = pt_buf_failed(&r->frame) ? 0 : id;
	if (!r->id)
		pt_buf_done(&r->frame);
}

const struct pt_buf *session_recall(const struct session *ses, uint64_t id)
{
	for (uint32_t i = 0; i < REMEMBERED; i++)
		if (ses->remembered[i].id == id)
			return &ses->remembered[i].frame;
	return NULL;
}

uint64_t session_pin_count(const struct session *ses)
{
	return __atomic_load_n(&ses->pin_count, __ATOMIC_RELAXED);
}

static void session_free(struct server *s, struct session *ses)
{
	LIST_REMOVE(ses, link);
	s->session_count--;
	pt_refmap_done(&ses->pins);
	for (uint32_t i = 0; i < REMEMBERED; i++)
		pt_buf_done(&ses->remembered[i].frame);
	free(ses);
}

/* Empties the set into a job that takes the pins off the store. */
static int drop_pins(struct server *s, struct session *ses)
{
	struct job *job;
	struct pt_refmap_node *n;

	if (!ses->pins.count)
		return 0;
	job = job_create(NULL, JOB_DROP_PINS);
	if (!job)
		return -ENOMEM;
	job->refs = pt_reallocarray(NULL, ses->pins.count, sizeof(*job->refs));
	if (!job->refs) {
		job_free(s, job);
		return -ENOMEM;
	}
	while ((n = pt_refmap_any(&ses->pins))) {
		job->refs[job->ref_count++] = n->ref;
		pt_refmap_remove(&ses->pins, n);
		free(n);
	}
	__atomic_store_n(&ses->pin_count, 0, __ATOMIC_RELAXED);
	count(&s->counters.pins_expired, ses->left ? 0 : job->ref_count);
	job_submit(s, job);
	return 0;
}

int64_t sessions_tick(struct server *s, int64_t now)
{
	int64_t next = now + 60 * NS_PER_S, over;
	struct session *ses, *after;

	for (ses = LIST_FIRST(&s->sessions); ses; ses = after) {
		bool idle = !ses->conn && !ses->waiting;

		after = LIST_NEXT(ses, link);
		over = ses->granted_ns + s->options->lease_ttl_ns + s->options->lease_margin_ns;
		if (ses->left && idle)
			over = now;
		if (now >= over && (ses->busy || drop_pins(s, ses) < 0))
			over = now + LOOK_AGAIN_NS;
		else if (now >= over) {
			ses->epoch = s->next_epoch++;
			ses->granted_ns = now;
			if (idle) {
				session_free(s, ses);
				continue;
			}
			over = now + s->options->lease_ttl_ns;
		}
		if (over < next)
			next = over;
	}
	return next;
}

/* At the end, when no job runs. */
void sessions_done(struct server *s)
{
	struct session *ses;
	struct pt_refmap_node *n;

	while ((ses = LIST_FIRST(&s->sessions))) {
		while ((n = pt_refmap_any(&ses->pins))) {
			pt_data_unpin(&s->store->data, &n->ref, 1);
			pt_refmap_remove(&ses->pins, n);
			free(n);
		}
		session_free(s, ses);
	}
}

/* ---- on workers ---- */

/* mark: at which the index was since, or NULL. */
static void reply_done(struct job *job, int rc, struct mark *mark)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;

	if (rc < 0) {
		reply_error(job, rc);
		return;
	}
	if (mark)
		mark_put(mark, &reply);
	reply_pack(job, &reply, 0);
}

static struct pt_blob_ref ref_at(const ProtobufCBinaryData *blobs, uint32_t i)
{
	struct pt_blob_ref ref;
	uint8_t kind;

	pt_wire_blob_get(blobs, i, &kind, &ref.id);
	ref.kind = (enum pt_blob_kind)kind;
	return ref;
}

/* Enters those that are new into the set, and lists them. */
static int enter(struct session *ses, const ProtobufCBinaryData *blobs, struct pt_blob_ref *fresh, size_t *ret_count)
{
	uint32_t n = pt_wire_blob_count(blobs);

	*ret_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct pt_blob_ref ref = ref_at(blobs, i);
		struct pt_refmap_node *node;

		if (pt_refmap_find(&ses->pins, &ref))
			continue;
		if (ses->pins.count >= PINS_MAX)
			return pt_fail(EMFILE, "one client may hold %u objects open at this daemon; close some files first", PINS_MAX);
		node = pt_calloc(1, sizeof(*node));
		if (!node)
			return pt_fail_nomem();
		node->ref = ref;
		pt_refmap_insert(&ses->pins, node);
		fresh[(*ret_count)++] = ref;
	}
	return 0;
}

static void leave(struct session *ses, const struct pt_blob_ref *refs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct pt_refmap_node *node = pt_refmap_find(&ses->pins, &refs[i]);

		if (node) {
			pt_refmap_remove(&ses->pins, node);
			free(node);
		}
	}
}

void session_pin(struct server *s, struct job *job)
{
	const ProtobufCBinaryData *blobs = &job->request->pin->blobs;
	struct session *ses = job->session;
	struct pt_blob_ref *fresh = pt_reallocarray(NULL, pt_wire_blob_count(blobs), sizeof(*fresh));
	struct mark mark = { .known = false };
	size_t n = 0;
	int rc = fresh ? enter(ses, blobs, fresh, &n) : pt_fail_nomem();

	if (rc == 0)
		rc = pt_data_pin(&s->store->data, fresh, n);
	if (rc < 0)
		leave(ses, fresh, n);
	__atomic_store_n(&ses->pin_count, ses->pins.count, __ATOMIC_RELAXED);
	free(fresh);
	if (rc == 0)
		mark_take(s, &mark);
	reply_done(job, rc, &mark);
}

void session_unpin(struct server *s, struct job *job)
{
	const ProtobufCBinaryData *blobs = &job->request->unpin->blobs;
	struct session *ses = job->session;
	uint32_t n = pt_wire_blob_count(blobs);

	for (uint32_t i = 0; i < n; i++) {
		struct pt_blob_ref ref = ref_at(blobs, i);

		if (!pt_refmap_find(&ses->pins, &ref))
			continue;
		leave(ses, &ref, 1);
		pt_data_unpin(&s->store->data, &ref, 1);
	}
	__atomic_store_n(&ses->pin_count, ses->pins.count, __ATOMIC_RELAXED);
	reply_done(job, 0, NULL);
}
