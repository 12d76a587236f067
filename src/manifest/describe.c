/* manifest/describe.c - see describe.h. Nothing in the header is trusted: every number is parsed whole, and agrees with the blob's size and id. */
#include "manifest/describe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/error.h"
#include "path/path.h"

#define HEADER_MAX ((uint64_t)1 << 20)

static int bad(const struct pt_blob_ref *blob, const char *why)
{
	char hex[PT_ID_HEX_LEN + 1];

	pt_id_hex(&blob->id, hex);
	return pt_fail(EIO, "the header of object %s is damaged (%s); write its tensor again, or restore a copy of the file", hex, why);
}

static const char *meta_text(const json_t *meta, const char *name)
{
	return json_string_value(json_object_get(meta, name));
}

static bool meta_number(const json_t *meta, const char *name, int32_t *ret)
{
	const char *text = meta_text(meta, name);
	char *end;
	long n;

	if (!text || !*text)
		return false;
	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || *end || n < INT32_MIN || n > INT32_MAX)
		return false;
	*ret = (int32_t)n;
	return true;
}

static bool meta_shape(const json_t *meta, const char *name, struct pt_shape *ret)
{
	const char *text = meta_text(meta, name);

	return text && pt_shape_parse(text, ret) == 0;
}

static bool written_of(const char *name, enum pt_written *ret)
{
	static const char *const names[] = {
		[PT_WRITTEN_FULL] = "full", [PT_WRITTEN_SCOPE] = "scope", [PT_WRITTEN_TP_SHARD] = "tp-shard", [PT_WRITTEN_TP_SLICE] = "tp-slice",
		[PT_WRITTEN_WRITER] = "writer",
	};
	int i;

	for (i = PT_WRITTEN_FULL; name && i <= PT_WRITTEN_WRITER; i++)
		if (strcmp(names[i], name) == 0) {
			*ret = (enum pt_written)i;
			return true;
		}
	return false;
}

static bool read_axes(const char *text, struct pt_part *part)
{
	struct pt_path path;

	if (!text || pt_path_parse(text, &path) < 0 || path.key[0] || path.has_view || path.has_partition || path.info)
		return false;
	part->object.axis_count = path.axis_count;
	memcpy(part->object.axis, path.axis, sizeof(path.axis));
	pt_layout_scope(&path.layout, &part->scope_axes);
	pt_layout_format(&part->scope_axes, part->scope);
	return true;
}

/* The box and the whole, from which of both the writer knew. */
static bool read_box(const json_t *meta, struct pt_described *d)
{
	struct pt_box *box = &d->part.object.box;
	struct pt_shape off;

	if (d->part.written == PT_WRITTEN_TP_SHARD) {
		d->part.shape = d->extent;
		pt_shape_box(&d->extent, box);
		return true;
	}
	if (!meta_shape(meta, "ptio.global_shape", &d->part.shape) || !meta_shape(meta, "ptio.offset", &off) || off.ndim != d->extent.ndim)
		return false;
	box->ndim = off.ndim;
	memcpy(box->off, off.dim, sizeof(box->off));
	memcpy(box->ext, d->extent.dim, sizeof(box->ext));
	return pt_box_within(box, &d->part.shape);
}

/* NULL, or what is wrong. */
static const char *read_meta(const json_t *meta, const struct pt_blob_ref *blob, struct pt_described *d)
{
	const char *key = meta_text(meta, "ptio.key"), *dtype = meta_text(meta, "ptio.dtype"), *id = meta_text(meta, "ptio.object");
	const char *step = meta_text(meta, "ptio.step"), *format = meta_text(meta, "ptio.format");
	struct pt_object *o = &d->part.object;
	char hex[PT_ID_HEX_LEN + 1];

	pt_id_hex(&blob->id, hex);
	if (!format || strcmp(format, "1") != 0)
		return "its format number";
	if (!id || strcmp(id, hex) != 0)
		return "it is another object's";
	if (!key || strlen(key) > PT_KEY_MAX)
		return "its key";
	memcpy(d->key, key, strlen(key) + 1);
	d->part.dtype = dtype ? pt_dtype_by_name(dtype) : PT_DTYPE_INVALID;
	if (d->part.dtype == PT_DTYPE_INVALID)
		return "its dtype";
	if (!written_of(meta_text(meta, "ptio.written"), &d->part.written))
		return "how it was written";
	if (!meta_number(meta, "ptio.rank", &o->part.rank) || !meta_number(meta, "ptio.size", &o->part.size) || !meta_number(meta, "ptio.dim", &o->part.dim))
		return "its place in a set";
	if (!read_axes(meta_text(meta, "ptio.axes"), &d->part))
		return "its axes";
	if (step && strlen(step) > PT_STEP_MAX)
		return "its step tag";
	memcpy(d->part.step, step ? step : "", (step ? strlen(step) : 0) + 1);
	if (!meta_shape(meta, "ptio.extent", &d->extent) || !read_box(meta, d))
		return "its shape";
	return NULL;
}

