/* tests/vm/test_rdma_write.c - uploads by RDMA between two soft-RoCE devices: a real ptiod at 10.77.0.1, this process at 10.77.0.2. Runs in tests/vm/vm
 * only. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "net/rdma.h"
#include "store/remote.h"
#include "unit/daemon.h"
#include "unit/raw_peer.h"
#include "unit/rng.h"
#include "unit/store_support.h"

#define MIB ((size_t)1 << 20)

static struct daemon d;
static const char *dir;
static struct pt_meta meta;
static struct pt_data data;
static char hosts[64];

static void daemon_at(const char *store, const char *const *more)
{
	const char *args[16] = { "--listen", "10.77.0.1:0", "--http", "127.0.0.1:0" };
	int n = 4;

	while (more && *more)
		args[n++] = *more++;
	dir = dir_make();
	daemon_start_first(&d, dir, store, args);
	snprintf(hosts, sizeof(hosts), "10.77.0.1:%u", d.port);
}

static int try_open(int transport, const char *bind_to)
{
	struct pt_remote_options o = { .secret_file = daemon_secret(dir), .timeout_ns = 30000000000, .rdma_bind = bind_to };
	bool read_only;

	o.transport = transport;
	return pt_remote_open(hosts, &o, &meta, &data, &read_only);
}

static void start(const char *store, const char *const *more)
{
	daemon_at(store, more);
	MUST_WORK(try_open(PT_REMOTE_RDMA, "10.77.0.2"));
}

static void stop(void)
{
	pt_meta_close(&meta);
	pt_data_close(&data);
}

static struct pt_remote_rdma_status status(void)
{
	struct pt_remote_rdma_status s = { .connected = false };

	(void)pt_remote_rdma_info(&data, &s);
	return s;
}

/* No upload holds anything of the daemon's any more. */
static void nothing_is_held(void)
{
	daemon_metric_wait(&d, "uploads", 0);
	daemon_metric_wait(&d, "upload_windows", 0);
	daemon_metric_wait(&d, "upload_memory_free_bytes", daemon_metric(&d, "upload_memory_bytes"));
}

START_TEST(uploads_go_by_rdma_and_are_right)
{
	static const size_t sizes[] = { 1, 65535, 65536, 100003, MIB, MIB + 3, 5 * MIB + 70000 };
	struct pt_remote_rdma_status before, after;
	uint8_t *bytes = malloc(6 * MIB), *got = malloc(6 * MIB);
	uint64_t by_rdma = 0;

	start(_i ? NULL : "mem:64M", NULL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
		size_t tail = sizes[i] % MIB;

		pattern_fill(bytes, sizes[i], i);
		before = status();
		MUST_WORK(blob_put(&data, &ref, bytes, sizes[i]));
		after = status();
		/* Short ends go by message. */
		ck_assert_uint_eq(after.bytes_written - before.bytes_written, sizes[i] - (tail < 65536 ? tail : 0));
		by_rdma += after.bytes_written - before.bytes_written;
		memset(got, 0, sizes[i]);
		MUST_WORK(blob_get(&data, &ref, got, sizes[i], 0));
		ck_assert(memcmp(bytes, got, sizes[i]) == 0);
	}
	ck_assert_uint_eq(status().write_fallbacks, 0);
	ck_assert_uint_eq(daemon_metric(&d, "landed_bytes_total"), by_rdma);
	nothing_is_held();
	stop();
	free(bytes);
	free(got);
}
END_TEST

struct writer {
	pthread_t thread;
	struct pt_blob_ref ref;
	uint8_t *bytes;
	size_t len;
	int rc;
};

/* In pieces of many sizes, out of order. */
static void *write_one(void *arg)
{
	struct writer *w = arg;
	struct rng r = { rng_seed(w->bytes[0]) };
	size_t cut[64], n = 0, at;
	void *blob;

	for (at = 0; at < w->len && n < 63; n++) {
		cut[n] = at;
		at += rng_between(&r, 1, 300000);
	}
	cut[n] = w->len;
	w->rc = pt_data_create(&data, &w->ref, w->ref.id.b[0] & 1 ? w->len : 0, &blob);
	for (size_t i = 0; w->rc == 0 && i < n; i++) {
		size_t k = i ^ 1 ? (i ^ 1) < n ? i ^ 1 : i : 0;

		w->rc = pt_data_write(&data, blob, w->bytes + cut[k], cut[k + 1] - cut[k], cut[k]);
	}
	if (w->rc == 0)
		w->rc = pt_data_seal(&data, blob, w->len);
	return NULL;
}

