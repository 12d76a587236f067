/* tests/lib/case.h - the vocabulary of the conformance cases: a store of each engine, tensors full of counting numbers, and requests written
 * as the cases write them.
 *
 * Axes and partitions are text: "tp=1of4@0", "dp=0of2/tp=1of2@1", "pp=0of2s7", "ep=1of4e11", "writer=2of4@0"; "" or NULL is none.
 * A target is a mode and such a text: "full", "shard tp=1of2@1", "as_stored". Everything made here is freed by case_end. */
#ifndef TESTS_LIB_CASE_H
#define TESTS_LIB_CASE_H

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/suite.h"
#include "ptio/ptio.h"

/* By loop index. Remote ones are stores of a ptiod, one a case; the environment PTIO_CASES=rdma runs the cases over RDMA instead of the others, which only
 * the test VM can (tests/vm/conformance). */
enum { CASE_MEM, CASE_DIR, CASE_TCP, CASE_RDMA };
int case_first(void);
int case_last(void);

extern struct ptio *P;                  /* the store of the running case: empty at its start */

void case_begin(int engine);
void case_end(void);
/* Closes and opens the store again (nothing happens to mem, which would be gone). */
void case_reopen(void);
const char *case_uri(void);
void *case_alloc(size_t size);          /* zeroed */

#define CASE(name) \
	START_TEST(name) \
	{ \
		case_begin(_i);
#define END_CASE \
		case_end(); \
	} \
	END_TEST

/* Adds a case to run on every engine. */
#define ADD_CASE(tc, name) tcase_add_loop_test(tc, name, case_first(), case_last() + 1)

struct how {
	struct ptio_axis axes[8];
	struct ptio_parallelism parallelism;
	struct ptio_writer_partition writer;
	struct ptio_write write;
	struct ptio_read_target target;
};

const struct how *how(const char *text);
const struct ptio_read_target *target(const char *text);
const struct ptio_write *write_at(const char *text, const char *step);

/* row-major 0, 1, 2, ... plus k, of shape "4,6" ("" for a scalar) */
struct ptio_tensor ar(enum ptio_dtype dtype, const char *shape, int k);
struct ptio_tensor bytes_of(enum ptio_dtype dtype, const char *shape, const void *payload);
struct ptio_tensor zeros(enum ptio_dtype dtype, const char *shape);
/* [off, off + ext) of a dimension, by index arithmetic of its own */
struct ptio_tensor cut(struct ptio_tensor t, uint32_t dim, uint64_t off, uint64_t ext);
struct ptio_tensor part(struct ptio_tensor t, uint32_t dim, int rank, int size);
/* float32 of a shape, values given */
struct ptio_tensor floats(const char *shape, ...);      /* doubles, as many as the shape has */
bool same(const struct ptio_tensor *a, const struct ptio_tensor *b);

int put(const char *key, struct ptio_tensor t, const char *text);
int upsert(const char *key, struct ptio_tensor t, const char *text);
/* The complete FULL object of a tensor in memory. */
const void *object_of(struct ptio_tensor t, uint64_t *ret_size);
int put_from(const char *key, struct ptio_tensor full, const char *text);
int upsert_from(const char *key, struct ptio_tensor full, const char *text);
/* Every rank writes the full tensor (its slice is stored), or its shard when the text is a lone tp axis: "R" in the text stands for the rank. */
void put_ranks(const char *key, struct ptio_tensor t, const char *text, int size, int dim);

/* Reads with get and with get_into; both must agree. 0 or the code. */
int reads(const char *key, const char *target_text, struct ptio_tensor *ret_t);
void expect_read(const char *key, const char *target_text, struct ptio_tensor want, const char *file, int line);
void expect_code(const char *key, const char *target_text, int code, const char *file, int line);
#define EXPECT(key, target_text, want) expect_read(key, target_text, want, __FILE__, __LINE__)
#define EXPECT_CODE(key, target_text, code) expect_code(key, target_text, code, __FILE__, __LINE__)
#define OK(expr) \
	do { \
		int64_t ok_rc = (expr); \
		ck_assert_msg(ok_rc >= 0, "%s: %lld: %s", #expr, (long long)ok_rc, ptio_last_error()); \
	} while (0)
#define FAILS(expr, code) \
	do { \
		int64_t fails_rc = (expr); \
		ck_assert_msg(fails_rc == (code), "%s: %lld, not %d: %s", #expr, (long long)fails_rc, (int)(code), ptio_last_error()); \
		ck_assert_msg(*ptio_last_error() != 0, "%s: no sentence", #expr); \
	} while (0)

/* The object as get_into writes it, in memory of its own. */
const uint8_t *object_at(const char *key, const char *target_text, uint64_t *ret_size);
void expect_sha(const void *data, uint64_t len, const char *hex_prefix);
/* Keys listed, joined with spaces. */
const char *keys_listed(void);
/* A buffer of `size` bytes that is registered until case_end. */
uint8_t *registered(uint64_t size);

#endif
