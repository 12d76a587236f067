/* format/parse_safetensors.c - safetensors: u64 header length, JSON header, data section without holes.
 *
 * Each tensor is a storage of its own, announced in file order. The header is held while it arrives (it grows with what
 * comes, never by what its length claims) and dropped once it is read; after that 40 bytes a tensor stay.
 * Stricter than the usual reader: a name twice and infos given as arrays are refused. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/json_walk.h"
#include "format/parse_int.h"

#define HEADER_MAX 100000000
#define INFO_MAX 65536                  /* text of one tensor's description; 64 dimensions need 2 KB */

struct st_tensor {
	uint64_t begin, end;            /* in the data section */
	uint32_t name;                  /* offset in names */
	uint32_t dims;                  /* index in dims */
	uint8_t ndim;
	uint8_t dtype;
};

struct st {
	struct pt_parse_ctx *ctx;
	struct pt_buf header;           /* length and text as they arrive */
	uint64_t header_len;            /* of the text; 0: not known yet */
	struct pt_buf names;            /* NUL-terminated, in header order */
	struct pt_buf dims;             /* uint64_t each */
	struct st_tensor *tensors;
	uint32_t count, cap;
	bool seen_metadata;
	bool in_data;
	uint32_t current;               /* tensor whose bytes come next */
	uint64_t off;                   /* in the data section */
	uint64_t total;                 /* of the data section */
};

static int st_create(struct pt_parse_ctx *ctx, void **ret_state)
{
	struct st *s = pt_calloc(1, sizeof(*s));

	if (!s)
		return pt_fail_nomem();
	s->ctx = ctx;
	*ret_state = s;
	return 0;
}

/* --- names that occur twice -------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

/* names: count NUL-terminated strings one after another. */
static int check_unique(const char *what, const struct pt_buf *names, size_t count)
{
	const char **sorted, *p = (const char *)names->data;
	size_t i;
	int rc = 0;

	if (count < 2)
		return 0;
	sorted = pt_reallocarray(NULL, count, sizeof(*sorted));
	if (!sorted)
		return pt_fail_nomem();
	for (i = 0; i < count; i++, p += strlen(p) + 1)
		sorted[i] = p;
	qsort(sorted, count, sizeof(*sorted), by_text);
	for (i = 1; i < count && !rc; i++)
		if (strcmp(sorted[i - 1], sorted[i]) == 0)
			rc = pt_fail(EINVAL, "the safetensors header has %s \"%.200s\" twice", what, sorted[i]);
	free(sorted);
	return rc;
}

/* --- the header -------------------------------------------------------------------------------------------------------- */

struct metadata {
	struct pt_buf names;
	struct pt_buf value;
	size_t count;
};

static int take_metadata_member(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	struct metadata *m = ctx;
	int rc;

	pt_buf_reset(&m->value);
	rc = pt_json_string("a key of __metadata__ in the safetensors header", key, key_len, &m->names);
	if (!rc)
		rc = pt_json_string("a value of __metadata__ in the safetensors header", value, value_len, &m->value);
	m->count++;
	return rc;
}

static int take_metadata(struct st *s, const char *text, size_t len)
{
	struct metadata m = { .count = 0 };
	int rc = 0;

	if (s->seen_metadata)
		return pt_fail(EINVAL, "the safetensors header has __metadata__ twice");
	s->seen_metadata = true;
	if (len == 4 && memcmp(text, "null", 4) == 0)
		return 0;
	rc = pt_json_walk("__metadata__ in the safetensors header", text, len, take_metadata_member, &m);
	if (!rc)
		rc = check_unique("the metadata key", &m.names, m.count);
	pt_buf_done(&m.names);
	pt_buf_done(&m.value);
	return rc;
}

static int get_u64(const json_t *v, const char *name, const char *what, uint64_t *ret)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return pt_fail(EINVAL, "tensor \"%.200s\" in the safetensors header: %s must be whole numbers of 0 or more", name, what);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

