/* tree/shard_write.c - one state dict, many uploads. What comes goes to shard_sink.c by way of the parser. The parts of the tensors that are in wait, sealed, until
 * the whole file is, and are published by one batch (manifest/group.c), which makes the keys that are not there yet as well. */
#include "tree/shard_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/repickle.h"
#include "tree/shard_int.h"

#define HEAD_HOLE_MAX PT_MIB            /* of zeros at once that a header may have */

/* Which ranks' files belong together. */
static void round_make(struct pt_shard_writer *w)
{
	const struct pt_axis *tp = pt_layout_find(&w->base.layout, PT_AXIS_TP);
	uint64_t kind = w->base.has_partition ? 1 : tp ? 2 : 3;
	struct pt_layout scope;

	pt_layout_scope(&w->base.layout, &scope);
	pt_layout_format(&scope, w->scope);
	w->bundle.rank = kind == 1 ? (uint32_t)w->base.partition.rank : kind == 2 ? (uint32_t)tp->rank : 0;
	w->round = (struct pt_group_round){ .round = kind << 32 | (kind == 1 ? (uint32_t)w->base.partition.size : kind == 2 ? (uint32_t)tp->size : 1),
					    .scope = w->scope, .step = w->base.step, .mode = w->attrs.mode, .uid = w->attrs.uid, .gid = w->attrs.gid,
					    .mtime_ns = w->attrs.mtime_ns };
}

int pt_shard_writer_create(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const struct pt_request *base, const char *file_name,
			   const struct pt_upload_options *attrs, struct pt_shard_writer **ret_w)
{
	struct pt_shard_writer *w = pt_calloc(1, sizeof(*w));
	const char *dot = strrchr(file_name, '.');
	int rc;

	if (!w)
		return pt_fail_nomem();
	w->models = models;
	w->repo = repo;
	w->dir_node = dir_node;
	w->base = *base;
	w->attrs = *attrs;
	round_make(w);
	w->bundle.round = &w->round;
	w->spool.fd = -1;
	w->open_storage = UINT32_MAX;
	w->file_name = pt_strdup(file_name);
	w->stem = dot && dot != file_name ? pt_asprintf("%.*s", (int)(dot - file_name), file_name) : pt_strdup(file_name);
	rc = w->file_name && w->stem ? pt_models_dir(models, dir_node, &w->dir) : pt_fail_nomem();
	if (!rc)
		rc = pt_node_key(repo, dir_node, w->dir_key);
	if (!rc)
		rc = pt_group_create(repo, dir_node, &w->group);
	if (rc < 0) {
		pt_shard_writer_free(w);
		return rc;
	}
	pt_group_round(w->group, &w->round);
	*ret_w = w;
	return 0;
}

/* ---- feeding ---- */

/* The header is complete: what the directory's file takes from it is kept, the rest of the head goes. */
static int head_done(struct pt_shard_writer *w)
{
	const uint8_t *data;
	struct pt_repickle *r;
	size_t len;
	int rc = 0;

	if (pt_parser_format(w->parser) == PT_FORMAT_PT && pt_repickle_find(w->head.data, w->head.len, &data, &len) == 0) {
		rc = pt_repickle_create(data, len, &r);
		if (rc == 0) {
			pt_buf_append(&w->pickle, data, pt_repickle_length(r));
			pt_repickle_free(r);
		} else if (rc != -ENOMEM) {
			rc = 0;         /* a flat file, then */
		}
		if (rc == 0 && pt_buf_failed(&w->pickle))
			rc = pt_fail_nomem();
		if (rc == 0)
			pt_fail_clear();
	}
	pt_buf_done(&w->head);
	return rc;
}

static int failed(struct pt_shard_writer *w, int rc)
{
	w->error = rc;
	snprintf(w->sentence, sizeof(w->sentence), "%s", pt_fail_sentence());
	return rc;
}

int pt_shard_writer_feed(struct pt_shard_writer *w, const void *data, uint64_t len)
{
	struct pt_parse_sink sink;
	int rc;

	if (w->error)
		return pt_fail(-w->error, "%s", w->sentence);
	if (!len)
		return 0;
	w->holed = !w->header_done && !data && len > HEAD_HOLE_MAX;
	if (w->holed)
		return failed(w, pt_fail(EINVAL, "the file's header has a hole"));
	if (!w->header_done && data)
		pt_buf_append(&w->head, data, len);
	else if (!w->header_done)
		pt_buf_append_zeros(&w->head, len);
	if (pt_buf_failed(&w->head))
		return pt_fail_nomem();
	w->fed += len;
	pt_shard_sink(w, &sink);
	rc = w->parser ? 0 : pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &w->parser);
	if (!rc)
		rc = pt_parser_feed(w->parser, data, len);
	if (!rc && w->header_done && w->head.len)
		rc = head_done(w);
	return rc < 0 ? failed(w, rc) : 0;
}

