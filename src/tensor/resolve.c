/* tensor/resolve.c - from a request to the revision and the box that answer it (docs/PATHS.md "Reading").
 *
 * Reads a snapshot of the node's records, never payloads. Scopes are never bridged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tensor/known.h"
#include "tensor/view_int.h"

/* ---- which scope ---- */

/* The scope without its dp axis; replicas of one thing have this in common. */
static void without_dp(const struct pt_layout *scope, struct pt_layout *ret)
{
	uint32_t i;

	ret->axis_count = 0;
	for (i = 0; i < scope->axis_count; i++)
		if (scope->axis[i].kind != PT_AXIS_DP)
			ret->axis[ret->axis_count++] = scope->axis[i];
}

static int32_t dp_rank(const struct pt_layout *scope)
{
	const struct pt_axis *dp = pt_layout_find(scope, PT_AXIS_DP);

	return dp ? dp->rank : -1;
}

/* The scope that a bare path reads: the scope-free revision, or the only scope, or the lowest dp replica. The same for pending sets when
 * there is no revision. */
static int choose_bare_scope(const struct pt_known *k, const char **ret_scope)
{
	const struct pt_layout *best = NULL;
	const char *best_text = NULL;
	size_t count = k->manifest_count ? k->manifest_count : k->pending_count, i;

	for (i = 0; i < count; i++) {
		const struct pt_layout *axes = k->manifest_count ? &k->manifests[i]->scope_axes : &k->pendings[i]->scope_axes;
		const char *text = k->manifest_count ? k->manifests[i]->scope : k->pendings[i]->scope;
		struct pt_layout a, b;

		if (!*text) {
			*ret_scope = text;
			return 0;
		}
		if (!best) {
			best = axes;
			best_text = text;
			continue;
		}
		without_dp(best, &a);
		without_dp(axes, &b);
		if (!pt_layout_equal(&a, &b)) {
			/* A scope-free revision may still come. */
			if (k->manifest_count ? pt_known_manifest(k, "") != NULL : pt_known_pending(k, "") != NULL) {
				*ret_scope = "";
				return 0;
			}
			char list[600];

			pt_known_describe(k, list, sizeof(list));
			return pt_fail(EINVAL, "several scopes are stored (%s): say which one, as in %s/full", list, text);
		}
		if (dp_rank(axes) < dp_rank(best)) {
			best = axes;
			best_text = text;
		}
	}
	if (!best)
		return -ENOENT;
	*ret_scope = best_text;
	return 0;
}

/* ---- building views ---- */

struct pt_view *pt_view_new(struct pt_repo *repo)
{
	struct pt_view *v = pt_calloc(1, sizeof(*v));

	if (!v) {
		pt_fail_nomem();
		return NULL;
	}
	v->refs = 1;
	v->repo = repo;
	v->info.source = v->source;
	pthread_mutex_init(&v->lock, NULL);
	return v;
}

static void axes_of_request(struct pt_view *v, const struct pt_request *req)
{
	v->info.axis_count = 0;
	if (req->target == PT_TARGET_FULL)
		return;
	if (req->has_partition) {
		v->info.axis_count = 1;
		v->info.axis[0] = (struct pt_axis){ .kind = PT_AXIS_TP, .rank = req->partition.rank, .size = req->partition.size, .dim = req->partition.dim };
		return;
	}
	v->info.axis_count = req->layout.axis_count;
	memcpy(v->info.axis, req->axis_count ? req->axis : req->layout.axis, sizeof(v->info.axis));
}

/* The axes that an object was written with, its defaulted dimension filled in. */
static void axes_of_object(struct pt_view *v, const struct pt_object *o, enum pt_written written)
{
	uint32_t i;

	if (written == PT_WRITTEN_WRITER) {
		v->info.axis_count = 1;
		v->info.axis[0] = (struct pt_axis){ .kind = PT_AXIS_TP, .rank = o->part.rank, .size = o->part.size, .dim = o->part.dim };
		return;
	}
	v->info.axis_count = o->axis_count;
	memcpy(v->info.axis, o->axis, sizeof(v->info.axis));
	for (i = 0; i < o->axis_count; i++)
		if (v->info.axis[i].kind == PT_AXIS_TP && v->info.axis[i].dim < 0)
			v->info.axis[i].dim = o->part.dim;
}

/* What the request cuts: its tp axis or its partition; false for whole tensors. */
static bool cut_of_request(const struct pt_request *req, struct pt_partition *ret_cut)
{
	const struct pt_axis *tp = pt_layout_find(&req->layout, PT_AXIS_TP);

	if (req->target == PT_TARGET_FULL)
		return false;
	if (req->has_partition) {
		*ret_cut = req->partition;
		return true;
	}
	if (!tp)
		return false;
	*ret_cut = (struct pt_partition){ .rank = tp->rank, .size = tp->size, .dim = tp->dim };
	return true;
}

