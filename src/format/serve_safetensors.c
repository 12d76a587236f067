/* format/serve_safetensors.c - safetensors headers: of served files, as save_file writes them, and of stored objects. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/serve_int.h"

#define HEADER_MAX 100000000            /* readers refuse longer ones */

/* A JSON string. Everything from 0x20 on is raw but for the quote and the backslash. */
static void put_json_string(struct pt_buf *b, const char *s)
{
	static const char letter[32] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r' };
	const char *run = s;

	pt_buf_append_u8(b, '"');
	for (; *s; s++) {
		uint8_t c = (uint8_t)*s;

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		pt_buf_append(b, run, (size_t)(s - run));
		run = s + 1;
		if (c >= 0x20)
			pt_buf_printf(b, "\\%c", c);
		else if (letter[c])
			pt_buf_printf(b, "\\%c", letter[c]);
		else
			pt_buf_printf(b, "\\u%04x", c);
	}
	pt_buf_append(b, run, (size_t)(s - run));
	pt_buf_append_u8(b, '"');
}

static void put_info(struct pt_buf *b, const char *name, const char *dtype, const struct pt_shape *shape, bool pairs, uint64_t begin, uint64_t end)
{
	uint32_t i;

	put_json_string(b, name);
	pt_buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
	for (i = 0; i < shape->ndim; i++)
		pt_buf_printf(b, i ? ",%" PRIu64 : "%" PRIu64, shape->dim[i]);
	if (pairs)
		pt_buf_append_str(b, shape->ndim ? ",2" : "2");
	pt_buf_printf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

/* Pads the header, whose 8 length bytes lie at start, to a multiple of align and fills in the length. */
static int end_header(struct pt_buf *b, size_t start, size_t align)
{
	size_t len;

	if (!pt_buf_failed(b))
		pt_buf_append_fill(b, ' ', -(b->len - start) & (align - 1));
	if (pt_buf_failed(b))
		return pt_fail_nomem();
	len = b->len - start - 8;
	if (len > HEADER_MAX)
		return pt_fail(EFBIG, "the safetensors header would have %zu bytes, readers take at most %d; read fewer tensors at a time", len,
			       HEADER_MAX);
	pt_put_le64(b->data + start, len);
	return 0;
}

/* What save_file sorts by: dtypes that need the largest alignment first, then names. */
struct place {
	const char *name;
	int rank;
	uint32_t index;
};

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int c;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	c = strcmp(x->name, y->name);
	if (c)
		return c;
	return x->index < y->index ? -1 : x->index > y->index;
}

int pt_serve_safetensors(const struct pt_serve_tensor *tensors, const uint64_t *bytes, size_t count, struct pt_serve_builder *b)
{
	struct pt_buf *out = &b->out.literals;
	struct place *places;
	uint64_t at = 0;
	size_t i;
	int rc = 0;

	places = pt_calloc(count ? count : 1, sizeof(*places));
	if (!places)
		return pt_fail_nomem();
	for (i = 0; i < count; i++)
		places[i] = (struct place){
			.name = tensors[i].name, .rank = pt_dtype_info(tensors[i].dtype)->safetensors_rank, .index = (uint32_t)i,
		};
	qsort(places, count, sizeof(*places), by_place);
	pt_buf_append_le64(out, 0);
	pt_buf_append_str(out, "{\"__metadata__\":{\"format\":\"pt\"}");
	for (i = 0; i < count && !rc; i++) {
		const struct pt_serve_tensor *t = &tensors[places[i].index];
		uint64_t end;

		if (!pt_size_add(at, bytes[places[i].index], &end)) {
			rc = pt_fail(EFBIG, "the tensors together are larger than any file can be; read fewer at a time");
			break;
		}
		pt_buf_append_u8(out, ',');
		put_info(out, t->name, pt_dtype_info(t->dtype)->safetensors, &t->shape, false, at, end);
		at = end;
		if (out->len > HEADER_MAX + 8)
			break;                          /* end_header() tells */
	}
	pt_buf_append_u8(out, '}');
	if (!rc)
		rc = end_header(out, 0, 8);
	for (i = 0; i < count && !rc; i++)
		pt_serve_payload(b, (int32_t)places[i].index, bytes[places[i].index]);
	free(places);
	return rc;
}

int pt_serve_object_header(enum pt_dtype dtype, const struct pt_shape *shape, const char *const *metadata, struct pt_buf *ret_header)
{
	const struct pt_dtype_info *info = pt_dtype_info(dtype);
	struct pt_buf header = PT_BUF_INIT;
	bool pairs = dtype == PT_DTYPE_C128, format = false;
	const char *const *m;
	uint64_t bytes;
	int rc;

	rc = pt_shape_bytes(shape, dtype, &bytes);
	if (rc)
		return rc == -EOVERFLOW ? pt_fail(EFBIG, "the tensor is larger than 2^62 bytes") : rc;
	for (m = metadata; m && *m; m += 2)
		format |= strcmp(m[0], "format") == 0;
	pt_buf_append_le64(&header, 0);
	pt_buf_append_str(&header, format ? "{\"__metadata__\":{" : "{\"__metadata__\":{\"format\":\"pt\"");
	for (m = metadata; m && *m; m += 2) {
		if (m != metadata || !format)
			pt_buf_append_u8(&header, ',');
		put_json_string(&header, m[0]);
		pt_buf_append_u8(&header, ':');
		put_json_string(&header, m[1]);
	}
	pt_buf_append_str(&header, "},");
	put_info(&header, "tensor", pairs ? "F64" : info->safetensors, shape, pairs, 0, bytes);
	pt_buf_append_u8(&header, '}');
	rc = end_header(&header, 0, 4096);
	if (rc) {
		pt_buf_done(&header);
		return rc;
	}
	*ret_header = header;
	return 0;
}