uint64_t pt_shard_writer_fed(const struct pt_shard_writer *w)
{
	return w->fed;
}

const struct pt_buf *pt_shard_writer_head(const struct pt_shard_writer *w)
{
	return w->header_done ? NULL : &w->head;
}

int pt_shard_writer_rename(struct pt_shard_writer *w, const char *file_name)
{
	char *name = pt_strdup(file_name);

	if (!name)
		return pt_fail_nomem();
	free(w->file_name);
	w->file_name = name;
	return 0;
}

bool pt_shard_writer_is_tensors(const struct pt_shard_writer *w)
{
	return !w->holed && w->parser && pt_parser_format(w->parser) < PT_FORMAT_COUNT && pt_parser_format(w->parser) != PT_FORMAT_BIN;
}

int pt_shard_writer_end(struct pt_shard_writer *w)
{
	int rc;

	if (w->error)
		return pt_fail(-w->error, "%s", w->sentence);
	if (!w->parser)
		return pt_fail(EIO, "the file is empty");
	rc = pt_parser_end(w->parser);
	if (rc < 0)
		return rc == -EINVAL ? -EIO : rc;
	w->ended = true;
	return 0;
}

/* ---- publishing ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Tensors that only other ranks' files of the round have wait for these as well. */
static int group_begin(void *ctx, bool *ret_all)
{
	struct pt_shard_writer *w = ctx;
	const char *name;
	uint32_t i;
	int rc;

	rc = pt_bundle_look(&w->bundle, w->models, w->repo, w->dir_node);
	if (!rc)
		rc = pt_bundle_check(&w->bundle, w->models, w->repo, w->dir_node);
	for (i = 0; !rc && i < w->bundle.joined_count; i++) {
		name = w->bundle.joined[i];
		if (!bsearch(&name, w->bundle.names, w->bundle.count, sizeof(*w->bundle.names), by_text))
			rc = pt_group_follow(w->group, name);
	}
	*ret_all = w->bundle.all;
	return rc;
}

static int group_file(void *ctx, bool finishes, struct pt_group_file *ret_file, bool *ret_writes)
{
	struct pt_shard_writer *w = ctx;

	return pt_bundle_make(&w->bundle, w->repo, finishes, ret_file, ret_writes);
}

int pt_shard_writer_publish(struct pt_shard_writer *w)
{
	static const struct pt_group_calls calls = { .begin = group_begin, .file = group_file };
	uint32_t i;
	int rc = w->ended ? 0 : pt_shard_writer_end(w);

	if (rc < 0)
		return rc;
	w->bundle.names = pt_reallocarray(w->bundle.names, w->tensor_count, sizeof(*w->bundle.names));
	w->bundle.in_order = pt_reallocarray(w->bundle.in_order, w->tensor_count, sizeof(*w->bundle.in_order));
	if (!w->bundle.names || !w->bundle.in_order)
		return pt_fail_nomem();
	for (i = 0; i < w->tensor_count; i++)
		w->bundle.in_order[i] = w->bundle.names[i] = w->tensors[i].name;
	w->bundle.pickle = &w->pickle;
	w->bundle.count = w->tensor_count;
	qsort(w->bundle.names, w->bundle.count, sizeof(*w->bundle.names), by_text);
	w->bundle.file_name = w->file_name;
	w->bundle.format = pt_parser_format(w->parser);
	w->bundle.attrs = &w->attrs;
	rc = pt_group_publish(w->group, &calls, w);
	pt_bundle_done(&w->bundle, w->repo, rc);
	return rc;
}

void pt_shard_writer_free(struct pt_shard_writer *w)
{
	uint32_t i;

	if (!w)
		return;
	for (i = 0; i < w->tensor_count; i++) {
		pt_upload_free(w->tensors[i].upload);
		free(w->tensors[i].key);
		free(w->tensors[i].name);
	}
	pt_group_free(w->group);
	pt_buf_done(&w->head);
	pt_buf_done(&w->pickle);
	free(w->bundle.names);
	free(w->bundle.in_order);
	pt_parser_free(w->parser);
	pt_spool_done(&w->spool);
	pt_model_dir_unref(w->dir);
	free(w->tensors);
	free(w->order);
	free(w->storage_bytes);
	free(w->stem);
	free(w->file_name);
	free(w);
}
