/* format/gather.c - row-major copies of strided tensors. */
#include <string.h>

#include "base/size.h"
#include "format/parse.h"

/* Dims and strides in units of whole bytes or elements: fp4's last dim counts pairs. */
struct gather {
	uint32_t ndim;
	uint64_t unit;                  /* bytes */
	uint64_t dim[PT_DIMS_MAX];
	uint64_t step[PT_DIMS_MAX];     /* bytes */
};

/* Drops dims of size 1 and joins neighbours that are one run, so that the inner loop is as long as it can be. */
static void gather_plan(const struct pt_parse_tensor *t, struct gather *ret_g)
{
	uint32_t bits = pt_dtype_info(t->dtype)->bits;
	struct gather g = { .unit = bits < 8 ? 1 : bits / 8 };

	for (uint32_t i = 0; i < t->shape.ndim; i++) {
		uint64_t dim = t->shape.dim[i], stride, step;

		if (bits < 8 && i + 1 == t->shape.ndim)
			dim /= 8 / bits;
		if (dim == 1)
			continue;
		if (t->contiguous) {
			stride = 1;
			for (uint32_t k = i + 1; k < t->shape.ndim; k++)
				stride *= bits < 8 && k + 1 == t->shape.ndim ? t->shape.dim[k] / (8 / bits) : t->shape.dim[k];
		} else {
			stride = t->stride[i];
		}
		step = stride * g.unit;
		if (g.ndim > 0 && g.step[g.ndim - 1] == step * dim) {
			g.dim[g.ndim - 1] *= dim;
			g.step[g.ndim - 1] = step;
		} else {
			g.dim[g.ndim] = dim;
			g.step[g.ndim++] = step;
		}
	}
	if (g.ndim == 0) {
		g.dim[0] = 1;
		g.step[0] = g.unit;
		g.ndim = 1;
	}
	*ret_g = g;
}

/* n elements of T, step bytes apart; neither side need be aligned. */
#define COPY_RUN(T) do { \
		for (uint64_t i = 0; i < n; i++, from += step, to += sizeof(T)) { \
			T v; \
			memcpy(&v, from, sizeof(v)); \
			memcpy(to, &v, sizeof(v)); \
		} \
	} while (0)

static void copy_run(uint8_t *to, const uint8_t *from, uint64_t step, uint64_t unit, uint64_t n)
{
	struct wide { uint64_t a, b; };

	if (step == unit) {
		memcpy(to, from, n * unit);
		return;
	}
	switch (unit) {
	case 1:
		COPY_RUN(uint8_t);
		break;
	case 2:
		COPY_RUN(uint16_t);
		break;
	case 4:
		COPY_RUN(uint32_t);
		break;
	case 8:
		COPY_RUN(uint64_t);
		break;
	default:
		COPY_RUN(struct wide);
	}
}

void pt_gather_strided(const void *storage, const struct pt_parse_tensor *t, uint64_t first_elem, uint64_t elem_count, void *out)
{
	const uint8_t *base = (const uint8_t *)storage + t->storage_off;
	uint64_t index[PT_DIMS_MAX], rest = first_elem, off = 0, n;
	uint8_t *to = out;
	struct gather g;
	uint32_t last;

	if (elem_count == 0)
		return;
	gather_plan(t, &g);
	last = g.ndim - 1;
	for (uint32_t i = g.ndim; i-- > 0;) {
		index[i] = rest % g.dim[i];
		rest /= g.dim[i];
		off += index[i] * g.step[i];
	}
	while (true) {
		n = pt_size_min(g.dim[last] - index[last], elem_count);
		copy_run(to, base + off, g.step[last], g.unit, n);
		to += n * g.unit;
		elem_count -= n;
		if (elem_count == 0)
			return;
		/* The run ended with its row: back to the row's start, then on by one in the dims outside. */
		off -= index[last] * g.step[last];
		index[last] = 0;
		for (uint32_t i = last; i-- > 0;) {
			off += g.step[i];
			if (++index[i] < g.dim[i])
				break;
			off -= g.dim[i] * g.step[i];
			index[i] = 0;
		}
	}
}

bool pt_gather_reach(const struct pt_parse_tensor *t, uint64_t *ret_end)
{
	uint32_t bits = pt_dtype_info(t->dtype)->bits, i;
	uint64_t last = t->storage_off, unit = bits < 8 ? 1 : bits / 8, dim, step;

	for (i = 0; i < t->shape.ndim; i++) {
		dim = t->shape.dim[i];
		if (bits < 8 && i + 1 == t->shape.ndim)
			dim /= 8 / bits;
		if (!dim) {
			*ret_end = t->storage_off;
			return true;
		}
		if (!pt_size_mul(t->stride[i], dim - 1, &step) || !pt_size_mul(step, unit, &step) || !pt_size_add(last, step, &last))
			return false;
	}
	return pt_size_add(last, unit, ret_end);
}
