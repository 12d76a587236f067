/* tests/unit/test_net_wire.c - frames and messages: what is packed comes back, and nonsense is refused; proofs; addresses. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/addr.h"
#include "net/auth.h"
#include "net/wire.h"
#include "unit/store_support.h"

static uint8_t blob[PT_WIRE_BLOB] = { 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9 };

static int unpack_check(const struct pt_buf *frame, uint64_t body_len)
{
	struct pt_wire_arena arena;
	struct pt_wire_header h;
	Ptio__Wire__Request *q;
	int rc;

	MUST_WORK(pt_wire_header_decode(frame->data, PT_WIRE_MESSAGE_MAX, &h));
	MUST(h.message_len == frame->len - PT_WIRE_HEADER && h.body_len == body_len);
	pt_wire_arena_init(&arena, h.message_len, PT_WIRE_ARENA_EXTRA);
	q = pt_wire_unpack(&ptio__wire__request__descriptor, frame->data + PT_WIRE_HEADER, h.message_len, &arena);
	MUST(q);
	rc = pt_wire_request_check(q, body_len);
	pt_wire_arena_done(&arena);
	return rc;
}

START_TEST(a_request_comes_back_as_it_was_packed)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT, *got;
	Ptio__Wire__MetaCommit commit = PTIO__WIRE__META_COMMIT__INIT;
	Ptio__Wire__MetaOp op = PTIO__WIRE__META_OP__INIT, *ops[2] = { &op, &op };
	struct pt_buf frame = PT_BUF_INIT;
	struct pt_wire_arena arena;

	q.id = 77;
	op.kind = 1;
	op.key = (ProtobufCBinaryData){ 3, (uint8_t *)"key" };
	op.value = (ProtobufCBinaryData){ 5, (uint8_t *)"value" };
	commit.n_op = 2;
	commit.op = ops;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_COMMIT;
	q.meta_commit = &commit;
	pt_wire_pack(&q.base, 0, &frame);
	MUST_WORK(unpack_check(&frame, 0));
	pt_wire_arena_init(&arena, frame.len, PT_WIRE_ARENA_EXTRA);
	got = pt_wire_unpack(&ptio__wire__request__descriptor, frame.data + PT_WIRE_HEADER, frame.len - PT_WIRE_HEADER, &arena);
	ck_assert_uint_eq(got->id, 77);
	ck_assert_uint_eq(got->meta_commit->n_op, 2);
	ck_assert_mem_eq(got->meta_commit->op[1]->value.data, "value", 5);
	pt_wire_arena_done(&arena);
	pt_buf_done(&frame);
}
END_TEST

START_TEST(headers_beyond_the_limits_are_refused)
{
	uint8_t bytes[PT_WIRE_HEADER];
	struct pt_wire_header h = { .message_len = 1000 }, got;

	pt_wire_header_encode(&h, bytes);
	MUST_WORK(pt_wire_header_decode(bytes, 1000, &got));
	MUST_FAIL(EPROTO, pt_wire_header_decode(bytes, 999, &got));
	h.body_len = PT_WIRE_BODY_MAX + 1;
	pt_wire_header_encode(&h, bytes);
	MUST_FAIL(EPROTO, pt_wire_header_decode(bytes, 1000, &got));
	bytes[0] = 0x16;        /* as TLS begins */
	MUST_FAIL(EPROTO, pt_wire_header_decode(bytes, 1000, &got));
}
END_TEST

static int read_rc(uint32_t n, uint32_t index, uint64_t off, uint64_t len, size_t blobs_len)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Read read = PTIO__WIRE__READ__INIT;
	uint32_t blob_index[2] = { 0, index };
	uint64_t offs[2] = { 0, off }, lens[2] = { 1, len };
	struct pt_buf frame = PT_BUF_INIT;
	int rc;

	read.blobs = (ProtobufCBinaryData){ blobs_len, blob };
	read.n_blob = read.n_off = 2;
	read.n_len = n;
	read.blob = blob_index;
	read.off = offs;
	read.len = lens;
	q.op_case = PTIO__WIRE__REQUEST__OP_READ;
	q.read = &read;
	pt_wire_pack(&q.base, 0, &frame);
	rc = unpack_check(&frame, 0);
	pt_buf_done(&frame);
	return rc;
}

