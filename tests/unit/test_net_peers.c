/* tests/unit/test_net_peers.c - who gets in, what they may cost, and what they learn: real daemons against peers that know the secret, and others. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "store/remote.h"
#include "store/store.h"
#include "unit/daemon.h"
#include "unit/raw_peer.h"
#include "unit/rng.h"
#include "unit/store_support.h"

static const char *const with_http[] = { "--http", "127.0.0.1:0", NULL };
static struct daemon d;
static const char *dir;
static struct pt_meta meta;
static struct pt_data data;

static void start(const char *store, const char *const *args)
{
	dir = dir_make();
	daemon_start(&d, dir, store, 0, args);
}

static int connect_with(const char *hosts, const char *secret_file, bool tls)
{
	struct pt_remote_options o = { .secret_file = secret_file, .tls = tls, .timeout_ns = 5000000000 };
	bool read_only;

	return pt_remote_open(hosts, &o, &meta, &data, &read_only);
}

static void disconnect(void)
{
	pt_meta_close(&meta);
	pt_data_close(&data);
}

static const char *other_secret(void)
{
	static char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s.run/other", dir);
	f = fopen(path, "w");
	MUST(f);
	fputs("another secret altogether\n", f);
	fclose(f);
	MUST(chmod(path, 0600) == 0);
	return path;
}

START_TEST(only_the_right_secret_opens)
{
	start("mem:1M", with_http);
	MUST_FAIL(EACCES, connect_with(d.hosts, other_secret(), false));
	MUST_FAIL(EACCES, connect_with(d.hosts, NULL, false));
	ck_assert_uint_eq(daemon_metric(&d, "auth_failures_total"), 1);
	ck_assert(daemon_log_has(&d, "was not let in: the secret is wrong"));
	ck_assert_uint_eq(daemon_metric(&d, "sessions"), 0);
	MUST_WORK(connect_with(d.hosts, daemon_secret(dir), false));
	ck_assert_uint_eq(daemon_metric(&d, "clients"), 1);
	disconnect();
	daemon_metric_wait(&d, "sessions", 0);
}
END_TEST

START_TEST(without_a_secret_only_loopback_is_served_and_only_on_request)
{
	static const char *const insecure[] = { "--insecure", NULL };
	struct pt_store_options o = { .secret_file = "" };
	struct pt_store *store;
	char command[900], uri[100];

	start("mem:1M", insecure);
	MUST_FAIL(EACCES, connect_with(d.hosts, daemon_secret(dir), false));
	snprintf(uri, sizeof(uri), "ptio://%s", d.hosts);
	MUST_WORK(pt_store_open(uri, &o, &store));
	ck_assert(!store->durable);
	pt_store_close(store);
	snprintf(command, sizeof(command), "%s/tools/ptiod/ptiod mem:1M --listen 0.0.0.0:0 --insecure 2>/dev/null", getenv("PTIO_BUILD") ? getenv("PTIO_BUILD") : ".");
	ck_assert_int_eq(WEXITSTATUS(system(command)), 1);
	snprintf(command, sizeof(command), "%s/tools/ptiod/ptiod mem:1M 2>/dev/null", getenv("PTIO_BUILD") ? getenv("PTIO_BUILD") : ".");
	ck_assert_int_eq(WEXITSTATUS(system(command)), 2);
}
END_TEST

START_TEST(a_stranger_learns_version_and_nonce_and_nothing_else)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Nothing nothing = PTIO__WIRE__NOTHING__INIT;
	Ptio__Wire__ServerHello *h;
	Ptio__Wire__ServerProof *p;
	struct raw r;

	start("mem:1M", with_http);
	raw_connect(&r, d.port);
	h = raw_hello(&r);
	ck_assert_uint_eq(h->version, PT_WIRE_VERSION);
	ck_assert(h->secret_wanted);
	p = raw_prove(&r, "not the secret at all");
	ck_assert_int_eq(p->error, EACCES);
	ck_assert_ptr_null(p->session);
	ck_assert_uint_eq(p->mac.len, 0);
	ck_assert_ptr_null(raw_recv(&r, &ptio__wire__reply__descriptor));
	raw_close(&r);
	/* Requests before or in place of a proof end the connection. */
	q.op_case = PTIO__WIRE__REQUEST__OP_LIST;
	q.list = &nothing;
	raw_connect(&r, d.port);
	raw_send(&r, &q.base, NULL, 0);
	ck_assert_ptr_null(raw_recv(&r, &ptio__wire__reply__descriptor));
	raw_close(&r);
	raw_connect(&r, d.port);
	raw_hello(&r);
	raw_send(&r, &q.base, NULL, 0);
	ck_assert_ptr_null(raw_recv(&r, &ptio__wire__reply__descriptor));
	raw_close(&r);
	ck_assert_uint_eq(daemon_metric(&d, "requests_total"), 0);
}
END_TEST

