/* tests/unit/test_matrix.c - the request matrix: every route, single and batch, returning and into a buffer, written as a tensor and from an object.
 *
 * A route is a text of axes with R for the tp or writer rank. For each, all ranks write, then every rank's shard and the full tensor are read. */
#include "lib/case.h"

#include <stdio.h>

static const struct route {
	const char *name, *text;        /* R: rank */
	int size, dim;                  /* 0: whole tensors */
} routes[] = {
	{ "none", "", 0, 0 },
	{ "tp", "tp=Rof4@1", 4, 1 },
	{ "dp", "dp=1of2", 0, 0 },
	{ "ep", "ep=0of4e7", 0, 0 },
	{ "pp", "pp=1of2s5", 0, 0 },
	{ "dp+tp", "dp=1of2/tp=Rof3@0", 3, 0 },
	{ "ep+tp", "ep=2of4e9/tp=Rof2@1", 2, 1 },
	{ "pp+tp", "tp=Rof4@0/pp=0of2s1", 4, 0 },
	{ "three axes", "pp=1of2s3/dp=0of2/tp=Rof2@2", 2, 2 },
	{ "four axes", "ep=1of2e6/tp=Rof3@1/dp=0of2/pp=1of4s2", 3, 1 },
	{ "writer", "writer=Rof5@1", 5, 1 },
};
#define ROUTES (sizeof(routes) / sizeof(routes[0]))

static const char *const keys[] = { "model.layers.0.w", "model.layers.1.w" };
static struct ptio_tensor x[2];

static const char *at_rank(const struct route *r, int rank)
{
	char *text = case_alloc(96);
	const char *mark = strchr(r->text, 'R');

	if (mark)
		snprintf(text, 96, "%.*s%d%s", (int)(mark - r->text), r->text, rank, mark + 1);
	else
		snprintf(text, 96, "%s", r->text);
	return text;
}

static const char *in_mode(const char *mode, const char *axes)
{
	char *text = case_alloc(128);

	snprintf(text, 128, "%s%s%s", mode, *axes ? " " : "", axes);
	return text;
}

/* What the caller passes: its shard for a lone tp axis in tensor form, else everything. */
static struct ptio_tensor passed(const struct route *r, int key, int rank, bool from)
{
	return r->size && !from && !strncmp(r->text, "tp=", 3) && !strchr(r->text, '/') ? part(x[key], (uint32_t)r->dim, rank, r->size) : x[key];
}

static void write_rank(const struct route *r, int rank, bool batch, bool from, bool upserting)
{
	const struct how *h = how(at_rank(r, rank));
	const struct ptio_parallelism *ps[2] = { h->write.parallelism, h->write.parallelism };
	const struct ptio_writer_partition *ws[2] = { h->write.writer, h->write.writer };
	struct ptio_batch_write w = { .parallelisms = ps, .parallelism_count = ps[0] ? 2 : 0, .writers = ws, .writer_count = ws[0] ? 2 : 0 };
	struct ptio_tensor t[2] = { passed(r, 0, rank, from), passed(r, 1, rank, from) };
	const void *objects[2];
	uint64_t sizes[2];
	int codes[2] = { 1, 1 }, i;

	objects[0] = object_of(t[0], &sizes[0]);
	objects[1] = object_of(t[1], &sizes[1]);
	if (batch && from)
		OK(upserting ? ptio_batch_upsert_from(P, keys, 2, objects, 2, sizes, 2, &w, codes) :
			       ptio_batch_put_from(P, keys, 2, objects, 2, sizes, 2, &w, codes));
	else if (batch)
		OK(upserting ? ptio_batch_upsert(P, keys, 2, t, 2, &w, codes) : ptio_batch_put(P, keys, 2, t, 2, &w, codes));
	else
		for (i = 0; i < 2; i++)
			codes[i] = from ? (upserting ? ptio_upsert_from : ptio_put_from)(P, keys[i], objects[i], sizes[i], &h->write) :
					  (upserting ? ptio_upsert : ptio_put)(P, keys[i], &t[i], &h->write);
	ck_assert_msg(!codes[0] && !codes[1], "%s rank %d: %d %d: %s", r->name, rank, codes[0], codes[1], ptio_last_error());
}

