/* tests/unit/test_base.c - allocation, buffers, sentences, hashes, identifiers, whole reads and writes. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "base/process.h"
#include "base/size.h"
#include "base/thread.h"
#include "lib/suite.h"

START_TEST(the_process_id_is_the_childs_own_after_fork)
{
	pid_t here = pt_process_id(), child;
	int status;

	ck_assert_int_eq(here, getpid());
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child) {
		child = fork();
		if (!child)
			_exit(pt_process_id() == getpid() ? 0 : 1);
		_exit(pt_process_id() == getpid() && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(pt_process_id(), here);
}
END_TEST

static void *blocked_signals(void *ret_set)
{
	pthread_sigmask(SIG_SETMASK, NULL, ret_set);
	return NULL;
}

START_TEST(a_thread_of_our_own_takes_no_signals_and_the_starter_does)
{
	sigset_t mine, theirs;
	pthread_t thread;

	ck_assert_int_eq(pt_thread_start(&thread, blocked_signals, &theirs), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	ck_assert(sigismember(&theirs, SIGTERM) && sigismember(&theirs, SIGINT) && sigismember(&theirs, SIGPIPE));
	ck_assert(!sigismember(&mine, SIGTERM) && !sigismember(&mine, SIGINT));
}
END_TEST

START_TEST(what_is_printed_into_a_buffer_is_all_there_whether_there_was_room_or_not)
{
	for (int width = 0; width < 200; width++) {
		struct pt_buf b = PT_BUF_INIT;
		char want[512];
		int len = 0;

		for (int i = 0; i < 2; i++) {
			len += snprintf(want + len, sizeof(want) - (size_t)len, "%*d", width, i);
			pt_buf_printf(&b, "%*d", width, i);
			ck_assert_uint_eq(b.len, (size_t)len);
			ck_assert_int_eq(memcmp(b.data, want, b.len), 0);
		}
		pt_buf_done(&b);
	}
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_refused)
{
	uint64_t r = 7;

	ck_assert(!pt_size_add(UINT64_MAX, 1, &r));
	ck_assert(!pt_size_mul(UINT64_MAX / 2 + 1, 2, &r));
	ck_assert(!pt_size_align(UINT64_MAX - 2, 8, &r));
	ck_assert_uint_eq(r, 7);
	ck_assert(pt_size_align(4097, 4096, &r));
	ck_assert_uint_eq(r, 8192);
	ck_assert(pt_size_align(0, 4096, &r));
	ck_assert_uint_eq(r, 0);
	ck_assert(pt_size_mul(UINT64_MAX, 0, &r));
	ck_assert_uint_eq(r, 0);
	ck_assert_uint_eq(pt_size_muldiv(UINT64_MAX, UINT64_MAX - 1, UINT64_MAX), UINT64_MAX - 1);
}
END_TEST

START_TEST(the_countdown_fails_the_chosen_allocation_and_all_after_it)
{
	void *a, *b;

	pt_alloc_fail_after(1);
	a = pt_malloc(0);
	ck_assert_ptr_nonnull(a);
	ck_assert_ptr_null(pt_calloc(1, 1));
	ck_assert_ptr_null(pt_realloc(a, 100));
	ck_assert_ptr_null(pt_strdup("x"));
	ck_assert_ptr_null(pt_memdup("x", 1));
	ck_assert_ptr_null(pt_asprintf("%d", 1));
	pt_alloc_fail_after(-1);
	b = pt_asprintf("%s-%d", "x", 12);
	ck_assert_str_eq(b, "x-12");
	ck_assert_ptr_null(pt_reallocarray(NULL, SIZE_MAX / 2, 3));
	free(a);
	free(b);
}
END_TEST

START_TEST(what_a_buffer_takes_a_reader_gives_back)
{
	struct pt_buf b = PT_BUF_INIT;
	struct pt_reader r;
	const char *s;
	uint32_t len;

	pt_buf_append_u8(&b, 1);
	pt_buf_append_le16(&b, 0x0203);
	pt_buf_append_le32(&b, 0x04050607);
	pt_buf_append_le64(&b, UINT64_C(0x08090a0b0c0d0e0f));
	pt_buf_append_lenstr(&b, "abc", 3);
	pt_buf_append_lenstr(&b, NULL, 0);
	pt_buf_append_zeros(&b, 2);
	pt_buf_append_fill(&b, 0xff, 2);
	pt_buf_append_str(&b, "end");
	pt_buf_printf(&b, "%d", 42);
	ck_assert(!pt_buf_failed(&b));
	ck_assert_uint_eq(b.len, 1 + 2 + 4 + 8 + 7 + 4 + 4 + 3 + 2);
	ck_assert_uint_eq(b.data[1], 3);        /* little-endian */

	pt_reader_init(&r, b.data, b.len);
	ck_assert_uint_eq(pt_reader_u8(&r), 1);
	ck_assert_uint_eq(pt_reader_le16(&r), 0x0203);
	ck_assert_uint_eq(pt_reader_le32(&r), 0x04050607);
	ck_assert_uint_eq(pt_reader_le64(&r), UINT64_C(0x08090a0b0c0d0e0f));
	s = pt_reader_lenstr(&r, &len);
	ck_assert_uint_eq(len, 3);
	ck_assert(!memcmp(s, "abc", 3));
	ck_assert_ptr_nonnull(pt_reader_lenstr(&r, &len));
	ck_assert_uint_eq(len, 0);
	ck_assert(!memcmp(pt_reader_bytes(&r, 9), "\0\0\xff\xff" "end42", 9));
	ck_assert_uint_eq(pt_reader_left(&r), 0);
	ck_assert(!r.bad);
	ck_assert_ptr_nonnull(pt_reader_bytes(&r, 0));
	ck_assert_uint_eq(pt_reader_u8(&r), 0);
	ck_assert(r.bad);
	pt_buf_done(&b);
}
END_TEST

