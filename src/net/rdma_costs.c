/* net/rdma_costs.c - see rdma_costs.h. */
#include "net/rdma_costs.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

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