START_TEST(a_proof_that_was_overheard_opens_nothing)
{
	struct pt_secret secret = { .len = strlen(RAW_SECRET), .bytes = RAW_SECRET };
	Ptio__Wire__ClientHello hello = PTIO__WIRE__CLIENT_HELLO__INIT;
	Ptio__Wire__ClientProof proof = PTIO__WIRE__CLIENT_PROOF__INIT;
	Ptio__Wire__ServerProof *p;
	uint8_t mac[PT_WIRE_MAC];
	struct raw r, again;

	start("mem:1M", NULL);
	raw_login(&r, d.port);
	MUST_WORK(pt_auth_proof(&secret, &r.auth, PT_AUTH_CLIENT, mac));
	/* The same greeting, the same proof. */
	raw_connect(&again, d.port);
	hello.version_min = hello.version_max = PT_WIRE_VERSION;
	hello.nonce = (ProtobufCBinaryData){ PT_WIRE_NONCE, r.auth.client_nonce };
	raw_send(&again, &hello.base, NULL, 0);
	MUST(raw_recv(&again, &ptio__wire__server_hello__descriptor));
	proof.mac = (ProtobufCBinaryData){ sizeof(mac), mac };
	proof.session = (ProtobufCBinaryData){ 16, r.auth.session.b };
	raw_send(&again, &proof.base, NULL, 0);
	p = raw_recv(&again, &ptio__wire__server_proof__descriptor);
	ck_assert_int_eq(p->error, EACCES);
	raw_close(&again);
	raw_close(&r);
}
END_TEST

/* ---- false daemons ---- */

struct false_daemon {
	int listen_fd;
	uint16_t port;
	uint32_t version;
	uint64_t body_max;              /* 0: it wants a secret; else it says that it takes uploads by RDMA */
	pthread_t thread;
};

static void *impersonate(void *arg)
{
	struct false_daemon *f = arg;
	Ptio__Wire__ServerHello hello = PTIO__WIRE__SERVER_HELLO__INIT;
	Ptio__Wire__ServerProof proof = PTIO__WIRE__SERVER_PROOF__INIT;
	Ptio__Wire__Session session = PTIO__WIRE__SESSION__INIT;
	uint8_t nonce[PT_WIRE_NONCE] = { 1 }, mac[PT_WIRE_MAC] = { 2 };
	struct raw r = { .fd = accept(f->listen_fd, NULL, NULL) };

	raw_recv(&r, &ptio__wire__client_hello__descriptor);
	hello.version = f->version == PT_WIRE_VERSION ? f->version : 0;
	hello.version_own = f->version;
	hello.nonce = (ProtobufCBinaryData){ sizeof(nonce), nonce };
	hello.secret_wanted = !f->body_max;
	raw_send(&r, &hello.base, NULL, 0);
	if (raw_recv(&r, &ptio__wire__client_proof__descriptor)) {
		session.calls_max = 1;
		session.body_max = f->body_max ? f->body_max : PT_WIRE_BODY_MAX;
		session.bytes_max = PT_WIRE_BODY_MAX;
		if (f->body_max) {
			session.rdma_port = 1;
			session.rdma_token = (ProtobufCBinaryData){ 16, nonce };
			session.pieces_max = PT_WIRE_PIECES_MAX;
		}
		session.ranges_max = 1;
		session.lease_ttl_ns = 1000000000;
		proof.session = &session;
		proof.mac = (ProtobufCBinaryData){ sizeof(mac), mac };
		raw_send(&r, &proof.base, NULL, 0);
		raw_recv(&r, &ptio__wire__request__descriptor);
	}
	raw_close(&r);
	return NULL;
}