START_TEST(many_uploads_at_once_are_right)
{
	struct writer w[6];
	uint8_t *got = malloc(4 * MIB);

	start("mem:64M", NULL);
	for (size_t i = 0; i < 6; i++) {
		w[i] = (struct writer){ .ref = blob_new(PT_BLOB_PLAIN), .bytes = malloc(4 * MIB), .len = MIB + i * 300001 };
		pattern_fill(w[i].bytes, w[i].len, i);
		MUST(pthread_create(&w[i].thread, NULL, write_one, &w[i]) == 0);
	}
	for (size_t i = 0; i < 6; i++) {
		pthread_join(w[i].thread, NULL);
		ck_assert_int_eq(w[i].rc, 0);
		MUST_WORK(blob_get(&data, &w[i].ref, got, w[i].len, 0));
		ck_assert(memcmp(got, w[i].bytes, w[i].len) == 0);
		free(w[i].bytes);
	}
	ck_assert_uint_gt(status().bytes_written, 0);
	ck_assert_uint_eq(status().write_fallbacks, 0);
	nothing_is_held();
	stop();
	free(got);
}
END_TEST

/* ---- a client that does what it likes ---- */

struct hostile {
	struct raw raw;
	struct pt_rdma *rdma;
	void *region;
	uint32_t key;                   /* of bytes */
	uint8_t *bytes;
	uint64_t next_id;
};

static void hostile_start(struct hostile *h)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a4d0001) } }, from = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a4d0002) } };
	Ptio__Wire__ServerProof *p;

	memset(h, 0, sizeof(*h));
	sin.sin_port = htons(d.port);
	h->raw.fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(connect(h->raw.fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	raw_hello(&h->raw);
	p = raw_prove(&h->raw, RAW_SECRET);
	MUST(p && p->session && p->session->pieces_max > 0);
	MUST_WORK(pt_rdma_connect((struct sockaddr *)&sin, sizeof(sin), (struct sockaddr *)&from, p->session->rdma_token.data, 5000000000, &h->rdma));
	h->bytes = calloc(1, 2 * MIB);
	MUST_WORK(pt_rdma_register(h->rdma, h->bytes, 2 * MIB, &h->region, &h->key));
}

static void hostile_stop(struct hostile *h)
{
	pt_rdma_unregister(h->region);
	pt_rdma_close(h->rdma);
	raw_close(&h->raw);
	free(h->bytes);
}

static const Ptio__Wire__Reply *ask(struct hostile *h, Ptio__Wire__Request *q)
{
	const Ptio__Wire__Reply *p;

	q->id = ++h->next_id;
	raw_send(&h->raw, &q->base, NULL, 0);
	p = raw_recv(&h->raw, &ptio__wire__reply__descriptor);
	MUST(p && p->id == q->id);
	return p;
}

static struct pt_blob_ref create(struct hostile *h, uint64_t upload, uint64_t bytes)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Create c = PTIO__WIRE__CREATE__INIT;
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	uint8_t blob[PT_WIRE_BLOB];

	pt_wire_blob_put(blob, (uint8_t)ref.kind, &ref.id);
	c.upload = upload;
	c.size_hint = bytes;
	c.blob = (ProtobufCBinaryData){ sizeof(blob), blob };
	q.op_case = PTIO__WIRE__REQUEST__OP_CREATE;
	q.create = &c;
	ck_assert_uint_eq(ask(h, &q)->error, 0);
	return ref;
}

static const Ptio__Wire__Reply *window_ask(struct hostile *h, uint64_t upload)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Window w = PTIO__WIRE__WINDOW__INIT;

	w.upload = upload;
	w.pieces = 1;
	q.op_case = PTIO__WIRE__REQUEST__OP_WINDOW;
	q.window = &w;
	return ask(h, &q);
}

static uint32_t window_error(struct hostile *h, uint64_t upload)
{
	return window_ask(h, upload)->error;
}

