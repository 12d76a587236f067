/* manifest/record_set.c - coding of manifests and pending sets: the same head, then the objects. Scope text is derived from the axes.
 * A decoded manifest has been checked to cover its shape exactly. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/record_small.h"
#include "manifest/set.h"

#define OBJECT_BYTES_MIN 71             /* an encoded object without dimensions and axes */
#define OBJECT_HIDDEN 1

static void append_axes(struct pt_buf *b, const struct pt_axis *axes, uint32_t count)
{
	uint32_t i;

	pt_buf_append_u8(b, (uint8_t)count);
	for (i = 0; i < count; i++) {
		pt_buf_append_u8(b, (uint8_t)axes[i].kind);
		pt_buf_append_u8(b, axes[i].has_id);
		pt_buf_append_le32(b, (uint32_t)axes[i].rank);
		pt_buf_append_le32(b, (uint32_t)axes[i].size);
		pt_buf_append_le32(b, (uint32_t)axes[i].dim);
		pt_buf_append_le32(b, (uint32_t)axes[i].id);
	}
}

static void read_axes(struct pt_reader *r, struct pt_axis *ret_axes, uint32_t *ret_count)
{
	uint32_t count = pt_reader_u8(r), i;
	unsigned int has_id;

	*ret_count = 0;
	if (count > PT_AXIS_KINDS) {
		r->bad = true;
		return;
	}
	for (i = 0; i < count; i++) {
		ret_axes[i].kind = pt_reader_u8(r);
		has_id = pt_reader_u8(r);
		ret_axes[i].has_id = has_id;
		ret_axes[i].rank = (int32_t)pt_reader_le32(r);
		ret_axes[i].size = (int32_t)pt_reader_le32(r);
		ret_axes[i].dim = (int32_t)pt_reader_le32(r);
		ret_axes[i].id = (int32_t)pt_reader_le32(r);
		if (ret_axes[i].kind >= PT_AXIS_KINDS || has_id > 1)
			r->bad = true;
	}
	if (!r->bad)
		*ret_count = count;
}

static void append_shape(struct pt_buf *b, const struct pt_shape *s)
{
	uint32_t d;

	pt_buf_append_u8(b, (uint8_t)s->ndim);
	for (d = 0; d < s->ndim; d++)
		pt_buf_append_le64(b, s->dim[d]);
}

static void read_shape(struct pt_reader *r, struct pt_shape *ret_shape)
{
	uint32_t d;

	ret_shape->ndim = pt_reader_u8(r);
	if (ret_shape->ndim > PT_DIMS_MAX) {
		r->bad = true;
		ret_shape->ndim = 0;
	}
	for (d = 0; d < ret_shape->ndim; d++)
		ret_shape->dim[d] = pt_reader_le64(r);
}

static void append_object(struct pt_buf *b, const struct pt_object *o)
{
	uint32_t d;

	pt_record_append_id(b, &o->blob.id);
	pt_buf_append_u8(b, (uint8_t)o->blob.kind);
	pt_buf_append_u8(b, o->hidden ? OBJECT_HIDDEN : 0);
	pt_buf_append_le64(b, o->payload_off);
	pt_buf_append_le64(b, o->bytes);
	pt_buf_append(b, o->hash.b, sizeof(o->hash.b));
	pt_buf_append_le32(b, o->crc32);
	pt_buf_append_le32(b, o->box.ndim);
	for (d = 0; d < o->box.ndim; d++) {
		pt_buf_append_le64(b, o->box.off[d]);
		pt_buf_append_le64(b, o->box.ext[d]);
	}
	pt_buf_append_le32(b, (uint32_t)o->part.rank);
	pt_buf_append_le32(b, (uint32_t)o->part.size);
	pt_buf_append_le32(b, (uint32_t)o->part.dim);
	append_axes(b, o->axis, o->axis_count);
}

