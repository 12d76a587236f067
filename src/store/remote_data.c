/* store/remote_data.c - the data engine of a store that a ptiod exports: its small operations. Uploads: remote_write.c, pins: remote_pin.c, reads:
 * remote_read.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/size.h"
#include "store/remote_int.h"

static void data_close(void *h)
{
	pt_remote_unref(h);
}

/* ---- stat, remove ---- */

static int number_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	if (p->result_case != PTIO__WIRE__REPLY__RESULT_NUMBER)
		return pt_remote_reply_bad();
	*(uint64_t *)((struct pt_remote_op *)call)->ret_a = p->number;
	return 0;
}

static void one_blob(void *h, const struct pt_blob_ref *ref, Ptio__Wire__Request__OpCase op_case, uint32_t flags, uint64_t *ret_number, struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Blobs blobs = PTIO__WIRE__BLOBS__INIT;
	struct pt_remote_op *op = pt_remote_op_get(h, done);
	uint8_t blob[PT_WIRE_BLOB];

	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	op->call.flags = flags;
	op->ret_a = ret_number;
	op->call.reply = ret_number ? number_reply : NULL;
	pt_wire_blob_put(blob, (uint8_t)ref->kind, &ref->id);
	blobs.blobs = (ProtobufCBinaryData){ sizeof(blob), blob };
	q.op_case = op_case;
	q.stat = &blobs;                /* the members of the union that are Blobs are one */
	pt_remote_send(op, &q);
}

static void data_stat(void *h, const struct pt_blob_ref *ref, uint64_t *ret_bytes, struct pt_done *done)
{
	one_blob(h, ref, PTIO__WIRE__REQUEST__OP_STAT, PT_NET_RETRY, ret_bytes, done);
}

static void data_remove(void *h, const struct pt_blob_ref *ref, struct pt_done *done)
{
	one_blob(h, ref, PTIO__WIRE__REQUEST__OP_REMOVE, PT_NET_ONCE, NULL, done);
}

static int data_map(void *h, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, const void **ret_addr, void **ret_map)
{
	(void)h, (void)ref, (void)off, (void)len, (void)ret_addr, (void)ret_map;
	return pt_fail(EOPNOTSUPP, "objects on another machine cannot be mapped; read them");
}

static void data_unmap(void *h, void *map)
{
	(void)h, (void)map;
}

/* ---- list: everything is here before the first callback ---- */

#define ENTRY_BYTES (PT_WIRE_BLOB + 8 + 8 + 1)

static int list_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	struct pt_buf *all = ((struct pt_remote_op *)call)->ret_a;
	const Ptio__Wire__Entries *e = p->entries;
	int64_t now = pt_time_now_ns(), mtime;

	if (p->result_case != PTIO__WIRE__REPLY__RESULT_ENTRIES)
		return pt_remote_reply_bad();
	for (size_t i = 0; i < e->n_bytes; i++) {
		if (__builtin_sub_overflow(now, e->age_ns[i], &mtime))
			return pt_remote_reply_bad();
		pt_buf_append(all, e->blobs.data + i * PT_WIRE_BLOB, PT_WIRE_BLOB);
		pt_buf_append_le64(all, e->bytes[i]);
		pt_buf_append_le64(all, (uint64_t)mtime);
		pt_buf_append_u8(all, (uint8_t)e->flags[i]);
	}
	return pt_buf_failed(all) ? pt_fail_nomem() : 0;
}

static void list_restart(struct pt_net_call *call)
{
	pt_buf_reset(((struct pt_remote_op *)call)->ret_a);
}