/* Is this set written with exactly the layout of the request? A writer slice has the layout of a lone tp axis; `writer=` itself
 * only matches writer sets. */
static bool set_has_layout(const struct pt_request *req, enum pt_written written, int32_t set_size, int32_t set_dim)
{
	struct pt_partition cut;

	if (!cut_of_request(req, &cut))
		return written == PT_WRITTEN_FULL || written == PT_WRITTEN_SCOPE;
	if (cut.size != set_size || (cut.dim >= 0 && cut.dim != set_dim))
		return false;
	if (req->has_partition)
		return written == PT_WRITTEN_WRITER;
	return pt_written_is_tp(written) || (written == PT_WRITTEN_WRITER && req->target == PT_TARGET_SHARD && req->layout.axis_count == 1);
}

void pt_view_info_of(struct pt_view *v, const struct pt_manifest *m)
{
	struct pt_view_info *info = &v->info;
	uint32_t i;

	info->dtype = m->dtype;
	info->revision = m->revision;
	info->set_id = m->set_id;
	snprintf(info->scope, sizeof(info->scope), "%s", m->scope);
	info->mode = m->mode;
	info->uid = m->uid;
	info->gid = m->gid;
	info->mtime_ns = m->mtime_ns;
	for (i = 0; i < m->object_count; i++)
		info->stored_bytes += m->objects[i].bytes;
}

static void serve_exactly(struct pt_view *v, const struct pt_manifest *m, uint32_t object)
{
	v->info.exact = true;
	v->info.object = object;
	v->info.stored_bytes = m->objects[object].bytes;
}

static int64_t find_rank(const struct pt_object *objects, uint32_t count, int32_t rank)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (objects[i].part.rank == rank)
			return i;
	return -1;
}

static int not_stored(const struct pt_known *k, const struct pt_request *req)
{
	char list[600], layout[PT_LAYOUT_TEXT_MAX];

	pt_known_describe(k, list, sizeof(list));
	if (req->has_partition)
		snprintf(layout, sizeof(layout), "writer=%dof%d", (int)req->partition.rank, (int)req->partition.size);
	else if (!pt_layout_format(&req->layout, layout))
		snprintf(layout, sizeof(layout), "the tensor without axes");
	return pt_fail(ENOENT, "%s is not stored%s; there is: %s", layout, req->target == PT_TARGET_AS_STORED ? " as such" : "", list);
}

static int hidden(const struct pt_request *req)
{
	char layout[PT_LAYOUT_TEXT_MAX];

	pt_layout_format(&req->layout, layout);
	return pt_fail(ENOENT, "%s was removed; the tensor is still read through its other layouts", *layout ? layout : "this view");
}

/* ---- a committed revision ---- */

static int resolve_revision(const struct pt_known *k, const struct pt_request *req, struct pt_manifest *m, struct pt_view *v)
{
	enum pt_split split = req->split != PT_SPLIT_UNSET ? req->split : m->split;
	struct pt_view_info *info = &v->info;
	struct pt_partition cut = { 0 };
	bool cuts = cut_of_request(req, &cut), same_layout;
	int64_t at = -1;
	char set[64];
	uint32_t i;
	int rc;

	same_layout = set_has_layout(req, m->written, m->set_size, m->set_dim);
	if (same_layout)
		at = cuts ? find_rank(m->objects, m->object_count, cut.rank) : 0;
	if (req->target == PT_TARGET_AS_STORED) {
		if (at < 0)
			return not_stored(k, req);
		info->box = m->objects[at].box;
	} else if (cuts) {
		rc = pt_shard_box(&m->shape, m->dtype, &cut, split, &info->box);
		if (rc)
			return rc;
	} else {
		pt_shape_box(&m->shape, &info->box);
	}
	if (at >= 0 && m->objects[at].hidden)
		return hidden(req);
	pt_view_info_of(v, m);
	info->complete = info->readable = info->shape_known = true;
	info->global_shape = m->shape;
	pt_box_shape(&info->box, &info->shape);
	rc = pt_shape_bytes(&info->shape, m->dtype, &info->bytes);
	if (rc)
		return rc;
	if (at >= 0 && pt_box_equal(&m->objects[at].box, &info->box)) {
		serve_exactly(v, m, (uint32_t)at);
		snprintf(v->source, sizeof(v->source), "stored");
	}
	for (i = 0; !info->exact && i < m->object_count; i++)
		if (pt_box_equal(&m->objects[i].box, &info->box))
			serve_exactly(v, m, i);
	if (!*v->source) {
		pt_written_describe(m->written, m->set_size, m->set_dim, set, sizeof(set));
		snprintf(v->source, sizeof(v->source), "planned from %s", set);
	}
	if (at >= 0 && info->exact && info->object == (uint32_t)at && req->target != PT_TARGET_FULL)
		axes_of_object(v, &m->objects[at], m->written);
	else
		axes_of_request(v, req);
	v->m = pt_manifest_ref(m);
	return 0;
}