static void false_start(struct false_daemon *f, uint32_t version, char *ret_hosts)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sin);

	f->version = version;
	f->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(bind(f->listen_fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(f->listen_fd, 5) == 0);
	MUST(getsockname(f->listen_fd, (struct sockaddr *)&sin, &len) == 0);
	sprintf(ret_hosts, "127.0.0.1:%u", ntohs(sin.sin_port));
	pthread_create(&f->thread, NULL, impersonate, f);
}

static void false_stop(struct false_daemon *f)
{
	pthread_join(f->thread, NULL);
	close(f->listen_fd);
}

START_TEST(a_daemon_that_does_not_know_the_secret_is_not_believed)
{
	struct false_daemon f = { 0 };
	char hosts[64];

	dir = dir_make();
	false_start(&f, PT_WIRE_VERSION, hosts);
	MUST_FAIL(EACCES, connect_with(hosts, daemon_secret(dir), false));
	false_stop(&f);
}
END_TEST

/* An upload's slot that cannot be written to a piece goes in one message. */
START_TEST(without_messages_as_large_as_a_piece_there_are_no_pieces)
{
	static const uint64_t body_max[] = { PT_WIRE_BODY_MAX, PT_WIRE_BODY_MAX / 2 };
	struct pt_net_options o = { .timeout_ns = 20 * INT64_C(1000000000) };
	struct pt_net_session session;
	struct pt_net_client *client;
	char hosts[64];

	for (int i = 0; i < 2; i++) {
		struct false_daemon f = { .body_max = body_max[i] };

		false_start(&f, PT_WIRE_VERSION, hosts);
		o.hosts = hosts;
		MUST_WORK(pt_net_client_open(&o, &client));
		pt_net_session(client, &session);
		pt_net_client_close(client);
		false_stop(&f);
		ck_assert_uint_eq(session.body_max, body_max[i]);
		ck_assert_uint_eq(session.pieces_max, i ? 0 : PT_WIRE_PIECES_MAX);
	}
}
END_TEST

START_TEST(another_version_is_refused_by_name_on_both_sides)
{
	Ptio__Wire__ClientHello hello = PTIO__WIRE__CLIENT_HELLO__INIT;
	Ptio__Wire__ServerHello *h;
	uint8_t nonce[PT_WIRE_NONCE] = { 3 };
	struct false_daemon f = { 0 };
	char hosts[64];
	struct raw r;

	start("mem:1M", NULL);
	false_start(&f, 9, hosts);
	MUST_FAIL(EIO, connect_with(hosts, daemon_secret(dir), false));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "version 9"));
	false_stop(&f);
	raw_connect(&r, d.port);
	hello.version_min = 2;
	hello.version_max = 9;
	hello.nonce = (ProtobufCBinaryData){ sizeof(nonce), nonce };
	raw_send(&r, &hello.base, NULL, 0);
	h = raw_recv(&r, &ptio__wire__server_hello__descriptor);
	ck_assert_uint_eq(h->version, 0);
	ck_assert_uint_eq(h->version_own, PT_WIRE_VERSION);
	ck_assert_ptr_null(raw_recv(&r, &ptio__wire__server_hello__descriptor));
	raw_close(&r);
	ck_assert(daemon_log_has(&d, "was not let in: it speaks another version"));
}
END_TEST

START_TEST(a_newer_client_with_this_version_among_its_own_is_served)
{
	Ptio__Wire__ClientHello hello = PTIO__WIRE__CLIENT_HELLO__INIT;
	Ptio__Wire__ServerHello *h;
	uint8_t nonce[PT_WIRE_NONCE] = { 3 };
	struct raw r;

	start("mem:1M", NULL);
	raw_connect(&r, d.port);
	hello.version_min = 1;
	hello.version_max = 9;
	hello.nonce = (ProtobufCBinaryData){ sizeof(nonce), nonce };
	raw_send(&r, &hello.base, NULL, 0);
	h = raw_recv(&r, &ptio__wire__server_hello__descriptor);
	ck_assert_uint_eq(h->version, PT_WIRE_VERSION);
	raw_close(&r);
}
END_TEST

