/* store/remote_meta.c - the meta engine of a store that a ptiod exports. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "store/remote_int.h"

#define WATCH_SLICE_NS (INT64_C(10) * 1000000000)       /* of one request; a longer watch is several */
#define NEWS_LATE_NS (INT64_C(2) * 1000000000)          /* what an answer to a watch may take beyond the time it was to wait: then the daemon is taken for silent */

static void remote_close(void *h)
{
	pt_remote_unref(h);
}

static ProtobufCBinaryData bytes_of(const void *data, size_t len)
{
	return (ProtobufCBinaryData){ len, (uint8_t *)data };
}

/* ---- get ---- */

static int get_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	struct pt_remote_op *op = (struct pt_remote_op *)call;
	struct pt_buf *value = op->ret_a;

	if (p->result_case != PTIO__WIRE__REPLY__RESULT_RECORDS || p->records->n_value != 1)
		return pt_remote_reply_bad();
	pt_remote_mark(op, p);
	*(uint64_t *)op->ret_b = p->records->version[0];
	if (!value || !p->records->version[0])
		return 0;
	pt_buf_reset(value);
	pt_buf_append(value, p->records->value[0].data, p->records->value[0].len);
	return pt_buf_failed(value) ? pt_fail_nomem() : 0;
}

static void meta_get(void *h, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version, struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__MetaGet get = PTIO__WIRE__META_GET__INIT;
	ProtobufCBinaryData k = bytes_of(key->data, key->len);
	struct pt_remote_op *op = pt_remote_op_get(h, done);

	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	op->ret_a = ret_value;
	op->ret_b = ret_version;
	op->call.flags = PT_NET_RETRY;
	op->call.reply = get_reply;
	get.n_key = 1;
	get.key = &k;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_GET;
	q.meta_get = &get;
	pt_remote_send(op, &q);
}

/* ---- scan: all records are here before the first callback, so that a lost connection is made good unseen ---- */

static int scan_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	struct pt_buf *all = ((struct pt_remote_op *)call)->ret_a;
	const Ptio__Wire__MetaRecords *r = p->records;

	if (p->result_case != PTIO__WIRE__REPLY__RESULT_RECORDS || r->n_key != r->n_value)
		return pt_remote_reply_bad();
	pt_remote_mark((struct pt_remote_op *)call, p);
	for (size_t i = 0; i < r->n_key; i++) {
		pt_buf_append_le64(all, r->version[i]);
		pt_buf_append_lenstr(all, r->key[i].data, (uint32_t)r->key[i].len);
		pt_buf_append_lenstr(all, r->value[i].data, (uint32_t)r->value[i].len);
	}
	return pt_buf_failed(all) ? pt_fail_nomem() : 0;
}

static void scan_restart(struct pt_net_call *call)
{
	pt_buf_reset(((struct pt_remote_op *)call)->ret_a);
}

static int scan_deliver(const struct pt_buf *all, uint64_t limit, pt_meta_scan_fn *fn, void *ctx)
{
	struct pt_reader r;
	int rc = 0;

	pt_reader_init(&r, all->data, all->len);
	for (uint64_t n = 0; rc == 0 && pt_reader_left(&r) && (!limit || n < limit); n++) {
		uint64_t version = pt_reader_le64(&r);
		uint32_t key_len, value_len;
		const void *key = pt_reader_lenstr(&r, &key_len);
		const void *value = pt_reader_lenstr(&r, &value_len);

		rc = fn(ctx, key, key_len, value, value_len, version);
	}
	return rc < 0 ? rc : 0;
}

static void meta_scan(void *h, const struct pt_meta_key *start, const struct pt_meta_key *end, uint64_t limit, pt_meta_scan_fn *fn, void *ctx,
		      struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__MetaScan scan = PTIO__WIRE__META_SCAN__INIT;
	struct pt_buf all = PT_BUF_INIT;
	struct pt_wait w;
	struct pt_remote_op *op = pt_remote_op_wait(h, &w);
	int rc;

	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	op->ret_a = &all;
	op->at = done->at;
	op->call.flags = PT_NET_RETRY;
	op->call.reply = scan_reply;
	op->call.restart = scan_restart;
	scan.start = bytes_of(start->data, start->len);
	scan.end = bytes_of(end->data, end->len);
	scan.limit = limit;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_SCAN;
	q.meta_scan = &scan;
	pt_remote_send(op, &q);
	rc = pt_wait_finish(&w);
	if (rc == 0)
		rc = scan_deliver(&all, limit, fn, ctx);
	pt_buf_done(&all);
	pt_done_call(done, rc);
}

/* ---- look: as a scan ---- */

_Static_assert(PT_META_BEGINS_MIN >= PT_WIRE_BEGINS_MIN, "a daemon refuses what pt_meta_look lets through");