/* ---- pending sets ---- */

/* The global shape of a pending shard: known, or what even shards would make. */
static void guess_global(const struct pt_pending *p, const struct pt_shape *local, struct pt_shape *ret_global)
{
	uint64_t whole;

	*ret_global = p->shape_known ? p->shape : *local;
	if (p->shape_known || p->set_dim < 0 || (uint32_t)p->set_dim >= local->ndim)
		return;
	if (!__builtin_mul_overflow(local->dim[p->set_dim], (uint64_t)p->set_size, &whole))
		ret_global->dim[p->set_dim] = whole;
}

static int serve_pending(const struct pt_pending *p, uint32_t at, const struct pt_request *req, struct pt_view *v)
{
	struct pt_view_info *info = &v->info;
	int rc;

	rc = pt_pending_part(p, p->objects[at].part.rank, &v->m);
	if (rc < 0)
		return rc;
	pt_view_info_of(v, v->m);
	snprintf(info->scope, sizeof(info->scope), "%s", p->scope);
	info->revision = 0;
	info->set_id = p->set_id;
	info->mtime_ns = p->updated_ns;
	info->readable = info->shape_known = true;
	info->box = p->objects[at].box;
	pt_box_shape(&info->box, &info->shape);
	guess_global(p, &info->shape, &info->global_shape);
	rc = pt_shape_bytes(&info->shape, p->dtype, &info->bytes);
	if (rc)
		return rc;
	serve_exactly(v, v->m, 0);
	snprintf(v->source, sizeof(v->source), "stored, its set is still pending");
	if (req->target == PT_TARGET_FULL)
		axes_of_request(v, req);
	else
		axes_of_object(v, &p->objects[at], p->written);
	return 0;
}

/* Parts that differ in shape, dtype, size, dim or step wait in sets of their own: often that is why a rank is missing. */
static const char *other_sets(const struct pt_known *k, const struct pt_pending *p)
{
	for (size_t i = 0; i < k->pending_count; i++)
		if (k->pendings[i] != p && strcmp(k->pendings[i]->scope, p->scope) == 0)
			return "; other sets of this tensor wait, too: look in .ptio/pending whether the parts agree in shape, dtype, layout and step";
	return "";
}

static int say_missing(const struct pt_known *k, const struct pt_pending *p, struct pt_view *v)
{
	char set[64], list[80];
	size_t at = 0, count = 0;
	int32_t rank;

	if (p->object_count == (uint32_t)p->set_size) {
		v->missing = pt_strdup("the tensor has come, and can be read together with the others of its file, of which some ranks have not written theirs");
		return v->missing ? 0 : pt_fail_nomem();
	}
	pt_written_describe(p->written, p->set_size, p->set_dim, set, sizeof(set));
	list[0] = '\0';
	for (rank = 0; rank < p->set_size && at < sizeof(list) - 16; rank++)
		if (find_rank(p->objects, p->object_count, rank) < 0 && ++count)
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%d", at ? ", " : "", (int)rank);
	v->missing = pt_asprintf("the set (%s%s%s) is not complete: rank%s %s%s %s not been written yet%s", p->scope, *p->scope ? ": " : "", set,
				 count == 1 ? "" : "s", list, rank < p->set_size ? " and more" : "", count == 1 ? "has" : "have", other_sets(k, p));
	return v->missing ? 0 : pt_fail_nomem();
}

