/* unit/pt_support.h - a sink that keeps everything, and the files of tests/data/pt. */
#ifndef TESTS_PT_SUPPORT_H
#define TESTS_PT_SUPPORT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/size.h"
#include "format/parse.h"
#include "lib/suite.h"

#define KEEP_MAX 512                    /* storages, tensors */

struct keep {
	uint32_t storage_count, tensor_count;
	uint64_t bytes[KEEP_MAX], got[KEEP_MAX];
	uint8_t *data[KEEP_MAX];
	char *name[KEEP_MAX];
	struct pt_parse_tensor t[KEEP_MAX];
	int header_done, complete;
};

static inline int keep_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	struct keep *k = ctx;

	ck_assert_uint_eq(storage, k->storage_count);
	ck_assert(!k->header_done);
	ck_assert_uint_lt(storage, KEEP_MAX);
	k->bytes[storage] = bytes;
	/* A lying file may announce anything; only what small tests need is held. */
	k->data[storage] = calloc(1, bytes > 0 && bytes < PT_MIB ? bytes : 1);
	k->storage_count++;
	return 0;
}

static inline int keep_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	struct keep *k = ctx;

	ck_assert(!k->header_done);
	ck_assert_uint_lt(k->tensor_count, KEEP_MAX);
	ck_assert_uint_lt(t->storage, k->storage_count);
	k->t[k->tensor_count] = *t;
	k->name[k->tensor_count++] = strdup(t->name);
	return 0;
}

static inline int keep_header_done(void *ctx)
{
	((struct keep *)ctx)->header_done++;
	return 0;
}

static inline int keep_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	struct keep *k = ctx;

	ck_assert(k->header_done == 1 && !k->complete);
	ck_assert_uint_lt(storage, k->storage_count);
	ck_assert_uint_eq(off, k->got[storage]);
	ck_assert_uint_gt(len, 0);
	ck_assert(len <= k->bytes[storage] - off);
	if (k->bytes[storage] < PT_MIB && data)
		memcpy(k->data[storage] + off, data, len);
	k->got[storage] += len;
	return 0;
}

static inline int keep_complete(void *ctx)
{
	struct keep *k = ctx;

	for (uint32_t i = 0; i < k->storage_count; i++)
		ck_assert_uint_eq(k->got[i], k->bytes[i]);
	k->complete++;
	return 0;
}

static inline struct pt_parse_sink keep_sink(struct keep *k)
{
	memset(k, 0, sizeof(*k));
	return (struct pt_parse_sink){ .ctx = k, .storage = keep_storage, .tensor = keep_tensor, .header_done = keep_header_done,
				       .data = keep_data, .complete = keep_complete };
}

static inline void keep_done(struct keep *k)
{
	for (uint32_t i = 0; i < k->storage_count; i++)
		free(k->data[i]);
	for (uint32_t i = 0; i < k->tensor_count; i++)
		free(k->name[i]);
}

static inline void data_path(const char *name, char path[4096])
{
	const char *src = getenv("PTIO_SRC");

	snprintf(path, 4096, "%s/tests/data/pt/%s", src ? src : ".", name);
}

/* The file's bytes, exactly sized so that sanitizers see any overrun. */
static inline uint8_t *data_load(const char *name, size_t *ret_len)
{
	char path[4096];
	uint8_t *data;
	long len;
	FILE *f;

	data_path(name, path);
	f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "cannot open %s", path);
	ck_assert(fseek(f, 0, SEEK_END) == 0);
	len = ftell(f);
	ck_assert(len >= 0 && fseek(f, 0, SEEK_SET) == 0);
	data = malloc(len ? (size_t)len : 1);
	ck_assert(data && fread(data, 1, (size_t)len, f) == (size_t)len);
	fclose(f);
	*ret_len = (size_t)len;
	return data;
}

#endif
