/* format/pickle_walk.c - from the finished value to the tensors' names: walks dicts, lists and tuples in order.
 *
 * A value may hang in several places (that is one tensor under several names) and even in itself, so depth, steps and
 * tensors are bounded. */
#include "format/pickle_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"

#define DEPTH_MAX 128
#define TENSORS_MAX ((uint64_t)1 << 20)
#define NAME_MAX_BYTES ((size_t)64 << 10)
/* Tensors may overlap and repeat within their storages, but not blow a small file up. */
#define EXPAND_FREE ((uint64_t)1 << 30)
#define EXPAND_MAX 1024

struct walk {
	struct pt_pickle *p;
	struct pt_parse_ctx *ctx;
	struct pt_buf name;
	struct pt_namemap names;
	const char *bad_key;            /* why the path so far cannot be a name, or NULL */
	uint64_t steps, steps_max;
	uint64_t tensors;
	uint64_t bytes, bytes_max;      /* of the tensors announced */
	struct pt_parse_tensor t;       /* scratch */
};

/* Strict UTF-8 without NUL; what is wrong with it, or NULL. */
static const char *key_text_check(const uint8_t *s, size_t len)
{
	size_t i = 0, n;

	if (len == 0)
		return "is empty";
	while (i < len) {
		uint32_t c = s[i];

		if (c == 0)
			return "holds a NUL";
		n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
		if (n == 0 || n > len - i)
			return "is not UTF-8";
		for (size_t k = 1; k < n; k++)
			if ((s[i + k] & 0xc0) != 0x80)
				return "is not UTF-8";
		if (c == 0xed && s[i + 1] >= 0xa0)
			return "holds a lone surrogate";
		if ((c == 0xe0 && s[i + 1] < 0xa0) || (c == 0xf0 && s[i + 1] < 0x90) || (c == 0xf4 && s[i + 1] >= 0x90))
			return "is not UTF-8";
		i += n;
	}
	return NULL;
}

/* Appends a key to the name; an unusable one is remembered and matters only if a tensor is below it. */
static int walk_enter(struct walk *w, struct pt_pv key)
{
	char num[24];
	const void *text = num;
	size_t len;

	if (key.tag == PT_PV_STR) {
		text = w->p->buf.data + key.v;
		len = key.n;
		if (!w->bad_key)
			w->bad_key = key_text_check(text, len);
	} else if (key.tag == PT_PV_INT) {
		len = (size_t)snprintf(num, sizeof(num), "%" PRId64, (int64_t)key.v);
	} else {
		text = "?";
		len = 1;
		if (!w->bad_key)
			w->bad_key = "is neither str nor int";
	}
	if (len > NAME_MAX_BYTES || w->name.len > NAME_MAX_BYTES - len) {
		if (!w->bad_key)
			w->bad_key = "makes the name longer than 64 KiB";
		len = 0;
	}
	if (w->name.len > 0)
		pt_buf_append_u8(&w->name, '.');
	pt_buf_append(&w->name, text, len);
	return pt_buf_failed(&w->name) ? pt_fail_nomem() : 0;
}

static int walk_name(struct walk *w)
{
	char q[PT_PICKLE_QUOTE];
	int rc;

	pt_pickle_quote(w->name.data, w->name.len, q);
	if (w->bad_key)
		return pt_fail(EINVAL, "the tensor at \"%s\" in data.pkl cannot be named: a key on its path %s; rename it", q, w->bad_key);
	rc = pt_namemap_put(&w->names, pt_hash64(w->name.data, w->name.len), 0, NULL);
	if (rc > 0)
		return pt_fail(EINVAL, "data.pkl holds two tensors whose path is \"%s\" once joined with dots; rename one of them", q);
	return rc;
}