START_TEST(reading_past_the_end_is_bad_and_stays_bad)
{
	static const uint8_t data[] = { 0xff, 0xff, 0xff, 0xff, 1 };
	struct pt_reader r;
	uint32_t len = 9;

	pt_reader_init(&r, data, sizeof(data));
	ck_assert_ptr_null(pt_reader_lenstr(&r, &len));         /* 2^32 - 1 bytes are not there */
	ck_assert_uint_eq(len, 9);
	ck_assert(r.bad);
	ck_assert_uint_eq(pt_reader_left(&r), 0);
	ck_assert_uint_eq(pt_reader_u8(&r), 0);
	pt_reader_init(&r, NULL, 0);
	ck_assert_ptr_nonnull(pt_reader_bytes(&r, 0));
	ck_assert(!r.bad);
	ck_assert_uint_eq(pt_reader_le64(&r), 0);
	ck_assert(r.bad);
}
END_TEST

START_TEST(a_buffer_remembers_that_memory_ran_out)
{
	struct pt_buf b = PT_BUF_INIT;

	pt_buf_append_str(&b, "kept");
	pt_alloc_fail_after(0);
	pt_buf_append_zeros(&b, 1000);
	pt_alloc_fail_after(-1);
	ck_assert(pt_buf_failed(&b));
	pt_buf_append_str(&b, "ignored");
	pt_buf_printf(&b, "%d", 1);
	ck_assert_uint_eq(b.len, 4);
	pt_buf_reset(&b);
	ck_assert(!pt_buf_failed(&b));
	pt_buf_append_zeros(&b, SIZE_MAX);
	ck_assert(pt_buf_failed(&b));
	pt_buf_done(&b);
	pt_buf_done(&b);
}
END_TEST

START_TEST(a_sentence_keeps_errno_and_takes_context)
{
	char much[3 * PT_FAIL_SENTENCE_MAX];

	errno = EAGAIN;
	ck_assert_int_eq(pt_fail(EINVAL, "dim %d is wrong", 3), -EINVAL);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(pt_fail_context(-EINVAL, "key %s", "w"), -EINVAL);
	ck_assert_str_eq(pt_fail_sentence(), "key w: dim 3 is wrong");
	/* A sentence about a sentence. */
	ck_assert_int_eq(pt_fail(EIO, "(%s)", pt_fail_sentence()), -EIO);
	ck_assert_str_eq(pt_fail_sentence(), "(key w: dim 3 is wrong)");
	memset(much, 'x', sizeof(much));
	much[sizeof(much) - 1] = '\0';
	ck_assert_int_eq(pt_fail(EIO, "%s", much), -EIO);
	ck_assert_uint_eq(strlen(pt_fail_sentence()), PT_FAIL_SENTENCE_MAX - 1);
	ck_assert_int_eq(pt_fail_context(-EIO, "here"), -EIO);
	ck_assert_uint_eq(strlen(pt_fail_sentence()), PT_FAIL_SENTENCE_MAX - 1);
	ck_assert(!strncmp(pt_fail_sentence(), "here: xxx", 9));
	ck_assert_int_eq(pt_fail_context(-EIO, "%s", much), -EIO);
	ck_assert_int_eq(pt_fail_nomem(), -ENOMEM);
	pt_fail_clear();
	ck_assert_str_eq(pt_fail_sentence(), "");
}
END_TEST

