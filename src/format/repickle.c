/* format/repickle.c - the machine runs over the pickle and notes where things are; then the pieces are put together. */
#include "format/repickle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/pickle_int.h"
#include "format/serve_int.h"

struct pt_repickle {
	struct pt_pickle *p;
	struct pt_pickle_trace trace;
};

static int no_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	(void)ctx, (void)t;
	return 0;
}

/* The span that holds a byte, or NULL. They do not overlap (pickle.c). */
static const struct pt_pickle_span *span_at(const struct pt_pickle_trace *t, size_t at)
{
	size_t lo = 0, hi = t->span_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->spans[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->span_count && t->spans[lo].start <= at ? &t->spans[lo] : NULL;
}

/* A value that can be spelled out where it is used. left: bytes that all such values may still take together; a few bytes of a pickle can ask for any number. */
static bool plain(const struct pt_pickle *p, struct pt_pv v, unsigned int depth, uint64_t *left)
{
	uint64_t cost = 5 + (v.tag == PT_PV_STR ? v.n : v.tag == PT_PV_GLOBAL ? 2 * PT_PICKLE_LINE_MAX : 0);
	uint32_t i;

	if (cost > *left)
		return false;
	*left -= cost;
	switch (v.tag) {
	case PT_PV_NONE:
	case PT_PV_BOOL:
	case PT_PV_GLOBAL:
		return true;
	case PT_PV_INT:
		return (int64_t)v.v >= INT32_MIN && (int64_t)v.v <= INT32_MAX;
	case PT_PV_STR:
		for (i = 0; i < v.n; i++)       /* a protocol 2 str of bytes is not what the same bytes as text are */
			if (p->buf.data[v.v + i] >= 0x80 && p->buf.data[v.v - 2] == 'U')
				return false;
		return true;
	case PT_PV_TUPLE:
		for (i = 0; i < v.n; i++)
			if (depth > 8 || !plain(p, p->cells[v.v + i], depth + 1, left))
				return false;
		return true;
	default:
		return false;
	}
}

static const char *problem(const struct pt_repickle *r)
{
	const struct pt_pickle_trace *t = &r->trace;
	uint64_t left = PT_PICKLE_BYTES_MAX;
	size_t i;
	uint8_t *seen;
	bool all = true;

	if (t->why)
		return t->why;
	for (i = 0; i < t->persid_count; i++)
		if (!span_at(t, t->persids[i]))
			return "it holds a storage by itself";
	for (i = 0; i < t->use_count; i++)
		if (!span_at(t, t->uses[i].at) && span_at(t, t->uses[i].put) && !plain(r->p, t->uses[i].value, 0, &left))
			return "a value in it is part of a tensor's description";
	seen = pt_calloc(t->span_count + 1, 1);
	if (!seen)
		return NULL;
	for (i = 0; i < t->named_count; i++)
		seen[t->named[i]] = 1;
	for (i = 0; i < t->span_count; i++)
		all = all && seen[i];
	free(seen);
	return all ? "" : "it holds a tensor that has no name";
}

int pt_repickle_find(const uint8_t *file, size_t file_len, const uint8_t **ret_data, size_t *ret_len)
{
	size_t at = file_len < 30 ? 30 : 30 + (size_t)pt_get_le16(file + 26) + pt_get_le16(file + 28);

	if (at >= file_len)
		return pt_fail(EOPNOTSUPP, "its description is not where torch puts it");
	*ret_data = file + at;
	*ret_len = file_len - at;
	return 0;
}

int pt_repickle_create(const void *data, size_t len, struct pt_repickle **ret_r)
{
	struct pt_parse_ctx ctx = { .sink = { .tensor = no_tensor } };
	struct pt_repickle *r = pt_calloc(1, sizeof(*r));
	const char *why;
	size_t used;
	int rc;

	if (!r)
		return pt_fail_nomem();
	rc = pt_pickle_create(&r->p);
	if (rc == 0) {
		r->p->trace = &r->trace;
		rc = pt_pickle_feed(r->p, data, len, &used);
		if (rc == 0)
			rc = pt_fail(EINVAL, "data.pkl ends early");
	}
	if (rc > 0)
		rc = pt_pickle_announce(r->p, &ctx);
	if (rc == 0) {
		why = problem(r);
		rc = !why ? pt_fail_nomem() : *why ? pt_fail(EOPNOTSUPP, "%s", why) : 0;
	}
	if (rc < 0) {
		pt_repickle_free(r);
		return rc;
	}
	*ret_r = r;
	return 0;
}

void pt_repickle_free(struct pt_repickle *r)
{
	if (!r)
		return;
	pt_pickle_free(r->p);
	free(r->trace.stack_at);
	free(r->trace.memo_at);
	free(r->trace.spans);
	free(r->trace.uses);
	free(r->trace.persids);
	free(r->trace.named);
	free(r);
}

size_t pt_repickle_length(const struct pt_repickle *r)
{
	return r->p->pos;
}

uint32_t pt_repickle_tensor_count(const struct pt_repickle *r)
{
	return (uint32_t)r->trace.span_count;
}

uint32_t pt_repickle_name_count(const struct pt_repickle *r)
{
	return (uint32_t)r->trace.named_count;
}

uint32_t pt_repickle_name_tensor(const struct pt_repickle *r, uint32_t name)
{
	return r->trace.named[name];
}

static void put_value(const struct pt_pickle *p, struct pt_pv v, struct pt_buf *out)
{
	const uint8_t *text = p->buf.data + v.v, *end;
	uint32_t i;

	switch (v.tag) {
	case PT_PV_NONE:
		pt_buf_append_u8(out, 'N');
		break;
	case PT_PV_BOOL:
		pt_buf_append_u8(out, v.v ? 0x88 : 0x89);
		break;
	case PT_PV_INT:
		pt_buf_append_u8(out, 'J');
		pt_buf_append_le32(out, (uint32_t)v.v);
		break;
	case PT_PV_STR:
		pt_buf_append_u8(out, 'X');
		pt_buf_append_le32(out, v.n);
		pt_buf_append(out, text, v.n);
		break;
	case PT_PV_GLOBAL:              /* two lines, found whole when they were read */
		end = memchr(text, '\n', p->buf.len - v.v);
		end = memchr(end + 1, '\n', p->buf.len - (size_t)(end + 1 - p->buf.data));
		pt_buf_append_u8(out, 'c');
		pt_buf_append(out, text, (size_t)(end + 1 - text));
		break;
	default:                        /* a tuple: plain() has seen to it */
		pt_buf_append_u8(out, '(');
		for (i = 0; i < v.n; i++)
			put_value(p, p->cells[v.v + i], out);
		pt_buf_append_u8(out, 't');
		break;
	}
}

int pt_repickle_emit(const struct pt_repickle *r, const struct pt_serve_tensor *tensors, const uint32_t *storage, struct pt_buf *out)
{
	const struct pt_pickle_trace *t = &r->trace;
	const struct pt_buf *buf = &r->p->buf;
	size_t at = 0, use = 0, s, end;
	uint64_t bytes;
	int rc;

	for (s = 0; s <= t->span_count; s++) {
		end = s < t->span_count ? t->spans[s].start : buf->len;
		for (; use < t->use_count && t->uses[use].at < end; use++) {
			const struct pt_pickle_use *u = &t->uses[use];

			if (u->at < at || !span_at(t, u->put))
				continue;
			pt_buf_append(out, buf->data + at, u->at - at);
			put_value(r->p, u->value, out);
			at = u->at + u->len;
		}
		pt_buf_append(out, buf->data + at, end - at);
		if (s == t->span_count)
			break;
		rc = pt_shape_bytes(&tensors[t->spans[s].tensor].shape, tensors[t->spans[s].tensor].dtype, &bytes);
		if (rc < 0)
			return rc;
		pt_serve_pickle_tensor(&tensors[t->spans[s].tensor], bytes, storage[t->spans[s].tensor], t->spans[s].grad, out);
		at = t->spans[s].end;
	}
	return pt_buf_failed(out) ? pt_fail_nomem() : 0;
}
