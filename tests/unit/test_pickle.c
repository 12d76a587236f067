/* unit/test_pickle.c - the pickle machine by itself: where a pickle ends, what its limits are. Refusals are in test_parse_pt.c. */
#include <errno.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "format/pickle.h"
#include "pt_support.h"

#define PICKLE(name, text) static const char name[] = "\x80\x02" text

#define STORAGE_0 "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\4tQ"
#define TENSOR(off, size, stride) "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE_0 off size stride "\x89" "ccollections\nOrderedDict\n)RtR"
#define TENSOR_4 TENSOR("K\0", "K\4\x85", "K\1\x85")

static struct pt_pickle *machine(void)
{
	struct pt_pickle *p = NULL;

	ck_assert_int_eq(pt_pickle_create(&p), 0);
	return p;
}

static int feed_buf(struct pt_pickle *p, const struct pt_buf *b)
{
	size_t used = 0;

	ck_assert(!pt_buf_failed(b));
	return pt_pickle_feed(p, b->data, b->len, &used);
}

START_TEST(the_end_is_found_in_any_pieces_and_not_passed)
{
	PICKLE(text, "}(X\1\0\0\0a" TENSOR_4 "X\1\0\0\0bK\1u.");
	char file[sizeof(text) + 100];
	size_t len = sizeof(text) - 1;

	memcpy(file, text, len);
	memset(file + len, 'x', sizeof(file) - len);
	for (size_t piece = 1; piece < sizeof(file); piece += 1 + piece / 8) {
		struct pt_pickle *p = machine();
		size_t off = 0, used = 0;
		int rc = 0;

		while (rc == 0) {
			size_t n = sizeof(file) - off < piece ? sizeof(file) - off : piece;

			rc = pt_pickle_feed(p, file + off, n, &used);
			ck_assert(rc == 1 || used == n);
			off += used;
		}
		ck_assert_int_eq(rc, 1);
		ck_assert_uint_eq(off, len);
		ck_assert_uint_eq(pt_pickle_storage_count(p), 1);
		ck_assert_uint_eq(pt_pickle_storage_bytes(p, 0), 16);
		pt_pickle_free(p);
	}
}
END_TEST

START_TEST(storages_are_found_by_key_also_after_trimming)
{
	struct pt_pickle *p = machine();
	struct pt_buf b = PT_BUF_INIT;
	uint32_t storage;
	size_t len;

	/* torch before 1.13 used addresses as keys. */
	pt_buf_append(&b, "\x80\2](", 4);
	for (unsigned int i = 0; i < 5000; i++) {
		char key[24];
		int n = snprintf(key, sizeof(key), "94%u", i * 7919);

		pt_buf_append(&b, "(X\7\0\0\0storagectorch\nLongStorage\nX", strlen("(X") + 4 + strlen("storagectorch\nLongStorage\nX"));
		pt_buf_append_lenstr(&b, key, (uint32_t)n);
		pt_buf_append(&b, "NM", 2);
		pt_buf_append_le16(&b, (uint16_t)i);
		pt_buf_append(&b, "tQ", 2);
	}
	pt_buf_append(&b, "e.", 2);
	ck_assert_int_eq(feed_buf(p, &b), 1);
	pt_buf_done(&b);
	pt_pickle_trim(p);
	ck_assert_uint_eq(pt_pickle_storage_count(p), 5000);
	for (unsigned int i = 0; i < 5000; i++) {
		char key[24];
		int n = snprintf(key, sizeof(key), "94%u", i * 7919);

		ck_assert(pt_pickle_storage_find(p, key, (size_t)n, &storage));
		ck_assert_uint_eq(storage, i);
		ck_assert_uint_eq(pt_pickle_storage_bytes(p, i), i * 8);
		ck_assert(memcmp(pt_pickle_storage_key(p, i, &len), key, (size_t)n) == 0 && len == (size_t)n);
	}
	ck_assert(!pt_pickle_storage_find(p, "93", 2, &storage));
	ck_assert(!pt_pickle_storage_find(p, "", 0, &storage));
	pt_pickle_free(p);
}
END_TEST

START_TEST(a_pickle_over_64_mib_is_refused_as_soon_as_it_says_so)
{
	struct pt_pickle *p = machine();
	struct pt_buf b = PT_BUF_INIT;

	pt_buf_append(&b, "\x80\2X", 3);
	pt_buf_append_le32(&b, (64u << 20) - 7);
	ck_assert_int_eq(feed_buf(p, &b), 0);
	pt_pickle_free(p);
	p = machine();
	pt_buf_reset(&b);
	pt_buf_append(&b, "\x80\2X", 3);
	pt_buf_append_le32(&b, (64u << 20) - 6);
	ck_assert_int_eq(feed_buf(p, &b), -EFBIG);
	pt_pickle_free(p);
	pt_buf_done(&b);
}
END_TEST

static int feed_repeat(struct pt_pickle *p, const char *piece, size_t piece_len, uint64_t count)
{
	struct pt_buf b = PT_BUF_INIT;
	size_t used;
	int rc = 0;

	for (unsigned int i = 0; i < 1024; i++)
		pt_buf_append(&b, piece, piece_len);
	for (uint64_t i = 0; i < count && rc == 0; i += 1024)
		rc = pt_pickle_feed(p, b.data, b.len, &used);
	pt_buf_done(&b);
	return rc;
}

