/* tools/ptiod/ops_meta.c - requests on the index, on a worker. The store's checked calls look at keys and sizes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tools/ptiod/server.h"

#define FRAME_RECORDS 4096u                     /* of one frame of a scan, and its bytes */
#define FRAME_BYTES (512u << 10)

static void op_get(struct server *s, struct job *job)
{
	const Ptio__Wire__MetaGet *get = job->request->meta_get;
	Ptio__Wire__MetaRecords records = PTIO__WIRE__META_RECORDS__INIT;
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	ProtobufCBinaryData value[PT_WIRE_KEYS_MAX];
	struct pt_buf buf[PT_WIRE_KEYS_MAX];
	uint64_t version[PT_WIRE_KEYS_MAX], bytes = 0;
	struct mark mark;
	int rc = 0;

	mark_take(s, &mark);
	memset(buf, 0, get->n_key * sizeof(buf[0]));
	for (size_t i = 0; rc == 0 && i < get->n_key; i++) {
		rc = pt_meta_get(&s->store->meta, get->key[i].data, get->key[i].len, &buf[i], &version[i]);
		value[i] = (ProtobufCBinaryData){ version[i] ? buf[i].len : 0, buf[i].data };
		bytes += value[i].len;
		if (rc == 0 && bytes > PT_META_VALUE_MAX)
			rc = pt_fail(E2BIG, "these records are too large to ask for at once; ask for fewer");
	}
	if (rc < 0) {
		reply_error(job, rc);
	} else {
		records.n_value = records.n_version = get->n_key;
		records.value = value;
		records.version = version;
		reply.result_case = PTIO__WIRE__REPLY__RESULT_RECORDS;
		reply.records = &records;
		mark_put_held(s, &mark, &reply);
		reply_pack(job, &reply, 0);
	}
	for (size_t i = 0; i < get->n_key; i++)
		pt_buf_done(&buf[i]);
}

/* One frame's records gather here. */
struct scan {
	struct spool spool;
	struct pt_buf bytes;
	size_t n;
	size_t key_at[FRAME_RECORDS], key_len[FRAME_RECORDS], value_len[FRAME_RECORDS];
	ProtobufCBinaryData key[FRAME_RECORDS], value[FRAME_RECORDS];
	uint64_t version[FRAME_RECORDS];
};

/* mark: at which all of it was taken; NULL: more comes. */
static void scan_flush(struct scan *sc, struct server *s, struct mark *mark)
{
	Ptio__Wire__MetaRecords records = PTIO__WIRE__META_RECORDS__INIT;
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;

	for (size_t i = 0; i < sc->n; i++) {
		sc->key[i] = (ProtobufCBinaryData){ sc->key_len[i], sc->bytes.data + sc->key_at[i] };
		sc->value[i] = (ProtobufCBinaryData){ sc->value_len[i], sc->bytes.data + sc->key_at[i] + sc->key_len[i] };
	}
	records.n_key = records.n_value = records.n_version = sc->n;
	records.key = sc->key;
	records.value = sc->value;
	records.version = sc->version;
	reply.more = !mark;
	if (mark)
		mark_put_held(s, mark, &reply);
	reply.result_case = PTIO__WIRE__REPLY__RESULT_RECORDS;
	reply.records = &records;
	spool_frame(&sc->spool, &reply);
	pt_buf_reset(&sc->bytes);
	sc->n = 0;
}

static int scan_one(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct scan *sc = ctx;

	if (sc->n == FRAME_RECORDS || (sc->n && sc->bytes.len + key_len + value_len > FRAME_BYTES))
		scan_flush(sc, NULL, NULL);
	sc->key_at[sc->n] = sc->bytes.len;
	sc->key_len[sc->n] = key_len;
	sc->value_len[sc->n] = value_len;
	sc->version[sc->n++] = version;
	pt_buf_append(&sc->bytes, key, key_len);
	pt_buf_append(&sc->bytes, value, value_len);
	if (pt_buf_failed(&sc->bytes))
		return pt_fail_nomem();
	return sc->spool.rc;
}

static void op_scan(struct server *s, struct job *job)
{
	const Ptio__Wire__MetaScan *q = job->request->meta_scan;
	struct scan *sc = pt_calloc(1, sizeof(*sc));
	struct mark mark;
	int rc;

	if (!sc) {
		reply_error(job, pt_fail_nomem());
		return;
	}
	spool_init(&sc->spool, job);
	mark_take(s, &mark);
	rc = pt_meta_scan(&s->store->meta, q->start.data, q->start.len, q->end.data, q->end.len, q->limit, scan_one, sc);
	if (rc == 0)
		scan_flush(sc, s, &mark);
	spool_finish(&sc->spool, rc);
	pt_buf_done(&sc->bytes);
	free(sc);
}