/* One piece of memory. */
static struct pt_rdma_put window(struct hostile *h, uint64_t upload, uint32_t *ret_piece)
{
	const Ptio__Wire__Reply *p = window_ask(h, upload);

	ck_assert_uint_eq(p->error, 0);
	ck_assert_uint_eq(p->result_case, PTIO__WIRE__REPLY__RESULT_PIECES);
	ck_assert_uint_eq(p->pieces->n_piece, 1);
	*ret_piece = p->pieces->piece[0];
	return (struct pt_rdma_put){ .buf = h->bytes, .len = p->pieces->bytes[0], .key = h->key, .addr = p->pieces->addr[0], .remote_key = p->pieces->key[0] };
}

static uint32_t landed(struct hostile *h, uint64_t upload, uint32_t piece, uint64_t len, uint64_t xxh3)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Landed l = PTIO__WIRE__LANDED__INIT;

	l.upload = upload;
	l.piece = piece;
	l.len = len;
	l.xxh3 = xxh3;
	q.op_case = PTIO__WIRE__REQUEST__OP_LANDED;
	q.landed = &l;
	return ask(h, &q)->error;
}

static uint32_t seal(struct hostile *h, uint64_t upload, uint64_t bytes)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Seal s = PTIO__WIRE__SEAL__INIT;

	s.upload = upload;
	s.bytes = bytes;
	q.op_case = PTIO__WIRE__REQUEST__OP_SEAL;
	q.seal = &s;
	return ask(h, &q)->error;
}

static uint32_t give_up(struct hostile *h, uint64_t upload)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Abort a = PTIO__WIRE__ABORT__INIT;

	a.upload = upload;
	q.op_case = PTIO__WIRE__REQUEST__OP_ABORT;
	q.abort = &a;
	return ask(h, &q)->error;
}

static int put(struct hostile *h, const struct pt_rdma_put *w)
{
	return pt_rdma_write(h->rdma, w, 1, pt_time_boot_ns() + 5000000000);
}

static void is_refused(struct hostile *h, const struct pt_rdma_put *w)
{
	MUST_FAIL(EIO, put(h, w));
	if (!strstr(pt_fail_sentence(), "remote access error"))
		ck_abort_msg("refused, but not for its access: %s", pt_fail_sentence());
}

enum late { AFTER_LANDING, AFTER_THE_SEAL, WHILE_SEALED_UNLANDED, AFTER_AN_ABORT, AFTER_THE_SEAL_ON_DISK, LATES };

/* Whenever a window is not open any more, writing there with its key is an access error, and what was sealed is what was sealed. */
START_TEST(a_late_write_is_an_access_error_and_changes_nothing)
{
	uint8_t *got = malloc(MIB), *want = malloc(MIB);
	struct pt_blob_ref ref;
	struct pt_rdma_put w;
	struct hostile h;
	uint32_t piece;

	start(_i == AFTER_THE_SEAL_ON_DISK ? NULL : "mem:16M", NULL);
	hostile_start(&h);
	ref = create(&h, 1, MIB);
	w = window(&h, 1, &piece);
	ck_assert_uint_eq(w.len, MIB);
	pattern_fill(h.bytes, MIB, 7);
	memcpy(want, h.bytes, MIB);
	MUST_WORK(put(&h, &w));
	MUST_WORK(put(&h, &w));
	switch (_i) {
	case AFTER_LANDING:
		ck_assert_uint_eq(landed(&h, 1, piece, MIB, pt_hash64(want, MIB)), 0);
		memset(h.bytes, 0xee, MIB);
		is_refused(&h, &w);
		ck_assert_uint_eq(seal(&h, 1, MIB), 0);
		break;
	case AFTER_THE_SEAL:
	case AFTER_THE_SEAL_ON_DISK:
		ck_assert_uint_eq(landed(&h, 1, piece, MIB, pt_hash64(want, MIB)), 0);
		ck_assert_uint_eq(seal(&h, 1, MIB), 0);
		memset(h.bytes, 0xee, MIB);
		is_refused(&h, &w);
		break;
	case WHILE_SEALED_UNLANDED:
		memset(want, 0, MIB);
		ck_assert_uint_eq(seal(&h, 1, MIB), 0);
		memset(h.bytes, 0xee, MIB);
		is_refused(&h, &w);
		break;
	default:
		ck_assert_uint_eq(give_up(&h, 1), 0);
		is_refused(&h, &w);
	}
	if (_i == AFTER_AN_ABORT) {
		MUST_FAIL(ENOENT, blob_get(&data, &ref, got, MIB, 0));
	} else {
		MUST_WORK(blob_get(&data, &ref, got, MIB, 0));
		ck_assert(memcmp(got, want, MIB) == 0);
	}
	nothing_is_held();
	hostile_stop(&h);
	stop();
	free(got);
	free(want);
}
END_TEST