static void expect_both(const struct route *r, const char *text, struct ptio_tensor want0, struct ptio_tensor want1, bool batch, bool into)
{
	struct ptio_read_target targets[2] = { *target(text), *target(text) };
	struct ptio_tensor want[2] = { want0, want1 }, have[2];
	uint64_t sizes[2] = { 8192, 8192 };
	void *bufs[2] = { registered(8192), registered(8192) };
	int64_t results[2];
	int codes[2], i;

	memset(have, 0, sizeof(have));
	if (batch && into)
		OK(ptio_batch_get_into(P, keys, 2, targets, 2, bufs, 2, sizes, 2, results));
	else if (batch)
		OK(ptio_batch_get(P, keys, 2, targets, 2, have, codes));
	for (i = 0; i < 2; i++) {
		if (into && !batch)
			results[i] = ptio_get_into(P, keys[i], &targets[i], bufs[i], sizes[i], &have[i]);
		else if (!into && !batch)
			codes[i] = ptio_get(P, keys[i], &targets[i], &have[i]);
		if (into) {
			ck_assert_msg(results[i] == (int64_t)(304 + want[i].bytes), "%s %s: %lld: %s", r->name, text, (long long)results[i],
				      ptio_last_error());
			ck_assert_mem_eq((uint8_t *)bufs[i] + 304, want[i].data, want[i].bytes);
			ck_assert(batch || same(&have[i], &want[i]));
		} else {
			ck_assert_msg(!codes[i] && same(&have[i], &want[i]), "%s %s: %d: %s", r->name, text, codes[i], ptio_last_error());
			ptio_tensor_done(&have[i]);
		}
		OK(ptio_unregister_buffer(P, bufs[i]));
	}
}

static void run_route(const struct route *r, bool batch, bool into, bool from)
{
	const char *axes = at_rank(r, 0);
	int round, rank, count = r->size ? r->size : 1;

	for (round = 0; round < 2; round++) {
		x[0] = ar(PTIO_F32, "6,5,4", 100 * round);
		x[1] = ar(PTIO_F32, "6,5,4", 100 * round + 1000);
		for (rank = 0; rank < count; rank++)
			write_rank(r, rank, batch, from, round > 0);
		expect_both(r, in_mode("full", axes), x[0], x[1], batch, into);
		expect_both(r, "full", x[0], x[1], batch, into);
		if (!*axes)
			expect_both(r, "as_stored", x[0], x[1], batch, into);
		for (rank = 0; rank < count && *axes; rank++) {
			struct ptio_tensor a = r->size ? part(x[0], (uint32_t)r->dim, rank, r->size) : x[0];
			struct ptio_tensor b = r->size ? part(x[1], (uint32_t)r->dim, rank, r->size) : x[1];

			expect_both(r, in_mode("shard", at_rank(r, rank)), a, b, batch, into);
			expect_both(r, in_mode("as_stored", at_rank(r, rank)), a, b, batch, into);
		}
	}
	ck_assert_int_eq(ptio_remove(P, keys[0], NULL), 0);
	ck_assert_int_eq(ptio_remove(P, keys[1], NULL), 0);
}

CASE(every_route_single_and_batch_returning_and_into_as_tensor_and_from)
	size_t r;
	int how_many;

	for (r = 0; r < ROUTES; r++)
		for (how_many = 0; how_many < 8; how_many++)
			run_route(&routes[r], how_many & 1, how_many & 2, how_many & 4);
	ck_assert_str_eq(keys_listed(), "");
END_CASE

/* Any set serves any layout of its scope. */
CASE(every_set_serves_every_shard)
	static const char *const written[] = { "", "tp=Rof4@0", "tp=Rof3@1", "writer=Rof5@2", "writer=Rof2@0", "tp=Rof1@0" };
	static const int sizes[] = { 1, 4, 3, 5, 2, 1 }, dims[] = { 0, 0, 1, 2, 0, 0 };
	struct ptio_tensor t = ar(PTIO_U16, "7,5,6", 0);
	char text[64];
	size_t w;
	int n, r, d;

	for (w = 0; w < sizeof(written) / sizeof(written[0]); w++) {
		if (*written[w])
			put_ranks("k", t, written[w], sizes[w], dims[w]);
		else
			OK(put("k", t, ""));
		for (n = 1; n <= 8; n++)
			for (r = 0; r < n; r++)
				for (d = 0; d < 3; d++) {
					snprintf(text, sizeof(text), "shard tp=%dof%d@%d", r, n, d);
					EXPECT("k", text, part(t, (uint32_t)d, r, n));
				}
		OK(ptio_remove(P, "k", NULL));
	}
END_CASE

static void add(TCase *tc)
{
	ADD_CASE(tc, every_route_single_and_batch_returning_and_into_as_tensor_and_from);
	ADD_CASE(tc, every_set_serves_every_shard);
}

int main(void)
{
	return run_case("request matrix", add);
}