static void read_object(struct pt_reader *r, struct pt_object *ret_object)
{
	struct pt_object *o = ret_object;
	const void *hash;
	unsigned int flags;
	uint32_t d;

	pt_record_read_id(r, &o->blob.id);
	o->blob.kind = pt_reader_u8(r);
	flags = pt_reader_u8(r);
	o->hidden = flags & OBJECT_HIDDEN;
	o->payload_off = pt_reader_le64(r);
	o->bytes = pt_reader_le64(r);
	hash = pt_reader_bytes(r, sizeof(o->hash.b));
	if (hash)
		memcpy(o->hash.b, hash, sizeof(o->hash.b));
	o->crc32 = pt_reader_le32(r);
	o->box.ndim = pt_reader_le32(r);
	if (o->box.ndim > PT_DIMS_MAX) {
		r->bad = true;
		o->box.ndim = 0;
	}
	for (d = 0; d < o->box.ndim; d++) {
		o->box.off[d] = pt_reader_le64(r);
		o->box.ext[d] = pt_reader_le64(r);
	}
	o->part.rank = (int32_t)pt_reader_le32(r);
	o->part.size = (int32_t)pt_reader_le32(r);
	o->part.dim = (int32_t)pt_reader_le32(r);
	read_axes(r, o->axis, &o->axis_count);
	if ((o->blob.kind != PT_BLOB_TENSOR && o->blob.kind != PT_BLOB_PLAIN) || pt_id_is_zero(&o->blob.id) ||
	    (flags & ~(unsigned int)OBJECT_HIDDEN) || o->payload_off % 4096)
		r->bad = true;
}

static void append_objects(struct pt_buf *b, const struct pt_object *objects, uint32_t count)
{
	uint32_t i;

	pt_buf_append_le32(b, count);
	for (i = 0; i < count; i++)
		append_object(b, &objects[i]);
}

/* *ret_objects is NULL when there are none. Malformed bytes set r->bad; -ENOMEM. */
static int read_objects(struct pt_reader *r, struct pt_object **ret_objects, uint32_t *ret_count)
{
	uint32_t count = pt_reader_le32(r), i;

	if (r->bad || count > PT_SET_MAX || count > pt_reader_left(r) / OBJECT_BYTES_MIN) {
		r->bad = true;
		return 0;
	}
	if (!count)
		return 0;
	*ret_objects = pt_calloc(count, sizeof(**ret_objects));
	if (!*ret_objects)
		return pt_fail_nomem();
	*ret_count = count;
	for (i = 0; i < count && !r->bad; i++)
		read_object(r, &(*ret_objects)[i]);
	return 0;
}

/* What both kinds of record begin with. */
struct set_head {
	uint64_t node;
	char scope[PT_LAYOUT_TEXT_MAX];
	struct pt_layout scope_axes;
	struct pt_id set_id;
	enum pt_dtype dtype;
	struct pt_shape shape;
	enum pt_written written;
	int32_t set_size, set_dim;
	enum pt_split split;
	char step[PT_STEP_MAX + 1];
};

static void append_head(struct pt_buf *b, uint64_t node, const struct pt_layout *scope, const struct pt_id *set_id, enum pt_dtype dtype,
			const struct pt_shape *shape, enum pt_written written, int32_t set_size, int32_t set_dim, enum pt_split split,
			const char *step)
{
	pt_buf_append_u8(b, PT_RECORD_VERSION);
	pt_buf_append_le64(b, node);
	append_axes(b, scope->axis, scope->axis_count);
	pt_record_append_id(b, set_id);
	pt_buf_append_u8(b, (uint8_t)dtype);
	append_shape(b, shape);
	pt_buf_append_u8(b, (uint8_t)written);
	pt_buf_append_le32(b, (uint32_t)set_size);
	pt_buf_append_le32(b, (uint32_t)set_dim);
	pt_buf_append_u8(b, (uint8_t)split);
	pt_buf_append_lenstr(b, step, (uint32_t)strlen(step));
}