/* The span is for reading, an upload's piece for writing, and neither for more. */
START_TEST(a_window_opens_its_piece_and_nothing_else)
{
	static const char *const small[] = { "--arena", "4M", NULL };
	uint8_t got[4096];
	struct pt_rdma_put w;
	struct hostile h;
	uint32_t piece;

	start("mem:16M", small);
	for (int i = 0; i < 2; i++) {
		hostile_start(&h);
		create(&h, 1, 8192);
		w = window(&h, 1, &piece);
		/* Of the declared size, and not more. */
		ck_assert_uint_eq(w.len, 8192);
		MUST_WORK(put(&h, &w));
		w.addr += i ? 4096 : 0;
		w.len += i ? 0 : 1;
		is_refused(&h, &w);
		hostile_stop(&h);
		nothing_is_held();
	}
	/* Another client's read of the memory behind a window: the window's key is not for reading, the span's does not reach there. */
	hostile_start(&h);
	create(&h, 1, 8192);
	w = window(&h, 1, &piece);
	MUST_WORK(put(&h, &w));
	{
		struct pt_rdma_range range = { .remote = pt_rdma_span(h.rdma), .len = sizeof(got), .buf = got };

		MUST_FAIL(EIO, pt_rdma_read(h.rdma, &range, 1, pt_time_boot_ns() + 5000000000));
	}
	hostile_stop(&h);
	nothing_is_held();
	stop();
}
END_TEST

/* However many uploads a client has, it leaves half of the memory to others. */
START_TEST(a_client_gets_half_of_the_memory_for_uploads)
{
	static const char *const arena[] = { "--arena", "32M", NULL };
	uint8_t *bytes = malloc(2 * MIB);
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	struct hostile h;
	uint64_t total;
	uint32_t piece;

	start("mem:64M", arena);
	hostile_start(&h);
	total = daemon_metric(&d, "upload_memory_bytes");
	ck_assert_uint_eq(total, 8 * MIB);
	for (uint64_t upload = 1; upload <= 4; upload++) {
		create(&h, upload, 8 * MIB);
		window(&h, upload, &piece);
	}
	create(&h, 5, 8 * MIB);
	ck_assert_uint_eq(window_error(&h, 5), ENOSPC);
	ck_assert_uint_eq(daemon_metric(&d, "upload_memory_free_bytes"), total / 2);
	pattern_fill(bytes, 2 * MIB, 5);
	MUST_WORK(blob_put(&data, &ref, bytes, 2 * MIB));
	ck_assert_uint_eq(status().bytes_written, 2 * MIB);
	/* What it gives back it gets again. */
	ck_assert_uint_eq(give_up(&h, 1), 0);
	window(&h, 5, &piece);
	ck_assert_uint_eq(window_error(&h, 5), ENOSPC);
	hostile_stop(&h);
	nothing_is_held();
	stop();
	free(bytes);
}
END_TEST

START_TEST(pieces_that_make_no_sense_are_refused)
{
	struct pt_rdma_put w;
	struct hostile h;
	uint32_t piece;

	start("mem:16M", NULL);
	hostile_start(&h);
	create(&h, 1, 3 * MIB);
	/* None was given. */
	ck_assert_uint_eq(landed(&h, 1, 0, 100, 0), EINVAL);
	ck_assert_uint_eq(landed(&h, 1, 15, 100, 0), EINVAL);
	ck_assert_uint_eq(landed(&h, 2, 0, 100, 0), EIO);
	/* Damaged on the way. */
	w = window(&h, 1, &piece);
	MUST_WORK(put(&h, &w));
	ck_assert_uint_eq(landed(&h, 1, piece, MIB, pt_hash64(h.bytes, MIB) ^ 1), EIO);
	/* The same once more: it is the daemon's since. */
	ck_assert_uint_eq(landed(&h, 1, piece, MIB, pt_hash64(h.bytes, MIB)), EINVAL);
	ck_assert_uint_eq(give_up(&h, 1), 0);
	create(&h, 3, 8192);
	w = window(&h, 3, &piece);
	ck_assert_uint_eq(landed(&h, 3, piece, 8193, 0), EINVAL);
	ck_assert_uint_eq(give_up(&h, 3), 0);
	nothing_is_held();
	hostile_stop(&h);
	stop();
}
END_TEST