START_TEST(stack_memo_and_values_are_bounded)
{
	struct pt_pickle *p = machine();

	ck_assert_int_eq(feed_repeat(p, "\x80\2", 2, 1), 0);
	ck_assert_int_eq(feed_repeat(p, "N", 1, 64u << 20), -EFBIG);
	pt_pickle_free(p);
	/* Values dropped from the stack stay in the machine's arrays; the budget is for all of them. */
	p = machine();
	ck_assert_int_eq(feed_repeat(p, "\x80\2", 2, 1), 0);
	ck_assert_int_eq(feed_repeat(p, "]N\x85" "a", 4, 1024), 0);
	ck_assert_int_eq(feed_repeat(p, "]]]]]]]]\x87\x87\x87\x85", 12, 64u << 20), -EFBIG);
	pt_pickle_free(p);
}
END_TEST

START_TEST(plain_lists_and_dicts_of_any_size_cost_no_values)
{
	struct pt_pickle *p = machine();
	struct pt_parse_ctx ctx = { .sink = { 0 } };
	size_t used;

	ck_assert_int_eq(pt_pickle_feed(p, "\x80\2]", 3, &used), 0);
	ck_assert_int_eq(feed_repeat(p, "(K\1K\2K\3K\4K\5K\6K\7e", 16, 3u << 20), 0);
	ck_assert_int_eq(pt_pickle_feed(p, ".", 1, &used), 1);
	ck_assert_int_eq(pt_pickle_announce(p, &ctx), 0);
	ck_assert_uint_eq(ctx.storage_count, 0);
	pt_pickle_free(p);
}
END_TEST

struct expand_case {
	const char *text;
	size_t len;
	int rc;
};

#define CASE(rc_, text_) { "\x80\x02" text_ ".", sizeof("\x80\x02" text_ ".") - 1, rc_ }

static const struct expand_case expands[] = {
	/* 2^28 floats of one: 1 GiB, as much as is free; one more is over 1024 times 16 bytes. */
	CASE(0, TENSOR("K\0", "J\0\0\0\x10\x85", "K\0\x85")),
	CASE(-EFBIG, TENSOR("K\0", "J\1\0\0\x10\x85", "K\0\x85")),
	/* Tensors count together. */
	CASE(-EFBIG, "](" TENSOR("K\0", "J\0\0\0\x08\x85", "K\0\x85") TENSOR("K\0", "J\1\0\0\x08\x85", "K\0\x85") "e"),
	CASE(0, TENSOR("K\4", "K\0\x85", "K\1\x85")),
	CASE(0, TENSOR("K\3", "K\1\x85", "M\xff\xff\x85")),
	CASE(0, TENSOR("K\0", "K\2K\2\x86", "K\1K\2\x86")),
};

START_TEST(expanded_tensors_are_capped)
{
	struct pt_parse_ctx ctx = { .sink = { 0 } };
	struct pt_pickle *p = machine();
	size_t used;

	ck_assert_int_eq(pt_pickle_feed(p, expands[_i].text, expands[_i].len, &used), 1);
	ck_assert_int_eq(pt_pickle_announce(p, &ctx), expands[_i].rc);
	pt_pickle_free(p);
}
END_TEST

START_TEST(one_tensor_under_many_names_is_announced_under_each)
{
	PICKLE(text, "}(X\1\0\0\0a" TENSOR_4 "q\1X\1\0\0\0b" "h\1X\1\0\0\0c](h\1h\1" "e" "u.");
	static const char *const names[] = { "a", "b", "c.0", "c.1" };
	struct keep k;
	struct pt_parse_ctx ctx = { .sink = keep_sink(&k) };
	struct pt_pickle *p = machine();
	size_t used;

	ck_assert_int_eq(pt_pickle_feed(p, text, sizeof(text) - 1, &used), 1);
	ck_assert_int_eq(pt_pickle_announce(p, &ctx), 0);
	ck_assert_uint_eq(k.tensor_count, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_str_eq(k.name[i], names[i]);
	pt_pickle_free(p);
	keep_done(&k);
}
END_TEST

START_TEST(running_out_of_memory_anywhere_is_an_error)
{
	PICKLE(text, "}(X\1\0\0\0a" TENSOR_4 "q\1X\1\0\0\0bK\1X\1\0\0\0c](h\1K\1\x85]" "eu.");
	bool failed = true;

	for (int64_t n = 0; failed; n++) {
		struct pt_parse_ctx ctx = { .sink = { 0 } };
		struct pt_pickle *p = NULL;
		size_t used;
		int rc;

		ck_assert_int_lt(n, 1000);
		pt_alloc_fail_after(n);
		rc = pt_pickle_create(&p);
		if (rc == 0)
			rc = pt_pickle_feed(p, text, sizeof(text) - 1, &used);
		if (rc == 1)
			rc = pt_pickle_announce(p, &ctx);
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
		failed = rc != 0;
		pt_pickle_free(p);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pickle");

	tcase_add_test(c, the_end_is_found_in_any_pieces_and_not_passed);
	tcase_add_test(c, storages_are_found_by_key_also_after_trimming);
	tcase_add_test(c, a_pickle_over_64_mib_is_refused_as_soon_as_it_says_so);
	tcase_add_test(c, stack_memo_and_values_are_bounded);
	tcase_add_test(c, plain_lists_and_dicts_of_any_size_cost_no_values);
	tcase_add_loop_test(c, expanded_tensors_are_capped, 0, (int)(sizeof(expands) / sizeof(expands[0])));
	tcase_add_test(c, one_tensor_under_many_names_is_announced_under_each);
	tcase_add_test(c, running_out_of_memory_anywhere_is_an_error);
	return run_suite("pickle", &c, 1);
}
