/* tensor/info.c - what is known of a key, as JSON: revisions by scope, pending sets and what they miss.
 *
 * {"key", "dtype", "shape", "revision", "complete", "split",
 *  "scopes": [{"scope", "revision", "set", "written", "size", "dim", "split", "step", "dtype", "shape", "mtime_ns",
 *              "objects": [{"layout", "box": [[off, ext], ...], "bytes", "file", "xxh3", "hidden"}]}],
 *  "pending": [{"scope", "set", "written", "size", "dim", "step", "dtype", "shape", "created_ns", "updated_ns", "have": [rank, ...],
 *               "missing": [rank, ...], "missing_count"}]}
 * A split extent that nobody knows yet is null in "shape". "missing" is cut after MISSING_MAX ranks;
 * "missing_count" counts them all. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tensor/known.h"

#define MISSING_MAX 4096                /* ranks listed */

const char *pt_written_name(enum pt_written written)
{
	switch (written) {
	case PT_WRITTEN_FULL: return "full";
	case PT_WRITTEN_SCOPE: return "scope";
	case PT_WRITTEN_TP_SHARD: return "tp shard";
	case PT_WRITTEN_TP_SLICE: return "tp slice";
	case PT_WRITTEN_WRITER: return "writer";
	}
	return "?";
}

static const char *split_name(enum pt_split split)
{
	return split == PT_SPLIT_CHUNK ? "chunk" : split == PT_SPLIT_BALANCED ? "balanced" : "own";
}

static json_t *shape_json(const struct pt_shape *s, int32_t unknown_dim)
{
	json_t *a = json_array();
	uint32_t d;

	for (d = 0; d < s->ndim; d++)
		json_array_append_new(a, (int32_t)d == unknown_dim ? json_null() : json_integer((json_int_t)s->dim[d]));
	return a;
}

static json_t *id_json(const struct pt_id *id)
{
	char hex[PT_ID_HEX_LEN + 1];

	pt_id_hex(id, hex);
	return json_string(hex);
}

static json_t *layout_json(const struct pt_object *o, enum pt_written written)
{
	struct pt_layout l = { 0 };
	char text[PT_LAYOUT_TEXT_MAX];
	uint32_t i;

	if (written == PT_WRITTEN_WRITER) {
		snprintf(text, sizeof(text), "writer=%" PRId32 "of%" PRId32 ",dim=%" PRId32, o->part.rank, o->part.size, o->part.dim);
		return json_string(text);
	}
	for (i = 0; i < o->axis_count && i < PT_AXIS_KINDS; i++) {
		struct pt_axis a = o->axis[i];

		if (a.kind == PT_AXIS_TP && a.dim < 0)
			a.dim = o->part.dim;
		if (pt_layout_add(&l, &a) < 0)
			return json_null();
	}
	pt_layout_format(&l, text);
	return json_string(text);
}

static json_t *object_json(const struct pt_object *o, enum pt_written written)
{
	json_t *j = json_object(), *box = json_array();
	char hex[33];
	uint32_t d;
	size_t i;

	for (d = 0; d < o->box.ndim; d++)
		json_array_append_new(box, json_pack("[I, I]", (json_int_t)o->box.off[d], (json_int_t)o->box.ext[d]));
	for (i = 0; i < sizeof(o->hash.b); i++)
		snprintf(hex + 2 * i, 3, "%02x", o->hash.b[i]);
	json_object_set_new(j, "layout", layout_json(o, written));
	json_object_set_new(j, "box", box);
	json_object_set_new(j, "bytes", json_integer((json_int_t)o->bytes));
	json_object_set_new(j, "file", id_json(&o->blob.id));
	json_object_set_new(j, "xxh3", json_string(hex));
	if (o->hidden)
		json_object_set_new(j, "hidden", json_true());
	return j;
}

static json_t *set_json(const char *scope, const struct pt_id *set_id, enum pt_written written, int32_t size, int32_t dim, const char *step,
			enum pt_dtype dtype)
{
	const struct pt_dtype_info *info = pt_dtype_info(dtype);
	json_t *j = json_object();

	json_object_set_new(j, "scope", json_string(scope));
	json_object_set_new(j, "set", id_json(set_id));
	json_object_set_new(j, "written", json_string(pt_written_name(written)));
	json_object_set_new(j, "size", json_integer(size));
	json_object_set_new(j, "dim", dim < 0 ? json_null() : json_integer(dim));
	if (*step)
		json_object_set_new(j, "step", json_string(step));
	json_object_set_new(j, "dtype", json_string(info ? info->name : "?"));
	return j;
}

static json_t *revision_json(const struct pt_manifest *m)
{
	json_t *j = set_json(m->scope, &m->set_id, m->written, m->set_size, m->set_dim, m->step, m->dtype), *objects = json_array();
	uint32_t i;

	for (i = 0; i < m->object_count; i++)
		json_array_append_new(objects, object_json(&m->objects[i], m->written));
	json_object_set_new(j, "revision", json_integer((json_int_t)m->revision));
	json_object_set_new(j, "shape", shape_json(&m->shape, -1));
	json_object_set_new(j, "split", json_string(split_name(m->split)));
	json_object_set_new(j, "mtime_ns", json_integer(m->mtime_ns));
	json_object_set_new(j, "objects", objects);
	return j;
}

