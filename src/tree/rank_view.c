/* tree/rank_view.c - which part of a tensor a rank sees, and files made of such parts. */
#include "tree/rank_view.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "format/repickle.h"
#include "tensor/known.h"

int pt_rank_of(const struct pt_request *base, struct pt_partition *ret_rank)
{
	const struct pt_axis *tp = pt_layout_find(&base->layout, PT_AXIS_TP);

	*ret_rank = (struct pt_partition){ .rank = 0, .size = 1, .dim = -1 };
	if (!tp)
		return 0;
	if (tp->dim >= 0)
		return pt_fail(EINVAL, "here each tensor has its own dimension (tp_plan.json): leave ,dim=%d out", (int)tp->dim);
	if (!tp->size)
		return pt_fail(EINVAL, "say of how many ranks: tp=%dofN", (int)tp->rank);
	ret_rank->rank = tp->rank;
	ret_rank->size = tp->size;
	return 0;
}

/* Shape of a tensor of the directory's files by its name; withheld names count, if all who have it agree. */
static bool shape_by_name(const struct pt_model_dir *dir, const char *name, struct pt_parse_tensor *ret_t)
{
	struct pt_shape first;
	bool found = false;
	uint32_t i;

	for (i = dir ? pt_model_dir_from(dir, name) : 0; dir && i < dir->alias_count && strcmp(dir->aliases[i].name, name) == 0; i++) {
		pt_container_tensor(dir->files[dir->aliases[i].file].c, dir->aliases[i].tensor, ret_t);
		if (found && !pt_shape_equal(&first, &ret_t->shape))
			return false;
		first = ret_t->shape;
		found = true;
	}
	return found;
}

static int cut_dim(const char *name, enum pt_dtype dtype, const struct pt_shape *shape, int32_t dim, const struct pt_partition *rank, enum pt_split split,
		   const char *why, struct pt_many_cut *ret_cut)
{
	struct pt_partition part = { .rank = rank->rank, .size = rank->size, .dim = dim };
	struct pt_box box;
	int rc;

	if ((uint32_t)dim >= shape->ndim)
		return pt_fail(EINVAL, "%.300s has %u dimensions and cannot be split on dimension %d (%s); say \"replicate\" in tp_plan.json", name, shape->ndim,
			       (int)dim, why);
	rc = pt_shard_box(shape, dtype, &part, split, &box);
	if (rc < 0)
		return pt_fail_context(rc, "%.300s", name);
	*ret_cut = (struct pt_many_cut){ .dim = dim, .off = box.off[dim], .ext = box.ext[dim] };
	return 0;
}

static int cut_scale(const struct pt_model_dir *dir, const char *name, const struct pt_shape *shape, const struct pt_tp_rule *rule,
		     const struct pt_partition *rank, enum pt_split split, struct pt_many_cut *ret_cut, const char **ret_why)
{
	struct pt_tp_rule weight_rule;
	struct pt_parse_tensor weight;
	struct pt_many_cut cut;
	struct pt_box box;
	uint32_t d;
	int rc;

	if (!shape_by_name(dir, rule->follows, &weight)) {
		*ret_why = "replicated: it is a scale, and its weight is not in this directory";
		return 0;
	}
	pt_tp_plan_rule(dir->plan, rule->follows, &weight.shape, &weight_rule);
	rc = cut_dim(rule->follows, weight.dtype, &weight.shape, weight_rule.dim, rank, split, weight_rule.why, &cut);
	if (!rc)
		rc = pt_tp_scale_box(&weight.shape, cut.dim, cut.off, cut.ext, shape, &box);
	if (rc < 0)
		return pt_fail_context(rc, "%.300s", name);
	for (d = 0; d < shape->ndim; d++)
		if (box.ext[d] != shape->dim[d])
			*ret_cut = (struct pt_many_cut){ .dim = (int32_t)d, .off = box.off[d], .ext = box.ext[d] };
	return 0;
}