/* ---- ends ---- */

static void write_and_wait(void *ctx, int pipe_fd)
{
	uint8_t *bytes = malloc(2 * MIB);
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	void *blob;

	(void)ctx;
	pattern_fill(bytes, 2 * MIB, 1);
	CHILD_MUST(try_open(PT_REMOTE_RDMA, "10.77.0.2") == 0);
	CHILD_MUST(pt_data_create(&data, &ref, 8 * MIB, &blob) == 0);
	CHILD_MUST(pt_data_write(&data, blob, bytes, 2 * MIB, 0) == 0);
	CHILD_MUST(write(pipe_fd, "x", 1) == 1);
	for (;;)
		pause();
}

START_TEST(the_memory_of_a_client_that_died_comes_back)
{
	static const char *const small[] = { "--arena", "4M", NULL };
	struct pt_data_space space;
	pid_t child;
	char c;
	int fd;

	daemon_at("mem:16M", small);
	for (int i = 0; i < 3; i++) {
		child = child_start(write_and_wait, NULL, &fd);
		MUST(read(fd, &c, 1) == 1);
		ck_assert_uint_eq(daemon_metric(&d, "uploads"), 1);
		ck_assert_uint_lt(daemon_metric(&d, "upload_memory_free_bytes"), daemon_metric(&d, "upload_memory_bytes"));
		child_kill(child);
		close(fd);
		nothing_is_held();
	}
	MUST_WORK(try_open(PT_REMOTE_RDMA, "10.77.0.2"));
	MUST_WORK(pt_data_space(&data, &space));
	ck_assert_uint_eq(space.used_bytes, 0);
	stop();
}
END_TEST

/* Two pieces are all that there is: who gets none writes by messages. */
START_TEST(without_memory_for_windows_and_with_more_than_the_arena_uploads_work)
{
	static const char *const small[] = { "--arena", "4M", NULL };
	uint8_t *bytes = malloc(6 * MIB), *got = malloc(6 * MIB);
	struct pt_blob_ref ref[3];
	void *blob[3];

	start(NULL, small);
	pattern_fill(bytes, 6 * MIB, 3);
	ck_assert_uint_eq(daemon_metric(&d, "upload_memory_bytes"), 2 * MIB);
	for (int i = 0; i < 3; i++) {
		ref[i] = blob_new(PT_BLOB_PLAIN);
		MUST_WORK(pt_data_create(&data, &ref[i], 6 * MIB, &blob[i]));
		MUST_WORK(pt_data_write(&data, blob[i], bytes, 3 * MIB, 0));
	}
	for (int i = 0; i < 3; i++) {
		MUST_WORK(pt_data_write(&data, blob[i], bytes + 3 * MIB, 3 * MIB, 3 * MIB));
		MUST_WORK(pt_data_seal(&data, blob[i], 6 * MIB));
		memset(got, 0, 6 * MIB);
		MUST_WORK(blob_get(&data, &ref[i], got, 6 * MIB, 0));
		ck_assert(memcmp(bytes, got, 6 * MIB) == 0);
	}
	ck_assert_uint_eq(status().bytes_written, 6 * MIB);
	ck_assert_uint_eq(status().write_fallbacks, 0);
	nothing_is_held();
	stop();
	free(bytes);
	free(got);
}
END_TEST

