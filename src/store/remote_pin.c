/* store/remote_pin.c - pins at a daemon, as a set that this side counts.
 *
 * The daemon's set has each blob once, so a pin or unpin may be repeated. Order matters: the daemon takes them one by one in the order in which they
 * are submitted, and submission happens under pin_order, as the count's change does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/remote_int.h"

bool pt_remote_is_pinned(struct pt_remote *r, const struct pt_blob_ref *ref)
{
	bool is;

	pthread_mutex_lock(&r->lock);
	is = pt_refmap_find(&r->pins, ref) != NULL;
	pthread_mutex_unlock(&r->lock);
	return is;
}

void pt_remote_pins_done(struct pt_remote *r)
{
	struct pt_refmap_node *n;

	while (r->pins.buckets && (n = pt_refmap_any(&r->pins))) {
		pt_refmap_remove(&r->pins, n);
		free(n);
	}
	pt_refmap_done(&r->pins);
}

static uint8_t *encode(const struct pt_blob_ref *refs, size_t count)
{
	uint8_t *bytes = pt_reallocarray(NULL, count, PT_WIRE_BLOB);

	for (size_t i = 0; bytes && i < count; i++)
		pt_wire_blob_put(bytes + i * PT_WIRE_BLOB, (uint8_t)refs[i].kind, &refs[i].id);
	return bytes;
}

static void send_blobs(struct pt_remote_op *op, Ptio__Wire__Request__OpCase op_case, uint8_t *bytes, size_t count)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Blobs blobs = PTIO__WIRE__BLOBS__INIT;

	blobs.blobs = (ProtobufCBinaryData){ count * PT_WIRE_BLOB, bytes };
	q.op_case = op_case;
	q.pin = &blobs;                 /* the members of the union that are Blobs are one */
	pt_remote_send(op, &q);
}

/* Counts; all or none. */
static int count_up_locked(struct pt_remote *r, const struct pt_blob_ref *refs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct pt_remote_pin *pin = (struct pt_remote_pin *)pt_refmap_find(&r->pins, &refs[i]);

		if (!pin) {
			pin = pt_calloc(1, sizeof(*pin));
			if (!pin) {
				while (i--) {
					pin = (struct pt_remote_pin *)pt_refmap_find(&r->pins, &refs[i]);
					if (--pin->count == 0) {
						pt_refmap_remove(&r->pins, &pin->node);
						free(pin);
					}
				}
				return pt_fail_nomem();
			}
			pin->node.ref = refs[i];
			pt_refmap_insert(&r->pins, &pin->node);
		}
		pin->count++;
	}
	return 0;
}

/* The blobs whose last pin this was leave the set. Without memory to say so the daemon keeps them until the session ends. */
void pt_remote_unpin(void *h, const struct pt_blob_ref *refs, size_t count)
{
	struct pt_remote *r = h;
	uint8_t *bytes = pt_reallocarray(NULL, count, PT_WIRE_BLOB);
	struct pt_remote_op *op;
	size_t gone = 0, n;

	pthread_mutex_lock(&r->pin_order);
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < count; i++) {
		struct pt_remote_pin *pin = (struct pt_remote_pin *)pt_refmap_find(&r->pins, &refs[i]);

		if (!pin || --pin->count)
			continue;
		pt_refmap_remove(&r->pins, &pin->node);
		free(pin);
		if (bytes)
			pt_wire_blob_put(bytes + gone++ * PT_WIRE_BLOB, (uint8_t)refs[i].kind, &refs[i].id);
	}
	pthread_mutex_unlock(&r->lock);
	for (size_t at = 0; at < gone; at += n) {
		n = gone - at < PT_WIRE_BLOBS_MAX ? gone - at : PT_WIRE_BLOBS_MAX;
		op = pt_remote_op_get(r, NULL);
		if (!op)
			break;
		op->call.flags = PT_NET_RETRY;
		send_blobs(op, PTIO__WIRE__REQUEST__OP_UNPIN, bytes + at * PT_WIRE_BLOB, n);
	}
	pthread_mutex_unlock(&r->pin_order);
	free(bytes);
}

static int pin_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	pt_remote_mark((struct pt_remote_op *)call, p);
	return 0;
}

struct pin_wait {
	struct pt_done done;            /* first */
	struct pt_done *outer;
	struct pt_remote *remote;
	size_t count;
	struct pt_blob_ref refs[];
};

/* A pin that the daemon did not confirm is taken back. */
static void pin_ended(struct pt_done *done, int rc)
{
	struct pin_wait *w = (struct pin_wait *)done;
	struct pt_done *outer = w->outer;
	char why[512];

	if (rc < 0) {
		snprintf(why, sizeof(why), "%.511s", pt_fail_sentence());
		pt_remote_unpin(w->remote, w->refs, w->count);
		pt_fail(-rc, "%s", why);
	}
	free(w);
	pt_done_call(outer, rc);
}

