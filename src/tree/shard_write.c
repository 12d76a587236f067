/* tree/shard_write.c - one state dict, many uploads. At any time only the uploads of tensors on the storage that is coming in are open; the parts of those done wait,
 * sealed, until the whole file is in, and are published by one batch (manifest/group.c), which makes the keys that are not there yet as well. */
#include "tree/shard_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/repickle.h"
#include "tensor/spool.h"
#include "tree/bundle.h"
#include "tree/rank_view.h"

#define STORAGE_TENSORS 512             /* uploads open at once, each with a window and a descriptor */
#define HEAD_HOLE_MAX PT_MIB            /* of zeros at once that a header may have */

struct tensor {
	char *name;
	struct pt_parse_tensor t;       /* name not kept */
	uint64_t bytes;
	uint64_t fed;
	char *key;                      /* of a key that is not there yet, while upload is open */
	struct pt_upload *upload;       /* NULL: not begun, done, or another rank's to store */
	uint64_t node;                  /* of the key; 0: not there */
	bool skip;                      /* another rank's to store */
};

struct pt_shard_writer {
	struct pt_models *models;
	struct pt_repo *repo;
	uint64_t dir_node;
	struct pt_request base;
	char *stem, *file_name;
	struct pt_upload_options attrs;
	struct pt_model_dir *dir;
	char dir_key[PT_KEY_MAX + 1];
	struct pt_group *group;
	struct pt_group_round round;
	char scope[PT_LAYOUT_TEXT_MAX];
	struct pt_bundle bundle;
	struct pt_parser *parser;
	int error;
	char sentence[PT_FAIL_SENTENCE_MAX];
	bool header_done, ended;
	bool holed;                     /* failed: no header has such a hole */
	uint64_t fed;
	struct pt_buf head;             /* what has been fed, until the header is done */
	struct pt_buf pickle;           /* of a torch file that can keep its shape */
	uint64_t *storage_bytes;
	uint32_t storage_count;
	struct tensor *tensors;
	uint32_t tensor_count, tensor_cap;
	uint32_t *order;                /* tensors by storage */
	uint32_t open_storage;          /* the one coming in; UINT32_MAX: none */
	uint32_t open_first, open_end;  /* its tensors, in order */
	struct pt_spool spool;          /* of that storage, when a tensor in it is strided */
};

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

/* ---- what each tensor becomes ---- */

static int key_node(struct pt_shard_writer *w, struct tensor *t)
{
	struct pt_node n;
	int rc;

	if (strchr(t->name, '/'))
		return pt_fail(EINVAL, "the tensor's name holds a slash, so it cannot be a key of this directory");
	if (strcmp(t->name, w->file_name) == 0)
		return pt_fail(EEXIST, "the tensor is called as the file: one directory cannot show both");
	rc = pt_node_lookup(w->repo, w->dir_node, t->name, &n);
	if (rc == -ENOENT) {            /* made when all is published */
		pt_fail_clear();
		t->key = pt_asprintf("%s%s%s", w->dir_key, w->dir_key[0] ? "/" : "", t->name);
		if (!t->key)
			return pt_fail_nomem();
		return strlen(t->key) <= PT_KEY_MAX ? 0 : pt_fail(ENAMETOOLONG, "the key would be longer than %d bytes", PT_KEY_MAX);
	}
	if (rc < 0)
		return rc;
	if (n.kind != PT_NODE_DIR)
		rc = pt_fail(ENOTDIR, "a file of that name is in the way of the key");
	else
		t->node = n.id;
	pt_node_done(&n);
	return rc;
}

static int stored_dim(struct pt_shard_writer *w, const struct tensor *t)
{
	struct pt_manifest *m;
	int32_t dim = -1;

	if (!t->node)
		return -1;
	if (pt_rank_revision(w->repo, t->node, t->name, &w->base, &m, &dim) == 0)
		pt_manifest_unref(m);
	pt_fail_clear();
	return dim;
}

static void dim_set(struct pt_request *req, int32_t dim)
{
	uint32_t i;

	for (i = 0; i < req->layout.axis_count; i++)
		if (req->layout.axis[i].kind == PT_AXIS_TP)
			req->layout.axis[i].dim = dim;
	for (i = 0; i < req->axis_count; i++)
		if (req->axis[i].kind == PT_AXIS_TP)
			req->axis[i].dim = dim;
}

/* The tensor in this scope, without the tp axis or partition. */
static void whole_of_scope(struct pt_request *req)
{
	struct pt_layout scope;
	uint32_t i, n = 0;

	pt_layout_scope(&req->layout, &scope);
	req->layout = scope;
	for (i = 0; i < req->axis_count; i++)
		if (req->axis[i].kind != PT_AXIS_TP)
			req->axis[n++] = req->axis[i];
	req->axis_count = n;
	req->has_partition = false;
	req->target = PT_TARGET_FULL;
}