static void read_head(struct pt_reader *r, struct set_head *ret_head)
{
	struct set_head *h = ret_head;

	memset(h, 0, sizeof(*h));
	if (pt_reader_u8(r) != PT_RECORD_VERSION)
		r->bad = true;
	h->node = pt_reader_le64(r);
	read_axes(r, h->scope_axes.axis, &h->scope_axes.axis_count);
	pt_record_read_id(r, &h->set_id);
	h->dtype = pt_reader_u8(r);
	read_shape(r, &h->shape);
	h->written = pt_reader_u8(r);
	h->set_size = (int32_t)pt_reader_le32(r);
	h->set_dim = (int32_t)pt_reader_le32(r);
	h->split = pt_reader_u8(r);
	pt_record_read_text(r, h->step, PT_STEP_MAX);
	if (r->bad)
		return;
	if (!h->node || pt_layout_check_complete(&h->scope_axes) < 0 || pt_layout_find(&h->scope_axes, PT_AXIS_TP) ||
	    !pt_dtype_info(h->dtype) || h->written < PT_WRITTEN_FULL || h->written > PT_WRITTEN_WRITER || h->split > PT_SPLIT_CHUNK)
		r->bad = true;
	else
		pt_layout_format(&h->scope_axes, h->scope);
}

int pt_record_manifest_encode(const struct pt_manifest *m, struct pt_buf *out)
{
	append_head(out, m->node, &m->scope_axes, &m->set_id, m->dtype, &m->shape, m->written, m->set_size, m->set_dim, m->split, m->step);
	pt_buf_append_le64(out, m->revision);
	pt_buf_append_le32(out, m->mode);
	pt_buf_append_le32(out, m->uid);
	pt_buf_append_le32(out, m->gid);
	pt_buf_append_le64(out, (uint64_t)m->mtime_ns);
	append_objects(out, m->objects, m->object_count);
	return pt_buf_failed(out) ? pt_fail_nomem() : 0;
}

int pt_record_manifest_decode(const void *data, size_t len, struct pt_manifest **ret_m)
{
	struct pt_manifest *m;
	struct set_head h;
	struct pt_reader r;
	int rc;

	pt_reader_init(&r, data, len);
	read_head(&r, &h);
	if (r.bad)
		return pt_record_bad("revision");
	m = pt_calloc(1, sizeof(*m));
	if (!m)
		return pt_fail_nomem();
	m->refs = 1;
	m->node = h.node;
	memcpy(m->scope, h.scope, sizeof(m->scope));
	m->scope_axes = h.scope_axes;
	m->set_id = h.set_id;
	m->dtype = h.dtype;
	m->shape = h.shape;
	m->written = h.written;
	m->set_size = h.set_size;
	m->set_dim = h.set_dim;
	m->split = h.split;
	memcpy(m->step, h.step, sizeof(m->step));
	m->revision = pt_reader_le64(&r);
	m->mode = pt_reader_le32(&r);
	m->uid = pt_reader_le32(&r);
	m->gid = pt_reader_le32(&r);
	m->mtime_ns = (int64_t)pt_reader_le64(&r);
	rc = read_objects(&r, &m->objects, &m->object_count);
	if (!rc && (r.bad || pt_reader_left(&r) || !m->revision || pt_set_problem(m)))
		rc = pt_record_bad("revision");
	if (rc < 0) {
		pt_manifest_unref(m);
		return rc;
	}
	*ret_m = m;
	return 0;
}

int pt_record_pending_encode(const struct pt_pending *p, struct pt_buf *out)
{
	append_head(out, p->node, &p->scope_axes, &p->set_id, p->dtype, &p->shape, p->written, p->set_size, p->set_dim, p->split, p->step);
	pt_buf_append_u8(out, p->shape_known);
	pt_buf_append_le64(out, (uint64_t)p->created_ns);
	pt_buf_append_le64(out, (uint64_t)p->updated_ns);
	append_objects(out, p->objects, p->object_count);
	if (p->round)
		pt_buf_append_le64(out, p->round);
	return pt_buf_failed(out) ? pt_fail_nomem() : 0;
}

