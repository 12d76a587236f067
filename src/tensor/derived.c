/* tensor/derived.c - views that no path names: boxes of any manifest, and tensors that lie strided in an object of raw bytes.
 *
 * A slice of a strided tensor is strided, too; so one description serves every box. The object's bytes are mapped where the engine can, else copied to an unlinked
 * file, while somebody reads; they are verified once when that begins. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tensor/spool.h"
#include "tensor/view_int.h"

#define STEP PT_MIB

struct pt_strided {
	struct pt_parse_tensor t;       /* the view's box, in the object's payload */
	uint64_t unit;                  /* bytes of an element (fp4: of a pair) */
	uint32_t opens;                 /* view lock */
	const void *base;
	void *map;                      /* of the engine, or NULL */
	struct pt_spool spool;
	uint64_t spool_bytes;
};

int pt_view_of_box(struct pt_repo *repo, struct pt_manifest *m, const struct pt_parse_tensor *lies, const struct pt_box *box, struct pt_view **ret_view)
{
	struct pt_view *v = pt_view_new(repo);
	struct pt_view_info *info;
	uint32_t i;
	int rc;

	if (!v)
		return -ENOMEM;
	info = &v->info;
	info->complete = info->readable = info->shape_known = true;
	pt_view_info_of(v, m);
	info->global_shape = m->shape;
	if (box)
		info->box = *box;
	else
		pt_shape_box(&m->shape, &info->box);
	pt_box_shape(&info->box, &info->shape);
	snprintf(v->source, sizeof(v->source), "a box of %s", !pt_id_is_zero(&m->container) ? "a file's tensor" : "a revision");
	rc = pt_box_within(&info->box, &m->shape) ? pt_shape_bytes(&info->shape, m->dtype, &info->bytes) : pt_fail(EINVAL, "the box is outside the tensor");
	for (i = 0; !rc && !info->exact && i < m->object_count; i++)
		if (pt_box_equal(&m->objects[i].box, &info->box)) {
			info->exact = true;
			info->object = i;
		}
	v->m = pt_manifest_ref(m);
	if (!rc && lies)
		rc = pt_strided_set(v, lies);
	if (rc) {
		pt_view_unref(v);
		return rc;
	}
	*ret_view = v;
	return 0;
}

int pt_strided_set(struct pt_view *v, const struct pt_parse_tensor *lies)
{
	const struct pt_dtype_info *d = pt_dtype_info(lies->dtype);
	struct pt_strided *s;
	struct pt_box packed;
	uint64_t step = 1;
	uint32_t i;
	int rc;

	if (!d || v->m->object_count != 1 || lies->shape.ndim != v->info.box.ndim)
		return pt_fail(EINVAL, "a strided tensor lies in one object");
	s = pt_calloc(1, sizeof(*s));
	if (!s)
		return pt_fail_nomem();
	s->spool.fd = -1;
	s->t = *lies;
	s->t.name = "";
	s->t.obj = NULL;
	s->unit = d->bits < 8 ? 1 : d->bits / 8;
	/* A contiguous tensor's strides, so that any box of it can be told. */
	for (i = lies->shape.ndim; lies->contiguous && i-- > 0;) {
		s->t.stride[i] = step;
		step *= d->bits < 8 && i + 1 == lies->shape.ndim ? lies->shape.dim[i] / (8 / d->bits) : lies->shape.dim[i];
	}
	s->t.contiguous = false;
	rc = pt_box_pack(&v->info.box, lies->dtype, &packed, &step);
	if (rc) {
		free(s);
		return rc;
	}
	for (i = 0; i < packed.ndim; i++)
		s->t.storage_off += packed.off[i] * s->t.stride[i] * s->unit;
	s->t.shape = v->info.shape;
	v->info.exact = false;
	v->strided = s;
	return 0;
}

/* All that any element of the view reaches is inside the object: asked for before any element is touched. */
static int check_reach(const struct pt_strided *s, uint64_t bytes)
{
	uint64_t end;

	if (pt_gather_reach(&s->t, &end) && end <= bytes)
		return 0;
	return pt_fail(EIO, "a strided tensor reaches outside its object: the store is damaged; write the file again");
}

static int copy_to_spool(struct pt_view *v, struct pt_strided *s, const struct pt_object *o)
{
	struct pt_object_range r = { .object = 0 };
	void *map;
	int rc;

	rc = pt_spool_open(&s->spool, pt_repo_store(v->repo)->dir, o->bytes);
	if (rc < 0)
		return rc;
	r.buf = pt_malloc(STEP);
	if (!r.buf)
		rc = pt_fail_nomem();
	for (; !rc && r.off < o->bytes; r.off += r.len) {
		r.len = pt_size_min(STEP, o->bytes - r.off);
		rc = pt_object_read(v->repo, v->m, &r, 1);
		if (!rc)
			rc = pt_spool_write(&s->spool, r.buf, r.len, r.off);
	}
	free(r.buf);
	if (!rc) {
		map = mmap(NULL, o->bytes, PROT_READ, MAP_SHARED, s->spool.fd, 0);
		if (map == MAP_FAILED)
			rc = pt_fail(errno, "mapping a temporary file failed (%s)", strerror(errno));
		else
			s->base = map;
	}
	if (rc < 0)
		pt_spool_done(&s->spool);
	else
		s->spool_bytes = o->bytes;
	return rc;
}

int pt_strided_open(struct pt_view *v)
{
	const struct pt_object *o = &v->m->objects[0];
	struct pt_strided *s = v->strided;
	struct pt_data *data = &pt_repo_store(v->repo)->data;
	int rc;

	if (s->opens++ || !o->bytes)
		return 0;
	rc = check_reach(s, o->bytes);
	if (!rc) {
		rc = pt_data_map(data, &o->blob, o->payload_off, o->bytes, &s->base, &s->map);
		if (rc == -EOPNOTSUPP)
			rc = copy_to_spool(v, s, o);
		else if (!rc)
			rc = pt_object_verify(v->repo, v->m, 0, NULL, NULL);
	}
	if (rc < 0)
		pt_strided_close(v);
	return rc;
}

void pt_strided_close(struct pt_view *v)
{
	struct pt_strided *s = v->strided;

	if (--s->opens)
		return;
	if (s->map)
		pt_data_unmap(&pt_repo_store(v->repo)->data, s->map);
	if (s->spool_bytes)
		munmap((void *)(uintptr_t)s->base, s->spool_bytes);
	pt_spool_done(&s->spool);
	s->map = NULL;
	s->base = NULL;
	s->spool_bytes = 0;
}

int pt_strided_read(struct pt_view *v, void *buf, uint64_t len, uint64_t off)
{
	const struct pt_strided *s = v->strided;
	uint64_t first = off / s->unit, skip = off % s->unit, n;
	uint8_t elem[16], *out = buf;

	if (!s->base)
		return pt_fail(EIO, "a strided view is read without being pinned");
	if (skip) {
		pt_gather_strided(s->base, &s->t, first++, 1, elem);
		n = pt_size_min(len, s->unit - skip);
		memcpy(out, elem + skip, n);
		out += n;
		len -= n;
	}
	n = len / s->unit;
	pt_gather_strided(s->base, &s->t, first, n, out);
	if (len % s->unit) {
		pt_gather_strided(s->base, &s->t, first + n, 1, elem);
		memcpy(out + n * s->unit, elem, len % s->unit);
	}
	return 0;
}

void pt_strided_free(struct pt_strided *s)
{
	free(s);
}