void pt_remote_pin(void *h, const struct pt_blob_ref *refs, size_t count, struct pt_done *done)
{
	struct pt_remote *r = h;
	struct pin_wait *w = pt_malloc(sizeof(*w) + count * sizeof(*refs));
	uint8_t *bytes = encode(refs, count);
	struct pt_remote_op *lead = NULL;
	size_t n;
	int rc = 0;

	if (w && bytes) {
		*w = (struct pin_wait){ .done = { .fn = pin_ended, .at = done->at }, .outer = done, .remote = r, .count = count };
		memcpy(w->refs, refs, count * sizeof(*refs));
		lead = pt_remote_op_get(r, &w->done);
	}
	if (!lead) {
		free(w);
		free(bytes);
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	pthread_mutex_lock(&r->pin_order);
	pthread_mutex_lock(&r->lock);
	rc = count_up_locked(r, refs, count);
	pthread_mutex_unlock(&r->lock);
	if (rc < 0) {
		pthread_mutex_unlock(&r->pin_order);
		pt_remote_op_put(lead);
		free(w);
		free(bytes);
		pt_done_call(done, rc);
		return;
	}
	/* The lead goes last: it holds the operation open. */
	for (size_t at = 0; at + PT_WIRE_BLOBS_MAX < count; at += PT_WIRE_BLOBS_MAX) {
		struct pt_remote_op *op = pt_remote_op_get(r, NULL);

		if (!op) {
			rc = pt_fail_nomem();
			break;
		}
		op->lead = lead;
		pthread_mutex_lock(&r->lock);
		lead->left++;
		pthread_mutex_unlock(&r->lock);
		op->call.flags = PT_NET_RETRY;
		send_blobs(op, PTIO__WIRE__REQUEST__OP_PIN, bytes + at * PT_WIRE_BLOB, PT_WIRE_BLOBS_MAX);
	}
	lead->call.flags = PT_NET_RETRY;
	lead->call.reply = pin_reply;
	n = (count - 1) % PT_WIRE_BLOBS_MAX + 1;
	if (rc == 0)
		send_blobs(lead, PTIO__WIRE__REQUEST__OP_PIN, bytes + (count - n) * PT_WIRE_BLOB, n);
	pthread_mutex_unlock(&r->pin_order);
	free(bytes);
	if (rc < 0)
		pt_remote_fail(lead, rc);
}

/* The daemon has forgotten the session: all pins again, before anything else. */
void pt_remote_pins_restore(void *ctx)
{
	struct pt_remote *r = ctx;
	uint8_t *bytes;
	size_t count, at, n = 0;

	pthread_mutex_lock(&r->pin_order);
	pthread_mutex_lock(&r->lock);
	count = r->pins.count;
	bytes = count ? pt_reallocarray(NULL, count, PT_WIRE_BLOB) : NULL;
	for (size_t i = 0; bytes && i < r->pins.bucket_count; i++)
		for (struct pt_refmap_node *node = r->pins.buckets[i]; node; node = node->next)
			pt_wire_blob_put(bytes + n++ * PT_WIRE_BLOB, (uint8_t)node->ref.kind, &node->ref.id);
	pthread_mutex_unlock(&r->lock);
	for (at = 0; at < n; at += PT_WIRE_BLOBS_MAX) {
		struct pt_remote_op *op = pt_remote_op_get(r, NULL);

		if (!op)
			break;
		op->call.flags = PT_NET_RETRY | PT_NET_FRONT;
		send_blobs(op, PTIO__WIRE__REQUEST__OP_PIN, bytes + at * PT_WIRE_BLOB, n - at < PT_WIRE_BLOBS_MAX ? n - at : PT_WIRE_BLOBS_MAX);
	}
	pthread_mutex_unlock(&r->pin_order);
	free(bytes);
}

static int pinned_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	struct pt_remote_op *op = (struct pt_remote_op *)call;
	bool *pinned = op->ret_a;

	if (p->result_case != PTIO__WIRE__REPLY__RESULT_FLAGS || p->flags->flag.len != op->count)
		return pt_remote_reply_bad();
	for (size_t i = 0; i < op->count; i++)
		pinned[i] = p->flags->flag.data[i] != 0;
	return 0;
}

void pt_remote_pinned(void *h, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned, struct pt_done *done)
{
	struct pt_remote *r = h;
	struct pt_remote_op *lead = pt_remote_op_get(r, done), *op;
	uint8_t *bytes = lead ? encode(refs, count) : NULL;
	size_t n, at;

	if (!bytes) {
		if (lead)
			pt_remote_fail(lead, pt_fail_nomem());
		else
			pt_done_call(done, pt_fail_nomem());
		return;
	}
	for (at = 0; count - at > PT_WIRE_BLOBS_MAX; at += PT_WIRE_BLOBS_MAX) {
		op = pt_remote_op_get(r, NULL);
		if (!op)
			break;
		op->lead = lead;
		pthread_mutex_lock(&r->lock);
		lead->left++;
		pthread_mutex_unlock(&r->lock);
		op->ret_a = ret_pinned + at;
		op->count = PT_WIRE_BLOBS_MAX;
		op->call.flags = PT_NET_RETRY;
		op->call.reply = pinned_reply;
		send_blobs(op, PTIO__WIRE__REQUEST__OP_PINNED, bytes + at * PT_WIRE_BLOB, PT_WIRE_BLOBS_MAX);
	}
	n = count - at;
	if (n > PT_WIRE_BLOBS_MAX) {
		pt_remote_fail(lead, pt_fail_nomem());
	} else {
		lead->ret_a = ret_pinned + at;
		lead->count = n;
		lead->call.flags = PT_NET_RETRY;
		lead->call.reply = pinned_reply;
		send_blobs(lead, PTIO__WIRE__REQUEST__OP_PINNED, bytes + at * PT_WIRE_BLOB, n);
	}
	free(bytes);
}
