/* tree/many.c - many tensors as one file. */
#include "tree/many.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"
#include "format/repickle.h"
#include "format/serve.h"
#include "tensor/tensor.h"

#define KEPT 16                         /* views kept ready */

struct item {
	char *name;
	struct pt_container *c;         /* or */
	struct pt_manifest *m;
	uint32_t tensor;
	struct pt_many_cut cut;
};

struct pt_many {
	struct pt_repo *repo;
	enum pt_format format;
	struct item *items;
	uint32_t count, cap;
	struct pt_container **containers;       /* each once */
	uint32_t *held;                 /* while pinned: how many objects of each container; or NULL */
	uint32_t container_count;
	struct pt_served served;
	uint32_t *item_of;              /* payload of served -> item; NULL: the same */
	char *flat;
	uint64_t stamp;
	pthread_mutex_t lock;           /* kept, kept_item, kept_next */
	struct pt_view *kept[KEPT];     /* prepared */
	uint32_t kept_item[KEPT];
	uint32_t kept_next;
};

int pt_many_create(struct pt_repo *repo, enum pt_format format, struct pt_many **ret_many)
{
	struct pt_many *m = pt_calloc(1, sizeof(*m));

	if (!m)
		return pt_fail_nomem();
	m->repo = repo;
	m->format = format;
	pthread_mutex_init(&m->lock, NULL);
	*ret_many = m;
	return 0;
}