START_TEST(an_upload_that_found_no_memory_asks_again)
{
	static const char *const small[] = { "--arena", "4M", NULL };
	uint8_t *bytes = malloc(8 * MIB), *got = malloc(8 * MIB);
	struct pt_blob_ref ref[2] = { blob_new(PT_BLOB_PLAIN), blob_new(PT_BLOB_PLAIN) };
	void *blob[2];

	start("mem:32M", small);
	pattern_fill(bytes, 8 * MIB, 3);
	MUST_WORK(pt_data_create(&data, &ref[0], 8 * MIB, &blob[0]));
	MUST_WORK(pt_data_write(&data, blob[0], bytes, 2 * MIB, 0));
	MUST_WORK(pt_data_create(&data, &ref[1], 8 * MIB, &blob[1]));
	MUST_WORK(pt_data_write(&data, blob[1], bytes, 4 * MIB, 0));
	MUST_WORK(pt_data_seal(&data, blob[0], 2 * MIB));
	ck_assert_uint_eq(status().bytes_written, 2 * MIB);
	MUST_WORK(pt_data_write(&data, blob[1], bytes + 4 * MIB, 4 * MIB, 4 * MIB));
	MUST_WORK(pt_data_seal(&data, blob[1], 8 * MIB));
	ck_assert_uint_eq(status().bytes_written, 6 * MIB);
	MUST_WORK(blob_get(&data, &ref[1], got, 8 * MIB, 0));
	ck_assert(memcmp(bytes, got, 8 * MIB) == 0);
	nothing_is_held();
	stop();
	free(bytes);
	free(got);
}
END_TEST

/* What a piece came to is known by the seal at the latest. */
START_TEST(a_full_store_is_ENOSPC_and_takes_objects_again_when_some_are_gone)
{
	struct pt_blob_ref ref[2] = { blob_new(PT_BLOB_PLAIN), blob_new(PT_BLOB_PLAIN) };
	uint8_t *bytes = calloc(1, 6 * MIB), *got = malloc(6 * MIB);
	void *blob;
	int rc;

	start("mem:8M", NULL);
	pattern_fill(bytes, 6 * MIB, 3);
	MUST_WORK(blob_put(&data, &ref[0], bytes, 6 * MIB));
	MUST_WORK(pt_data_pin(&data, &ref[0], 1));
	/* The size is not told, so the bytes are what is refused. */
	MUST_WORK(pt_data_create(&data, &ref[1], 0, &blob));
	rc = pt_data_write(&data, blob, bytes, 6 * MIB, 0);
	if (rc == 0)
		rc = pt_data_seal(&data, blob, 6 * MIB);
	else
		pt_data_abort(&data, blob);
	ck_assert_int_eq(rc, -ENOSPC);
	nothing_is_held();
	MUST_FAIL(ENOSPC, pt_data_create(&data, &ref[1], 6 * MIB, &blob));
	pt_data_unpin(&data, &ref[0], 1);
	MUST_WORK(pt_data_remove(&data, &ref[0]));
	MUST_WORK(blob_put(&data, &ref[1], bytes, 6 * MIB));
	MUST_WORK(blob_get(&data, &ref[1], got, 6 * MIB, 0));
	ck_assert(memcmp(bytes, got, 6 * MIB) == 0);
	stop();
	free(bytes);
	free(got);
}
END_TEST

/* Packets of the second device are lost, but not those of TCP, which go by loopback here. */
#define CABLE "$(cat /sys/class/infiniband/rxe1/ports/1/gid_attrs/ndevs/0)"