START_TEST(requests_that_make_no_sense_are_refused)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Write write = PTIO__WIRE__WRITE__INIT;
	Ptio__Wire__MetaGet get = PTIO__WIRE__META_GET__INIT;
	Ptio__Wire__Blobs blobs = PTIO__WIRE__BLOBS__INIT;
	Ptio__Wire__MetaLook look = PTIO__WIRE__META_LOOK__INIT;
	ProtobufCBinaryData look_key = { PT_WIRE_BEGINS_MIN - 1, (uint8_t *)"123456789" };
	uint8_t look_begins = 0;

	look.n_key = 1;
	look.key = &look_key;
	look.begins = (ProtobufCBinaryData){ 1, &look_begins };
	MUST_WORK(read_rc(2, 0, 5, 100, sizeof(blob)));
	MUST_FAIL(EPROTO, read_rc(1, 0, 5, 100, sizeof(blob)));
	MUST_FAIL(EPROTO, read_rc(2, 1, 5, 100, sizeof(blob)));
	MUST_FAIL(EPROTO, read_rc(2, 0, UINT64_MAX, 100, sizeof(blob)));
	MUST_FAIL(EPROTO, read_rc(2, 0, 0, PT_WIRE_BODY_MAX, sizeof(blob)));
	MUST_FAIL(EPROTO, read_rc(2, 0, 0, 1, sizeof(blob) - 1));
	MUST_FAIL(EPROTO, read_rc(2, 0, 0, 1, 0));
	q.op_case = PTIO__WIRE__REQUEST__OP_WRITE;
	q.write = &write;
	MUST_WORK(pt_wire_request_check(&q, 1));
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	write.off = INT64_MAX;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 1));
	q.op_case = PTIO__WIRE__REQUEST__OP_META_GET;
	q.meta_get = &get;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	get.n_key = PT_WIRE_KEYS_MAX + 1;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	get.n_key = 1;
	MUST_WORK(pt_wire_request_check(&q, 0));
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 9));
	q.op_case = PTIO__WIRE__REQUEST__OP_META_LOOK;
	q.meta_look = &look;
	MUST_WORK(pt_wire_request_check(&q, 0));
	look_begins = 1;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	look_key.len = PT_WIRE_BEGINS_MIN;
	MUST_WORK(pt_wire_request_check(&q, 0));
	look_begins = 2;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	q.op_case = PTIO__WIRE__REQUEST__OP_STAT;
	q.stat = &blobs;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	blobs.blobs = (ProtobufCBinaryData){ sizeof(blob), blob };
	MUST_WORK(pt_wire_request_check(&q, 0));
	blob[0] = 3;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	blob[0] = 1;
}
END_TEST

START_TEST(a_mark_names_who_tells_it_and_a_version)
{
	Ptio__Wire__Mark mark = PTIO__WIRE__MARK__INIT;
	Ptio__Wire__Reply p = PTIO__WIRE__REPLY__INIT;
	uint8_t instance[PT_WIRE_INSTANCE + 1] = { 1 };

	MUST_WORK(pt_wire_reply_check(&p, 0));
	p.mark = &mark;
	MUST_FAIL(EPROTO, pt_wire_reply_check(&p, 0));
	mark.instance = (ProtobufCBinaryData){ PT_WIRE_INSTANCE, instance };
	MUST_FAIL(EPROTO, pt_wire_reply_check(&p, 0));
	mark.version = 1;
	MUST_WORK(pt_wire_reply_check(&p, 0));
	mark.instance.len++;
	MUST_FAIL(EPROTO, pt_wire_reply_check(&p, 0));
	mark.instance.len -= 2;
	MUST_FAIL(EPROTO, pt_wire_reply_check(&p, 0));
}
END_TEST

static int pieces_rc(size_t n_addr, uint32_t piece, uint64_t addr, uint64_t bytes)
{
	Ptio__Wire__Pieces pieces = PTIO__WIRE__PIECES__INIT;
	Ptio__Wire__Reply p = PTIO__WIRE__REPLY__INIT;
	uint32_t numbers[2] = { 0, piece }, keys[2] = { 1, 2 };
	uint64_t addrs[2] = { 4096, addr }, lens[2] = { 4096, bytes };

	pieces.n_piece = pieces.n_bytes = pieces.n_key = 2;
	pieces.n_addr = n_addr;
	pieces.piece = numbers;
	pieces.addr = addrs;
	pieces.bytes = lens;
	pieces.key = keys;
	p.result_case = PTIO__WIRE__REPLY__RESULT_PIECES;
	p.pieces = &pieces;
	return pt_wire_reply_check(&p, 0);
}

