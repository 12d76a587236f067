/* What the manifest tests share: stores in a directory of their own, parts with known bytes, processes that run a function.
 * A test that fails leaves its directory behind for a look. */
#ifndef MANIFEST_HELP_H
#define MANIFEST_HELP_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "lib/suite.h"
#include "manifest/repo.h"

/* An assertion of libcheck costs a system call even when it holds. */
#define check_ok(expr) \
	do { \
		int check_rc = (expr); \
		if (check_rc < 0) \
			ck_abort_msg("%s: %d: %s", #expr, check_rc, pt_fail_sentence()); \
	} while (0)
#define check_err(expr, err) \
	do { \
		int check_rc = (expr); \
		ck_assert_msg(check_rc == -(err), "%s: %d, not %d: %s", #expr, check_rc, -(err), pt_fail_sentence()); \
	} while (0)

static inline int help_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void help_dir_make(char *ret_dir, size_t room)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(ret_dir, room, "%s/ptio-manifest-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(ret_dir));
}

static inline void help_dir_remove(const char *dir)
{
	nftw(dir, help_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline struct pt_repo *help_open(const char *dir, const char *faults, const struct pt_repo_options *options)
{
	struct pt_store_options so = { .create = true, .faults = faults ? faults : "" };
	struct pt_store *store;
	struct pt_repo *repo;

	check_ok(pt_store_open(dir, &so, &store));
	check_ok(pt_repo_open(store, options, &repo));
	return repo;
}

/* Byte i of the payload called `seed`. */
static inline uint8_t help_byte(uint64_t seed, uint64_t i)
{
	uint64_t x = (i / 8 + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xc2b2ae3d27d4eb4fu;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (uint8_t)(x >> (i % 8 * 7));
}

static inline void help_fill(uint8_t *buf, uint64_t seed, uint64_t off, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		buf[i] = help_byte(seed, off + i);
}

static inline struct pt_shape help_shape2(uint64_t a, uint64_t b)
{
	return (struct pt_shape){ .ndim = 2, .dim = { a, b } };
}

/* A sealed part: rank of size on dim, of a global shape (TP_SHARD: of its own shape); payload bytes of `seed` + rank. */
static inline void help_part(struct pt_repo *repo, enum pt_written written, enum pt_dtype dtype, const struct pt_shape *shape, int rank, int size,
			     int dim, const char *step, uint64_t seed, struct pt_part *ret_part)
{
	struct pt_part part = { .dtype = dtype, .shape = *shape, .written = written, .mode = 0644, .mtime_ns = 1 };
	struct pt_object_spec spec = { .key = "k", .dtype = dtype, .written = written, .part = { rank, size, dim }, .step = step };
	struct pt_axis tp = { .kind = PT_AXIS_TP, .rank = rank, .size = size, .dim = dim };
	struct pt_object_writer *w;
	struct pt_box box;
	uint8_t buf[10007];
	uint64_t at, n, bytes;

	if (written == PT_WRITTEN_FULL || written == PT_WRITTEN_TP_SHARD)
		pt_shape_box(shape, &box);
	else
		check_ok(pt_shard_box(shape, dtype, &spec.part, PT_SPLIT_BALANCED, &box));
	pt_box_shape(&box, &spec.local);
	if (written != PT_WRITTEN_TP_SHARD) {
		spec.global = shape;
		spec.box = &box;
	}
	if (written == PT_WRITTEN_TP_SHARD || written == PT_WRITTEN_TP_SLICE) {
		spec.axis_count = 1;
		spec.axes = &tp;
	}
	if (step)
		strcpy(part.step, step);
	check_ok(pt_shape_bytes(&spec.local, dtype, &bytes));
	check_ok(pt_object_writer_create(repo, &spec, &w));
	for (at = 0; at < bytes; at += n) {
		n = bytes - at < sizeof(buf) ? bytes - at : sizeof(buf);
		help_fill(buf, seed + (uint64_t)rank, at, n);
		check_ok(pt_object_writer_append(w, buf, n));
	}
	check_ok(pt_object_writer_seal(w, &part));
	*ret_part = part;
}

static inline int help_commit(struct pt_repo *repo, uint64_t node, struct pt_part *part, bool put, uint64_t *ret_revision)
{
	struct pt_published published;
	int rc = pt_commit_part(repo, node, part, put, &published);

	if (rc < 0) {
		pt_object_discard(repo, part);
		return rc;
	}
	*ret_revision = published.revision;
	return 0;
}

/* Writes and commits a writer's slice, or the whole. Returns the revision, 0 while pending. */
static inline uint64_t help_store(struct pt_repo *repo, uint64_t node, enum pt_written written, const struct pt_shape *shape, int rank, int size,
				  int dim, const char *step, uint64_t seed)
{
	struct pt_part part;
	uint64_t revision = 0;

	help_part(repo, written, PT_DTYPE_U8, shape, rank, size, dim, step, seed, &part);
	check_ok(help_commit(repo, node, &part, false, &revision));
	return revision;
}

static inline uint64_t help_key(struct pt_repo *repo, const char *key)
{
	struct pt_node node;

	check_ok(pt_node_by_key(repo, key, true, &node));
	pt_node_done(&node);
	return node.id;
}

/* Every byte of every object is that of seed + rank. */
static inline void help_check_bytes(struct pt_repo *repo, struct pt_manifest *m, uint64_t seed)
{
	uint8_t buf[65536];

	for (uint32_t i = 0; i < m->object_count; i++)
		for (uint64_t at = 0, n; at < m->objects[i].bytes; at += n) {
			n = m->objects[i].bytes - at < sizeof(buf) ? m->objects[i].bytes - at : sizeof(buf);
			check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .object = i, .off = at, .len = n, .buf = buf }, 1));
			for (uint64_t j = 0; j < n; j++)
				if (buf[j] != help_byte(seed + (uint64_t)m->objects[i].part.rank, at + j))
					ck_abort_msg("object %u byte %" PRIu64, i, at + j);
		}
}

static inline int help_count_blob(void *ctx, const struct pt_blob_ref *blob, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	(void)blob, (void)bytes, (void)mtime_ns, (void)staged, (void)live;
	++*(unsigned *)ctx;
	return 0;
}

/* Blobs of any state in the store. */
static inline unsigned help_blobs(struct pt_repo *repo)
{
	unsigned count = 0;

	check_ok(pt_data_list(&pt_repo_store(repo)->data, help_count_blob, &count));
	return count;
}

/* Runs fn in a process of its own; its return value (0..100) is the exit status. */
static inline pid_t help_spawn(int (*fn)(void *ctx), void *ctx)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(fn(ctx));
	return pid;
}

/* The exit status; 1000 + signal when killed. */
static inline int help_join(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#endif