int pt_rank_cut(const struct pt_model_dir *dir, const char *name, enum pt_dtype dtype, const struct pt_shape *shape, int32_t stored_dim,
		const struct pt_partition *rank, enum pt_split split, struct pt_many_cut *ret_cut, const char **ret_why, bool *ret_known)
{
	struct pt_many_cut cut = { .dim = -1 };
	struct pt_tp_rule rule;
	int rc = 0;

	if (dir && dir->plan_error)
		return pt_fail(EINVAL, "%s", dir->plan_error);
	if (stored_dim >= 0) {
		rule.dim = stored_dim;
		rule.why = "as it is stored";
	} else {
		pt_tp_plan_rule(dir ? dir->plan : NULL, name, shape, &rule);
	}
	*ret_why = rule.why;
	if (ret_known)
		*ret_known = rule.dim != PT_TP_DIM_UNKNOWN;
	if (rule.dim == PT_TP_DIM_SCALE)
		rc = cut_scale(dir, name, shape, &rule, rank, split, &cut, ret_why);
	else if (rule.dim >= 0)
		rc = cut_dim(name, dtype, shape, rule.dim, rank, split, rule.why, &cut);
	if (rc < 0)
		return rc;
	if (rank->size == 1)
		cut.dim = -1;
	*ret_cut = cut;
	return 0;
}

int pt_rank_revision(struct pt_repo *repo, uint64_t key_node, const char *name, const struct pt_request *base, struct pt_manifest **ret_m, int32_t *ret_dim)
{
	struct pt_request req = { .target = PT_TARGET_FULL };
	struct pt_manifest *m;
	struct pt_view *v;
	int rc;

	pt_layout_scope(&base->layout, &req.layout);
	rc = pt_view_resolve(repo, key_node, &req, &v);
	if (rc < 0)
		return rc == -ENOENT ? rc : pt_fail_context(rc, "%.300s", name);
	m = pt_view_manifest(v);
	if (!pt_view_info(v)->complete || !m || m->pending) {
		rc = pt_view_pin(v);    /* says what is missing */
		if (rc >= 0) {
			pt_view_unpin(v);
			rc = pt_fail(ENODATA, "its set is not complete yet");
		}
		pt_fail_context(rc, "%.300s", name);
	} else {
		*ret_m = pt_manifest_ref(m);
		*ret_dim = pt_written_is_tp(m->written) && pt_objects_define_dim(m->objects, m->object_count) ? m->set_dim : -1;
	}
	pt_view_unref(v);
	return rc;
}

static int add_key(struct pt_repo *repo, const struct pt_model_dir *dir, uint64_t key_node, const char *name, const char *as, const struct pt_request *base,
		   const struct pt_partition *rank, struct pt_many *many)
{
	struct pt_manifest *m;
	struct pt_many_cut cut;
	const char *why;
	int32_t dim;
	int rc;

	rc = pt_rank_revision(repo, key_node, as, base, &m, &dim);
	if (rc < 0)
		return rc;
	rc = pt_rank_cut(dir, name, m->dtype, &m->shape, dim, rank, base->split != PT_SPLIT_UNSET ? base->split : m->split, &cut, &why, NULL);
	if (!rc)
		rc = pt_many_add_revision(many, as, m, &cut);
	pt_manifest_unref(m);
	return rc;
}

static int bundle_view(struct pt_repo *repo, struct pt_model_dir *dir, struct pt_container *c, const struct pt_request *base, const struct pt_partition *rank,
		       struct pt_many *many)
{
	struct pt_node node;
	const char *name;
	uint32_t i;
	int rc;