static int beyond(const struct pt_tp_rule *rule, int32_t dim, const struct pt_shape *shape)
{
	return pt_fail(EINVAL, "it has %u dimensions and cannot be split on dimension %d (%s)", shape->ndim, (int)dim, rule->why);
}

/* Completes req; *ret_skip: another rank stores it. */
static int decide(struct pt_shard_writer *w, const struct tensor *t, struct pt_request *req, bool *ret_skip)
{
	const struct pt_axis *tp = pt_layout_find(&w->base.layout, PT_AXIS_TP);
	const struct pt_shape *shape = &t->t.shape;
	struct pt_tp_rule rule;
	int32_t dim;

	*req = w->base;
	req->target = PT_TARGET_FULL;
	*ret_skip = false;
	if (w->dir->plan_error)
		return pt_fail(EINVAL, "%s", w->dir->plan_error);
	if (!w->base.has_partition && !tp)
		return 0;
	dim = stored_dim(w, t);
	if (dim >= 0)
		rule = (struct pt_tp_rule){ .dim = dim, .why = "as it is stored" };
	else
		pt_tp_plan_rule(w->dir->plan, t->name, shape, &rule);
	if (w->base.has_partition) {
		dim = w->base.partition.dim >= 0 ? w->base.partition.dim : rule.dim >= 0 ? rule.dim : 0;
		if (shape->ndim == 0) {
			*ret_skip = w->base.partition.rank != 0;
			whole_of_scope(req);
		} else if ((uint32_t)dim >= shape->ndim) {
			return beyond(&rule, dim, shape);
		}
		req->partition.dim = dim;
		return 0;
	}
	if (tp->dim >= 0) {
		dim = tp->dim;
	} else if (rule.dim == PT_TP_DIM_UNKNOWN && shape->ndim) {
		return pt_fail(EINVAL, "no plan says how it is split, so a shard cannot be told from a copy: name it in tp_plan.json (colwise, rowwise, replicate or dim=D)");
	} else if (rule.dim == PT_TP_DIM_SCALE) {
		struct pt_tp_rule weight;

		pt_tp_plan_rule(w->dir->plan, rule.follows, NULL, &weight);
		dim = weight.dim >= 0 && (uint32_t)weight.dim < shape->ndim && shape->dim[weight.dim] > 1 ? weight.dim : -1;
	} else {
		dim = rule.dim;
	}
	if (dim < 0 || tp->size == 1) {
		*ret_skip = tp->rank != 0;
		whole_of_scope(req);
		return 0;
	}
	if ((uint32_t)dim >= shape->ndim)
		return beyond(&rule, dim, shape);
	req->target = PT_TARGET_SHARD;
	dim_set(req, dim);
	return 0;
}

static int tensor_begin(struct pt_shard_writer *w, struct tensor *t)
{
	struct pt_upload_options options = w->attrs;
	struct pt_request req;
	bool skip;
	int rc;

	rc = key_node(w, t);
	if (!rc)
		rc = decide(w, t, &req, &skip);
	if (!rc && skip)
		t->skip = true;
	options.new_key = t->key;
	if (!rc && !skip)
		rc = pt_upload_open(w->repo, t->node, &req, &options, &t->upload);
	if (!rc && !skip)
		rc = pt_upload_begin_tensor(t->upload, t->t.dtype, &t->t.shape);
	return rc < 0 ? pt_fail_context(rc, "%.300s", t->name) : 0;
}

/* All of the tensor is in: its part waits in the group, or, stored by another rank, for what that rank has left there. */
static int tensor_end(struct pt_shard_writer *w, struct tensor *t)
{
	struct pt_part part;
	int rc;

	if (t->skip)
		return pt_group_follow(w->group, t->name);
	if (!pt_upload_complete(t->upload))
		return pt_fail_context(pt_fail(EINVAL, "the tensor reaches beyond its storage"), "%.300s", t->name);
	rc = pt_upload_take(t->upload, &part);
	if (!rc)
		rc = pt_group_add(w->group, t->name, &part);
	pt_upload_free(t->upload);
	free(t->key);
	t->upload = NULL;
	t->key = NULL;
	return rc < 0 ? pt_fail_context(rc, "%.300s", t->name) : 0;
}

/* ---- the parser's sink ---- */

static int on_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	struct pt_shard_writer *w = ctx;
	uint64_t *more;

	if (!(storage & (storage - 1))) {
		more = pt_reallocarray(w->storage_bytes, storage ? 2 * (size_t)storage : 1, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		w->storage_bytes = more;
	}
	w->storage_bytes[storage] = bytes;
	w->storage_count = storage + 1;
	return 0;
}

