/* store/remote_rdma_place.c - where the objects of a daemon are in its arena. That is asked for over TCP, and kept while its lease holds. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "store/remote_rdma_int.h"

void pt_remote_places_clear(struct pt_remote_rdma *p)
{
	struct pt_refmap_node *n;

	while (p->places.buckets && (n = pt_refmap_any(&p->places))) {
		pt_refmap_remove(&p->places, n);
		free(n);
	}
}

static int locate_reply(struct pt_net_call *call, const Ptio__Wire__Reply *reply)
{
	struct pt_remote_op *op = (struct pt_remote_op *)call;
	struct pt_remote_place *place = op->ret_a;
	const Ptio__Wire__Places *l = reply->places;

	if (reply->result_case != PTIO__WIRE__REPLY__RESULT_PLACES || l->n_off != 1)
		return pt_remote_reply_bad();
	place->off = l->off[0];
	place->bytes = l->bytes[0];
	place->until_ns = call->sent_ns + (int64_t)(l->lease_ttl_ns - l->lease_margin_ns);
	return 0;
}

/* Asks the daemon, which loads the object if need be. */
static int locate(struct pt_remote_rdma *p, const struct pt_blob_ref *ref, struct pt_remote_place *place)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Blobs blobs = PTIO__WIRE__BLOBS__INIT;
	uint8_t blob[PT_WIRE_BLOB];
	struct pt_wait w;
	struct pt_remote_op *op = pt_remote_op_wait(p->remote, &w);

	if (!op)
		return pt_fail_nomem();
	op->ret_a = place;
	op->call.flags = PT_NET_RETRY;
	op->call.reply = locate_reply;
	pt_wire_blob_put(blob, (uint8_t)ref->kind, &ref->id);
	blobs.blobs = (ProtobufCBinaryData){ sizeof(blob), blob };
	q.op_case = PTIO__WIRE__REQUEST__OP_LOCATE;
	q.locate = &blobs;
	pt_remote_send(op, &q);
	return pt_wait_finish(&w);
}

int pt_remote_place_get(struct pt_remote_rdma *p, const struct pt_blob_ref *ref, struct pt_remote_place **ret_place)
{
	struct pt_remote_place *place = (struct pt_remote_place *)pt_refmap_find(&p->places, ref);
	int rc;

	if (place && pt_time_boot_ns() + PT_REMOTE_RDMA_NS < place->until_ns) {
		*ret_place = place;
		return 0;
	}
	if (!place) {
		if (p->places.count >= PT_REMOTE_PLACES_MAX)
			return pt_fail(EAGAIN, "more places than are kept");
		place = pt_calloc(1, sizeof(*place));
		if (!place)
			return pt_fail_nomem();
		place->node.ref = *ref;
		pt_refmap_insert(&p->places, &place->node);
	}
	rc = locate(p, ref, place);
	if (rc < 0) {
		pt_refmap_remove(&p->places, &place->node);
		free(place);
		return rc;
	}
	*ret_place = place;
	return 0;
}
