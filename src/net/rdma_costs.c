/* net/rdma_costs.c - see rdma_costs.h. */
#include "net/rdma_costs.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"

#define PRICE_MAX 1000000000u           /* so that a price times the bytes of a READ fits */

void pt_rdma_costs_usual(struct pt_rdma_costs *ret_costs)
{
	*ret_costs = (struct pt_rdma_costs){ .request_ns = PT_RDMA_REQUEST_NS, .byte_ps = PT_RDMA_BYTE_PS, .copy_ps = PT_RDMA_COPY_PS };
}

int pt_rdma_costs_parse(const char *text, struct pt_rdma_costs *ret_costs)
{
	uint64_t price[3];
	const char *p = text;

	for (int i = 0; i < 3; i++) {
		unsigned long long n;
		char *end;

		errno = 0;
		n = strtoull(p, &end, 10);
		if (errno || *p < '0' || *p > '9' || *end != (i < 2 ? ',' : '\0') || n > PRICE_MAX)
			return pt_fail(EINVAL, "\"%s\" is not what RDMA costs; write three whole numbers with commas: nanoseconds of a work request, picoseconds of a byte, picoseconds of copying one", text);
		price[i] = n;
		p = end + 1;
	}
	ret_costs->request_ns = price[0];
	ret_costs->byte_ps = price[1];
	ret_costs->copy_ps = price[2];
	return 0;
}

/* 0 where the parts are none. */
static uint64_t price(uint64_t time, uint64_t parts, uint64_t scale)
{
	uint64_t scaled;

	if (!time || !parts)
		return 0;
	return pt_size_mul(time, scale, &scaled) ? scaled / parts : UINT64_MAX;
}

static uint64_t within(uint64_t n, uint64_t min, uint64_t max)
{
	return n < min ? min : n > max ? max : n;
}

void pt_rdma_costs_from_times(const struct pt_rdma_times *t, struct pt_rdma_costs *ret_costs)
{
	uint64_t many = t->many_ns > t->one_ns ? t->many_ns - t->one_ns : 1, large = t->large_ns > t->one_ns ? t->large_ns - t->one_ns : 1;

	ret_costs->request_ns = PT_RDMA_REQUEST_NS;
	ret_costs->byte_ps = PT_RDMA_BYTE_PS;
	ret_costs->copy_ps = PT_RDMA_COPY_PS;
	if (t->one_ns && t->many_ns && t->many > 1)
		ret_costs->request_ns = within(price(many, t->many - 1, 1), PT_RDMA_REQUEST_NS_MIN, PT_RDMA_REQUEST_NS_MAX);
	if (t->one_ns && t->large_ns && t->large_bytes)
		ret_costs->byte_ps = within(price(large, t->large_bytes, 1000), PT_RDMA_BYTE_PS_MIN, PT_RDMA_BYTE_PS_MAX);
	if (t->copy_ns && t->copy_bytes)
		ret_costs->copy_ps = within(price(t->copy_ns, t->copy_bytes, 1000), PT_RDMA_COPY_PS_MIN, PT_RDMA_COPY_PS_MAX);
}