static void data_list(void *h, pt_data_list_fn *fn, void *ctx, struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Nothing nothing = PTIO__WIRE__NOTHING__INIT;
	struct pt_buf all = PT_BUF_INIT;
	struct pt_wait w;
	struct pt_remote_op *op = pt_remote_op_wait(h, &w);
	int rc;

	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	op->ret_a = &all;
	op->call.flags = PT_NET_RETRY;
	op->call.reply = list_reply;
	op->call.restart = list_restart;
	q.op_case = PTIO__WIRE__REQUEST__OP_LIST;
	q.list = &nothing;
	pt_remote_send(op, &q);
	rc = pt_wait_finish(&w);
	for (size_t at = 0; rc == 0 && at + ENTRY_BYTES <= all.len; at += ENTRY_BYTES) {
		ProtobufCBinaryData one = { PT_WIRE_BLOB, all.data + at };
		const uint8_t *rest = all.data + at + PT_WIRE_BLOB;
		struct pt_blob_ref ref;
		uint8_t kind;

		pt_wire_blob_get(&one, 0, &kind, &ref.id);
		ref.kind = (enum pt_blob_kind)kind;
		rc = fn(ctx, &ref, pt_get_le64(rest), (int64_t)pt_get_le64(rest + 8), rest[16] & 1, (rest[16] & 2) != 0);
	}
	pt_buf_done(&all);
	pt_done_call(done, rc < 0 ? rc : 0);
}

/* ---- the rest ---- */

static int buffer_register(void *h, void *addr, uint64_t len)
{
	struct pt_remote *r = h;

	return r->rdma ? pt_remote_rdma_register(r->rdma, addr, len) : 0;
}

static void buffer_unregister(void *h, void *addr)
{
	struct pt_remote *r = h;

	if (r->rdma)
		pt_remote_rdma_unregister(r->rdma, addr);
}

static bool data_direct(void *h, const struct pt_blob_ref *ref)
{
	struct pt_remote *r = h;

	return r->rdma && pt_remote_rdma_direct(r->rdma, ref);
}

static int space_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	struct pt_data_space *s = ((struct pt_remote_op *)call)->ret_a;

	if (p->result_case != PTIO__WIRE__REPLY__RESULT_DATA_SPACE)
		return pt_remote_reply_bad();
	*s = (struct pt_data_space){ .total_bytes = p->data_space->total_bytes, .free_bytes = p->data_space->free_bytes,
				     .used_bytes = p->data_space->used_bytes, .total_files = p->data_space->total_files,
				     .free_files = p->data_space->free_files };
	return 0;
}

static void send_nothing(void *h, Ptio__Wire__Request__OpCase op_case, void *ret, int (*reply)(struct pt_net_call *, const Ptio__Wire__Reply *),
			 struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Nothing nothing = PTIO__WIRE__NOTHING__INIT;
	struct pt_remote_op *op = pt_remote_op_get(h, done);

	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	op->ret_a = ret;
	op->call.flags = PT_NET_RETRY;
	op->call.reply = reply;
	q.op_case = op_case;
	q.data_space = &nothing;        /* the members of the union that are Nothing are one */
	pt_remote_send(op, &q);
}

static void data_space(void *h, struct pt_data_space *ret_space, struct pt_done *done)
{
	send_nothing(h, PTIO__WIRE__REQUEST__OP_DATA_SPACE, ret_space, space_reply, done);
}

static void data_sync(void *h, struct pt_done *done)
{
	send_nothing(h, PTIO__WIRE__REQUEST__OP_DATA_SYNC, NULL, NULL, done);
}

static void data_sweep(void *h, uint64_t *ret_count, struct pt_done *done)
{
	send_nothing(h, PTIO__WIRE__REQUEST__OP_SWEEP, ret_count, number_reply, done);
}

#define REMOTE_DATA_OPS(is_durable) \
	{ \
		.size = sizeof(struct pt_data_ops), .version = 1, .name = "remote", .durable = (is_durable), .away = true, .close = data_close, .create = pt_remote_create, \
		.write = pt_remote_write, .hashed = pt_remote_hashed, .seal = pt_remote_seal, .abort = pt_remote_abort, .read = pt_remote_read, .map = data_map, .unmap = data_unmap, \
		.stat = data_stat, .remove = data_remove, .list = data_list, .pin = pt_remote_pin, .unpin = pt_remote_unpin, \
		.pinned = pt_remote_pinned, .buffer_register = buffer_register, .buffer_unregister = buffer_unregister, .space = data_space, \
		.sync = data_sync, .sweep = data_sweep, .direct = data_direct, \
	}

const struct pt_data_ops pt_remote_data_ops[2] = { REMOTE_DATA_OPS(false), REMOTE_DATA_OPS(true) };