static int walk_tensor(struct walk *w, uint64_t index)
{
	const struct pt_pickle_tensor *s = &w->p->tensors[index];
	struct pt_pickle_trace *trace = w->p->trace;
	struct pt_parse_tensor *t = &w->t;
	int rc = walk_name(w);

	if (rc < 0)
		return rc;
	if (++w->tensors > TENSORS_MAX)
		return pt_fail(EFBIG, "data.pkl holds more than %" PRIu64 " tensors; save fewer in one file", TENSORS_MAX);
	w->bytes += s->bytes;           /* each < 2^62 and the sum is checked every time */
	if (w->bytes > w->bytes_max)
		return pt_fail(EFBIG, "the tensors of data.pkl come to more than %d times their storages (expand() or overlapping views): "
			       "save contiguous tensors, or the ones before expanding", EXPAND_MAX);
	pt_buf_append_u8(&w->name, 0);
	if (pt_buf_failed(&w->name))
		return pt_fail_nomem();
	w->name.len--;
	t->name = (const char *)w->name.data;
	t->dtype = (enum pt_dtype)s->dtype;
	t->shape.ndim = s->ndim;
	if (s->ndim > 0) {
		memcpy(t->shape.dim, w->p->dims + s->dims, s->ndim * sizeof(*t->shape.dim));
		memcpy(t->stride, w->p->dims + s->dims + s->ndim, s->ndim * sizeof(*t->stride));
	}
	t->storage = s->storage;
	t->storage_off = s->storage_off;
	t->contiguous = s->contiguous;
	if (trace) {
		rc = pt_pickle_grow(w->p, &trace->named, &trace->named_cap, trace->named_count + 1, sizeof(*trace->named));
		if (rc < 0)
			return rc;
		trace->named[trace->named_count++] = (uint32_t)index;
	}
	return pt_parse_tensor(w->ctx, t);
}

static int walk_value(struct walk *w, struct pt_pv v, unsigned int depth);

static int walk_below(struct walk *w, struct pt_pv key, struct pt_pv v, unsigned int depth)
{
	const char *bad = w->bad_key;
	size_t len = w->name.len;
	int rc = walk_enter(w, key);

	if (rc == 0)
		rc = walk_value(w, v, depth + 1);
	w->name.len = len;
	w->bad_key = bad;
	return rc;
}

static int walk_value(struct walk *w, struct pt_pv v, unsigned int depth)
{
	int rc = 0;

	if (++w->steps > w->steps_max)
		return pt_fail(EFBIG, "data.pkl repeats its lists and dicts inside each other too often to be named; save a flat state dict");
	switch (v.tag) {
	case PT_PV_TENSOR:
		return walk_tensor(w, v.v);
	case PT_PV_TUPLE:
	case PT_PV_LIST:
	case PT_PV_DICT:
		break;
	default:
		return 0;
	}
	if (depth >= DEPTH_MAX)
		return pt_fail(EINVAL, "data.pkl nests its lists and dicts more than %d deep (or in themselves); save a flat state dict", DEPTH_MAX);
	if (v.tag == PT_PV_TUPLE) {
		for (uint32_t i = 0; i < v.n && rc == 0; i++)
			rc = walk_below(w, (struct pt_pv){ .tag = PT_PV_INT, .v = i }, w->p->cells[v.v + i], depth);
		return rc;
	}
	for (uint32_t i = w->p->containers[v.v].first; i != UINT32_MAX && rc == 0; i = w->p->items[i].next)
		rc = walk_below(w, w->p->items[i].key, w->p->items[i].value, depth);
	return rc;
}

int pt_pickle_announce(struct pt_pickle *p, struct pt_parse_ctx *ctx)
{
	struct walk w = { .p = p, .ctx = ctx };
	uint64_t total = 0;
	uint32_t index;
	int rc = 0;

	for (uint32_t i = 0; i < p->storage_count; i++) {
		if (!pt_size_add(total, p->storages[i].bytes, &total) || total > PT_TENSOR_BYTES_MAX)
			return pt_fail(EFBIG, "the storages of data.pkl are larger than any file");
		rc = pt_parse_storage(ctx, p->storages[i].bytes, &index);
		if (rc < 0)
			return rc;
	}
	if (!pt_size_mul(total, EXPAND_MAX, &w.bytes_max))
		w.bytes_max = PT_TENSOR_BYTES_MAX;
	w.bytes_max = pt_size_min(pt_size_max(w.bytes_max, EXPAND_FREE), PT_TENSOR_BYTES_MAX);
	/* Each opcode byte makes at most one value, so a tree has fewer; the rest allows for shared parts. */
	w.steps_max = p->pos + TENSORS_MAX;
	rc = walk_value(&w, p->root, 0);
	pt_buf_done(&w.name);
	pt_namemap_done(&w.names);
	return rc;
}
