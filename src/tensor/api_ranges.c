/* tensor/api_ranges.c - byte ranges of tensor objects into registered memory. */
#include <errno.h>

#include "base/error.h"
#include "base/size.h"
#include "tensor/api_int.h"

static int refuse_key(struct ptio_range_key *k, int rc)
{
	size_t i;

	for (i = 0; k->ranges && i < k->range_count; i++)
		k->ranges[i].result = rc;
	return rc;
}

static int64_t read_range(struct pt_vfile *f, uint8_t *buffer, uint64_t room, const struct ptio_range *r)
{
	uint64_t src_end, dst_end;

	if (!pt_size_add(r->src_off, r->size, &src_end) || src_end > pt_vfile_size(f))
		return pt_fail(EINVAL, "the range [%llu, +%llu) goes beyond the object's %llu bytes", (unsigned long long)r->src_off,
			       (unsigned long long)r->size, (unsigned long long)pt_vfile_size(f));
	if (!pt_size_add(r->dst_off, r->size, &dst_end) || dst_end > room || r->size > INT64_MAX)
		return pt_fail(EINVAL, "the range [%llu, +%llu) goes beyond the registered region, which has %llu bytes from the buffer on",
			       (unsigned long long)r->dst_off, (unsigned long long)r->size, (unsigned long long)room);
	return r->size ? pt_vfile_read(f, buffer + r->dst_off, r->size, r->src_off) : 0;
}

static int read_key(struct ptio *p, void *buffer, struct ptio_range_key *k)
{
	uint64_t room = pt_api_region_left(p, buffer);
	struct pt_request req;
	struct pt_vfile *f;
	struct pt_view *v;
	int rc, first = 0;
	size_t i;

	if (!k->ranges && k->range_count)
		return pt_fail(EINVAL, "the list of ranges is NULL");
	if (!room)
		return refuse_key(k, pt_fail(EINVAL, "the buffer is not inside a registered region: call ptio_register_buffer first"));
	rc = pt_api_request_read(k->target, &req);
	if (!rc)
		rc = pt_api_view_open(p, k->key, &req, &v);
	if (rc)
		return refuse_key(k, rc);
	rc = pt_vfile_create(v, PT_FORMAT_OBJ, "", &f);
	if (rc) {
		pt_api_view_close(v);
		return refuse_key(k, rc);
	}
	for (i = 0; i < k->range_count; i++) {
		k->ranges[i].result = read_range(f, buffer, room, &k->ranges[i]);
		if (k->ranges[i].result < 0 && !first)
			first = (int)k->ranges[i].result;
	}
	pt_vfile_free(f);
	pt_api_view_close(v);
	return first;
}

int ptio_get_into_ranges(struct ptio *p, void *buffer, struct ptio_range_key *key)
{
	if (!p || !key)
		return pt_fail(EINVAL, "an argument is NULL");
	return read_key(p, buffer, key);
}

int ptio_batch_get_into_ranges(struct ptio *p, void *const *buffers, size_t buffer_count, struct ptio_range_row *rows, size_t row_count)
{
	bool sound = p && buffer_count == row_count && (buffers || !buffer_count);
	size_t i, k;

	if (!rows && row_count)
		return pt_fail(EINVAL, "the rows of ranges are NULL");
	for (i = 0; i < row_count; i++)
		for (k = 0; rows[i].keys && k < rows[i].key_count; k++)
			sound ? read_key(p, buffers[i], &rows[i].keys[k]) : refuse_key(&rows[i].keys[k], -EINVAL);
	return sound ? 0 : pt_fail(EINVAL, "the batch is refused: there are %zu buffers and %zu rows of ranges", buffer_count, row_count);
}