static int add(struct pt_many *many, const char *name, const struct pt_many_cut *cut, struct item **ret_item)
{
	struct item *more;

	if (many->count == many->cap) {
		more = pt_reallocarray(many->items, many->cap ? 2 * (size_t)many->cap : 16, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		many->items = more;
		many->cap = many->cap ? 2 * many->cap : 16;
	}
	*ret_item = &many->items[many->count];
	**ret_item = (struct item){ .name = pt_strdup(name), .cut = *cut };
	if (!(*ret_item)->name)
		return pt_fail_nomem();
	many->count++;
	return 0;
}

int pt_many_add_container(struct pt_many *many, struct pt_container *c)
{
	struct pt_container **more;
	uint32_t i;

	/* Tensors come file by file. */
	for (i = many->container_count; i > 0; i--)
		if (many->containers[i - 1] == c)
			return 0;
	more = pt_reallocarray(many->containers, (size_t)many->container_count + 1, sizeof(*more));
	if (!more)
		return pt_fail_nomem();
	many->containers = more;
	more[many->container_count++] = pt_container_ref(c);
	return 0;
}

int pt_many_add_tensor(struct pt_many *many, const char *name, struct pt_container *c, uint32_t tensor, const struct pt_many_cut *cut)
{
	struct item *item;
	int rc;

	rc = pt_many_add_container(many, c);
	if (!rc)
		rc = add(many, name, cut, &item);
	if (rc < 0)
		return rc;
	item->c = pt_container_ref(c);
	item->tensor = tensor;
	return 0;
}

int pt_many_add_revision(struct pt_many *many, const char *name, struct pt_manifest *m, const struct pt_many_cut *cut)
{
	struct item *item;
	int rc;

	rc = add(many, name, cut, &item);
	if (!rc)
		item->m = pt_manifest_ref(m);
	return rc;
}

bool pt_many_has(const struct pt_many *many, const char *name)
{
	uint32_t i;

	for (i = 0; i < many->count; i++)
		if (strcmp(many->items[i].name, name) == 0)
			return true;
	return false;
}

uint32_t pt_many_count(const struct pt_many *many)
{
	return many->count;
}

static void cut_shape(struct pt_shape *shape, const struct pt_many_cut *cut)
{
	if (cut->dim >= 0)
		shape->dim[cut->dim] = cut->ext;
}

static void describe(const struct item *item, struct pt_serve_tensor *t, struct pt_buf *sign)
{
	const struct pt_container_object *o;
	struct pt_parse_tensor p;

	t->name = item->name;
	if (item->c) {
		pt_container_tensor(item->c, item->tensor, &p);
		t->dtype = p.dtype;
		t->global_shape = p.shape;
		o = &item->c->objects[p.storage];
		if (item->c->tensors[item->tensor].whole && item->cut.dim < 0)
			t->crc32 = o->crc32;
		pt_buf_append(sign, item->c->blob.id.b, sizeof(item->c->blob.id.b));
		pt_buf_append_le32(sign, item->tensor);
	} else {
		t->dtype = item->m->dtype;
		t->global_shape = item->m->shape;
		if (item->m->object_count == 1 && item->cut.dim < 0)
			t->crc32 = item->m->objects[0].crc32;
		pt_buf_append(sign, item->m->set_id.b, sizeof(item->m->set_id.b));
		pt_buf_append_le64(sign, item->m->revision);
	}
	t->shape = t->global_shape;
	cut_shape(&t->shape, &item->cut);
	pt_buf_append_le32(sign, (uint32_t)item->cut.dim);
	pt_buf_append_le64(sign, item->cut.off);
	pt_buf_append_le64(sign, item->cut.ext);
	pt_buf_append_str(sign, item->name);
	pt_buf_append_u8(sign, 0);
}

int pt_many_finish(struct pt_many *many, bool bare, const struct pt_axis *tp)
{
	struct pt_serve_tensor *t = pt_calloc(many->count ? many->count : 1, sizeof(*t));
	struct pt_buf sign = PT_BUF_INIT;
	uint32_t i;
	int rc;

	if (!t)
		return pt_fail_nomem();
	for (i = 0; i < many->count; i++)
		describe(&many->items[i], &t[i], &sign);
	if (tp && many->format == PT_FORMAT_OBJ && many->count == 1 && many->items[0].cut.dim >= 0) {
		t[0].axes_in_order[0] = *tp;
		t[0].axes_in_order[0].dim = many->items[0].cut.dim;
		pt_layout_add(&t[0].axes, &t[0].axes_in_order[0]);
	}
	pt_buf_append_le32(&sign, (uint32_t)many->format << 1 | bare);
	rc = sign.failed ? pt_fail_nomem() : pt_serve(many->format, t, many->count, !bare, &many->served);
	if (!rc)
		many->stamp = pt_hash64(sign.data, sign.len);
	pt_buf_done(&sign);
	free(t);
	return rc;
}

/* ---- in the shape of a pickle ---- */

struct payload {
	const struct item *item;
	uint32_t index;                 /* of the item */
};

/* 0: the same bytes. */
static int payload_compare(const void *a, const void *b)
{
	const struct item *x = ((const struct payload *)a)->item, *y = ((const struct payload *)b)->item;
	struct pt_parse_tensor s, t;
	int order;

#define BY(a, b) if ((a) != (b)) return (a) < (b) ? -1 : 1
	BY((uintptr_t)x->m, (uintptr_t)y->m);
	BY(x->cut.dim, y->cut.dim);
	if (x->cut.dim >= 0) {
		BY(x->cut.off, y->cut.off);
		BY(x->cut.ext, y->cut.ext);
	}
	if (x->m)
		return 0;
	pt_container_tensor(x->c, x->tensor, &s);
	pt_container_tensor(y->c, y->tensor, &t);
	BY(s.storage, t.storage);
	BY(s.storage_off, t.storage_off);
	BY(s.dtype, t.dtype);
	BY(s.contiguous, t.contiguous);
	BY(s.shape.ndim, t.shape.ndim);
#undef BY
	order = memcmp(s.shape.dim, t.shape.dim, s.shape.ndim * sizeof(s.shape.dim[0]));
	return order || s.contiguous ? order : memcmp(s.stride, t.stride, s.shape.ndim * sizeof(s.stride[0]));
}

static int payload_order(const void *a, const void *b)
{
	int order = payload_compare(a, b);
	const struct payload *x = a, *y = b;

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* first[i]: the first item of the same bytes as item i. */
static int same_bytes(const struct pt_many *many, uint32_t *first)
{
	struct payload *p = pt_calloc(many->count, sizeof(*p));
	uint32_t i, head = 0;

	if (!p)
		return pt_fail_nomem();
	for (i = 0; i < many->count; i++)
		p[i] = (struct payload){ &many->items[i], i };
	qsort(p, many->count, sizeof(*p), payload_order);
	for (i = 0; i < many->count; i++) {
		if (i && payload_compare(&p[head], &p[i]) != 0)
			head = i;
		first[p[i].index] = p[head].index;
	}
	free(p);
	return 0;
}

int pt_many_finish_like(struct pt_many *many, const struct pt_repickle *r, const char **ret_why)
{
	uint32_t values = pt_repickle_tensor_count(r), count = 0, i, v;
	struct pt_serve_tensor *payloads, *tensors, t;
	uint32_t *first, *item_of, *storage;
	struct pt_buf sign = PT_BUF_INIT, pickle = PT_BUF_INIT;
	int rc;

	*ret_why = NULL;
	if (pt_repickle_name_count(r) != many->count || !many->count) {
		*ret_why = "its tensors are not those of its description";
		return 0;
	}
	first = pt_reallocarray(NULL, many->count, sizeof(*first));
	item_of = pt_reallocarray(NULL, many->count, sizeof(*item_of));
	storage = pt_calloc(values, sizeof(*storage));
	payloads = pt_calloc(many->count, sizeof(*payloads));
	tensors = pt_calloc(values, sizeof(*tensors));
	rc = first && item_of && storage && payloads && tensors ? same_bytes(many, first) : pt_fail_nomem();
	for (i = 0; !rc && i < many->count; i++) {
		memset(&t, 0, sizeof(t));
		describe(&many->items[i], &t, &sign);
		v = pt_repickle_name_tensor(r, i);
		if (first[i] == i) {
			item_of[count] = i;
			payloads[count] = t;
			first[i] = count++;     /* from here on: its storage */
		} else {
			first[i] = first[first[i]];
		}
		if (tensors[v].name && storage[v] != first[i])
			*ret_why = "a tensor in it has two names, whose parts are not the same";
		tensors[v] = t;
		storage[v] = first[i];
	}
	if (!rc && !*ret_why)
		rc = pt_repickle_emit(r, tensors, storage, &pickle);
	if (!rc && !*ret_why)
		rc = sign.failed ? pt_fail_nomem() : pt_serve_with_pickle(payloads, count, &pickle, &many->served);
	if (!rc && !*ret_why) {
		pt_buf_append(&sign, pickle.data, pickle.len);
		many->stamp = pt_hash64(sign.data, sign.len);
		many->item_of = item_of;
		item_of = NULL;
		if (sign.failed)
			rc = pt_fail_nomem();
	}
	pt_buf_done(&sign);
	pt_buf_done(&pickle);
	free(first);
	free(item_of);
	free(storage);
	free(payloads);
	free(tensors);
	return rc;
}

const char *pt_many_flat(const struct pt_many *many)
{
	return many->flat;
}

int pt_many_flat_set(struct pt_many *many, const char *why)
{
	many->flat = pt_strdup(why);
	return many->flat ? 0 : pt_fail_nomem();
}

static void kept_drop(struct pt_view *v)
{
	if (!v)
		return;
	pt_view_unprepare(v);
	pt_view_unref(v);
}

void pt_many_free(struct pt_many *many)
{
	uint32_t i;

	if (!many)
		return;
	for (i = 0; i < KEPT; i++)
		kept_drop(many->kept[i]);
	for (i = 0; i < many->count; i++) {
		free(many->items[i].name);
		pt_container_unref(many->items[i].c);
		pt_manifest_unref(many->items[i].m);
	}
	for (i = 0; i < many->container_count; i++)
		pt_container_unref(many->containers[i]);
	free(many->items);
	free(many->containers);
	free(many->held);
	free(many->item_of);
	free(many->flat);
	pt_served_done(&many->served);
	pthread_mutex_destroy(&many->lock);
	free(many);
}

uint64_t pt_many_size(const struct pt_many *many)
{
	return many->served.size;
}

uint64_t pt_many_stamp(const struct pt_many *many)
{
	return many->stamp;
}

/* ---- pins: of containers' blobs, which keep what they refer to, and of revisions ---- */

static void unpin_some(struct pt_many *many, uint32_t containers, uint32_t items)
{
	struct pt_node n = { .id = 0 };
	uint32_t i;

	for (i = 0; i < containers; i++) {
		n.blob = many->containers[i]->blob;
		pt_node_unpin(many->repo, &n);
	}
	for (i = 0; i < items; i++)
		if (many->items[i].m)
			pt_manifest_unpin(many->repo, many->items[i].m);
}

int pt_many_pin(struct pt_many *many)
{
	struct pt_node n = { .name = "" };
	uint32_t c, i = 0;
	int rc = 0;

	for (c = 0; c < many->container_count; c++) {
		n.id = many->containers[c]->node;
		n.blob = many->containers[c]->blob;
		rc = pt_node_pin(many->repo, &n);
		if (rc < 0)
			goto fail;
	}
	for (i = 0; i < many->count; i++) {
		rc = many->items[i].m ? pt_manifest_pin(many->repo, many->items[i].m) : 0;
		if (rc < 0)
			goto fail;
	}
	many->held = pt_calloc(many->container_count ? many->container_count : 1, sizeof(*many->held));
	for (c = 0; many->held && c < many->container_count; c++)
		many->held[c] = pt_container_hold(many->containers[c]);
	return 0;
fail:
	unpin_some(many, c, i);
	return rc == -ENOENT ? -ESTALE : rc;
}

void pt_many_unpin(struct pt_many *many)
{
	uint32_t i;

	pthread_mutex_lock(&many->lock);
	for (i = 0; i < KEPT; i++) {
		kept_drop(many->kept[i]);
		many->kept[i] = NULL;
	}
	pthread_mutex_unlock(&many->lock);
	for (i = 0; many->held && i < many->container_count; i++)
		pt_container_release(many->containers[i], many->held[i]);
	free(many->held);
	many->held = NULL;
	unpin_some(many, many->container_count, many->count);
}

/* ---- reading ---- */

static int view_make(struct pt_many *many, const struct item *item, struct pt_view **ret_view)
{
	struct pt_parse_tensor t;
	struct pt_manifest *m = NULL;
	struct pt_box box;
	bool strided = false;
	int rc;

	if (item->c) {
		rc = pt_container_manifest(item->c, item->tensor, &m, &strided);
		if (rc < 0)
			return rc;
		pt_container_tensor(item->c, item->tensor, &t);
	} else {
		m = pt_manifest_ref(item->m);
	}
	pt_shape_box(&m->shape, &box);
	if (item->cut.dim >= 0) {
		box.off[item->cut.dim] = item->cut.off;
		box.ext[item->cut.dim] = item->cut.ext;
	}
	rc = pt_view_of_box(many->repo, m, strided ? &t : NULL, &box, ret_view);
	pt_manifest_unref(m);
	return rc;
}

/* Prepared for the caller, who unprepares it and gives the reference back. */
static int view_get(struct pt_many *many, uint32_t index, struct pt_view **ret_view)
{
	struct pt_view *v = NULL, *old;
	uint32_t i;
	int rc;

	pthread_mutex_lock(&many->lock);
	for (i = 0; i < KEPT && !v; i++)
		if (many->kept[i] && many->kept_item[i] == index)
			v = pt_view_ref(many->kept[i]);
	pthread_mutex_unlock(&many->lock);
	if (v) {
		rc = pt_view_prepare(v);
		if (rc < 0)
			pt_view_unref(v);
		else
			*ret_view = v;
		return rc;
	}
	rc = view_make(many, &many->items[index], &v);
	if (rc < 0)
		return rc;
	rc = pt_view_prepare(v);
	if (!rc) {
		rc = pt_view_prepare(v);        /* once for the caller, once for being kept */
		if (rc < 0)
			pt_view_unprepare(v);
	}
	if (rc < 0) {
		pt_view_unref(v);
		return rc;
	}
	pthread_mutex_lock(&many->lock);
	i = many->kept_next++ % KEPT;
	old = many->kept[i];
	many->kept[i] = pt_view_ref(v);
	many->kept_item[i] = index;
	pthread_mutex_unlock(&many->lock);
	kept_drop(old);
	*ret_view = v;
	return 0;
}

uint64_t pt_many_read_end(struct pt_many *many, uint64_t off, uint64_t max)
{
	uint64_t end = off + pt_size_min(max, off < many->served.size ? many->served.size - off : 0), from;
	const struct pt_segment *seg;
	const struct item *item;
	struct pt_view *v;
	uint32_t index;

	if (end == many->served.size)
		return end;
	seg = &many->served.segments[pt_served_find(&many->served, end)];
	if (seg->tensor < 0 || end == seg->off)
		return end;
	index = many->item_of ? many->item_of[seg->tensor] : (uint32_t)seg->tensor;
	item = &many->items[index];
	if (item->c && !item->c->tensors[item->tensor].whole)   /* read as a whole, whatever is asked for */
		return end;
	if (view_get(many, index, &v) < 0) {
		pt_fail_clear();
		return end;
	}
	from = off > seg->off ? off : seg->off;
	end = seg->off + pt_view_cut(v, from - seg->off, end - from);
	pt_view_unprepare(v);
	pt_view_unref(v);
	return end;
}

int64_t pt_many_read(struct pt_many *many, void *buf, uint64_t len, uint64_t off)
{
	struct pt_view *v;
	uint8_t *out = buf;
	uint64_t left;
	size_t s;
	int rc;

	if (off >= many->served.size)
		return 0;
	len = pt_size_min(pt_size_min(len, many->served.size - off), INT64_MAX);
	for (left = len, s = pt_served_find(&many->served, off); left; s++) {
		const struct pt_segment *seg = &many->served.segments[s];
		uint64_t in = off - seg->off, n = pt_size_min(left, seg->len - in);

		if (seg->tensor < 0) {
			memcpy(out, many->served.literals.data + seg->literal_off + in, n);
		} else {
			uint32_t item = many->item_of ? many->item_of[seg->tensor] : (uint32_t)seg->tensor;

			rc = view_get(many, item, &v);
			if (rc < 0)
				return rc;
			rc = pt_view_read(v, out, n, in);
			pt_view_unprepare(v);
			pt_view_unref(v);
			if (rc < 0)
				return pt_fail_context(rc, "%s", many->items[item].name);
		}
		out += n;
		off += n;
		left -= n;
	}
	return (int64_t)len;
}