static int resolve_pending(const struct pt_known *k, const struct pt_request *req, const char *scope, struct pt_view *v)
{
	const struct pt_pending *latest = pt_known_pending(k, scope);
	struct pt_view_info *info = &v->info;
	struct pt_partition cut = { 0 };
	bool cuts = cut_of_request(req, &cut);
	enum pt_split split;
	size_t i;

	if (!latest)
		return not_stored(k, req);
	for (i = 0; cuts && i < k->pending_count; i++) {
		const struct pt_pending *p = k->pendings[i];
		int64_t at;

		if (strcmp(p->scope, scope) != 0 || !set_has_layout(req, p->written, p->set_size, p->set_dim))
			continue;
		at = find_rank(p->objects, p->object_count, cut.rank);
		if (at >= 0)
			return serve_pending(p, (uint32_t)at, req, v);
	}
	if (req->target == PT_TARGET_AS_STORED)
		return not_stored(k, req);
	split = req->split != PT_SPLIT_UNSET ? req->split : latest->split;
	info->dtype = latest->dtype;
	info->set_id = latest->set_id;
	info->mode = 0644;
	info->mtime_ns = latest->updated_ns;
	snprintf(info->scope, sizeof(info->scope), "%s", latest->scope);
	snprintf(v->source, sizeof(v->source), "pending");
	axes_of_request(v, req);
	if (latest->shape_known) {
		pt_shape_box(&latest->shape, &info->box);
		/* A cut that the shape does not allow only leaves the shape unknown: the set may never complete. */
		if (!cuts || !pt_shard_box(&latest->shape, latest->dtype, &cut, split, &info->box)) {
			info->global_shape = latest->shape;
			pt_box_shape(&info->box, &info->shape);
			info->shape_known = !pt_shape_bytes(&info->shape, info->dtype, &info->bytes);
		}
	}
	return say_missing(k, latest, v);
}

/* ---- the whole ---- */

static int resolve_known(struct pt_repo *repo, const struct pt_known *k, const struct pt_request *req, struct pt_view **ret_view)
{
	char text[PT_LAYOUT_TEXT_MAX];
	struct pt_layout scope_axes;
	const char *scope = text;
	struct pt_request r;
	struct pt_manifest *m;
	struct pt_view *v;
	int rc;

	rc = pt_request_complete_known(k, req, false, &r);
	if (rc)
		return rc;
	pt_layout_scope(&r.layout, &scope_axes);
	pt_layout_format(&scope_axes, text);
	if (!scope_axes.axis_count && r.target != PT_TARGET_AS_STORED) {
		rc = choose_bare_scope(k, &scope);
		if (rc == -ENOENT)
			return not_stored(k, &r);
		if (rc)
			return rc;
	}
	v = pt_view_new(repo);
	if (!v)
		return -ENOMEM;
	m = pt_known_manifest(k, scope);
	rc = m ? resolve_revision(k, &r, m, v) : resolve_pending(k, &r, scope, v);
	if (rc) {
		pt_view_unref(v);
		return rc;
	}
	*ret_view = v;
	return 0;
}

/* Scopes named in full, and bare paths over a scope-free revision, need one record. */
static bool scope_is_named(const struct pt_request *req)
{
	uint32_t i;

	for (i = 0; i < req->layout.axis_count; i++) {
		const struct pt_axis *a = &req->layout.axis[i];

		if (!a->size || ((a->kind == PT_AXIS_EP || a->kind == PT_AXIS_PP) && !a->has_id))
			return false;
	}
	return true;
}

int pt_view_resolve(struct pt_repo *repo, uint64_t node, const struct pt_request *req, struct pt_view **ret_view)
{
	char scope[PT_LAYOUT_TEXT_MAX];
	struct pt_layout axes;
	struct pt_known k;
	int rc;

	rc = pt_request_check(req);
	if (rc)
		return rc;
	if (scope_is_named(req)) {
		pt_layout_scope(&req->layout, &axes);
		pt_layout_format(&axes, scope);
		rc = pt_known_load_scope(repo, node, scope, &k);
		if (!rc) {
			rc = resolve_known(repo, &k, req, ret_view);
			pt_known_done(&k);
			if (!rc)
				return 0;
		} else if (rc != -ENOENT) {
			return rc;
		}
	}
	rc = pt_known_load(repo, node, &k);
	if (rc < 0)
		return rc;
	rc = resolve_known(repo, &k, req, ret_view);
	pt_known_done(&k);
	return rc;
}

int pt_view_of_manifest(struct pt_repo *repo, struct pt_manifest *m, const struct pt_parse_tensor *lies, const struct pt_request *req, struct pt_view **ret_view)
{
	struct pt_known k = { .manifests = &m, .manifest_count = 1 };
	struct pt_view *v;
	int rc;

	rc = pt_request_check(req);
	if (!rc)
		rc = resolve_known(repo, &k, req, &v);
	if (rc < 0)
		return rc;
	rc = lies ? pt_strided_set(v, lies) : 0;
	if (rc < 0) {
		pt_view_unref(v);
		return rc;
	}
	*ret_view = v;
	return 0;
}

int pt_tensor_exists(struct pt_repo *repo, uint64_t node, bool *ret_revision, bool *ret_pending)
{
	struct pt_known k;
	int rc;

	rc = pt_known_load(repo, node, &k);
	if (rc < 0)
		return rc;
	*ret_revision = k.manifest_count > 0;
	*ret_pending = k.pending_count > 0;
	pt_known_done(&k);
	return 0;
}