static int on_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	struct pt_shard_writer *w = ctx;
	struct tensor *more, *n;

	if (w->tensor_count == w->tensor_cap) {
		more = pt_reallocarray(w->tensors, w->tensor_cap ? 2 * (size_t)w->tensor_cap : 16, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		w->tensors = more;
		w->tensor_cap = w->tensor_cap ? 2 * w->tensor_cap : 16;
	}
	n = &w->tensors[w->tensor_count];
	memset(n, 0, sizeof(*n));
	n->t = *t;
	n->t.name = "";
	n->t.obj = NULL;
	n->name = pt_strdup(t->name[0] ? t->name : w->stem);
	if (!n->name)
		return pt_fail_nomem();
	w->tensor_count++;
	if (t->obj && !t->obj->full)
		return pt_fail(EINVAL, "%.300s: a tensor object that is a shard goes to its key: KEY/tp=RofN,dim=D/shard", n->name);
	return pt_shape_bytes(&t->shape, t->dtype, &n->bytes);
}

static __thread const struct tensor *sort_tensors;        /* qsort has no argument of its own */

static int by_storage(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b, sx = sort_tensors[x].t.storage, sy = sort_tensors[y].t.storage;

	return sx != sy ? (sx < sy ? -1 : 1) : (x > y) - (x < y);
}

static int on_header_done(void *ctx)
{
	struct pt_shard_writer *w = ctx;
	uint32_t i;
	int rc = 0;

	if (!w->tensor_count)
		return pt_fail(EINVAL, "the file holds no tensor");
	w->header_done = true;
	w->order = pt_reallocarray(NULL, w->tensor_count, sizeof(*w->order));
	if (!w->order)
		return pt_fail_nomem();
	for (i = 0; i < w->tensor_count; i++)
		w->order[i] = i;
	sort_tensors = w->tensors;
	qsort(w->order, w->tensor_count, sizeof(*w->order), by_storage);
	/* Those without bytes will never see any. */
	for (i = 0; i < w->tensor_count && !rc; i++) {
		if (w->tensors[i].bytes)
			continue;
		rc = tensor_begin(w, &w->tensors[i]);
		if (!rc)
			rc = tensor_end(w, &w->tensors[i]);
	}
	return rc;
}

static int storage_open(struct pt_shard_writer *w, uint32_t storage)
{
	uint32_t lo = 0, hi = w->tensor_count, i, begun = 0;
	int rc = 0;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (w->tensors[w->order[mid]].t.storage < storage)
			lo = mid + 1;
		else
			hi = mid;
	}
	w->open_storage = storage;
	w->open_first = w->open_end = lo;
	for (i = lo; i < w->tensor_count && w->tensors[w->order[i]].t.storage == storage && !rc; i++) {
		struct tensor *t = &w->tensors[w->order[i]];

		w->open_end = i + 1;
		if (!t->bytes)
			continue;
		if (begun++ == STORAGE_TENSORS)
			return pt_fail(EFBIG, "more than %d tensors of the file share one storage: clone() them before saving", STORAGE_TENSORS);
		rc = tensor_begin(w, t);
		if (!rc && !t->skip && !t->t.contiguous && w->spool.fd < 0)
			rc = pt_spool_open(&w->spool, pt_repo_store(w->repo)->dir, w->storage_bytes[storage]);
	}
	return rc;
}

static int gathered(void *ctx, const void *data, uint64_t len)
{
	return pt_upload_feed_tensor(ctx, data, len);
}

static int storage_close(struct pt_shard_writer *w)
{
	uint32_t i;
	int rc = 0;

	for (i = w->open_first; i < w->open_end && !rc; i++) {
		struct tensor *t = &w->tensors[w->order[i]];

		if (!t->bytes)
			continue;
		if (!t->skip && !t->t.contiguous)
			rc = pt_spool_gather(&w->spool, &t->t, gathered, t->upload);
		if (rc < 0)
			pt_fail_context(rc, "%.300s", t->name);
		else
			rc = tensor_end(w, t);
	}
	pt_spool_done(&w->spool);
	w->open_storage = UINT32_MAX;
	return rc;
}

static int on_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	struct pt_shard_writer *w = ctx;
	uint32_t i;
	int rc = 0;

	if (w->open_storage != storage) {
		if (w->open_storage != UINT32_MAX || off)
			return pt_fail(EINVAL, "a storage comes in pieces");
		rc = storage_open(w, storage);
	}
	if (!rc && w->spool.fd >= 0)
		rc = pt_spool_write(&w->spool, data, len, off);
	for (i = w->open_first; i < w->open_end && !rc; i++) {
		struct tensor *t = &w->tensors[w->order[i]];
		uint64_t first = pt_size_max(off, t->t.storage_off), last = pt_size_min(off + len, t->t.storage_off + t->bytes);

		if (t->skip || !t->t.contiguous || first >= last)
			continue;
		rc = pt_upload_feed_tensor(t->upload, data ? (const uint8_t *)data + (first - off) : NULL, last - first);
		if (rc < 0)
			pt_fail_context(rc, "%.300s", t->name);
	}
	if (!rc && off + len == w->storage_bytes[storage])
		rc = storage_close(w);
	return rc;
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
	struct pt_parse_sink sink = { .ctx = w, .storage = on_storage, .tensor = on_tensor, .header_done = on_header_done, .data = on_data };
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