json_t *pt_pending_json(const struct pt_pending *p)
{
	json_t *j = set_json(p->scope, &p->set_id, p->written, p->set_size, p->set_dim, p->step, p->dtype);
	json_t *have = json_array(), *missing = json_array();
	int32_t rank, next = 0;
	uint32_t i;

	for (i = 0; i < p->object_count; i++) {
		for (rank = next; rank < p->objects[i].part.rank && json_array_size(missing) < MISSING_MAX; rank++)
			json_array_append_new(missing, json_integer(rank));
		next = p->objects[i].part.rank + 1;
		json_array_append_new(have, json_integer(p->objects[i].part.rank));
	}
	for (rank = next; rank < p->set_size && json_array_size(missing) < MISSING_MAX; rank++)
		json_array_append_new(missing, json_integer(rank));
	json_object_set_new(j, "shape", shape_json(&p->shape, p->shape_known ? -1 : p->set_dim));
	json_object_set_new(j, "created_ns", json_integer(p->created_ns));
	json_object_set_new(j, "updated_ns", json_integer(p->updated_ns));
	json_object_set_new(j, "have", have);
	json_object_set_new(j, "missing", missing);
	json_object_set_new(j, "missing_count", json_integer((json_int_t)p->set_size - (json_int_t)p->object_count));
	return j;
}

/* Restricted to the scope of a request; NULL: all. */
static bool wanted(const struct pt_request *restrict_to, const struct pt_layout *scope)
{
	struct pt_layout want;
	uint32_t i;

	if (!restrict_to)
		return true;
	pt_layout_scope(&restrict_to->layout, &want);
	for (i = 0; i < want.axis_count; i++) {
		const struct pt_axis *have = pt_layout_find(scope, want.axis[i].kind);

		if (!have || have->rank != want.axis[i].rank || (want.axis[i].size && have->size != want.axis[i].size))
			return false;
		if (want.axis[i].has_id && have->has_id && have->id != want.axis[i].id)
			return false;
	}
	return true;
}

static json_t *known_json(const struct pt_known *k, const char *key, enum pt_split split, const struct pt_request *restrict_to)
{
	json_t *j = json_object(), *scopes = json_array(), *pending = json_array();
	const struct pt_manifest *newest = NULL;
	const struct pt_pending *latest = NULL;
	const struct pt_dtype_info *info;
	size_t i;

	for (i = 0; i < k->manifest_count; i++) {
		if (!wanted(restrict_to, &k->manifests[i]->scope_axes))
			continue;
		json_array_append_new(scopes, revision_json(k->manifests[i]));
		if (!newest || k->manifests[i]->revision > newest->revision)
			newest = k->manifests[i];
	}
	for (i = 0; i < k->pending_count; i++)
		if (wanted(restrict_to, &k->pendings[i]->scope_axes))
			json_array_append_new(pending, pt_pending_json(k->pendings[i]));
	if (!newest && k->pending_count)
		latest = k->pendings[0];
	info = newest ? pt_dtype_info(newest->dtype) : latest ? pt_dtype_info(latest->dtype) : NULL;
	json_object_set_new(j, "key", json_string(key));
	json_object_set_new(j, "dtype", info ? json_string(info->name) : json_null());
	json_object_set_new(j, "shape", newest ? shape_json(&newest->shape, -1) :
					latest ? shape_json(&latest->shape, latest->shape_known ? -1 : latest->set_dim) : json_null());
	json_object_set_new(j, "revision", newest ? json_integer((json_int_t)newest->revision) : json_null());
	json_object_set_new(j, "complete", json_boolean(newest != NULL));
	json_object_set_new(j, "split", json_string(split_name(split == PT_SPLIT_UNSET ? PT_SPLIT_BALANCED : split)));
	json_object_set_new(j, "scopes", scopes);
	json_object_set_new(j, "pending", pending);
	return j;
}

int pt_json_append(json_t *root, struct pt_buf *out)
{
	char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;

	json_decref(root);
	if (!text)
		return pt_fail_nomem();
	pt_buf_append_str(out, text);
	pt_buf_append_u8(out, '\n');
	free(text);
	return pt_buf_failed(out) ? pt_fail_nomem() : 0;
}

int pt_tensor_info_json(struct pt_repo *repo, uint64_t node, const struct pt_request *restrict_to, struct pt_buf *ret_json)
{
	char key[PT_KEY_MAX + 1];
	struct pt_known k;
	struct pt_node n;
	enum pt_split split;
	json_t *j;
	int rc;

	rc = pt_node_get(repo, node, &n);
	if (rc < 0)
		return rc;
	split = n.split;
	pt_node_done(&n);
	rc = pt_node_key(repo, node, key);
	if (rc < 0)
		return rc;
	rc = pt_known_load(repo, node, &k);
	if (rc < 0)
		return rc;
	j = known_json(&k, key, split, restrict_to);
	pt_known_done(&k);
	return pt_json_append(j, ret_json);
}
