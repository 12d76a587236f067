/* format/serve_pickle.c - the bytes of data.pkl: pickle protocol 2 without a memo, so that each tensor is a fragment by itself.
 * The spelling of each part is in docs/SPEC.md, "PT1". */
#include <stdio.h>
#include <string.h>

#include "format/serve_int.h"

static void put_str(struct pt_buf *b, const char *s)
{
	size_t len = strlen(s);

	pt_buf_append_u8(b, 'X');
	pt_buf_append_le32(b, (uint32_t)len);
	pt_buf_append(b, s, len);
}

/* The shortest of K, M, J and LONG1. */
static void put_int(struct pt_buf *b, uint64_t v)
{
	int n, i;

	if (v < 256) {
		pt_buf_append_u8(b, 'K');
		pt_buf_append_u8(b, (uint8_t)v);
	} else if (v < 65536) {
		pt_buf_append_u8(b, 'M');
		pt_buf_append_le16(b, (uint16_t)v);
	} else if (v <= INT32_MAX) {
		pt_buf_append_u8(b, 'J');
		pt_buf_append_le32(b, (uint32_t)v);
	} else {
		n = (64 - __builtin_clzll(v)) / 8 + 1;
		pt_buf_append_u8(b, 0x8a);
		pt_buf_append_u8(b, (uint8_t)n);
		for (i = 0; i < n; i++)
			pt_buf_append_u8(b, i < 8 ? (uint8_t)(v >> (8 * i)) : 0);
	}
}

static void put_ints(struct pt_buf *b, const uint64_t *v, uint32_t n)
{
	uint32_t i;

	if (n == 0) {
		pt_buf_append_u8(b, ')');
		return;
	}
	if (n > 3)
		pt_buf_append_u8(b, '(');
	for (i = 0; i < n; i++)
		put_int(b, v[i]);
	pt_buf_append_u8(b, n > 3 ? 't' : (uint8_t)(0x84 + n));
}

void pt_serve_pickle_tensor(const struct pt_serve_tensor *t, uint64_t bytes, size_t key, bool grad, struct pt_buf *b)
{
	const struct pt_dtype_info *info = pt_dtype_info(t->dtype);
	struct pt_shape shape = t->shape;
	uint64_t stride[PT_DIMS_MAX], step = 1;
	char key_text[24];
	uint32_t i;

	if (info->bits < 8)                             /* torch counts pairs */
		shape.dim[shape.ndim - 1] /= 2;
	for (i = shape.ndim; i-- > 0;) {
		stride[i] = step;
		step *= shape.dim[i] ? shape.dim[i] : 1;
	}
	snprintf(key_text, sizeof(key_text), "%zu", key);
	pt_buf_append_str(b, info->torch_storage ? "ctorch._utils\n_rebuild_tensor_v2\n" : "ctorch._utils\n_rebuild_tensor_v3\n");
	pt_buf_append_str(b, "((");
	put_str(b, "storage");
	if (info->torch_storage) {
		pt_buf_append_str(b, "ctorch\n");
		pt_buf_append_str(b, info->torch_storage);
		pt_buf_append_str(b, "\n");
	} else {
		pt_buf_append_str(b, "ctorch.storage\nUntypedStorage\n");
	}
	put_str(b, key_text);
	put_str(b, "cpu");
	put_int(b, info->torch_storage ? bytes / (info->bits / 8) : bytes);
	pt_buf_append_str(b, "tQ");
	put_int(b, 0);
	put_ints(b, shape.dim, shape.ndim);
	put_ints(b, stride, shape.ndim);
	pt_buf_append_u8(b, grad ? 0x88 : 0x89);
	pt_buf_append_str(b, "ccollections\nOrderedDict\n)R");
	if (!info->torch_storage) {
		pt_buf_append_str(b, "ctorch\n");
		pt_buf_append_str(b, info->name);
		pt_buf_append_str(b, "\n");
	}
	pt_buf_append_str(b, "tR");
}

void pt_serve_pickle(const struct pt_serve_tensor *tensors, const uint64_t *bytes, size_t count, int as_dict, struct pt_buf *pkl)
{
	size_t i;

	pt_buf_append(pkl, "\x80\x02", 2);
	if (as_dict)
		pt_buf_append_str(pkl, "}(");
	for (i = 0; i < count; i++) {
		if (as_dict)
			put_str(pkl, tensors[i].name);
		pt_serve_pickle_tensor(&tensors[i], bytes[i], i, false, pkl);
	}
	pt_buf_append_str(pkl, as_dict ? "u." : ".");
}