/* ---- noise, crowds ---- */

static void must_serve(void)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	char got[5];

	MUST_WORK(connect_with(d.hosts, daemon_secret(dir), false));
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	ck_assert_mem_eq(got, "bytes", 5);
	disconnect();
}

START_TEST(who_is_one_too_many_is_told_and_so_is_the_log)
{
	static const char *const few[] = { "--max-clients", "1", NULL };
	struct raw r;

	start("mem:1M", few);
	raw_login(&r, d.port);
	MUST_FAIL(EIO, connect_with(d.hosts, daemon_secret(dir), false));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "raise its max-clients"));
	ck_assert(daemon_log_has(&d, "was not let in: the daemon serves as many clients as it may"));
	raw_close(&r);
}
END_TEST

START_TEST(noise_ends_its_connection_and_nothing_else)
{
	struct rng rng = { rng_seed(4) };
	uint8_t noise[3000];
	struct raw r;

	start("mem:1M", NULL);
	for (int i = 0; i < 60; i++) {
		size_t len = rng_between(&rng, 1, sizeof(noise));

		pattern_fill(noise, sizeof(noise), (uint64_t)i);
		if (i % 3 == 1)
			memcpy(noise, "PTIO", 4);
		if (i % 3 == 2 && len > 16) {
			memcpy(noise, "PTIO", 4);
			pt_put_le32(noise + 4, (uint32_t)(len - 16) % 1024);
			pt_put_le64(noise + 8, 0);
		}
		/* Some before the greeting, some as a client that is trusted. */
		if (i % 2)
			raw_connect(&r, d.port);
		else
			raw_login(&r, d.port);
		send(r.fd, noise, len, MSG_NOSIGNAL);
		raw_close(&r);
	}
	must_serve();
}
END_TEST

START_TEST(two_hundred_clients_may_connect_and_vanish)
{
	static struct raw r[200];
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__MetaWatch watch = PTIO__WIRE__META_WATCH__INIT;

	start("mem:1M", with_http);
	watch.timeout_ns = 1000000000000;
	watch.seen = 1000000;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_WATCH;
	q.meta_watch = &watch;
	for (int i = 0; i < 200; i++) {
		if (i % 3 == 0) {
			raw_connect(&r[i], d.port);
		} else if (i % 3 == 1) {
			raw_connect(&r[i], d.port);
			raw_hello(&r[i]);
		} else {
			raw_login(&r[i], d.port);
			q.id = 1;
			raw_send(&r[i], &q.base, NULL, 0);
		}
	}
	ck_assert_uint_eq(daemon_metric(&d, "clients"), 66);
	for (int i = 0; i < 200; i++)
		i % 2 ? raw_reset(&r[i]) : raw_close(&r[i]);
	daemon_metric_wait(&d, "clients", 0);
	daemon_metric_wait(&d, "requests_running", 0);
	must_serve();
}
END_TEST

START_TEST(strangers_that_stay_do_not_keep_clients_out)
{
	static struct raw r[400];

	start("mem:1M", with_http);
	for (int i = 0; i < 400; i++)
		raw_connect(&r[i], d.port);
	must_serve();
	ck_assert_uint_ge(daemon_metric(&d, "refused_total"), 144);
	for (int i = 0; i < 400; i++)
		raw_close(&r[i]);
}
END_TEST

static uint64_t resident_kib(pid_t pid)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	MUST(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmHWM: %lu", &kib);
	fclose(f);
	return kib;
}

