/* tools/ptiod/ops_data.c - what a worker does with a job; requests on blobs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "tools/ptiod/server.h"

#define MAP_MIN ((uint64_t)16 << 10)            /* shorter pieces are copied rather than mapped */
#define FRAME_ENTRIES 8192u                     /* of one frame of a list */

void reply_pack(struct job *job, Ptio__Wire__Reply *reply, uint64_t body_len)
{
	struct out *o = job->out;

	reply->id = job->request->id;
	pt_buf_reset(&o->frame);
	pt_wire_pack(&reply->base, body_len, &o->frame);
	o->bytes = o->frame.len + body_len;
	job->rc = pt_buf_failed(&o->frame) ? -ENOMEM : 0;
}

/* Without memory even for this, the connection is closed (job->rc). */
void reply_error(struct job *job, int rc)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	char sentence[PT_FAIL_SENTENCE_MAX];

	memcpy(sentence, pt_fail_sentence(), strlen(pt_fail_sentence()) + 1);
	reply.error = (uint32_t)-rc;
	reply.sentence = sentence;
	job->out->piece_count = 0;
	reply_pack(job, &reply, 0);
}

static struct pt_blob_ref ref_of(const ProtobufCBinaryData *blobs, uint32_t i)
{
	struct pt_blob_ref ref;
	uint8_t kind;

	pt_wire_blob_get(blobs, i, &kind, &ref.id);
	ref.kind = (enum pt_blob_kind)kind;
	return ref;
}

/* ---- read: large pieces from where the engine has them, if it lets one look; the others read into one buffer ---- */

struct reading {
	const Ptio__Wire__Read *q;
	struct out *out;
	struct pt_data_range *ranges;   /* into the buffer */
	uint32_t range_count;
	uint64_t total, buffered;
};

static int map_pieces(struct server *s, struct reading *r)
{
	bool can = true;

	for (size_t i = 0; i < r->q->n_blob; i++) {
		struct pt_blob_ref ref = ref_of(&r->q->blobs, r->q->blob[i]);
		struct iovec *piece = &r->out->pieces[i];
		const void *addr;
		void *map;
		int rc;

		r->total += r->q->len[i];
		piece->iov_len = r->q->len[i];
		if (can && r->q->len[i] >= MAP_MIN) {
			rc = pt_data_map(&s->store->data, &ref, r->q->off[i], r->q->len[i], &addr, &map);
			if (rc == 0) {
				piece->iov_base = (void *)addr;
				r->out->maps[r->out->map_count++] = map;
				continue;
			}
			if (rc != -EOPNOTSUPP)
				return rc;
			can = false;
		}
		r->ranges[r->range_count++] = (struct pt_data_range){ .blob = ref, .off = r->q->off[i], .len = r->q->len[i] };
		r->buffered += r->q->len[i];
	}
	return 0;
}

/* Where each range and each piece without memory is in the buffer: both are in the request's order. */
static void place(struct reading *r)
{
	uint8_t *at = r->out->buffer;
	uint32_t n = 0;

	for (size_t i = 0; i < r->q->n_blob; i++)
		if (!r->out->pieces[i].iov_base) {
			r->out->pieces[i].iov_base = at;
			r->ranges[n++].buf = at;
			at += r->out->pieces[i].iov_len;
		}
}

static void op_read(struct server *s, struct job *job)
{
	struct reading r = { .q = job->request->read, .out = job->out };
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	size_t n = r.q->n_blob;
	int rc = 0;

	r.out->pieces = pt_calloc(n, sizeof(*r.out->pieces));
	r.out->maps = pt_calloc(n, sizeof(*r.out->maps));
	r.ranges = pt_calloc(n, sizeof(*r.ranges));
	if (!r.out->pieces || !r.out->maps || !r.ranges)
		rc = pt_fail_nomem();
	if (rc == 0)
		rc = map_pieces(s, &r);
	if (rc == 0) {
		r.out->buffer = pt_malloc(r.buffered ? r.buffered : 1);
		if (!r.out->buffer)
			rc = pt_fail_nomem();
	}
	if (rc == 0) {
		place(&r);
		rc = pt_data_read(&s->store->data, r.ranges, r.range_count);
	}
	if (rc < 0) {
		reply_error(job, rc);
	} else {
		r.out->piece_count = (uint32_t)n;
		count(&s->counters.read_bytes, r.total);
		reply_pack(job, &reply, r.total);
	}
	free(r.ranges);
}

