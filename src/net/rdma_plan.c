/* net/rdma_plan.c - the walk over the ranges, which decides one READ at a time and keeps nothing else. */
#include "net/rdma_plan.h"

#include <string.h>

#include "base/size.h"

void pt_rdma_plan_init(struct pt_rdma_plan *plan, const struct pt_rdma_range *ranges, uint32_t count, const struct pt_rdma_costs *costs)
{
	*plan = (struct pt_rdma_plan){ .ranges = ranges, .range_count = count, .costs = *costs };
}

static void skip_empty(struct pt_rdma_plan *p)
{
	while (p->at < p->range_count && p->done == p->ranges[p->at].len) {
		p->at++;
		p->done = 0;
	}
}

/* Ranges from p->at on, in ascending order, that one span would serve more cheaply than READs of their own: how many; 0 or 1: none. */
static uint32_t span_count(const struct pt_rdma_plan *p, uint64_t *ret_span)
{
	const struct pt_rdma_range *r = &p->ranges[p->at];
	const struct pt_rdma_costs *c = &p->costs;
	uint64_t start = r->remote, end = start + r->len, bytes = r->len, requests = 1, best_span = 0;
	int64_t best = 0;
	uint32_t best_count = 0;

	if (!c->bounce_max || p->done)
		return 0;
	for (uint32_t i = p->at + 1; i < p->range_count; i++) {
		const struct pt_rdma_range *n = &p->ranges[i];
		uint64_t separate, together;
		int64_t gain;

		if (!n->len)
			continue;
		if (n->remote < end || n->remote + n->len - start > pt_size_min(c->bounce_max, c->read_max))
			break;
		requests += n->remote != end;
		bytes += n->len;
		end = n->remote + n->len;
		separate = requests * c->request_ns + bytes * c->byte_ps / 1000;
		together = c->request_ns + (end - start) * c->byte_ps / 1000 + bytes * c->copy_ps / 1000;
		gain = (int64_t)(separate - together);
		if (gain > best) {
			best = gain;
			best_count = i - p->at + 1;
			best_span = end - start;
		}
	}
	*ret_span = best_span;
	return best_count;
}

/* A READ into pieces: as many ranges as follow each other, in remote memory. */
static void next_run(struct pt_rdma_plan *p, struct pt_rdma_piece *pieces, struct pt_rdma_read *ret)
{
	const struct pt_rdma_costs *c = &p->costs;
	struct pt_rdma_read r = { .remote = p->ranges[p->at].remote + p->done, .first = p->at };

	while (p->at < p->range_count && r.len < c->read_max) {
		const struct pt_rdma_range *n = &p->ranges[p->at];
		struct pt_rdma_piece *last = r.piece_count ? &pieces[r.piece_count - 1] : NULL;
		uint64_t len = pt_size_min(n->len - p->done, c->read_max - r.len);
		uint8_t *buf = (uint8_t *)n->buf + p->done;

		if (len) {
			if (n->remote + p->done != r.remote + r.len)
				break;
			if (last && (uint8_t *)last->buf + last->len == buf && last->key == n->key)
				last->len += len;
			else if (r.piece_count == c->pieces_max)
				break;
			else
				pieces[r.piece_count++] = (struct pt_rdma_piece){ buf, len, n->key };
			r.len += len;
			p->done += len;
		}
		r.count = p->at - r.first + 1;
		if (p->done < n->len)
			break;
		p->at++;
		p->done = 0;
	}
	*ret = r;
}

bool pt_rdma_plan_ended(struct pt_rdma_plan *p)
{
	skip_empty(p);
	return p->at == p->range_count;
}

int pt_rdma_plan_next(struct pt_rdma_plan *p, struct pt_rdma_piece *pieces, struct pt_rdma_read *ret_read)
{
	uint64_t span = 0;
	uint32_t count;

	if (pt_rdma_plan_ended(p))
		return 0;
	count = span_count(p, &span);
	if (count > 1) {
		*ret_read = (struct pt_rdma_read){ .remote = p->ranges[p->at].remote, .len = span, .first = p->at, .count = count, .bounce = true };
		p->at += count;
		p->done = 0;
		return 1;
	}
	next_run(p, pieces, ret_read);
	return 1;
}

void pt_rdma_plan_copy(const struct pt_rdma_plan *plan, const struct pt_rdma_read *read, const void *bounce)
{
	for (uint32_t i = read->first; i < read->first + read->count; i++) {
		const struct pt_rdma_range *r = &plan->ranges[i];

		if (r->len)
			memcpy(r->buf, (const uint8_t *)bounce + (r->remote - read->remote), r->len);
	}
}
