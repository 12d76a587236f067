/* tensor/slice.c - a filter over a row-major stream: one multiplication a run, no copies of what is dropped. */
#include "tensor/slice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"

int pt_slice_init(struct pt_slice *s, const struct pt_shape *shape, enum pt_dtype dtype, const struct pt_box *box, pt_slice_out_fn *out, void *ctx)
{
	struct pt_box whole, packed, part;
	uint64_t unit, part_unit, inner;
	int cut = -1;
	uint32_t d;
	int rc;

	memset(s, 0, sizeof(*s));
	s->out = out;
	s->ctx = ctx;
	if (!pt_box_within(box, shape))
		return pt_fail(EINVAL, "a slice lies outside its tensor");
	pt_shape_box(shape, &whole);
	rc = pt_box_pack(&whole, dtype, &packed, &unit);
	if (!rc)
		rc = pt_box_pack(box, dtype, &part, &part_unit);
	if (!rc)
		rc = pt_shape_bytes(shape, dtype, &s->total);
	if (rc)
		return rc;
	for (d = 0; d < packed.ndim; d++) {
		if (part.ext[d] == packed.ext[d])
			continue;
		if (cut >= 0)
			return pt_fail(EINVAL, "a slice that cuts two dimensions cannot be taken from a stream");
		cut = (int)d;
	}
	if (!s->total)
		return 0;
	if (cut < 0) {
		s->period = s->run = s->total;
		return 0;
	}
	inner = unit;
	for (d = (uint32_t)cut + 1; d < packed.ndim; d++)
		inner *= packed.ext[d];         /* a divisor of total: no overflow */
	s->period = packed.ext[cut] * inner;
	s->start = part.off[cut] * inner;
	s->run = part.ext[cut] * inner;
	return 0;
}

int pt_slice_flush(struct pt_slice *s)
{
	uint32_t n = s->staged;

	s->staged = 0;
	return n ? s->out(s->ctx, s->stage, n) : 0;
}

/* Owned bytes: long ones go straight out, short ones are gathered first. */
static int emit(struct pt_slice *s, const uint8_t *data, uint64_t len)
{
	int rc;

	if (len >= PT_SLICE_STAGE / 4 || s->run == s->period) {
		rc = pt_slice_flush(s);
		return rc ? rc : s->out(s->ctx, data, len);
	}
	if (!s->stage) {
		s->stage = pt_malloc(PT_SLICE_STAGE);
		if (!s->stage)
			return pt_fail_nomem();
	}
	if (s->staged + len > PT_SLICE_STAGE) {
		rc = pt_slice_flush(s);
		if (rc)
			return rc;
	}
	if (data)
		memcpy(s->stage + s->staged, data, len);
	else
		memset(s->stage + s->staged, 0, len);
	s->staged += (uint32_t)len;
	return 0;
}

/* Zeros make zeros: how many of the next len bytes are owned is arithmetic. */
static uint64_t owned_before(const struct pt_slice *s, uint64_t pos)
{
	uint64_t in = pos % s->period;

	return pos / s->period * s->run + (in <= s->start ? 0 : pt_size_min(in - s->start, s->run));
}

int pt_slice_feed(struct pt_slice *s, const void *data, uint64_t len)
{
	const uint8_t *p = data;
	uint64_t n;
	int rc;

	if (len > s->total - s->pos)
		return pt_fail(EINVAL, "more bytes than the tensor has");
	if (!len)
		return 0;
	if (!p) {
		n = owned_before(s, s->pos + len) - owned_before(s, s->pos);
		s->pos += len;
		rc = n ? pt_slice_flush(s) : 0;
		return rc || !n ? rc : s->out(s->ctx, NULL, n);
	}
	while (len) {
		uint64_t in = s->pos % s->period;

		if (in >= s->start && in < s->start + s->run) {
			n = pt_size_min(s->start + s->run - in, len);
			rc = emit(s, p, n);
			if (rc)
				return rc;
		} else {
			n = pt_size_min((in < s->start ? s->start : s->period + s->start) - in, len);
			if (!s->run)
				n = len;
		}
		p += n;
		s->pos += n;
		len -= n;
	}
	return 0;
}

void pt_slice_done(struct pt_slice *s)
{
	free(s->stage);
	s->stage = NULL;
	s->staged = 0;
}