	/* What it says of the file's shape is true of the revisions that came with it. */
	rc = c->tensor_count ? pt_many_add_container(many, c) : pt_fail(ENODATA, "the ranks that write this file have not all written it yet");
	for (i = 0; i < c->tensor_count && !rc; i++) {
		name = c->names + c->tensors[i].name;
		rc = pt_node_lookup(repo, dir->node, name, &node);
		if (!rc) {
			rc = add_key(repo, dir, node.id, name, name, base, rank, many);
			pt_node_done(&node);
		}
		if (rc == -ENOENT)
			rc = pt_fail(ENODATA, "%.300s: the tensor has been removed, or not been written yet", name);
	}
	return rc;
}

/* data.pkl of a torch file, which has been read as such when the file was stored. */
static int pickle_of(const struct pt_container *c, const uint8_t **ret_data, size_t *ret_len)
{
	const struct pt_container_segment *s = c->segments;

	if (c->verbatim)
		return pt_repickle_find(c->literals, (size_t)c->literal_bytes, ret_data, ret_len);
	if (c->bundle) {
		*ret_data = c->literals;
		*ret_len = (size_t)c->literal_bytes;
		return 0;
	}
	if (!c->segment_count || s->object != PT_CONTAINER_LITERAL)
		return pt_fail(EOPNOTSUPP, "its description is not where torch puts it");
	return pt_repickle_find(c->literals + s->off, (size_t)s->end, ret_data, ret_len);
}

/* A torch file keeps its shape, if that can be; else it is a flat dict, and says why. */
static int finish(struct pt_many *many, const struct pt_container *c, const struct pt_axis *tp)
{
	struct pt_repickle *r = NULL;
	const uint8_t *pickle;
	const char *why = NULL;
	size_t len;
	int rc;

	if (c->format != PT_FORMAT_PT || (c->bundle && !c->literal_bytes))
		return pt_many_finish(many, c->bare && c->tensor_count == 1, tp);
	rc = pickle_of(c, &pickle, &len);
	if (!rc)
		rc = pt_repickle_create(pickle, len, &r);
	if (!rc)
		rc = pt_many_finish_like(many, r, &why);
	else if (rc != -ENOMEM)
		why = pt_fail_sentence();
	if (why) {
		rc = pt_many_flat_set(many, why);
		pt_fail_clear();
		if (!rc)
			rc = pt_many_finish(many, c->bare && c->tensor_count == 1, tp);
	}
	pt_repickle_free(r);
	return rc;
}

int pt_rank_view(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, struct pt_container *c, const struct pt_request *base, struct pt_many **ret_many)
{
	const struct pt_axis *tp = pt_layout_find(&base->layout, PT_AXIS_TP);
	struct pt_model_dir *dir = NULL;
	struct pt_partition rank;
	struct pt_many *many = NULL;
	struct pt_parse_tensor t;
	struct pt_many_cut cut;
	const char *why;
	uint32_t i;
	int rc;

	rc = pt_rank_of(base, &rank);
	if (!rc)
		rc = pt_models_dir(models, dir_node, &dir);
	if (!rc)
		rc = pt_many_create(repo, c->format, &many);
	if (!rc && c->bundle)
		rc = bundle_view(repo, dir, c, base, &rank, many);
	for (i = 0; !rc && !c->bundle && i < c->tensor_count; i++) {
		const char *stem = "";

		pt_container_tensor(c, i, &t);
		if (!t.name[0] && c->bare) {
			uint32_t f;

			for (f = 0; f < dir->file_count; f++)
				if (dir->files[f].node == c->node)
					stem = dir->stems[f];
		}
		rc = pt_rank_cut(dir, t.name[0] ? t.name : stem, t.dtype, &t.shape, -1, &rank, base->split, &cut, &why, NULL);
		if (!rc)
			rc = pt_many_add_tensor(many, t.name, c, i, &cut);
	}
	if (!rc)
		rc = finish(many, c, tp);
	pt_model_dir_unref(dir);
	if (rc < 0) {
		pt_many_free(many);
		return rc;
	}
	*ret_many = many;
	return 0;
}
