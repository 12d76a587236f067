/* tree/shard_tensor.c - what a tensor of a rank's state dict becomes: the key it goes to, the part of it that this rank stores, and the upload of that. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tree/rank_view.h"
#include "tree/shard_int.h"
#include "tree/tp_plan.h"

static int key_node(struct pt_shard_writer *w, struct pt_shard_tensor *t)
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

static int stored_dim(struct pt_shard_writer *w, const struct pt_shard_tensor *t)
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
static int decide(struct pt_shard_writer *w, const struct pt_shard_tensor *t, struct pt_request *req, bool *ret_skip)
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

int pt_shard_tensor_begin(struct pt_shard_writer *w, struct pt_shard_tensor *t)
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

int pt_shard_tensor_end(struct pt_shard_writer *w, struct pt_shard_tensor *t)
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