/* Checks one tensor's description and appends it to the table. */
static int take_info(struct st *s, uint32_t name_off, const json_t *info)
{
	const char *name = (const char *)s->names.data + name_off;
	const json_t *dtype = json_object_get(info, "dtype"), *dims = json_object_get(info, "shape");
	const json_t *offsets = json_object_get(info, "data_offsets");
	struct st_tensor t = { .name = name_off };
	struct pt_shape shape = { 0 };
	uint64_t bytes;
	size_t i;
	int rc;

	if (!json_is_object(info) || !json_is_string(dtype) || !json_is_array(dims) || !json_is_array(offsets) || json_array_size(offsets) != 2)
		return pt_fail(EINVAL, "tensor \"%.200s\" in the safetensors header must be an object with dtype, shape and data_offsets", name);
	t.dtype = (uint8_t)pt_dtype_by_safetensors(json_string_value(dtype));
	if (t.dtype == PT_DTYPE_INVALID)
		return pt_fail(EOPNOTSUPP, "tensor \"%.200s\" has dtype %.40s, which ptio does not know; leave it out or convert it", name,
			       json_string_value(dtype));
	if (json_array_size(dims) > PT_DIMS_MAX)
		return pt_fail(EINVAL, "tensor \"%.200s\" has %zu dimensions; ptio takes at most %d", name, json_array_size(dims), PT_DIMS_MAX);
	t.ndim = (uint8_t)json_array_size(dims);
	t.dims = (uint32_t)(s->dims.len / sizeof(uint64_t));
	shape.ndim = t.ndim;
	for (i = 0; i < t.ndim; i++) {
		rc = get_u64(json_array_get(dims, i), name, "the dimensions", &shape.dim[i]);
		if (rc)
			return rc;
	}
	rc = get_u64(json_array_get(offsets, 0), name, "the offsets", &t.begin);
	if (!rc)
		rc = get_u64(json_array_get(offsets, 1), name, "the offsets", &t.end);
	if (rc)
		return rc;
	rc = pt_shape_bytes(&shape, (enum pt_dtype)t.dtype, &bytes);
	if (rc)
		return pt_fail_context(-EINVAL, "tensor \"%.200s\" in the safetensors header", name);
	if (t.end < t.begin || t.end - t.begin != bytes)
		return pt_fail(EINVAL, "tensor \"%.200s\" in the safetensors header: dtype and shape need %llu bytes, its offsets do not give that", name,
			       (unsigned long long)bytes);
	pt_buf_append(&s->dims, shape.dim, t.ndim * sizeof(uint64_t));
	if (pt_buf_failed(&s->dims))
		return pt_fail_nomem();
	if (s->count == s->cap) {
		uint32_t cap = s->cap ? s->cap + s->cap / 2 : 16;
		struct st_tensor *more = pt_reallocarray(s->tensors, cap, sizeof(*more));

		if (!more)
			return pt_fail_nomem();
		s->tensors = more;
		s->cap = cap;
	}
	s->tensors[s->count++] = t;
	return 0;
}

static int take_member(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	struct st *s = ctx;
	uint32_t name_off = (uint32_t)s->names.len;
	const char *name;
	json_error_t error;
	json_t *info;
	int rc;

	rc = pt_json_string("a name in the safetensors header", key, key_len, &s->names);
	if (rc)
		return rc;
	name = (const char *)s->names.data + name_off;
	if (strcmp(name, "__metadata__") == 0) {
		s->names.len = name_off;
		return take_metadata(s, value, value_len);
	}
	if (value_len > INFO_MAX)
		return pt_fail(EINVAL, "tensor \"%.200s\" has a description of %zu bytes in the safetensors header; at most %d make sense", name,
			       value_len, INFO_MAX);
	info = json_loadb(value, value_len, JSON_REJECT_DUPLICATES, &error);
	if (!info) {
		if (json_error_code(&error) == json_error_out_of_memory)
			return pt_fail_nomem();
		return pt_fail(EINVAL, "tensor \"%.200s\" in the safetensors header is not an object with dtype, shape and data_offsets: %s", name,
			       error.text);
	}
	rc = take_info(s, name_off, info);
	json_decref(info);
	return rc;
}