START_TEST(pieces_of_memory_that_make_no_sense_are_refused)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Landed landed = PTIO__WIRE__LANDED__INIT;
	Ptio__Wire__Window window = PTIO__WIRE__WINDOW__INIT;

	MUST_WORK(pieces_rc(2, 15, 1 << 20, PT_WIRE_BODY_MAX));
	MUST_FAIL(EPROTO, pieces_rc(1, 15, 1 << 20, 4096));
	MUST_FAIL(EPROTO, pieces_rc(2, 16, 1 << 20, 4096));
	MUST_FAIL(EPROTO, pieces_rc(2, 15, UINT64_MAX - 4095, 4097));
	MUST_FAIL(EPROTO, pieces_rc(2, 15, 1 << 20, PT_WIRE_BODY_MAX + 1));
	MUST_FAIL(EPROTO, pieces_rc(2, 15, 1 << 20, 0));
	q.op_case = PTIO__WIRE__REQUEST__OP_WINDOW;
	q.window = &window;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	window.pieces = PT_WIRE_PIECES_MAX + 1;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	window.pieces = PT_WIRE_PIECES_MAX;
	MUST_WORK(pt_wire_request_check(&q, 0));
	q.op_case = PTIO__WIRE__REQUEST__OP_LANDED;
	q.landed = &landed;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	landed.len = PT_WIRE_BODY_MAX;
	MUST_WORK(pt_wire_request_check(&q, 0));
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 1));
	landed.piece = PT_WIRE_PIECES_MAX;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	landed.piece = 0;
	landed.off = INT64_MAX;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
	landed.off = 0;
	landed.len++;
	MUST_FAIL(EPROTO, pt_wire_request_check(&q, 0));
}
END_TEST

START_TEST(a_message_cannot_make_its_reader_allocate_without_bound)
{
	/* Two bytes each: empty operations of a commit. */
	size_t n = 4 << 20;
	uint8_t *bytes = malloc(n + 16);
	struct pt_wire_arena arena;
	size_t at = 0, inner = n;

	bytes[at++] = 4 << 3 | 2;       /* meta_commit, length */
	for (; inner >= 128; inner >>= 7)
		bytes[at++] = (uint8_t)(inner | 128);
	bytes[at++] = (uint8_t)inner;
	for (size_t i = 0; i < n; i += 2) {
		bytes[at + i] = 1 << 3 | 2;
		bytes[at + i + 1] = 0;
	}
	pt_wire_arena_init(&arena, n, PT_WIRE_ARENA_EXTRA);
	ck_assert_ptr_null(pt_wire_unpack(&ptio__wire__request__descriptor, bytes, at + n, &arena));
	pt_wire_arena_done(&arena);
	free(bytes);
}
END_TEST

START_TEST(each_failed_allocation_of_a_reader_is_a_refusal)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT, *got = NULL;
	Ptio__Wire__MetaGet get = PTIO__WIRE__META_GET__INIT;
	ProtobufCBinaryData keys[8];
	struct pt_buf frame = PT_BUF_INIT;
	struct pt_wire_arena arena;
	int n;

	for (int i = 0; i < 8; i++)
		keys[i] = (ProtobufCBinaryData){ 4000, calloc(1, 4000) };
	get.n_key = 8;
	get.key = keys;
	q.op_case = PTIO__WIRE__REQUEST__OP_META_GET;
	q.meta_get = &get;
	pt_wire_pack(&q.base, 0, &frame);
	for (n = 0; !got; n++) {
		pt_wire_arena_init(&arena, frame.len, PT_WIRE_ARENA_EXTRA);
		pt_alloc_fail_after(n);
		got = pt_wire_unpack(&ptio__wire__request__descriptor, frame.data + PT_WIRE_HEADER, frame.len - PT_WIRE_HEADER, &arena);
		pt_alloc_fail_after(-1);
		pt_wire_arena_done(&arena);
	}
	ck_assert_int_gt(n, 5);
	for (int i = 0; i < 8; i++)
		free(keys[i].data);
	pt_buf_done(&frame);
}
END_TEST