/* ---- the others ---- */

static void op_stat(struct server *s, struct job *job)
{
	struct pt_blob_ref ref = ref_of(&job->request->stat->blobs, 0);
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	int rc = pt_data_stat(&s->store->data, &ref, &reply.number);

	reply.result_case = PTIO__WIRE__REPLY__RESULT_NUMBER;
	if (rc < 0)
		reply_error(job, rc);
	else
		reply_pack(job, &reply, 0);
}

static void op_remove(struct server *s, struct job *job)
{
	struct pt_blob_ref ref = ref_of(&job->request->remove->blobs, 0);
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	int rc = pt_data_remove(&s->store->data, &ref);

	if (rc < 0)
		reply_error(job, rc);
	else
		reply_pack(job, &reply, 0);
}

struct listing {
	struct spool spool;
	size_t n;
	int64_t now_ns;
	uint8_t blobs[FRAME_ENTRIES * PT_WIRE_BLOB];
	uint64_t bytes[FRAME_ENTRIES];
	int64_t age_ns[FRAME_ENTRIES];
	uint32_t flags[FRAME_ENTRIES];
};

static void list_flush(struct listing *l, bool more)
{
	Ptio__Wire__Entries entries = PTIO__WIRE__ENTRIES__INIT;
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;

	entries.blobs = (ProtobufCBinaryData){ l->n * PT_WIRE_BLOB, l->blobs };
	entries.n_bytes = entries.n_age_ns = entries.n_flags = l->n;
	entries.bytes = l->bytes;
	entries.age_ns = l->age_ns;
	entries.flags = l->flags;
	reply.more = more;
	reply.result_case = PTIO__WIRE__REPLY__RESULT_ENTRIES;
	reply.entries = &entries;
	spool_frame(&l->spool, &reply);
	l->n = 0;
}

static int list_one(void *ctx, const struct pt_blob_ref *blob, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	struct listing *l = ctx;

	if (l->n == FRAME_ENTRIES)
		list_flush(l, true);
	pt_wire_blob_put(l->blobs + l->n * PT_WIRE_BLOB, (uint8_t)blob->kind, &blob->id);
	l->bytes[l->n] = bytes;
	l->age_ns[l->n] = l->now_ns - mtime_ns;
	l->flags[l->n++] = (staged ? 1u : 0) | (live ? 2u : 0);
	return l->spool.rc;
}

static void op_list(struct server *s, struct job *job)
{
	struct listing *l = pt_malloc(sizeof(*l));
	int rc;

	if (!l) {
		reply_error(job, pt_fail_nomem());
		return;
	}
	spool_init(&l->spool, job);
	l->n = 0;
	l->now_ns = pt_time_now_ns();
	rc = pt_data_list(&s->store->data, list_one, l);
	if (rc == 0)
		list_flush(l, false);
	spool_finish(&l->spool, rc);
	free(l);
}

static void op_pinned(struct server *s, struct job *job)
{
	const ProtobufCBinaryData *blobs = &job->request->pinned->blobs;
	uint32_t n = pt_wire_blob_count(blobs);
	struct pt_blob_ref *refs = pt_reallocarray(NULL, n, sizeof(*refs));
	bool *pinned = pt_calloc(n, sizeof(*pinned));
	uint8_t *flag = pt_malloc(n);
	Ptio__Wire__Flags flags = PTIO__WIRE__FLAGS__INIT;
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	int rc = refs && pinned && flag ? 0 : pt_fail_nomem();

	for (uint32_t i = 0; rc == 0 && i < n; i++)
		refs[i] = ref_of(blobs, i);
	if (rc == 0)
		rc = pt_data_pinned(&s->store->data, refs, n, pinned);
	if (rc < 0) {
		reply_error(job, rc);
	} else {
		for (uint32_t i = 0; i < n; i++)
			flag[i] = pinned[i];
		flags.flag = (ProtobufCBinaryData){ n, flag };
		reply.result_case = PTIO__WIRE__REPLY__RESULT_FLAGS;
		reply.flags = &flags;
		reply_pack(job, &reply, 0);
	}
	free(refs);
	free(pinned);
	free(flag);
}