static size_t meta_looks_max(void *h)
{
	return ((struct pt_remote *)h)->session.looks_max;
}

static void meta_look(void *h, const struct pt_meta_look *looks, size_t count, uint64_t limit, pt_meta_scan_fn *fn, void *ctx, struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__MetaLook look = PTIO__WIRE__META_LOOK__INIT;
	ProtobufCBinaryData key[PT_WIRE_LOOKS_MAX];
	uint8_t begins[PT_WIRE_LOOKS_MAX];
	struct pt_buf all = PT_BUF_INIT;
	struct pt_wait w;
	struct pt_remote_op *op = pt_remote_op_wait(h, &w);
	int rc;

	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	for (size_t i = 0; i < count; i++) {
		key[i] = bytes_of(looks[i].key.data, looks[i].key.len);
		begins[i] = looks[i].begins;
	}
	op->ret_a = &all;
	op->at = done->at;
	op->call.flags = PT_NET_RETRY;
	op->call.reply = scan_reply;
	op->call.restart = scan_restart;
	look.n_key = count;
	look.key = key;
	look.begins = bytes_of(begins, count);
	look.limit = limit;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_LOOK;
	q.meta_look = &look;
	pt_remote_send(op, &q);
	rc = pt_wait_finish(&w);
	if (rc == 0)
		rc = scan_deliver(&all, 0, fn, ctx);
	pt_buf_done(&all);
	pt_done_call(done, rc);
}

/* ---- commit ---- */

static int version_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	if (p->result_case != PTIO__WIRE__REPLY__RESULT_VERSION)
		return pt_remote_reply_bad();
	pt_remote_mark((struct pt_remote_op *)call, p);
	*(uint64_t *)((struct pt_remote_op *)call)->ret_a = p->version;
	return 0;
}

static void meta_commit(void *h, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version, struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__MetaCommit commit = PTIO__WIRE__META_COMMIT__INIT;
	Ptio__Wire__MetaOp few_message[PT_META_BATCH_MAX], *op_message = few_message, *few_pointer[PT_META_BATCH_MAX], **op_pointer = few_pointer;
	struct pt_remote *r = h;
	struct pt_remote_op *op;

	if (count > r->session.ops_max) {
		pt_done_call(done, pt_fail(EFBIG, "%zu changes of the index are more than this daemon takes in one commit (%u): write fewer tensors in one file",
					   count, r->session.ops_max));
		return;
	}
	if (count > PT_META_BATCH_MAX) {
		op_message = pt_reallocarray(NULL, count, sizeof(*op_message));
		op_pointer = pt_reallocarray(NULL, count, sizeof(*op_pointer));
	}
	op = op_message && op_pointer ? pt_remote_op_get(h, done) : NULL;
	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		goto out;
	}
	for (size_t i = 0; i < count; i++) {
		ptio__wire__meta_op__init(&op_message[i]);
		op_message[i].kind = (uint32_t)ops[i].kind;
		op_message[i].key = bytes_of(ops[i].key.data, ops[i].key.len);
		if (ops[i].kind == PT_META_COMPARE)
			op_message[i].version = ops[i].version;
		if (ops[i].kind == PT_META_PUT)
			op_message[i].value = bytes_of(ops[i].value, ops[i].value_len);
		op_pointer[i] = &op_message[i];
	}
	op->ret_a = ret_version;
	op->call.flags = PT_NET_ONCE;
	op->call.reply = version_reply;
	commit.n_op = count;
	commit.op = op_pointer;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_COMMIT;
	q.meta_commit = &commit;
	pt_remote_send(op, &q);         /* packs it: nothing of the request is used later */
out:
	if (op_message != few_message)
		free(op_message);
	if (op_pointer != few_pointer)
		free(op_pointer);
}

/* ---- watch: in slices, each a request of its own, until there is news or the time is over ---- */

struct watch {
	struct pt_remote *remote;
	struct pt_done slice;           /* second: see watch_of() */
	struct pt_done *done;
	uint64_t seen, version;
	uint64_t *ret_version;
	int64_t until_ns;
};

static void watch_send(struct watch *w)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__MetaWatch watch = PTIO__WIRE__META_WATCH__INIT;
	int64_t left = w->until_ns - pt_time_boot_ns();
	struct pt_remote_op *op = pt_remote_op_get(w->remote, &w->slice);

	if (!op) {
		pt_done_call(&w->slice, pt_fail_nomem());
		return;
	}
	if (left < 0)
		left = 0;
	if (left > WATCH_SLICE_NS)
		left = WATCH_SLICE_NS;
	op->ret_a = &w->version;
	op->call.flags = PT_NET_RETRY;
	op->call.reply = version_reply;
	op->call.extra_ns = left;
	watch.seen = w->seen;
	watch.timeout_ns = (uint64_t)left;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_WATCH;
	q.meta_watch = &watch;
	pt_remote_send(op, &q);
}