START_TEST(an_upload_whose_writes_do_not_get_through_goes_on_by_messages)
{
	uint8_t *bytes = malloc(5 * MIB), *got = malloc(5 * MIB);
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	uint64_t before;
	void *blob;

	start("mem:64M", NULL);
	pattern_fill(bytes, 5 * MIB, 3);
	MUST_WORK(pt_data_create(&data, &ref, 5 * MIB, &blob));
	MUST_WORK(pt_data_write(&data, blob, bytes, MIB, 0));
	for (int i = 0; i < 3000 && status().bytes_written < MIB; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	before = status().bytes_written;
	ck_assert_uint_eq(before, MIB);
	MUST(system("tc qdisc add dev " CABLE " root netem loss 100%") == 0);
	MUST_WORK(pt_data_write(&data, blob, bytes + MIB, 3 * MIB, MIB));
	for (int i = 0; i < 3000 && status().write_fallbacks < 3; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	ck_assert_uint_eq(status().write_fallbacks, 3);
	MUST(system("tc qdisc del dev " CABLE " root") == 0);
	MUST_WORK(pt_data_write(&data, blob, bytes + 4 * MIB, MIB, 4 * MIB));
	MUST_WORK(pt_data_seal(&data, blob, 5 * MIB));
	MUST_WORK(blob_get(&data, &ref, got, 5 * MIB, 0));
	ck_assert(memcmp(bytes, got, 5 * MIB) == 0);
	nothing_is_held();
	/* And RDMA is back in time. */
	for (int i = 0; i < 300 && !status().connected; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
		MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	}
	before = status().bytes_written;
	ref = blob_new(PT_BLOB_PLAIN);
	MUST_WORK(blob_put(&data, &ref, bytes, MIB));
	ck_assert_uint_eq(status().bytes_written, before + MIB);
	stop();
	free(bytes);
	free(got);
}
END_TEST

/* ---- ptio:// ---- */

static void put_and_get(void)
{
	uint8_t *bytes = malloc(3 * MIB), *got = malloc(3 * MIB);
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);

	pattern_fill(bytes, 3 * MIB, 11);
	MUST_WORK(blob_put(&data, &ref, bytes, 3 * MIB));
	MUST_WORK(blob_get(&data, &ref, got, 3 * MIB, 0));
	ck_assert(memcmp(bytes, got, 3 * MIB) == 0);
	free(bytes);
	free(got);
}

START_TEST(ptio_takes_rdma_where_both_ends_have_a_device)
{
	daemon_at("mem:16M", NULL);
	MUST_WORK(try_open(PT_REMOTE_AUTO, "10.77.0.2"));
	ck_assert(status().connected);
	put_and_get();
	ck_assert_uint_eq(status().bytes_read, 3 * MIB);
	ck_assert_uint_eq(status().bytes_written, 3 * MIB);
	ck_assert_uint_eq(daemon_metric(&d, "read_bytes_total"), 0);
	stop();
}
END_TEST

START_TEST(ptio_takes_tcp_where_rdma_does_not_work)
{
	static const char *const no[] = { "--rdma", "no", NULL };

	/* The daemon has none; or a connection from this side comes to nothing. */
	daemon_at("mem:16M", _i ? NULL : no);
	MUST_WORK(try_open(PT_REMOTE_AUTO, _i ? "192.0.2.1" : "10.77.0.2"));
	ck_assert(!status().connected);
	put_and_get();
	ck_assert_uint_eq(daemon_metric(&d, "read_bytes_total"), 3 * MIB);
	ck_assert_uint_eq(daemon_metric(&d, "written_bytes_total"), 3 * MIB);
	if (_i)
		ck_assert_uint_eq(daemon_metric(&d, "landed_bytes_total"), 0);
	stop();
	/* rdma:// insists. */
	ck_assert_int_lt(try_open(PT_REMOTE_RDMA, _i ? "192.0.2.1" : "10.77.0.2"), 0);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("rdma writes");

	tcase_add_loop_test(tcase, uploads_go_by_rdma_and_are_right, 0, 2);
	tcase_add_test(tcase, many_uploads_at_once_are_right);
	tcase_add_loop_test(tcase, a_late_write_is_an_access_error_and_changes_nothing, 0, LATES);
	tcase_add_test(tcase, a_window_opens_its_piece_and_nothing_else);
	tcase_add_test(tcase, a_client_gets_half_of_the_memory_for_uploads);
	tcase_add_test(tcase, pieces_that_make_no_sense_are_refused);
	tcase_add_test(tcase, the_memory_of_a_client_that_died_comes_back);
	tcase_add_test(tcase, without_memory_for_windows_and_with_more_than_the_arena_uploads_work);
	tcase_add_test(tcase, an_upload_that_found_no_memory_asks_again);
	tcase_add_test(tcase, a_full_store_is_ENOSPC_and_takes_objects_again_when_some_are_gone);
	tcase_add_test(tcase, an_upload_whose_writes_do_not_get_through_goes_on_by_messages);
	tcase_add_test(tcase, ptio_takes_rdma_where_both_ends_have_a_device);
	tcase_add_loop_test(tcase, ptio_takes_tcp_where_rdma_does_not_work, 0, 2);
	return run_suite("vm: rdma writes", &tcase, 1);
}