static void op_space(struct server *s, struct job *job)
{
	Ptio__Wire__DataSpace d = PTIO__WIRE__DATA_SPACE__INIT;
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	struct pt_data_space space;
	int rc = pt_data_space(&s->store->data, &space);

	if (rc < 0) {
		reply_error(job, rc);
		return;
	}
	d.total_bytes = space.total_bytes;
	d.free_bytes = space.free_bytes;
	d.used_bytes = space.used_bytes;
	d.total_files = space.total_files;
	d.free_files = space.free_files;
	reply.result_case = PTIO__WIRE__REPLY__RESULT_DATA_SPACE;
	reply.data_space = &d;
	reply_pack(job, &reply, 0);
}

static void op_sync(struct server *s, struct job *job)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	int rc = pt_data_sync(&s->store->data);

	if (rc < 0)
		reply_error(job, rc);
	else
		reply_pack(job, &reply, 0);
}

static void op_sweep(struct server *s, struct job *job)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	int rc = pt_data_sweep(&s->store->data, &reply.number);

	reply.result_case = PTIO__WIRE__REPLY__RESULT_NUMBER;
	if (rc < 0)
		reply_error(job, rc);
	else
		reply_pack(job, &reply, 0);
}

void op_data(struct server *s, struct job *job)
{
	switch (job->request->op_case) {
	case PTIO__WIRE__REQUEST__OP_CREATE: upload_create(s, job); break;
	case PTIO__WIRE__REQUEST__OP_WRITE: upload_write(s, job); break;
	case PTIO__WIRE__REQUEST__OP_WINDOW: window_open(s, job); break;
	case PTIO__WIRE__REQUEST__OP_LANDED: window_landed(s, job); break;
	case PTIO__WIRE__REQUEST__OP_SEAL: upload_seal(s, job); break;
	case PTIO__WIRE__REQUEST__OP_ABORT: upload_abort(s, job); break;
	case PTIO__WIRE__REQUEST__OP_READ: op_read(s, job); break;
	case PTIO__WIRE__REQUEST__OP_STAT: op_stat(s, job); break;
	case PTIO__WIRE__REQUEST__OP_REMOVE: op_remove(s, job); break;
	case PTIO__WIRE__REQUEST__OP_LIST: op_list(s, job); break;
	case PTIO__WIRE__REQUEST__OP_PIN: session_pin(s, job); break;
	case PTIO__WIRE__REQUEST__OP_UNPIN: session_unpin(s, job); break;
	case PTIO__WIRE__REQUEST__OP_PINNED: op_pinned(s, job); break;
	case PTIO__WIRE__REQUEST__OP_LOCATE: span_locate(s, job); break;
	case PTIO__WIRE__REQUEST__OP_DATA_SPACE: op_space(s, job); break;
	case PTIO__WIRE__REQUEST__OP_DATA_SYNC: op_sync(s, job); break;
	case PTIO__WIRE__REQUEST__OP_SWEEP: op_sweep(s, job); break;
	default: reply_error(job, pt_fail(EOPNOTSUPP, "the daemon is older than this program and cannot do that; update it"));
	}
}

static bool is_change(Ptio__Wire__Request__OpCase op)
{
	return op == PTIO__WIRE__REQUEST__OP_META_COMMIT || op == PTIO__WIRE__REQUEST__OP_CREATE || op == PTIO__WIRE__REQUEST__OP_WRITE ||
	       op == PTIO__WIRE__REQUEST__OP_SEAL || op == PTIO__WIRE__REQUEST__OP_REMOVE || op == PTIO__WIRE__REQUEST__OP_SWEEP;
}

static void run_request(struct server *s, struct job *job)
{
	Ptio__Wire__Request__OpCase op = job->request->op_case;

	pt_fail_clear();
	if (s->options->read_only && is_change(op))
		reply_error(job, pt_fail(EROFS, "the daemon serves this store read-only"));
	else if ((op >= PTIO__WIRE__REQUEST__OP_META_GET && op <= PTIO__WIRE__REQUEST__OP_META_SYNC) || op == PTIO__WIRE__REQUEST__OP_META_LOOK || op == PTIO__WIRE__REQUEST__OP_META_MARK)
		op_meta(s, job);
	else
		op_data(s, job);
}

void job_run(struct server *s, struct job *job)
{
	switch (job->kind) {
	case JOB_REQUEST:
		if (job->request->op_case == PTIO__WIRE__REQUEST__OP_META_WATCH) {
			watch_add(s, job);
			return;
		}
		run_request(s, job);
		break;
	case JOB_DROP_UPLOADS:
		uploads_drop(s, job->conn);
		break;
	case JOB_DROP_PINS:
		pt_data_unpin(&s->store->data, job->refs, job->ref_count);
		break;
	}
	job_return(s, job);
}
