/* format/serve.c - segments of served files: what all formats share, and the dispatch. Pure. */
#include "format/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "format/serve_int.h"

static void add_segment(struct pt_serve_builder *b, uint64_t len, int32_t tensor, uint64_t literal_off)
{
	struct pt_segment *s;
	uint64_t end;

	if (!len || b->failed || b->too_big)
		return;
	if (!pt_size_add(b->out.size, len, &end) || end > INT64_MAX) {
		b->too_big = true;
		return;
	}
	if (b->out.segment_count == b->segment_cap) {
		size_t cap = b->segment_cap ? b->segment_cap + b->segment_cap / 2 : 4;

		s = pt_reallocarray(b->out.segments, cap, sizeof(*s));
		if (!s) {
			b->failed = true;
			return;
		}
		b->out.segments = s;
		b->segment_cap = cap;
	}
	b->out.segments[b->out.segment_count++] = (struct pt_segment){
		.off = b->out.size, .len = len, .tensor = tensor, .literal_off = literal_off,
	};
	b->out.size = end;
}

/* Ends the run of literal bytes that were appended since the last segment. */
static void flush_literals(struct pt_serve_builder *b)
{
	add_segment(b, b->out.literals.len - b->literal_start, -1, b->literal_start);
	b->literal_start = b->out.literals.len;
}

uint64_t pt_serve_at(const struct pt_serve_builder *b)
{
	return b->out.size + (b->out.literals.len - b->literal_start);
}

void pt_serve_pad(struct pt_serve_builder *b, uint64_t n)
{
	if (n < 256) {
		pt_buf_append_zeros(&b->out.literals, n);
		return;
	}
	flush_literals(b);
	if (!b->has_zeros) {
		b->has_zeros = true;
		b->zeros_off = b->out.literals.len;
		pt_buf_append_zeros(&b->out.literals, PT_SERVE_ZEROS);
		b->literal_start = b->out.literals.len;
	}
	add_segment(b, n, -1, b->zeros_off);
}

void pt_serve_payload(struct pt_serve_builder *b, int32_t tensor, uint64_t bytes)
{
	flush_literals(b);
	add_segment(b, bytes, tensor, 0);
}

void pt_serve_builder_done(struct pt_serve_builder *b)
{
	pt_served_done(&b->out);
}

int pt_serve_finish(struct pt_serve_builder *b, struct pt_served *ret_served)
{
	int rc = 0;

	flush_literals(b);
	if (b->too_big)
		rc = pt_fail(EFBIG, "the file would be larger than any file can be; read fewer tensors at a time");
	else if (b->failed || pt_buf_failed(&b->out.literals))
		rc = pt_fail_nomem();
	if (rc) {
		pt_serve_builder_done(b);
		return rc;
	}
	*ret_served = b->out;
	b->out = (struct pt_served){ 0 };
	return 0;
}

void pt_served_done(struct pt_served *s)
{
	free(s->segments);
	pt_buf_done(&s->literals);
	*s = (struct pt_served){ 0 };
}

size_t pt_served_find(const struct pt_served *s, uint64_t off)
{
	size_t lo = 0, hi = s->segment_count;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->segments[mid].off <= off)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static int check_tensor(enum pt_format format, const struct pt_serve_tensor *t, bool named, uint64_t *ret_bytes)
{
	const struct pt_dtype_info *info = pt_dtype_info(t->dtype);
	int rc = pt_shape_bytes(&t->shape, t->dtype, ret_bytes);

	if (rc)
		return rc == -EOVERFLOW ? pt_fail(EFBIG, "the tensor is larger than 2^62 bytes") : rc;
	if (format == PT_FORMAT_SAFETENSORS && !info->safetensors)
		return pt_fail(EOPNOTSUPP, "safetensors has no %s; read the tensor as .pt or .npy", info->name);
	if (format == PT_FORMAT_NPY && !info->npy)
		return pt_fail(EOPNOTSUPP, "npy has no %s; read the tensor as .pt or .safetensors", info->name);
	if (named && (!t->name || !pt_text_is_utf8(t->name)))
		return pt_fail(EINVAL, "a tensor's name is not UTF-8, which %s files need; read the tensor by itself", pt_format_name(format));
	if (format == PT_FORMAT_SAFETENSORS && strcmp(t->name, "__metadata__") == 0)
		return pt_fail(EINVAL, "safetensors reserves the name __metadata__; read the tensor as .pt");
	return 0;
}

static int serve(enum pt_format format, const struct pt_serve_tensor *tensors, size_t count, int as_dict, const struct pt_buf *pickle,
		 struct pt_served *ret_served)
{
	bool many = format == PT_FORMAT_PT || format == PT_FORMAT_SAFETENSORS;
	bool named = format == PT_FORMAT_SAFETENSORS || (format == PT_FORMAT_PT && !pickle && (as_dict || count != 1));
	struct pt_serve_builder b = { 0 };
	uint64_t *bytes;
	size_t i;
	int rc = 0;

	if (!many && count != 1)
		return pt_fail(EINVAL, "%s holds one tensor a file, not %zu; read them as .safetensors or .pt", pt_format_name(format), count);
	if (count > INT32_MAX)
		return pt_fail(EFBIG, "%zu tensors are too many for one file", count);
	bytes = pt_calloc(count ? count : 1, sizeof(*bytes));
	if (!bytes)
		return pt_fail_nomem();
	for (i = 0; i < count && !rc; i++) {
		rc = check_tensor(format, &tensors[i], named, &bytes[i]);
		if (rc && named && tensors[i].name)
			pt_fail_context(rc, "%s", tensors[i].name);
	}
	if (rc)
		goto out;
	switch (format) {
	case PT_FORMAT_PT:
		rc = pt_serve_pt(tensors, bytes, count, named, pickle, &b);
		break;
	case PT_FORMAT_SAFETENSORS:
		rc = pt_serve_safetensors(tensors, bytes, count, &b);
		break;
	case PT_FORMAT_NPY:
		rc = pt_serve_npy(tensors, bytes[0], &b);
		break;
	case PT_FORMAT_BIN:
		pt_serve_payload(&b, 0, bytes[0]);
		break;
	case PT_FORMAT_OBJ:
		rc = pt_serve_obj(tensors, bytes[0], &b);
		break;
	default:
		rc = pt_fail(EINVAL, "no such format");
		break;
	}
	if (rc)
		pt_serve_builder_done(&b);
	else
		rc = pt_serve_finish(&b, ret_served);
out:
	free(bytes);
	return rc;
}

int pt_serve(enum pt_format format, const struct pt_serve_tensor *tensors, size_t count, int as_dict, struct pt_served *ret_served)
{
	return serve(format, tensors, count, as_dict, NULL, ret_served);
}

int pt_serve_with_pickle(const struct pt_serve_tensor *tensors, size_t count, const struct pt_buf *pickle, struct pt_served *ret_served)
{
	return serve(PT_FORMAT_PT, tensors, count, 0, pickle, ret_served);
}
