/* tests/unit/store_support.h - engines to test, folders to test them in, children to kill. */
#ifndef TESTS_UNIT_STORE_SUPPORT_H
#define TESTS_UNIT_STORE_SUPPORT_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "lib/suite.h"
#include "store/data.h"
#include "store/meta.h"

/* ck_assert_*() makes a system call each time, which is too slow for inner loops. */
#define MUST(condition) \
	do { \
		if (!(condition)) \
			ck_abort_msg("not true: %s", #condition); \
	} while (0)

#define MUST_WORK(call) \
	do { \
		int rc_ = (call); \
		if (rc_ < 0) \
			ck_abort_msg("%s gave %d: %s", #call, rc_, pt_fail_sentence()); \
	} while (0)

/* Fails with this code and says something about it. */
#define MUST_FAIL(code, call) \
	do { \
		int rc_; \
		pt_fail_clear(); \
		rc_ = (call); \
		if (rc_ != -(code)) \
			ck_abort_msg("%s gave %d instead of %d: %s", #call, rc_, -(code), pt_fail_sentence()); \
		if (!*pt_fail_sentence()) \
			ck_abort_msg("%s failed without a sentence", #call); \
	} while (0)

/* A new folder below $TMPDIR; removed at exit of this process, and by dir_remove(). */
const char *dir_make(void);
void dir_remove(const char *path);
char *path_in(const char *dir, const char *name);       /* to be freed */
/* Descriptors that this process has, some more. */
int open_descriptors(void);

/* Engines, by number: for loop tests. In dir. */
#define META_ENGINES 6          /* from META_LOCAL on: of a ptiod that exports dir: or mem: */
#define META_LOCAL 4
#define DATA_ENGINES 6
#define META_DURABLE(i) ((i) == 0 || (i) == 1 || (i) == 4)
#define DATA_DURABLE(i) META_DURABLE(i)
#define DATA_MAPS(i) ((i) == 2 || (i) == 3)
#define DATA_FILES(i) ((i) == 0)
void meta_open(int engine, const char *dir, struct pt_meta *ret_meta);
void data_open(int engine, const char *dir, struct pt_data *ret_data);

/* Runs fn in a child that never returns from it: its pid. Write to `pipe_fd` what the parent is to know. */
pid_t child_start(void (*fn)(void *ctx, int pipe_fd), void *ctx, int *ret_pipe_fd);
/* Waits for it; must have ended by itself with 0. */
void child_join(pid_t pid);
void child_kill(pid_t pid);
/* In a child, where libcheck's messages would be lost: ends it with a message. */
#define CHILD_MUST(condition) \
	do { \
		if (!(condition)) \
			child_fail(#condition, __FILE__, __LINE__); \
	} while (0)
void child_fail(const char *what, const char *file, int line) __attribute__((noreturn));

int meta_put(struct pt_meta *m, const char *key, const void *value, size_t len, uint64_t *ret_version);
/* One more in the record "counter", by compare and set. -EAGAIN: somebody else was first. */
int meta_count_up(struct pt_meta *m);
/* The number of records. */
uint64_t meta_count(struct pt_meta *m);
struct pt_blob_ref blob_new(enum pt_blob_kind kind);
/* Creates, writes and seals in one. */
int blob_put(struct pt_data *d, const struct pt_blob_ref *ref, const void *bytes, uint64_t len);
int blob_get(struct pt_data *d, const struct pt_blob_ref *ref, void *buf, uint64_t len, uint64_t off);
/* Bytes that depend on the seed only. */
void pattern_fill(void *buf, size_t len, uint64_t seed);

#endif