START_TEST(a_sentence_is_one_printable_line_whatever_names_it_holds)
{
	static const struct {
		const char *name, *clean;
	} cases[] = {
		{ "plain", "plain" }, { "a\nb\tc", "a?b?c" }, { "\x1b[2J\x7f", "?[2J?" }, { "gr\xc3\xb6\xc3\x9f e \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xb6\xc3\x9f e \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "\xff\xfe", "??" }, { "\xc0\xaf", "??" }, { "\xed\xa0\x80", "???" }, { "\xf4\x90\x80\x80", "????" }, { "\xc2\x9b" "0m", "??0m" }, { "cut \xe2\x82", "cut ??" },
	};
	char text[64], longest[2 * PT_FAIL_SENTENCE_MAX];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pt_fail(EINVAL, "'%s'", cases[i].name);
		snprintf(text, sizeof(text), "'%s'", cases[i].clean);
		ck_assert_str_eq(pt_fail_sentence(), text);
	}
	memset(longest, 0, sizeof(longest));
	for (i = 0; i + 2 < sizeof(longest); i += 2)
		memcpy(longest + i, "\xc3\xb6", 2);
	pt_fail(EINVAL, "%s", longest);         /* cut within a character */
	ck_assert_uint_eq(strlen(pt_fail_sentence()), PT_FAIL_SENTENCE_MAX - 1);
	ck_assert_str_eq(pt_fail_sentence() + PT_FAIL_SENTENCE_MAX - 4, "\xc3\xb6?");
	pt_fail_context(-EINVAL, "\n");
	ck_assert_int_eq(strncmp(pt_fail_sentence(), "?: \xc3\xb6", 5), 0);
	ck_assert_str_eq(pt_fail_sentence() + PT_FAIL_SENTENCE_MAX - 3, "\xc3\xb6");
}
END_TEST

START_TEST(hashes_are_those_of_xxh3)
{
	/* Published values of the empty input. */
	static const uint8_t empty[16] = { 0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
					   0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f };
	struct pt_hash128 h = pt_hash128("", 0);

	ck_assert_uint_eq(pt_hash64("", 0), UINT64_C(0x2d06800538d394c2));
	ck_assert(!memcmp(h.b, empty, sizeof(empty)));
}
END_TEST

/* Whichever vectors the processor has, what is stored must be readable on any other. */
START_TEST(hashes_do_not_depend_on_the_processor)
{
	static uint8_t data[70000 + 64];
	XXH128_canonical_t want;
	struct pt_hash128 h;
	size_t len, i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 2654435761u >> 11);
	for (len = 0; len < 70000; len += len < 1100 ? 1 : 4099) {
		const uint8_t *p = data + len % 61;

		ck_assert_uint_eq(pt_hash64(p, len), XXH3_64bits(p, len));
		XXH128_canonicalFromHash(&want, XXH3_128bits(p, len));
		h = pt_hash128(p, len);
		ck_assert(!memcmp(h.b, want.digest, sizeof(h.b)));
	}
}
END_TEST

/* A stream of `len` bytes, zeros from `zeros_at` on, in pieces of `piece`. */
START_TEST(crc32_is_that_of_zip_in_one_piece_or_many)
{
	const char *text = "123456789";
	size_t i;

	ck_assert_uint_eq(pt_crc32(0, "", 0), 0);
	ck_assert_uint_eq(pt_crc32(0, text, 9), 0xcbf43926);
	for (i = 0; i <= 9; i++)
		ck_assert_uint_eq(pt_crc32(pt_crc32(0, text, i), text + i, 9 - i), 0xcbf43926);
}
END_TEST