START_TEST(a_peer_that_takes_nothing_stops_only_itself_and_costs_bounded_memory)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Read read = PTIO__WIRE__READ__INIT;
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	uint8_t *bytes = malloc(1 << 20), blob[PT_WIRE_BLOB];
	uint32_t index[1] = { 0 };
	uint64_t off[1] = { 0 }, len[1] = { 1 << 20 }, before;
	struct raw slow;

	start(NULL, with_http);
	MUST_WORK(connect_with(d.hosts, daemon_secret(dir), false));
	pattern_fill(bytes, 1 << 20, 1);
	MUST_WORK(blob_put(&data, &ref, bytes, 1 << 20));
	MUST_WORK(blob_get(&data, &ref, bytes, 1 << 20, 0));
	before = resident_kib(d.pid);
	raw_login(&slow, d.port);
	pt_wire_blob_put(blob, (uint8_t)ref.kind, &ref.id);
	read.blobs = (ProtobufCBinaryData){ sizeof(blob), blob };
	read.n_blob = read.n_off = read.n_len = 1;
	read.blob = index;
	read.off = off;
	read.len = len;
	q.op_case = PTIO__WIRE__REQUEST__OP_READ;
	q.read = &read;
	for (q.id = 1; q.id <= 1000; q.id++) {
		struct pt_buf frame = PT_BUF_INIT;

		pt_wire_pack(&q.base, 0, &frame);
		MUST(send(slow.fd, frame.data, frame.len, MSG_NOSIGNAL | MSG_DONTWAIT) != 0);
		pt_buf_done(&frame);
	}
	for (int i = 0; i < 50; i++)
		MUST_WORK(blob_get(&data, &ref, bytes, 1 << 20, 0));
#if !defined(PT_SANITIZED)
	ck_assert_uint_lt(resident_kib(d.pid), before + (80 << 10));
#else
	(void)before;
#endif
	raw_close(&slow);
	disconnect();
	free(bytes);
}
END_TEST

START_TEST(a_daemon_with_memory_has_some_ready_as_it_was_told)
{
	static const char *const none[] = { "--reserve", "0", NULL }, *const some[] = { "--reserve", "32M", NULL };
	uint64_t without;

	start("mem:256M", none);
	without = resident_kib(d.pid);
	MUST(WIFEXITED(daemon_stop(&d, SIGTERM)));
	start("mem:256M", some);
	while (resident_kib(d.pid) < without / 2 + (32 << 10))
		usleep(1000);
	MUST(WIFEXITED(daemon_stop(&d, SIGTERM)));
}
END_TEST

/* ---- uploads ---- */

static void upload_and_hang(void *ctx, int pipe_fd)
{
	uint8_t bytes[100000] = { 1 };
	struct pt_blob_ref ref;
	void *blob;

	(void)ctx;
	CHILD_MUST(pt_id_random(&ref.id) == 0);
	ref.kind = PT_BLOB_TENSOR;
	CHILD_MUST(connect_with(d.hosts, daemon_secret(dir), false) == 0);
	CHILD_MUST(pt_data_create(&data, &ref, 1000000, &blob) == 0);
	CHILD_MUST(pt_data_write(&data, blob, bytes, sizeof(bytes), 0) == 0);
	CHILD_MUST(write(pipe_fd, "r", 1) == 1);
	pause();
}

START_TEST(the_upload_of_a_client_that_died_leaves_nothing)
{
	struct pt_data_space space;
	int pipe_fd;
	char ready;
	pid_t pid;

	start(_i ? NULL : "mem:1M", with_http);
	pid = child_start(upload_and_hang, NULL, &pipe_fd);
	MUST(read(pipe_fd, &ready, 1) == 1);
	ck_assert_uint_eq(daemon_metric(&d, "uploads"), 1);
	child_kill(pid);
	daemon_metric_wait(&d, "uploads", 0);
	MUST_WORK(connect_with(d.hosts, daemon_secret(dir), false));
	MUST_WORK(pt_data_space(&data, &space));
	if (!_i)
		ck_assert_uint_eq(space.used_bytes, 0);
	disconnect();
}
END_TEST