START_TEST(a_proof_is_good_for_one_connection_and_direction)
{
	struct pt_secret secret = { .len = 16, .bytes = "0123456789abcdef" }, other = { .len = 16, .bytes = "0123456789abcdeF" };
	struct pt_auth auth = { .version = 1 }, a2;
	uint8_t mac[PT_WIRE_MAC];

	MUST_WORK(pt_random_bytes(auth.client_nonce, 32));
	MUST_WORK(pt_random_bytes(auth.server_nonce, 32));
	MUST_WORK(pt_id_random(&auth.session));
	MUST_WORK(pt_auth_proof(&secret, &auth, PT_AUTH_CLIENT, mac));
	ck_assert(pt_auth_proof_ok(&secret, &auth, PT_AUTH_CLIENT, mac, sizeof(mac)));
	ck_assert(!pt_auth_proof_ok(&secret, &auth, PT_AUTH_SERVER, mac, sizeof(mac)));
	ck_assert(!pt_auth_proof_ok(&other, &auth, PT_AUTH_CLIENT, mac, sizeof(mac)));
	ck_assert(!pt_auth_proof_ok(&secret, &auth, PT_AUTH_CLIENT, mac, sizeof(mac) - 1));
	ck_assert(!pt_auth_proof_ok(&secret, &auth, PT_AUTH_CLIENT, mac, 0));
	a2 = auth;
	a2.version = 2;
	ck_assert(!pt_auth_proof_ok(&secret, &a2, PT_AUTH_CLIENT, mac, sizeof(mac)));
	a2 = auth;
	a2.server_nonce[31] ^= 1;
	ck_assert(!pt_auth_proof_ok(&secret, &a2, PT_AUTH_CLIENT, mac, sizeof(mac)));
	a2 = auth;
	a2.session.b[0] ^= 1;
	ck_assert(!pt_auth_proof_ok(&secret, &a2, PT_AUTH_CLIENT, mac, sizeof(mac)));
}
END_TEST

START_TEST(a_secret_file_is_private_and_long_enough)
{
	char *path = path_in(dir_make(), "secret");
	struct pt_secret secret;
	FILE *f = fopen(path, "w");

	fputs("0123456789abcdef\n\n", f);
	fclose(f);
	MUST(chmod(path, 0644) == 0);
	MUST_FAIL(EPERM, pt_secret_load(path, &secret));
	MUST(chmod(path, 0600) == 0);
	MUST_WORK(pt_secret_load(path, &secret));
	ck_assert_uint_eq(secret.len, 16);
	MUST(truncate(path, 15) == 0);
	MUST_FAIL(EINVAL, pt_secret_load(path, &secret));
	MUST(truncate(path, 0) == 0);
	MUST_FAIL(EINVAL, pt_secret_load(path, &secret));
	MUST(unlink(path) == 0);
	MUST_FAIL(ENOENT, pt_secret_load(path, &secret));
	free(path);
}
END_TEST

START_TEST(addresses_are_read_as_people_write_them)
{
	static const char *const bad[] = { "", ":1", "a:", "a:b", "a:65536", "a:1:2", "[::1", "[]:1", "[::1]x", "127.0.0.1:1,", "127.0.0.1:123456" };
	struct pt_addr *addrs;
	char text[PT_ADDR_TEXT_MAX];
	size_t n;

	MUST_WORK(pt_addr_resolve("127.0.0.1:5,[::1]:6,127.0.0.2", &addrs, &n));
	ck_assert_uint_eq(n, 3);
	pt_addr_format((struct sockaddr *)&addrs[0].sa, text, sizeof(text));
	ck_assert_str_eq(text, "127.0.0.1:5");
	pt_addr_format((struct sockaddr *)&addrs[1].sa, text, sizeof(text));
	ck_assert_str_eq(text, "[::1]:6");
	pt_addr_format((struct sockaddr *)&addrs[2].sa, text, sizeof(text));
	ck_assert_str_eq(text, "127.0.0.2:7846");
	for (size_t i = 0; i < n; i++)
		ck_assert(pt_addr_is_loopback(&addrs[i]));
	free(addrs);
	MUST_WORK(pt_addr_resolve("10.0.0.1:5", &addrs, &n));
	ck_assert(!pt_addr_is_loopback(&addrs[0]));
	free(addrs);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		MUST_FAIL(EINVAL, pt_addr_resolve(bad[i], &addrs, &n));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("wire");

	tcase_add_test(tcase, a_request_comes_back_as_it_was_packed);
	tcase_add_test(tcase, headers_beyond_the_limits_are_refused);
	tcase_add_test(tcase, requests_that_make_no_sense_are_refused);
	tcase_add_test(tcase, a_mark_names_who_tells_it_and_a_version);
	tcase_add_test(tcase, pieces_of_memory_that_make_no_sense_are_refused);
	tcase_add_test(tcase, a_message_cannot_make_its_reader_allocate_without_bound);
	tcase_add_test(tcase, each_failed_allocation_of_a_reader_is_a_refusal);
	tcase_add_test(tcase, a_proof_is_good_for_one_connection_and_direction);
	tcase_add_test(tcase, a_secret_file_is_private_and_long_enough);
	tcase_add_test(tcase, addresses_are_read_as_people_write_them);
	return run_suite("net: wire", &tcase, 1);
}