static uint32_t crc_bit_by_bit(uint32_t crc, const uint8_t *p, size_t len)
{
	for (crc = ~crc; len; p++, len--) {
		crc ^= *p;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* Wherever they begin, whatever came before. */
START_TEST(crc_of_runs_of_any_length_is_that_of_their_bits)
{
	static const size_t lengths[] = { 255, 256, 1023, 1024, 1025, 1279, 1280, 1281, 4095, 4096, 65536, 65537, 100003 };
	uint8_t *bytes = malloc(100100);
	uint32_t crc = 0, n = 1;

	for (size_t i = 0; i < 100100; i++)
		bytes[i] = (uint8_t)((n = n * 1664525 + 1013904223) >> 24);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t off = 0; off < 70; off += 23) {
			uint32_t want = crc_bit_by_bit(crc, bytes + off, lengths[i]);

			ck_assert_uint_eq(pt_crc32(crc, bytes + off, lengths[i]), want);
			crc = want;
		}
	free(bytes);
}
END_TEST

static void check_hasher(size_t len, size_t zeros_at, size_t piece)
{
	uint8_t *data = calloc(len + 1, 1);
	struct pt_hash128 whole, want;
	struct pt_hasher *h;
	struct pt_buf chunks;
	size_t i, n;

	ck_assert_ptr_nonnull(data);
	for (i = 0; i < len && i < zeros_at; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	ck_assert_int_eq(pt_hasher_create(&h), 0);
	for (i = 0; i < zeros_at && i < len; i += n) {
		n = zeros_at - i < piece ? zeros_at - i : piece;
		n = len - i < n ? len - i : n;
		pt_hasher_update(h, data + i, n);
	}
	if (len > zeros_at)
		pt_hasher_zeros(h, len - zeros_at);
	ck_assert_int_eq(pt_hasher_finish(h, &whole, &chunks), 0);
	want = pt_hash128(data, len);
	ck_assert(!memcmp(&whole, &want, sizeof(whole)));
	ck_assert_uint_eq(chunks.len, 8 * ((len + PT_HASH_CHUNK - 1) / PT_HASH_CHUNK));
	for (i = 0; i * PT_HASH_CHUNK < len; i++) {
		n = len - i * PT_HASH_CHUNK < PT_HASH_CHUNK ? len - i * PT_HASH_CHUNK : PT_HASH_CHUNK;
		ck_assert_uint_eq(pt_get_le64(chunks.data + 8 * i), pt_hash64(data + i * PT_HASH_CHUNK, n));
	}
	pt_buf_done(&chunks);
	pt_hasher_free(h);
	free(data);
}

START_TEST(the_hasher_gives_what_hashing_at_once_gives)
{
	const size_t chunk = PT_HASH_CHUNK;

	check_hasher(0, 0, 1);
	check_hasher(1, 1, 1);
	check_hasher(chunk, chunk, chunk);
	check_hasher(chunk + 1, chunk + 1, 4096);
	check_hasher(3 * chunk, 3 * chunk, 3 * chunk);
	check_hasher(3 * chunk - 1, 3 * chunk - 1, 999999);
	check_hasher(4 * chunk + 5, 0, 1);              /* all zeros */
	check_hasher(4 * chunk + 5, 77, 77);
	check_hasher(2 * chunk, chunk, 1000);
	check_hasher(9 * chunk + 1234, 0, 1);
	for (size_t at = 1; at < 5000; at += 439)       /* long runs of zeros are not read but computed */
		check_hasher(7 * chunk + at, chunk + at, 4096 + at);
	check_hasher(2 * chunk + 100, 2 * chunk, 65536);
}
END_TEST

START_TEST(a_hasher_without_memory_says_so)
{
	struct pt_hash128 whole;
	struct pt_hasher *h = NULL;
	struct pt_buf chunks = PT_BUF_INIT;

	pt_alloc_fail_after(0);
	ck_assert_int_eq(pt_hasher_create(&h), -ENOMEM);
	pt_alloc_fail_after(1);
	ck_assert_int_eq(pt_hasher_create(&h), 0);
	pt_hasher_update(h, "x", 1);
	ck_assert_int_eq(pt_hasher_finish(h, &whole, &chunks), -ENOMEM);
	pt_alloc_fail_after(-1);
	ck_assert_ptr_null(chunks.data);
	pt_hasher_free(h);
	pt_hasher_free(NULL);
}
END_TEST

START_TEST(identifiers_have_one_spelling)
{
	struct pt_id a, b, zero = { { 0 } };
	char hex[PT_ID_HEX_LEN + 1];

	ck_assert_int_eq(pt_id_random(&a), 0);
	ck_assert_int_eq(pt_id_random(&b), 0);
	ck_assert(pt_id_compare(&a, &b) != 0);
	ck_assert(!pt_id_is_zero(&a));
	ck_assert(pt_id_is_zero(&zero));
	pt_id_hex(&a, hex);
	ck_assert_int_eq(pt_id_parse(hex, &b), 0);
	ck_assert_int_eq(pt_id_compare(&a, &b), 0);
	ck_assert_int_eq(pt_id_parse("0123456789abcdef0123456789abcde", &b), -EINVAL);
	ck_assert_int_eq(pt_id_parse("0123456789abcdef0123456789abcdef0", &b), -EINVAL);
	ck_assert_int_eq(pt_id_parse("0123456789ABCDEF0123456789abcdef", &b), -EINVAL);
	ck_assert_int_eq(pt_id_parse("0123456789abcdef0123456789abcdeg", &b), -EINVAL);
	ck_assert_int_eq(pt_id_parse("", &b), -EINVAL);
	ck_assert_int_eq(pt_id_compare(&a, &b), 0);
}
END_TEST

START_TEST(reads_and_writes_are_whole)
{
	char name[] = "/tmp/ptio-test-XXXXXX", back[8] = "";
	int fd = mkstemp(name), dir = open("/tmp", O_RDONLY | O_DIRECTORY);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	ck_assert_int_eq(pt_io_pwrite(fd, "abcdef", 6, 10), 0);
	ck_assert_int_eq(pt_io_pread(fd, back, 4, 12), 4);
	ck_assert(!memcmp(back, "cdef", 4));
	ck_assert_int_eq(pt_io_pread(fd, back, 8, 12), 4);      /* short at the end only */
	ck_assert_int_eq(pt_io_pread(fd, back, 8, 100), 0);
	ck_assert_int_eq(pt_io_fsync(fd), 0);
	ck_assert_int_eq(pt_io_fsync_dir(dir), 0);
	ck_assert_int_eq(pt_io_pread(fd, back, 1, UINT64_MAX), -EOVERFLOW);
	ck_assert_int_eq(pt_io_pwrite(fd, back, 1, INT64_MAX), -EOVERFLOW);
	close(fd);
	ck_assert_int_eq(pt_io_pread(fd, back, 1, 0), -EBADF);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "reading 1 bytes"));
	close(dir);
	ck_assert_int_gt(pt_time_now_ns(), INT64_C(1600000000) * 1000000000);
	ck_assert_int_gt(pt_time_boot_ns(), 0);
}
END_TEST

