/* net/rdma_measure.c - the times that prices are made of (rdma_costs.h), taken on a fresh connection. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/size.h"
#include "net/rdma.h"
#include "net/rdma_costs.h"

#define BYTES ((uint64_t)1 << 20)       /* of the memory to read into, and of the largest READ */
#define SMALL 64u                       /* bytes of a small one */
#define STRIDE 4096u                    /* between small ones, so that they do not become one */
#define MANY 32u                        /* posted together */
#define ONES 3                          /* the best of so many counts, since anything may come between */
#define MANIES 2
#define FIRST_LARGE ((uint64_t)64 << 10)
#define READ_NS INT64_C(5000000000)     /* without an end by then the connection is of no use */

struct run {
	struct pt_rdma *rdma;
	uint8_t *buf;
	uint32_t key;
	int64_t until_ns;
};

/* `count` READs of `len` bytes: the time they take together. */
static int take(struct run *r, uint32_t count, uint64_t len, uint64_t *ret_ns)
{
	struct pt_rdma_range ranges[MANY];
	int64_t began;
	int rc;

	for (uint32_t i = 0; i < count; i++)
		ranges[i] = (struct pt_rdma_range){ .remote = i * STRIDE, .len = len, .buf = r->buf + i * STRIDE, .key = r->key };
	began = pt_time_boot_ns();
	rc = pt_rdma_read(r->rdma, ranges, count, began + READ_NS);
	*ret_ns = (uint64_t)(pt_time_boot_ns() - began) + 1;
	return rc;
}

static bool time_left(const struct run *r)
{
	return pt_time_boot_ns() < r->until_ns;
}

/* The least of some tries into *ret_ns. */
static int best(struct run *r, int tries, uint32_t count, uint64_t *ret_ns)
{
	uint64_t ns;
	int rc = 0;

	for (int i = 0; rc == 0 && i < tries && (!i || time_left(r)); i++) {
		rc = take(r, count, SMALL, &ns);
		if (rc == 0 && (!*ret_ns || ns < *ret_ns))
			*ret_ns = ns;
	}
	return rc;
}

static int measure(struct run *r, struct pt_rdma_times *t)
{
	uint64_t span = pt_rdma_span(r->rdma), len, ns;
	int64_t began;
	int rc;

	began = pt_time_boot_ns();
	memcpy(r->buf, r->buf + BYTES / 2, BYTES / 2);
	t->copy_ns = (uint64_t)(pt_time_boot_ns() - began) + 1;
	t->copy_bytes = BYTES / 2;
	if (span < (uint64_t)MANY * STRIDE)
		return 0;
	rc = best(r, ONES, 1, &t->one_ns);
	t->many = MANY;
	if (rc == 0)
		rc = best(r, MANIES, MANY, &t->many_ns);
	/* Larger ones tell more, where there is time for them. */
	for (len = FIRST_LARGE; rc == 0 && len <= pt_size_min(BYTES, span) && (len == FIRST_LARGE || time_left(r)); len *= 4) {
		rc = take(r, 1, len, &ns);
		if (rc == 0) {
			t->large_ns = ns;
			t->large_bytes = len;
		}
	}
	return rc;
}

int pt_rdma_measure(struct pt_rdma *rdma, int64_t limit_ns, struct pt_rdma_times *ret_times)
{
	struct run r = { .rdma = rdma, .until_ns = pt_time_boot_ns() + limit_ns };
	struct pt_rdma_times times = { 0 };
	struct pt_rdma_costs kept, apart;
	void *region;
	int rc;

	*ret_times = times;
	r.buf = pt_malloc(BYTES);
	if (!r.buf)
		return 0;
	memset(r.buf, 1, BYTES);
	if (pt_rdma_register(rdma, r.buf, BYTES, &region, &r.key) < 0) {
		free(r.buf);
		return 0;
	}
	/* Each READ by itself. */
	pt_rdma_costs(rdma, &kept);
	apart = kept;
	apart.request_ns = 0;
	pt_rdma_costs_set(rdma, &apart);
	rc = measure(&r, &times);
	pt_rdma_costs_set(rdma, &kept);
	pt_rdma_unregister(region);
	free(r.buf);
	if (rc == 0)
		*ret_times = times;
	return rc;
}
