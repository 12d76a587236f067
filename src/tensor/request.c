/* tensor/request.c - completes a request: sizes, ids and dimensions that a path left out are taken from what is stored or
 * pending. Pure, over a snapshot of the node. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tensor/known.h"

int pt_request_check(const struct pt_request *req)
{
	const struct pt_partition *p = &req->partition;

	if (req->has_partition && req->layout.axis_count)
		return pt_fail(EINVAL, "a writer partition together with a parallel axis: give one of them");
	if (req->target == PT_TARGET_SHARD && !req->has_partition && !req->layout.axis_count)
		return pt_fail(EINVAL, "`shard` needs an axis to say which shard: for example tp=0of4,dim=0/shard; `full` is the whole tensor");
	if (req->has_partition && (p->size <= 0 || p->rank < 0 || p->rank >= p->size))
		return pt_fail(EINVAL, "writer: rank %d is outside size %d (ranks count from 0)", (int)p->rank, (int)p->size);
	if (req->has_partition && p->dim >= PT_DIMS_MAX)
		return pt_fail(EINVAL, "writer: dim %d is outside 0..%d", (int)p->dim, PT_DIMS_MAX - 1);
	return 0;
}

/* ---- scope axes: the stored scopes are the candidates ---- */

static const struct pt_layout *scope_at(const struct pt_known *k, size_t i)
{
	return i < k->manifest_count ? &k->manifests[i]->scope_axes : &k->pendings[i - k->manifest_count]->scope_axes;
}

static bool axis_fits(const struct pt_axis *want, const struct pt_axis *have)
{
	if (want->kind != have->kind || want->rank != have->rank)
		return false;
	if (want->size && want->size != have->size)
		return false;
	return !want->has_id || !have->has_id || want->id == have->id;
}

static bool scope_fits(const struct pt_layout *want, const struct pt_layout *have)
{
	uint32_t i;

	if (want->axis_count != have->axis_count)
		return false;
	for (i = 0; i < want->axis_count; i++)
		if (!axis_fits(&want->axis[i], &have->axis[i]))
			return false;
	return true;
}

static bool scope_is_complete(const struct pt_layout *l)
{
	uint32_t i;

	for (i = 0; i < l->axis_count; i++)
		if (!l->axis[i].size || ((l->axis[i].kind == PT_AXIS_EP || l->axis[i].kind == PT_AXIS_PP) && !l->axis[i].has_id))
			return false;
	return true;
}

static int ambiguous(const struct pt_layout *a, const struct pt_layout *b)
{
	char x[PT_LAYOUT_TEXT_MAX], y[PT_LAYOUT_TEXT_MAX];

	pt_layout_format(a, x);
	pt_layout_format(b, y);
	return pt_fail(EINVAL, "both %s and %s are stored: say the size and id in full", x, y);
}

/* The whole scope as one stored scope has it. 1: found; 0: none fits. */
static int scope_from_stored(const struct pt_known *k, struct pt_layout *scope)
{
	const struct pt_layout *found = NULL;
	size_t i;

	for (i = 0; i < k->manifest_count + k->pending_count; i++) {
		const struct pt_layout *have = scope_at(k, i);

		if (!scope_fits(scope, have))
			continue;
		if (found && !pt_layout_equal(found, have))
			return ambiguous(found, have);
		found = have;
	}
	if (!found)
		return 0;
	for (uint32_t a = 0; a < scope->axis_count; a++) {
		scope->axis[a].size = found->axis[a].size;
		if (found->axis[a].has_id) {
			scope->axis[a].has_id = true;
			scope->axis[a].id = found->axis[a].id;
		}
	}
	return 1;
}

/* One axis from what any scope says of its kind: `dp=1` is 1of2 beside a stored dp=0of2. */
static int axis_from_kind(const struct pt_known *k, struct pt_axis *axis)
{
	const char *name = pt_axis_kind_name(axis->kind);
	int32_t size = axis->size;
	size_t i;

	for (i = 0; !axis->size && i < k->manifest_count + k->pending_count; i++) {
		const struct pt_axis *have = pt_layout_find(scope_at(k, i), axis->kind);

		if (!have || axis->rank >= have->size)
			continue;
		if (size && size != have->size)
			return pt_fail(EINVAL, "%s=%d: sizes %d and %d are stored: write %s=%dofN", name, (int)axis->rank, (int)size, (int)have->size, name,
				       (int)axis->rank);
		size = have->size;
	}
	if (!size && axis->kind == PT_AXIS_DP && axis->rank == 0)
		size = 1;
	if (!size)
		return pt_fail(EINVAL, "%s=%d: nothing stored says of how many: write %s=%dofN", name, (int)axis->rank, name, (int)axis->rank);
	axis->size = size;
	if ((axis->kind == PT_AXIS_EP || axis->kind == PT_AXIS_PP) && !axis->has_id) {
		bool found = false;

		for (i = 0; i < k->manifest_count + k->pending_count; i++) {
			const struct pt_axis *have = pt_layout_find(scope_at(k, i), axis->kind);

			if (!have || have->rank != axis->rank || have->size != size || !have->has_id)
				continue;
			if (found && axis->id != have->id)
				return pt_fail(EINVAL, "%s=%dof%d: %s %d and %d are stored: say which", name, (int)axis->rank, (int)size,
					       axis->kind == PT_AXIS_EP ? "experts" : "stages", (int)axis->id, (int)have->id);
			found = true;
			axis->id = have->id;
		}
		if (!found)
			axis->id = axis->rank;
		axis->has_id = true;
	}
	return 0;
}

