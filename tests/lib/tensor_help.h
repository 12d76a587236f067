/* tests/lib/tensor_help.h - what the tensor tests share: a repo in memory or a directory, requests from text, tensors stored and read through
 * uploads and views. */
#ifndef TESTS_LIB_TENSOR_HELP_H
#define TESTS_LIB_TENSOR_HELP_H

#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lib/suite.h"
#include "tensor/tensor.h"

#define OK(expr) \
	do { \
		int64_t ok_rc = (expr); \
		ck_assert_msg(ok_rc >= 0, "%s: %lld: %s", #expr, (long long)ok_rc, pt_fail_sentence()); \
	} while (0)
#define FAILS(expr, err) \
	do { \
		int64_t fails_rc; \
		pt_fail_clear(); \
		fails_rc = (expr); \
		ck_assert_msg(fails_rc == -(err), "%s: %lld, not %d: %s", #expr, (long long)fails_rc, -(err), pt_fail_sentence()); \
		ck_assert_msg(*pt_fail_sentence(), "%s: no sentence", #expr); \
	} while (0)
/* The last failure's sentence has this in it. */
#define SAYS(text) ck_assert_msg(strstr(pt_fail_sentence(), text) != NULL, "'%s' is not in: %s", text, pt_fail_sentence())

static inline struct pt_repo *help_repo(void)
{
	struct pt_store_options so = { .create = true, .faults = "" };
	struct pt_store *store;
	struct pt_repo *repo;

	OK(pt_store_open("mem:256M", &so, &store));
	OK(pt_repo_open(store, NULL, &repo));
	return repo;
}

static inline uint64_t help_node(struct pt_repo *repo, const char *key)
{
	struct pt_node node;
	uint64_t id;

	OK(pt_node_by_key(repo, key, true, &node));
	id = node.id;
	pt_node_done(&node);
	return id;
}

/* "dp=0of2/tp=1of4@0/full", "dp=0/shard", "ep=1of4e3/full", "writer=0of4@1/full", "writer=0of4/full", "full;step=3;split=chunk".
 * A size, id or dim that is not written is missing. */
static inline struct pt_request help_req(const char *text)
{
	struct pt_request r = { .target = PT_TARGET_FULL };
	const char *p = text;

	while (strchr(p, '/') && strchr(p, '/') < strchr(p, '\0')) {
		struct pt_axis a = { .dim = -1 };
		char kind[8];
		int n = 0;

		ck_assert_int_eq(sscanf(p, "%7[a-z]=%d%n", kind, &a.rank, &n), 2);
		p += n;
		if (!strncmp(p, "of", 2))
			a.size = (int32_t)strtol(p + 2, (char **)&p, 10);
		if (*p == '@')
			a.dim = (int32_t)strtol(p + 1, (char **)&p, 10);
		if (*p == 'e' || *p == 's') {
			a.has_id = true;
			a.id = (int32_t)strtol(p + 1, (char **)&p, 10);
		}
		ck_assert_int_eq(*p++, '/');
		if (!strcmp(kind, "writer")) {
			r.has_partition = true;
			r.partition = (struct pt_partition){ .rank = a.rank, .size = a.size, .dim = a.dim };
			continue;
		}
		for (a.kind = PT_AXIS_DP; strcmp(kind, pt_axis_kind_name(a.kind)) != 0; a.kind++)
			ck_assert_int_lt(a.kind, PT_AXIS_KINDS);
		OK(pt_layout_add(&r.layout, &a));
		r.axis[r.axis_count++] = a;
	}
	if (!strncmp(p, "shard", 5))
		r.target = PT_TARGET_SHARD;
	else if (!strncmp(p, "as_stored", 9))
		r.target = PT_TARGET_AS_STORED;
	else
		ck_assert_msg(!strncmp(p, "full", 4), "%s", text);
	if (strstr(p, "split=chunk"))
		r.split = PT_SPLIT_CHUNK;
	if (strstr(p, "split=balanced"))
		r.split = PT_SPLIT_BALANCED;
	if (strstr(p, "step="))
		sscanf(strstr(p, "step="), "step=%64[^;]", r.step);
	return r;
}

static inline struct pt_shape help_shape(const char *text)
{
	struct pt_shape s;

	OK(pt_shape_parse(text, &s));
	return s;
}

/* Element i of a tensor called `seed`, as its bytes. */
static inline void help_fill(void *buf, uint64_t bytes, uint32_t seed)
{
	uint8_t *p = buf;
	uint64_t i;

	for (i = 0; i < bytes; i++)
		p[i] = (uint8_t)((i * 2654435761u >> 7) + i + seed * 97);
}

/* Stores a tensor of counting bytes through an upload. Returns the revision, 0 while pending, or -errno. */
static inline int64_t help_store(struct pt_repo *repo, uint64_t node, const char *req, enum pt_dtype dtype, const char *shape, uint32_t seed)
{
	struct pt_upload_options o = { .format = PT_FORMAT_COUNT, .mode = 0644 };
	struct pt_request r = help_req(req);
	struct pt_shape s = help_shape(shape);
	struct pt_published published;
	struct pt_upload *u;
	uint64_t bytes;
	uint8_t *data;
	int rc;

	OK(pt_shape_bytes(&s, dtype, &bytes));
	rc = pt_upload_open(repo, node, &r, &o, &u);
	if (rc < 0)
		return rc;
	data = malloc(bytes ? bytes : 1);
	help_fill(data, bytes, seed);
	rc = pt_upload_begin_tensor(u, dtype, &s);
	if (!rc)
		rc = pt_upload_feed_tensor(u, data, bytes);
	if (!rc)
		rc = pt_upload_publish(u, &published);
	pt_upload_free(u);
	free(data);
	return rc < 0 ? rc : (int64_t)published.revision;
}

static inline struct pt_view *help_view(struct pt_repo *repo, uint64_t node, const char *req)
{
	struct pt_request r = help_req(req);
	struct pt_view *v;

	OK(pt_view_resolve(repo, node, &r, &v));
	return v;
}

static inline int help_resolve(struct pt_repo *repo, uint64_t node, const char *req)
{
	struct pt_request r = help_req(req);
	struct pt_view *v;
	int rc = pt_view_resolve(repo, node, &r, &v);

	if (!rc)
		pt_view_unref(v);
	return rc;
}

/* The whole payload, malloc'd. */
static inline uint8_t *help_read(struct pt_view *v)
{
	uint8_t *data = calloc(1, pt_view_info(v)->bytes + 1);

	OK(pt_view_pin(v));
	OK(pt_view_read(v, data, pt_view_info(v)->bytes, 0));
	pt_view_unpin(v);
	return data;
}

/* Is what the request reads [off, off + ext) along dim of the counting tensor? ext 0 and dim -1: all of it. */
static inline void help_expect(struct pt_repo *repo, uint64_t node, const char *req, enum pt_dtype dtype, const char *shape, uint32_t seed, int dim,
			       uint64_t off, uint64_t ext)
{
	struct pt_shape s = help_shape(shape);
	struct pt_view *v = help_view(repo, node, req);
	uint64_t unit = pt_dtype_info(dtype)->bits / 8, outer = 1, bytes, o;
	uint8_t *have, *all;
	uint32_t d;

	OK(pt_shape_bytes(&s, dtype, &bytes));
	all = malloc(bytes + 1);
	help_fill(all, bytes, seed);
	have = help_read(v);
	ck_assert_int_eq(pt_view_info(v)->dtype, dtype);
	ck_assert(pt_shape_equal(&pt_view_info(v)->global_shape, &s));
	if (dim < 0) {
		ck_assert_uint_eq(pt_view_info(v)->bytes, bytes);
		ck_assert_mem_eq(have, all, bytes);
	} else {
		for (d = 0; d < s.ndim; d++) {
			outer *= d < (uint32_t)dim ? s.dim[d] : 1;
			unit *= d > (uint32_t)dim ? s.dim[d] : 1;
		}
		ck_assert_uint_eq(pt_view_info(v)->shape.dim[dim], ext);
		ck_assert_uint_eq(pt_view_info(v)->bytes, outer * ext * unit);
		for (o = 0; o < outer; o++)
			ck_assert_msg(!memcmp(have + o * ext * unit, all + (o * s.dim[dim] + off) * unit, ext * unit), "%s: row %llu", req,
				      (unsigned long long)o);
	}
	free(all);
	free(have);
	pt_view_unref(v);
}

#endif
