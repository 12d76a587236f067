/* tree/container.c - reading containers: loading the blob, file bytes, and each tensor as something that can be viewed. */
#include "tree/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"

#define GROUP 32                        /* objects of one read call */

int pt_container_try(struct pt_repo *repo, const struct pt_node *node, struct pt_container **ret_c)
{
	struct pt_data *data = &pt_repo_store(repo)->data;
	struct pt_container *c;
	struct pt_data_range r = { .blob = node->blob };
	int rc;

	if (node->kind != PT_NODE_CONTAINER || pt_id_is_zero(&node->blob.id))
		return pt_fail(EINVAL, "'%s' is no container", node->name);
	rc = pt_node_pin(repo, node);
	if (rc < 0)
		return rc;
	rc = pt_data_stat(data, &node->blob, &r.len);
	if (!rc && r.len > PT_META_VALUE_MAX * (uint64_t)16) {
		pt_fail(EIO, "the container '%s' claims a record of %llu bytes: the index is damaged; write the file again, or restore a copy of the index", node->name, (unsigned long long)r.len);
		rc = 1;
	}
	if (!rc) {
		r.buf = pt_malloc(r.len ? r.len : 1);
		rc = r.buf ? pt_data_read(data, &r, 1) : pt_fail_nomem();
	}
	pt_node_unpin(repo, node);
	if (rc == -ENOENT) {            /* it was pinned, and is what the node names */
		free(r.buf);
		pt_fail(EIO, "the record of '%s' is missing from the store: restore this file, or write it again", node->name);
		return 1;
	}
	if (rc == 0) {
		rc = pt_container_decode(r.buf, r.len, &c);
		if (rc == -EIO)
			rc = 1;
	}
	if (rc) {
		free(r.buf);
		return rc;
	}
	c->repo = repo;
	c->node = node->id;
	c->blob = node->blob;
	*ret_c = c;
	return 0;
}

int pt_container_load(struct pt_repo *repo, const struct pt_node *node, struct pt_container **ret_c)
{
	int rc = pt_container_try(repo, node, ret_c);

	return rc > 0 ? -EIO : rc;
}