static int complete_scope(const struct pt_known *k, struct pt_layout *scope)
{
	uint32_t a;
	int rc;

	if (scope_is_complete(scope))
		return 0;
	rc = scope_from_stored(k, scope);
	if (rc)
		return rc < 0 ? rc : 0;
	for (a = 0; a < scope->axis_count; a++) {
		rc = axis_from_kind(k, &scope->axis[a]);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- the split dimension ---- */

struct dim_search {
	const struct pt_known *known;
	const char *scope;
	bool any_scope;                 /* bare requests read whatever scope there is */
};

static bool in_scope(const struct dim_search *s, const char *scope)
{
	return s->any_scope || !strcmp(s->scope, scope);
}

/* The dim of sets that satisfy `tp`: exactly that size (any tp set), or any size whose tp axis named its dim. -1: none; -2: several. */
static int32_t find_tp_dim(const struct dim_search *s, int32_t size, bool exact_size, bool pending)
{
	const struct pt_known *k = s->known;
	size_t i, count = pending ? k->pending_count : k->manifest_count;
	int32_t dim = -1;

	for (i = 0; i < count; i++) {
		enum pt_written written = pending ? k->pendings[i]->written : k->manifests[i]->written;
		int32_t have_size = pending ? k->pendings[i]->set_size : k->manifests[i]->set_size;
		int32_t have_dim = pending ? k->pendings[i]->set_dim : k->manifests[i]->set_dim;
		const char *scope = pending ? k->pendings[i]->scope : k->manifests[i]->scope;
		const struct pt_object *objects = pending ? k->pendings[i]->objects : k->manifests[i]->objects;
		uint32_t object_count = pending ? k->pendings[i]->object_count : k->manifests[i]->object_count;

		if (!pt_written_is_tp(written) || !in_scope(s, scope))
			continue;
		if (exact_size ? have_size != size : !pt_objects_define_dim(objects, object_count))
			continue;
		if (dim >= 0 && dim != have_dim)
			return -2;
		dim = have_dim;
	}
	return dim;
}

bool pt_known_defines_dim(const struct pt_known *k, const char *scope, int32_t dim)
{
	size_t i;

	for (i = 0; i < k->manifest_count; i++)
		if (!strcmp(k->manifests[i]->scope, scope) && k->manifests[i]->set_dim == dim &&
		    pt_objects_define_dim(k->manifests[i]->objects, k->manifests[i]->object_count))
			return true;
	for (i = 0; i < k->pending_count; i++)
		if (!strcmp(k->pendings[i]->scope, scope) && k->pendings[i]->set_dim == dim &&
		    pt_objects_define_dim(k->pendings[i]->objects, k->pendings[i]->object_count))
			return true;
	return false;
}

static int complete_tp_dim(const struct dim_search *s, const struct pt_request *req, enum pt_target target, bool for_write, struct pt_axis *tp)
{
	int32_t dim = -1;
	int pass;

	/* A set of exactly this size first, then any that defines the dim; revisions before pending sets for reads, and after them
	 * for writes, which join the set that is being made. */
	for (pass = 0; dim == -1 && pass < 4; pass++) {
		bool exact = for_write ? pass < 2 : !(pass & 1);
		bool pending = for_write ? !(pass & 1) : pass >= 2;

		dim = find_tp_dim(s, tp->size, exact, pending);
	}
	if (dim == -2)
		return pt_fail(EINVAL, "tp=%dof%d: sets split on several dimensions are there: say which with dim=", (int)tp->rank, (int)tp->size);
	if (dim < 0 && req->has_plan_dim && (for_write || target == PT_TARGET_SHARD))
		dim = req->plan_dim;
	if (dim >= 0 || target == PT_TARGET_FULL || target == PT_TARGET_AS_STORED) {
		tp->dim = dim;
		return 0;
	}
	return pt_fail(EINVAL, "tp=%dof%d/shard: nothing says which dimension is split: write tp=%dof%d,dim=D", (int)tp->rank, (int)tp->size,
		       (int)tp->rank, (int)tp->size);
}

static void complete_partition_dim(const struct dim_search *s, struct pt_partition *p)
{
	const struct pt_known *k = s->known;
	int pass;
	size_t i;

	for (pass = 0; p->dim < 0 && pass < 2; pass++) {
		for (i = 0; p->dim < 0 && i < k->pending_count; i++)
			if (k->pendings[i]->written == PT_WRITTEN_WRITER && (pass || k->pendings[i]->set_size == p->size))
				p->dim = k->pendings[i]->set_dim;
		for (i = 0; p->dim < 0 && i < k->manifest_count; i++)
			if (k->manifests[i]->written == PT_WRITTEN_WRITER && (pass || k->manifests[i]->set_size == p->size))
				p->dim = k->manifests[i]->set_dim;
	}
}

/* A partition that is read: revisions before pending sets, exactly that size. */
static int read_partition_dim(const struct dim_search *s, enum pt_target target, struct pt_partition *p)
{
	const struct pt_known *k = s->known;
	size_t i;

	for (i = 0; p->dim < 0 && i < k->manifest_count; i++)
		if (k->manifests[i]->written == PT_WRITTEN_WRITER && k->manifests[i]->set_size == p->size)
			p->dim = k->manifests[i]->set_dim;
	for (i = 0; p->dim < 0 && i < k->pending_count; i++)
		if (k->pendings[i]->written == PT_WRITTEN_WRITER && k->pendings[i]->set_size == p->size)
			p->dim = k->pendings[i]->set_dim;
	if (p->dim < 0 && target == PT_TARGET_SHARD)
		return pt_fail(EINVAL, "writer=%dof%d/shard: no such writer set is stored, so nothing says which dimension is split: write "
			       "writer=%dof%d,dim=D", (int)p->rank, (int)p->size, (int)p->rank, (int)p->size);
	return 0;
}

/* ---- the whole ---- */

static void put_back(struct pt_layout *l, const struct pt_layout *scope)
{
	uint32_t i, at = 0;

	for (i = 0; i < l->axis_count; i++)
		if (l->axis[i].kind != PT_AXIS_TP)
			l->axis[i] = scope->axis[at++];
}

static void reorder(struct pt_request *req)
{
	uint32_t i;

	for (i = 0; i < req->axis_count; i++) {
		const struct pt_axis *a = pt_layout_find(&req->layout, req->axis[i].kind);

		if (a)
			req->axis[i] = *a;
	}
	if (req->axis_count != req->layout.axis_count) {
		req->axis_count = req->layout.axis_count;
		memcpy(req->axis, req->layout.axis, sizeof(req->axis));
	}
}

int pt_request_complete_known(const struct pt_known *k, const struct pt_request *req, bool for_write, struct pt_request *ret_req)
{
	struct pt_request r = *req;
	char scope_text[PT_LAYOUT_TEXT_MAX];
	struct pt_layout scope;
	struct dim_search s = { .known = k };
	uint32_t i;
	int rc;

	rc = pt_request_check(&r);
	if (rc)
		return rc;
	pt_layout_scope(&r.layout, &scope);
	rc = complete_scope(k, &scope);
	if (rc)
		return rc;
	put_back(&r.layout, &scope);
	pt_layout_format(&scope, scope_text);
	s.scope = scope_text;
	s.any_scope = !for_write && !scope.axis_count && req->target != PT_TARGET_AS_STORED && !pt_known_manifest(k, "");
	for (i = 0; i < r.layout.axis_count; i++) {
		struct pt_axis *tp = &r.layout.axis[i];

		if (tp->kind != PT_AXIS_TP)
			continue;
		if (!tp->size)
			return pt_fail(EINVAL, "tp=%d: write tp=%dofN", (int)tp->rank, (int)tp->rank);
		if (tp->dim >= 0)
			continue;
		rc = complete_tp_dim(&s, req, for_write ? PT_TARGET_FULL : r.target, for_write, tp);
		if (rc)
			return rc;
		if (for_write && tp->dim < 0)
			tp->dim = 0;
	}
	if (r.has_partition && r.partition.dim < 0) {
		if (for_write) {
			complete_partition_dim(&s, &r.partition);
			if (r.partition.dim < 0)
				r.partition.dim = 0;
		} else {
			rc = read_partition_dim(&s, r.target, &r.partition);
			if (rc)
				return rc;
		}
	}
	reorder(&r);
	*ret_req = r;
	return 0;
}

int pt_request_complete(struct pt_repo *repo, uint64_t node, const struct pt_request *req, struct pt_request *ret_req)
{
	struct pt_known k;
	int rc;

	rc = pt_known_load(repo, node, &k);
	if (rc < 0)
		return rc;
	rc = pt_request_complete_known(&k, req, false, ret_req);
	pt_known_done(&k);
	return rc;
}