static bool pending_sound(const struct pt_pending *p)
{
	struct pt_shape local;
	uint64_t bytes;
	uint32_t i, d;

	bool whole = p->set_size == 1 && p->set_dim == -1;      /* waits for other keys' sets (group.c) */

	if (p->set_size < 1 || p->set_size > PT_SET_MAX || (!whole && (p->set_dim < 0 || (uint32_t)p->set_dim >= p->shape.ndim)))
		return false;
	if (p->round && !whole)
		return false;
	if (whole && p->written != PT_WRITTEN_FULL && p->written != PT_WRITTEN_SCOPE)
		return false;
	if (p->shape_known != (p->written != PT_WRITTEN_TP_SHARD) || p->object_count > (uint32_t)p->set_size)
		return false;
	if (!p->shape_known && p->shape.dim[p->set_dim])
		return false;
	for (i = 0; i < p->object_count; i++) {
		const struct pt_object *o = &p->objects[i];

		if (o->part.size != p->set_size || o->part.dim != p->set_dim || o->part.rank < 0 || o->part.rank >= p->set_size ||
		    (i && p->objects[i - 1].part.rank >= o->part.rank) || o->box.ndim != p->shape.ndim)
			return false;
		for (d = 0; d < o->box.ndim; d++)
			if ((int32_t)d != p->set_dim && (o->box.off[d] || o->box.ext[d] != p->shape.dim[d]))
				return false;
		if (p->shape_known ? !pt_box_within(&o->box, &p->shape) : o->box.off[p->set_dim] != 0)
			return false;
		pt_box_shape(&o->box, &local);
		if (pt_shape_bytes(&local, p->dtype, &bytes) < 0 || bytes != o->bytes)
			return false;
	}
	return true;
}

int pt_record_pending_decode(const void *data, size_t len, struct pt_pending **ret_p)
{
	struct pt_pending *p;
	struct set_head h;
	struct pt_reader r;
	unsigned int known;
	bool more;
	int rc;

	pt_reader_init(&r, data, len);
	read_head(&r, &h);
	if (r.bad)
		return pt_record_bad("pending set");
	p = pt_calloc(1, sizeof(*p));
	if (!p)
		return pt_fail_nomem();
	p->node = h.node;
	memcpy(p->scope, h.scope, sizeof(p->scope));
	p->scope_axes = h.scope_axes;
	p->set_id = h.set_id;
	p->dtype = h.dtype;
	p->shape = h.shape;
	p->written = h.written;
	p->set_size = h.set_size;
	p->set_dim = h.set_dim;
	p->split = h.split;
	memcpy(p->step, h.step, sizeof(p->step));
	known = pt_reader_u8(&r);
	p->shape_known = known == 1;
	p->created_ns = (int64_t)pt_reader_le64(&r);
	p->updated_ns = (int64_t)pt_reader_le64(&r);
	rc = read_objects(&r, &p->objects, &p->object_count);
	more = !rc && pt_reader_left(&r);
	if (more)
		p->round = pt_reader_le64(&r);
	if (!rc && (r.bad || pt_reader_left(&r) || more != (p->round != 0) || known > 1 || !pending_sound(p)))
		rc = pt_record_bad("pending set");
	if (rc < 0) {
		pt_pending_free(p);
		return rc;
	}
	*ret_p = p;
	return 0;
}

void pt_pending_free(struct pt_pending *p)
{
	if (!p)
		return;
	free(p->objects);
	free(p);
}

struct pt_manifest *pt_manifest_ref(struct pt_manifest *m)
{
	__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
	return m;
}

void pt_manifest_unref(struct pt_manifest *m)
{
	if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	free(m->objects);
	free(m);
}