struct pt_container *pt_container_ref(struct pt_container *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void pt_container_unref(struct pt_container *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	free(c->objects);
	free(c->segments);
	free(c->tensors);
	free(c->names);
	free(c->numbers);
	free(c->data);
	free(c);
}

void pt_container_tensor(const struct pt_container *c, uint32_t i, struct pt_parse_tensor *ret_t)
{
	const struct pt_container_tensor *t = &c->tensors[i];

	ret_t->name = c->names + t->name;
	ret_t->dtype = (enum pt_dtype)t->dtype;
	ret_t->shape.ndim = t->ndim;
	ret_t->storage = t->object;
	ret_t->storage_off = t->off;
	ret_t->contiguous = t->contiguous;
	ret_t->obj = NULL;
	if (t->ndim)
		memcpy(ret_t->shape.dim, c->numbers + t->dims, t->ndim * sizeof(uint64_t));
	if (t->ndim && !t->contiguous)
		memcpy(ret_t->stride, c->numbers + t->dims + t->ndim, t->ndim * sizeof(uint64_t));
}

static void object_expand(const struct pt_container_object *o, struct pt_object *ret)
{
	ret->blob = o->blob;
	ret->payload_off = o->payload_off;
	ret->bytes = o->bytes;
	ret->hash = o->hash;
	ret->crc32 = o->crc32;
	ret->lead = ret->hashed = 0;
	ret->part = (struct pt_partition){ .rank = 0, .size = 1, .dim = -1 };
}

uint32_t pt_container_hold(struct pt_container *c)
{
	struct pt_object o = { .bytes = 0 };
	uint32_t i;

	for (i = 0; i < c->object_count; i++) {
		object_expand(&c->objects[i], &o);
		if (pt_object_hold(c->repo, &o) < 0) {
			pt_fail_clear();
			break;
		}
	}
	return i;
}

void pt_container_release(struct pt_container *c, uint32_t held)
{
	struct pt_object o = { .bytes = 0 };

	while (held > 0) {
		object_expand(&c->objects[--held], &o);
		pt_object_release(c->repo, &o);
	}
}

/* The part of its object that the tensor lies in; what a damaged record says to be beyond it is found where the tensor is read. */
static void object_window(const struct pt_container_tensor *tensor, struct pt_parse_tensor *t, struct pt_object *o)
{
	uint64_t bytes, end = o->bytes;

	if (t->contiguous && pt_shape_bytes(&t->shape, t->dtype, &bytes) >= 0)
		end = t->storage_off + bytes;
	else if (!t->contiguous && !pt_gather_reach(t, &end))
		end = o->bytes;
	o->hashed = o->bytes;
	o->lead = t->storage_off;
	o->payload_off += o->lead;
	o->bytes = pt_size_min(end, o->hashed) - o->lead;
	o->crc32 = tensor->crc32;
	t->storage_off = 0;
}

int pt_container_manifest(const struct pt_container *c, uint32_t i, struct pt_manifest **ret_m, struct pt_parse_tensor *ret_lies)
{
	struct pt_parse_tensor t;
	struct pt_manifest *m;

	pt_container_tensor(c, i, &t);
	m = pt_calloc(1, sizeof(*m));
	if (m)
		m->objects = pt_calloc(1, sizeof(*m->objects));
	if (!m || !m->objects) {
		free(m);
		return pt_fail_nomem();
	}
	m->refs = 1;
	m->node = c->node;
	m->container = c->blob.id;
	m->revision = 1;
	m->set_id = c->objects[t.storage].blob.id;
	m->dtype = t.dtype;
	m->shape = t.shape;
	m->written = PT_WRITTEN_FULL;
	m->set_size = 1;
	m->set_dim = -1;
	m->split = PT_SPLIT_BALANCED;
	m->mode = 0644;
	m->object_count = 1;
	object_expand(&c->objects[t.storage], &m->objects[0]);
	if (!c->tensors[i].whole)
		object_window(&c->tensors[i], &t, &m->objects[0]);
	pt_shape_box(&t.shape, &m->objects[0].box);
	*ret_m = m;
	*ret_lies = t;
	return 0;
}

/* One object of it as a manifest, in the caller's memory. */
static void object_manifest(const struct pt_container *c, uint32_t object, struct pt_object *o, struct pt_manifest *ret_m)
{
	memset(o, 0, sizeof(*o));
	object_expand(&c->objects[object], o);
	memset(ret_m, 0, sizeof(*ret_m));
	ret_m->node = c->node;
	ret_m->revision = 1;
	ret_m->objects = o;
	ret_m->object_count = 1;
}

int pt_container_verify(const struct pt_container *c, uint32_t object, void (*progress)(void *ctx, uint64_t bytes), void *ctx)
{
	struct pt_manifest m;
	struct pt_object o;

	object_manifest(c, object, &o, &m);
	return pt_object_verify(c->repo, &m, 0, progress, ctx);
}

bool pt_container_single(const struct pt_container *c, struct pt_parse_tensor *ret_t, struct pt_object *ret_object)
{
	if (c->bundle || c->verbatim || c->tensor_count != 1 || c->object_count != 1 || !c->tensors[0].whole)
		return false;
	memset(ret_object, 0, sizeof(*ret_object));
	pt_container_tensor(c, 0, ret_t);
	object_expand(&c->objects[0], ret_object);
	return true;
}

bool pt_container_stored(const struct pt_container *c, struct pt_blob_ref *ret_blob)
{
	if (c->bundle || c->segment_count != 1 || c->segments[0].object == PT_CONTAINER_LITERAL || c->segments[0].off)
		return false;
	if (c->objects[c->segments[0].object].payload_off || c->objects[c->segments[0].object].bytes != c->size)
		return false;
	*ret_blob = c->objects[c->segments[0].object].blob;
	return true;
}

void pt_container_renew(struct pt_container *c)
{
	struct pt_object object = { .bytes = 0 };

	object_expand(&c->objects[c->segments[0].object], &object);
	pt_object_renew(c->repo, &object);
}

bool pt_container_whole(struct pt_container *c, uint64_t stamp)
{
	struct pt_object object = { .bytes = 0 };

	object_expand(&c->objects[c->segments[0].object], &object);
	return pt_object_whole(c->repo, &object, stamp);
}

int pt_container_check(struct pt_container *c, uint64_t off, uint64_t len)
{
	struct pt_object object = { .bytes = 0 };
	struct pt_manifest m = { .node = c->node, .objects = &object, .object_count = 1 };

	object_expand(&c->objects[c->segments[0].object], &object);
	return pt_object_check(c->repo, &m, 0, off, len);
}

/* First segment that ends after off. */
static uint32_t segment_find(const struct pt_container *c, uint64_t off)
{
	uint32_t lo = 0, hi = c->segment_count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (c->segments[mid].end <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t pt_container_cut(const struct pt_container *c, uint64_t off, uint64_t max)
{
	uint64_t end = off + pt_size_min(max, off < c->size ? c->size - off : 0), begin, cut, into;
	const struct pt_container_segment *seg;
	uint32_t s;

	if (end >= c->size)
		return end;
	s = segment_find(c, end);
	seg = &c->segments[s];
	if (seg->object == PT_CONTAINER_LITERAL)
		return end;
	begin = s ? c->segments[s - 1].end : 0;
	into = (seg->off + (end - begin)) % PT_HASH_CHUNK;      /* bytes of the chunk that end is in */
	cut = into <= end - begin ? end - into : begin;
	return cut > off ? cut : end;
}

struct batch {
	struct pt_manifest m;           /* of the objects that this read touches */
	struct pt_object objects[GROUP];
	struct pt_object_range ranges[GROUP];
	uint32_t count;
};

static int batch_read(struct pt_container *c, struct batch *b)
{
	int rc;

	if (!b->count)
		return 0;
	b->m.node = c->node;
	b->m.objects = b->objects;
	b->m.object_count = b->count;
	rc = pt_object_read(c->repo, &b->m, b->ranges, b->count);
	b->count = 0;
	return rc < 0 ? rc : 0;
}

static int verbatim_read(struct pt_container *c, void *buf, uint64_t len, uint64_t off)
{
	struct pt_object_range range = { .off = off, .len = len, .buf = buf };
	struct pt_manifest m;
	struct pt_object o;

	object_manifest(c, 0, &o, &m);
	return pt_object_read(c->repo, &m, &range, 1);
}

int64_t pt_container_read(struct pt_container *c, void *buf, uint64_t len, uint64_t off)
{
	struct batch *b = NULL;
	uint8_t *out = buf;
	uint64_t left, n, in;
	uint32_t s;
	int rc = 0;

	if (off >= c->size)
		return 0;
	len = pt_size_min(pt_size_min(len, c->size - off), INT64_MAX);
	if (c->verbatim) {
		rc = verbatim_read(c, buf, len, off);
		return rc < 0 ? rc : (int64_t)len;
	}
	for (left = len, s = segment_find(c, off); left && !rc; s++, left -= n, off += n, out += n) {
		const struct pt_container_segment *seg = &c->segments[s];

		in = off - (s ? c->segments[s - 1].end : 0);
		n = pt_size_min(left, seg->end - off);
		if (seg->object == PT_CONTAINER_LITERAL) {
			memcpy(out, c->literals + seg->off + in, n);
			continue;
		}
		if (!b)
			b = pt_calloc(1, sizeof(*b));
		if (!b)
			return pt_fail_nomem();
		object_expand(&c->objects[seg->object], &b->objects[b->count]);
		b->ranges[b->count] = (struct pt_object_range){ .object = b->count, .off = seg->off + in, .len = n, .buf = out };
		if (++b->count == GROUP)
			rc = batch_read(c, b);
	}
	if (!rc && b)
		rc = batch_read(c, b);
	free(b);
	return rc < 0 ? rc : (int64_t)len;
}