static int by_offset(const void *a, const void *b)
{
	const struct st_tensor *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static int announce(struct st *s)
{
	uint32_t i;
	int rc;

	for (i = 0; i < s->count; i++) {
		const struct st_tensor *r = &s->tensors[i];
		struct pt_parse_tensor t = {
			.name = (const char *)s->names.data + r->name, .dtype = (enum pt_dtype)r->dtype, .contiguous = true,
		};

		t.shape.ndim = r->ndim;
		if (r->ndim)
			memcpy(t.shape.dim, s->dims.data + r->dims * sizeof(uint64_t), r->ndim * sizeof(uint64_t));
		rc = pt_parse_storage(s->ctx, r->end - r->begin, &t.storage);
		if (!rc)
			rc = pt_parse_tensor(s->ctx, &t);
		if (rc)
			return rc;
	}
	return pt_parse_header_done(s->ctx);
}

static int read_header(struct st *s)
{
	uint64_t file_size = s->ctx->hint.file_size;
	uint32_t i;
	int rc;

	rc = pt_json_walk("the safetensors header", (const char *)s->header.data + 8, s->header_len, take_member, s);
	if (!rc)
		rc = check_unique("tensor", &s->names, s->count);
	if (rc)
		return rc;
	pt_buf_done(&s->header);
	if (s->count)
		qsort(s->tensors, s->count, sizeof(*s->tensors), by_offset);
	for (i = 0; i < s->count; i++) {
		if (s->tensors[i].begin != s->total)
			return pt_fail(EINVAL, "tensor \"%.200s\" begins at byte %llu of the data, but the tensors before it end at %llu; "
				       "safetensors allows neither holes nor overlaps", (const char *)s->names.data + s->tensors[i].name,
				       (unsigned long long)s->tensors[i].begin, (unsigned long long)s->total);
		s->total = s->tensors[i].end;
	}
	if (file_size && file_size - 8 - s->header_len != s->total)
		return pt_fail(EINVAL, "the safetensors header describes a file of %llu bytes, this one has %llu",
			       (unsigned long long)(8 + s->header_len + s->total), (unsigned long long)file_size);
	rc = announce(s);
	pt_buf_done(&s->names);
	pt_buf_done(&s->dims);
	s->in_data = true;
	return rc;
}

static int read_length(struct st *s)
{
	uint64_t n = pt_get_le64(s->header.data), file_size = s->ctx->hint.file_size;

	if (n > HEADER_MAX)
		return pt_fail(EFBIG, "the safetensors header claims %llu bytes; at most %d are allowed", (unsigned long long)n, HEADER_MAX);
	if (n < 2)
		return pt_fail(EINVAL, "the safetensors header is too short to be one");
	if (file_size && (file_size < 8 || n > file_size - 8))
		return pt_fail(EINVAL, "the safetensors header claims %llu bytes, more than the file has", (unsigned long long)n);
	s->header_len = n;
	return 0;
}

/* --- feeding ----------------------------------------------------------------------------------------------------------- */

static int feed_data(struct st *s, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	const struct st_tensor *t = &s->tensors[s->current];
	int rc;

	*ret_used = pt_size_min(len, t->end - s->off);
	rc = pt_parse_data(s->ctx, s->current, s->off - t->begin, data, *ret_used);
	if (rc)
		return rc;
	s->off += *ret_used;
	while (s->current < s->count && s->tensors[s->current].end <= s->off)
		s->current++;
	return 0;
}

static int st_feed(void *state, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	struct st *s = state;
	int rc = 0;

	if (s->in_data) {
		rc = feed_data(s, data, len, ret_used);
	} else {
		*ret_used = pt_parse_collect(&s->header, 8 + s->header_len, data, len);
		if (pt_buf_failed(&s->header))
			return pt_fail_nomem();
		if (!s->header_len && s->header.len == 8)
			rc = read_length(s);
		else if (s->header_len && s->header.len == 8 + s->header_len)
			rc = read_header(s);
		while (s->in_data && s->current < s->count && s->tensors[s->current].end == 0)
			s->current++;
	}
	if (rc || !s->in_data || s->off < s->total)
		return rc;
	return pt_parse_complete(s->ctx);
}

static int st_end(void *state)
{
	struct st *s = state;

	if (!s->header_len)
		return pt_fail(EINVAL, "the safetensors file ended inside the 8 bytes of its header's length");
	if (!s->in_data)
		return pt_fail(EINVAL, "the safetensors file ended inside its header, after %llu of %llu bytes",
			       (unsigned long long)(s->header.len - 8), (unsigned long long)s->header_len);
	return pt_fail(EINVAL, "the safetensors file ended after %llu of %llu data bytes", (unsigned long long)s->off, (unsigned long long)s->total);
}

static void st_free(void *state)
{
	struct st *s = state;

	if (!s)
		return;
	pt_buf_done(&s->header);
	pt_buf_done(&s->names);
	pt_buf_done(&s->dims);
	free(s->tensors);
	free(s);
}

const struct pt_parse_ops pt_parse_ops_safetensors = {
	.format = PT_FORMAT_SAFETENSORS,
	.create = st_create,
	.feed = st_feed,
	.end = st_end,
	.free = st_free,
};