START_TEST(a_log_line_is_one_line_and_keeps_errno)
{
	int ends[2], saved = dup(STDERR_FILENO);
	char text[256];
	ssize_t n;

	ck_assert_int_eq(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	pt_log_setup("prog", PT_LOG_INFO, 0);
	errno = ENOSPC;
	pt_log(PT_LOG_WARN, "key %s", "a\nprog: forged");
	pt_log(PT_LOG_DEBUG, "not shown");
	ck_assert_int_eq(errno, ENOSPC);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	n = read(ends[0], text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	ck_assert_str_eq(text, "prog: warning: key a prog: forged\n");
	close(ends[0]);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("base");

	tcase_add_test(tcase, the_process_id_is_the_childs_own_after_fork);
	tcase_add_test(tcase, a_thread_of_our_own_takes_no_signals_and_the_starter_does);
	tcase_add_test(tcase, what_is_printed_into_a_buffer_is_all_there_whether_there_was_room_or_not);
	tcase_add_test(tcase, sizes_that_do_not_fit_are_refused);
	tcase_add_test(tcase, the_countdown_fails_the_chosen_allocation_and_all_after_it);
	tcase_add_test(tcase, what_a_buffer_takes_a_reader_gives_back);
	tcase_add_test(tcase, reading_past_the_end_is_bad_and_stays_bad);
	tcase_add_test(tcase, a_buffer_remembers_that_memory_ran_out);
	tcase_add_test(tcase, a_sentence_keeps_errno_and_takes_context);
	tcase_add_test(tcase, a_sentence_is_one_printable_line_whatever_names_it_holds);
	tcase_add_test(tcase, hashes_are_those_of_xxh3);
	tcase_add_test(tcase, hashes_do_not_depend_on_the_processor);
	tcase_add_test(tcase, crc32_is_that_of_zip_in_one_piece_or_many);
	tcase_add_test(tcase, crc_of_runs_of_any_length_is_that_of_their_bits);
	tcase_add_test(tcase, the_hasher_gives_what_hashing_at_once_gives);
	tcase_add_test(tcase, a_hasher_without_memory_says_so);
	tcase_add_test(tcase, identifiers_have_one_spelling);
	tcase_add_test(tcase, reads_and_writes_are_whole);
	tcase_add_test(tcase, a_log_line_is_one_line_and_keeps_errno);
	return run_suite("base", &tcase, 1);
}