bool pt_described_split(const struct pt_described *d, enum pt_split split)
{
	const struct pt_part *part = &d->part;
	struct pt_box want;
	bool cut = part->written == PT_WRITTEN_TP_SLICE || part->written == PT_WRITTEN_WRITER;

	return !cut || (pt_shard_box(&part->shape, part->dtype, &part->object.part, split, &want) == 0 && pt_box_equal(&want, &part->object.box));
}

static int read_at(struct pt_data *data, const struct pt_blob_ref *blob, uint64_t off, uint64_t len, void *buf)
{
	struct pt_data_range range = { .blob = *blob, .off = off, .len = len, .buf = buf };

	return pt_data_read(data, &range, 1);
}

int pt_described_decode(const struct pt_blob_ref *blob, const char *text, size_t len, uint64_t payload, struct pt_described *d)
{
	json_t *header = json_loadb(text, len, 0, NULL);
	const json_t *tensor = json_object_get(header, "tensor"), *offsets = json_object_get(tensor, "data_offsets");
	const char *why = NULL;
	uint64_t bytes;

	if (!header)
		why = "it is no JSON";
	else if (json_integer_value(json_array_get(offsets, 0)) != 0 || (uint64_t)json_integer_value(json_array_get(offsets, 1)) != payload)
		why = "its size";
	else
		why = read_meta(json_object_get(header, "__metadata__"), blob, d);
	if (!why && (pt_shape_bytes(&d->extent, d->part.dtype, &bytes) < 0 || bytes != payload))
		why = "its shape has another size";
	json_decref(header);
	return why ? bad(blob, why) : 0;
}

int pt_object_describe(struct pt_data *data, const struct pt_blob_ref *blob, uint64_t bytes, struct pt_described *ret_d)
{
	struct pt_described *d = NULL;
	uint8_t head[8];
	char *text = NULL;
	uint64_t len;
	int rc;

	if (blob->kind != PT_BLOB_TENSOR || bytes < sizeof(head))
		return bad(blob, "it is cut short");
	rc = read_at(data, blob, 0, sizeof(head), head);
	if (rc < 0)
		return rc;
	len = pt_get_le64(head);
	if (len > HEADER_MAX || len > bytes - sizeof(head) || (len + sizeof(head)) % 4096)
		return bad(blob, "its length");
	text = pt_malloc(len + 1);
	d = pt_calloc(1, sizeof(*d));
	rc = text && d ? 0 : pt_fail_nomem();
	if (!rc)
		rc = read_at(data, blob, sizeof(head), len, text);
	if (!rc)
		rc = pt_described_decode(blob, text, len, bytes - sizeof(head) - len, d);
	if (!rc) {
		d->part.object.blob = *blob;
		d->part.object.payload_off = sizeof(head) + len;
		d->part.object.bytes = bytes - sizeof(head) - len;
		if (!pt_described_split(d, PT_SPLIT_BALANCED) && pt_described_split(d, PT_SPLIT_CHUNK))
			d->part.split = PT_SPLIT_CHUNK;
		else if (d->part.written != PT_WRITTEN_TP_SHARD)
			d->part.split = PT_SPLIT_BALANCED;
		*ret_d = *d;
	}
	free(text);
	free(d);
	return rc;
}