/* In order, so that whoever asks for two things may rely on which is looked at first. */
static void op_look(struct server *s, struct job *job)
{
	const Ptio__Wire__MetaLook *q = job->request->meta_look;
	struct scan *sc = pt_calloc(1, sizeof(*sc));
	struct pt_buf value = PT_BUF_INIT;
	struct mark mark;
	uint64_t version;
	int rc = 0;

	if (!sc) {
		reply_error(job, pt_fail_nomem());
		return;
	}
	spool_init(&sc->spool, job);
	mark_take(s, &mark);
	for (size_t i = 0; rc == 0 && i < q->n_key; i++) {
		const ProtobufCBinaryData *key = &q->key[i];

		if (q->begins.data[i]) {
			rc = pt_meta_scan_prefix(&s->store->meta, key->data, key->len, q->limit, scan_one, sc);
			continue;
		}
		rc = pt_meta_get(&s->store->meta, key->data, key->len, &value, &version);
		if (rc == 0 && version)
			rc = scan_one(sc, key->data, key->len, value.data, value.len, version);
	}
	if (rc == 0)
		scan_flush(sc, s, &mark);
	spool_finish(&sc->spool, rc);
	pt_buf_done(&value);
	pt_buf_done(&sc->bytes);
	free(sc);
}

static void op_commit(struct server *s, struct job *job)
{
	const Ptio__Wire__MetaCommit *q = job->request->meta_commit;
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	struct pt_meta_op few[PT_META_BATCH_MAX] = { { .kind = PT_META_COMPARE } }, *op = few;
	struct mark mark;
	int rc;

	if (q->n_op > PT_META_BATCH_MAX)
		op = pt_reallocarray(NULL, q->n_op, sizeof(*op));
	if (!op) {
		reply_error(job, pt_fail_nomem());
		return;
	}
	for (size_t i = 0; i < q->n_op; i++)
		op[i] = (struct pt_meta_op){ .kind = (enum pt_meta_op_kind)q->op[i]->kind, .key = { q->op[i]->key.data, q->op[i]->key.len },
					     .version = q->op[i]->version, .value = q->op[i]->value.data, .value_len = q->op[i]->value.len };
	rc = pt_meta_commit(&s->store->meta, op, q->n_op, &reply.version);
	if (op != few)
		free(op);
	if (rc < 0) {
		reply_error(job, rc);
		return;
	}
	reply.result_case = PTIO__WIRE__REPLY__RESULT_VERSION;
	mark_take(s, &mark);
	mark_put(&mark, &reply);
	reply_pack(job, &reply, 0);
}

static void op_space(struct server *s, struct job *job)
{
	Ptio__Wire__MetaSpace m = PTIO__WIRE__META_SPACE__INIT;
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	struct pt_meta_space space;
	int rc = pt_meta_space(&s->store->meta, &space);

	if (rc < 0) {
		reply_error(job, rc);
		return;
	}
	m.used_bytes = space.used_bytes;
	m.free_bytes = space.free_bytes;
	reply.result_case = PTIO__WIRE__REPLY__RESULT_META_SPACE;
	reply.meta_space = &m;
	reply_pack(job, &reply, 0);
}

static void op_mark(struct server *s, struct job *job)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	struct mark mark;

	mark_take(s, &mark);
	mark_put(&mark, &reply);
	reply_pack(job, &reply, 0);
}

static void op_sync(struct server *s, struct job *job)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	int rc = pt_meta_sync(&s->store->meta);

	if (rc < 0)
		reply_error(job, rc);
	else
		reply_pack(job, &reply, 0);
}

void op_meta(struct server *s, struct job *job)
{
	switch (job->request->op_case) {
	case PTIO__WIRE__REQUEST__OP_META_GET: op_get(s, job); break;
	case PTIO__WIRE__REQUEST__OP_META_SCAN: op_scan(s, job); break;
	case PTIO__WIRE__REQUEST__OP_META_LOOK: op_look(s, job); break;
	case PTIO__WIRE__REQUEST__OP_META_COMMIT: op_commit(s, job); break;
	case PTIO__WIRE__REQUEST__OP_META_SPACE: op_space(s, job); break;
	case PTIO__WIRE__REQUEST__OP_META_MARK: op_mark(s, job); break;
	default: op_sync(s, job);
	}
}