static void watch_slice(struct pt_done *slice, int rc)
{
	struct watch *w = (struct watch *)((char *)slice - offsetof(struct watch, slice));
	struct pt_done *done = w->done;

	if (rc == 0 && w->version <= w->seen && pt_time_boot_ns() < w->until_ns) {
		watch_send(w);
		return;
	}
	if (rc == 0)
		*w->ret_version = w->version;
	free(w);
	pt_done_call(done, rc);
}

static void meta_watch(void *h, uint64_t seen, int64_t timeout_ns, uint64_t *ret_version, struct pt_done *done)
{
	struct watch *w = pt_calloc(1, sizeof(*w));

	if (!w) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	*w = (struct watch){ .remote = h, .slice = { .fn = watch_slice }, .done = done, .seen = seen, .ret_version = ret_version };
	w->until_ns = pt_time_boot_ns();
	if (__builtin_add_overflow(w->until_ns, timeout_ns, &w->until_ns))
		w->until_ns = INT64_MAX;
	watch_send(w);
}

/* ---- news: one watch, which ends with its connection ---- */

static bool meta_has_news(void *h)
{
	return ((struct pt_remote *)h)->session.watches;
}

static int news_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	pt_remote_mark((struct pt_remote_op *)call, p);
	return p->mark ? 0 : pt_fail(EOPNOTSUPP, "this daemon does not tell where its index is when somebody has committed");
}

static void meta_news(void *h, uint64_t seen, int64_t timeout_ns, struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__MetaWatch watch = PTIO__WIRE__META_WATCH__INIT;
	struct pt_remote_op *op = pt_remote_op_get(h, done);
	struct pt_remote *r = h;

	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	op->call.flags = PT_NET_ASIDE;
	op->call.reply = news_reply;
	op->call.extra_ns = timeout_ns + (r->timeout_ns > NEWS_LATE_NS ? NEWS_LATE_NS - r->timeout_ns : 0);
	watch.seen = seen;
	watch.timeout_ns = (uint64_t)timeout_ns;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_WATCH;
	q.meta_watch = &watch;
	pt_remote_send(op, &q);
}

static void meta_news_stop(void *h)
{
	pt_net_aside_stop(((struct pt_remote *)h)->client);
}

/* ---- the rest ---- */

static int space_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	struct pt_meta_space *space = ((struct pt_remote_op *)call)->ret_a;

	if (p->result_case != PTIO__WIRE__REPLY__RESULT_META_SPACE)
		return pt_remote_reply_bad();
	space->used_bytes = p->meta_space->used_bytes;
	space->free_bytes = p->meta_space->free_bytes;
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
	q.meta_space = &nothing;        /* the members of the union that are Nothing are one */
	pt_remote_send(op, &q);
}

static void meta_space(void *h, struct pt_meta_space *ret_space, struct pt_done *done)
{
	send_nothing(h, PTIO__WIRE__REQUEST__OP_META_SPACE, ret_space, space_reply, done);
}

static int mark_reply(struct pt_net_call *call, const Ptio__Wire__Reply *p)
{
	pt_remote_mark((struct pt_remote_op *)call, p);
	return 0;
}

static bool meta_marks(void *h)
{
	return ((struct pt_remote *)h)->session.marks;
}

static void meta_ask_mark(void *h, struct pt_done *done)
{
	send_nothing(h, PTIO__WIRE__REQUEST__OP_META_MARK, NULL, mark_reply, done);
}

static void meta_sync(void *h, struct pt_done *done)
{
	send_nothing(h, PTIO__WIRE__REQUEST__OP_META_SYNC, NULL, NULL, done);
}

static void meta_snapshot(void *h, int dirfd, const char *path, struct pt_done *done)
{
	(void)h, (void)dirfd, (void)path;
	pt_done_call(done, pt_fail(EOPNOTSUPP, "an index cannot be copied over the network; make the copy on the daemon's machine"));
}

#define REMOTE_META_OPS(is_durable) \
	{ \
		.size = sizeof(struct pt_meta_ops), .version = 1, .name = "remote", .durable = (is_durable), .close = remote_close, .get = meta_get, \
		.scan = meta_scan, .commit = meta_commit, .watch = meta_watch, .space = meta_space, .sync = meta_sync, .snapshot = meta_snapshot, \
		.look = meta_look, .looks_max = meta_looks_max, .marks = meta_marks, .ask_mark = meta_ask_mark, \
		.has_news = meta_has_news, .news = meta_news, .news_stop = meta_news_stop, \
	}

const struct pt_meta_ops pt_remote_meta_ops[2] = { REMOTE_META_OPS(false), REMOTE_META_OPS(true) };