START_TEST(a_byte_damaged_on_its_way_into_an_upload_is_refused)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Create create = PTIO__WIRE__CREATE__INIT;
	Ptio__Wire__Write write_message = PTIO__WIRE__WRITE__INIT;
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	uint8_t blob[PT_WIRE_BLOB];
	Ptio__Wire__Reply *p;
	struct raw r;

	start("mem:1M", NULL);
	raw_login(&r, d.port);
	pt_wire_blob_put(blob, (uint8_t)ref.kind, &ref.id);
	create.upload = 5;
	create.blob = (ProtobufCBinaryData){ sizeof(blob), blob };
	q.id = 1;
	q.op_case = PTIO__WIRE__REQUEST__OP_CREATE;
	q.create = &create;
	raw_send(&r, &q.base, NULL, 0);
	p = raw_recv(&r, &ptio__wire__reply__descriptor);
	ck_assert_uint_eq(p->error, 0);
	q.id = 2;
	write_message.upload = 5;
	write_message.xxh3 = 12345;
	q.op_case = PTIO__WIRE__REQUEST__OP_WRITE;
	q.write = &write_message;
	raw_send(&r, &q.base, "bytes", 5);
	p = raw_recv(&r, &ptio__wire__reply__descriptor);
	ck_assert_uint_eq(p->error, EIO);
	raw_close(&r);
}
END_TEST

/* ---- TLS ---- */

START_TEST(tls_wants_the_secret_and_carries_everything)
{
	static const char *const tls[] = { "--tls", NULL };
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	size_t len = (5 << 20) + 77;
	uint8_t *bytes = malloc(len), *got = malloc(len);
	struct pt_net_status status;

	start(_i ? NULL : "mem:16M", tls);
	MUST_FAIL(EIO, connect_with(d.hosts, daemon_secret(dir), false));
	MUST_FAIL(EIO, connect_with(d.hosts, other_secret(), true));
	MUST_WORK(connect_with(d.hosts, daemon_secret(dir), true));
	ck_assert(pt_remote_status(&data, &status));
	ck_assert_str_eq(status.transport, "tcp+tls");
	pattern_fill(bytes, len, 3);
	MUST_WORK(blob_put(&data, &ref, bytes, len));
	MUST_WORK(blob_get(&data, &ref, got, len, 0));
	ck_assert(memcmp(bytes, got, len) == 0);
	for (int i = 0; i < 3000; i++) {
		char key[16];

		snprintf(key, sizeof(key), "k%d", i);
		MUST_WORK(meta_put(&meta, key, bytes, 2000, NULL));
	}
	ck_assert_uint_eq(meta_count(&meta), 3000);
	disconnect();
	free(bytes);
	free(got);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("peers");

	tcase_add_test(tcase, only_the_right_secret_opens);
	tcase_add_test(tcase, without_a_secret_only_loopback_is_served_and_only_on_request);
	tcase_add_test(tcase, a_stranger_learns_version_and_nonce_and_nothing_else);
	tcase_add_test(tcase, a_proof_that_was_overheard_opens_nothing);
	tcase_add_test(tcase, a_daemon_that_does_not_know_the_secret_is_not_believed);
	tcase_add_test(tcase, without_messages_as_large_as_a_piece_there_are_no_pieces);
	tcase_add_test(tcase, another_version_is_refused_by_name_on_both_sides);
	tcase_add_test(tcase, a_newer_client_with_this_version_among_its_own_is_served);
	tcase_add_test(tcase, who_is_one_too_many_is_told_and_so_is_the_log);
	tcase_add_test(tcase, noise_ends_its_connection_and_nothing_else);
	tcase_add_test(tcase, two_hundred_clients_may_connect_and_vanish);
	tcase_add_test(tcase, strangers_that_stay_do_not_keep_clients_out);
	tcase_add_test(tcase, a_peer_that_takes_nothing_stops_only_itself_and_costs_bounded_memory);
	tcase_add_test(tcase, a_daemon_with_memory_has_some_ready_as_it_was_told);
	tcase_add_loop_test(tcase, the_upload_of_a_client_that_died_leaves_nothing, 0, 2);
	tcase_add_test(tcase, a_byte_damaged_on_its_way_into_an_upload_is_refused);
	tcase_add_loop_test(tcase, tls_wants_the_secret_and_carries_everything, 0, 2);
	return run_suite("net: peers", &tcase, 1);
}
