/* tests/unit/test_batch_away.c - batches of look-ups on a store that is away: a few round trips, however many keys there are, and the same answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/meta_ahead.h"
#include "store/remote.h"
#include "tensor/api_int.h"
#include "unit/daemon.h"
#include "unit/store_support.h"

#define KEYS 100
#define LONG 700                        /* more than are read ahead at once */

static struct ptio *p;
static char uri[80];
static char key[LONG][40];
static const char *keys[LONG];

static void start(void)
{
	const char *dir = dir_make();
	struct ptio_options options = { .create = 1 };

	snprintf(uri, sizeof(uri), "tcp://%s", daemon_for(dir, "mem:64M"));
	setenv("PTIO_SECRET_FILE", daemon_secret(dir), 1);
	MUST_WORK(ptio_open(uri, &options, &p));
	for (int i = 0; i < LONG; i++) {
		snprintf(key[i], sizeof(key[i]), "model/layer%d/w%d", i % 7, i);
		keys[i] = key[i];
	}
}

static void put(struct ptio *where, const char *name, uint8_t value, uint64_t len)
{
	uint8_t bytes[64];
	struct ptio_tensor t = { .dtype = PTIO_U8, .ndim = 1, .shape = { len }, .data = bytes, .bytes = len };

	memset(bytes, value, sizeof(bytes));
	MUST_WORK(ptio_upsert(where, name, &t, NULL));
}

static uint64_t calls(void)
{
	struct pt_net_status s;

	MUST(pt_remote_status(&pt_repo_store(p->repo)->data, &s));
	return s.calls;
}

/* Round trips of one batch. */
static uint64_t describe(size_t count, struct ptio_description *ret_d, int *ret_codes)
{
	uint64_t before = calls();

	MUST_WORK(ptio_batch_describe(p, keys, count, NULL, 0, ret_d, ret_codes));
	return calls() - before;
}

START_TEST(a_batch_of_100_describes_is_a_few_round_trips)
{
	struct ptio_description d[KEYS], one;
	int codes[KEYS];
	uint64_t few, many;

	start();
	for (int i = 0; i < KEYS; i++)
		put(p, key[i], (uint8_t)i, (uint64_t)i % 60 + 1);
	few = describe(10, d, codes);
	many = describe(KEYS, d, codes);
	printf("%llu round trips for 10 keys, %llu for %d\n", (unsigned long long)few, (unsigned long long)many, KEYS);
	/* One a component of the keys, and one for what the last holds. */
	ck_assert_uint_le(many, 4);
	ck_assert_uint_eq(few, many);
	for (int i = 0; i < KEYS; i++) {
		uint64_t before = calls();

		ck_assert_int_eq(codes[i], 0);
		MUST_WORK(ptio_describe(p, keys[i], NULL, &one));
		/* What the batch has read holds: whether it does is asked once. */
		ck_assert_uint_eq(calls() - before, 1);
		MUST(memcmp(&one, &d[i], sizeof(one)) == 0);
		MUST(d[i].complete && d[i].shape[0] == (uint64_t)i % 60 + 1);
	}
	ptio_close(p);
}
END_TEST

START_TEST(each_batch_tells_what_is_there_by_then)
{
	struct ptio_description d[KEYS];
	int codes[KEYS];
	struct ptio *other;

	start();
	MUST_WORK(ptio_open(uri, NULL, &other));
	describe(KEYS, d, codes);
	for (int i = 0; i < KEYS; i++)
		ck_assert_int_eq(codes[i], -ENOENT);
	for (int i = 0; i < KEYS; i += 2)
		put(other, key[i], 1, 5);
	describe(KEYS, d, codes);
	for (int i = 0; i < KEYS; i++)
		MUST(i % 2 ? codes[i] == -ENOENT && !d[i].payload_bytes : codes[i] == 0 && d[i].payload_bytes == 5);
	put(other, key[0], 2, 6);
	MUST_WORK(ptio_remove(other, key[2], NULL));
	describe(KEYS, d, codes);
	MUST(codes[0] == 0 && d[0].payload_bytes == 6 && codes[2] == -ENOENT && codes[4] == 0);
	ptio_close(other);
	ptio_close(p);
}
END_TEST

START_TEST(holes_nonsense_and_sets_that_wait_are_told_as_one_by_one)
{
	struct ptio_writer_partition writer = { 1, 3, 0 };
	struct ptio_write how = { .writer = &writer };
	uint8_t bytes[12] = { 0 };
	struct ptio_tensor t = { .dtype = PTIO_U8, .ndim = 1, .shape = { 12 }, .data = bytes, .bytes = 12 };
	const char *odd[] = { "model/layer0/w0", "model/layer0", "model//w", "", "/x", NULL, "model/layer0/w0/deeper", "pending", "model/layer0/w0" };
	const size_t count = sizeof(odd) / sizeof(odd[0]);
	struct ptio_description d[16], one;
	int codes[16];

	start();
	put(p, key[0], 1, 5);
	MUST_WORK(ptio_put(p, "pending", &t, &how));
	MUST_WORK(ptio_batch_describe(p, odd, count, NULL, 0, d, codes));
	for (size_t i = 0; i < count; i++) {
		memset(&one, 0, sizeof(one));
		ck_assert_int_eq(codes[i], ptio_describe(p, odd[i], NULL, &one));
		MUST(memcmp(&one, &d[i], sizeof(one)) == 0);
	}
	MUST_FAIL(EINVAL, ptio_batch_describe(p, odd, count, NULL, 3, d, codes));
	ck_assert_int_eq(codes[0], -EINVAL);
	ck_assert_int_eq(ptio_batch_describe(p, odd, 0, NULL, 0, d, codes), 0);
	ptio_close(p);
}
END_TEST

START_TEST(batches_of_tensors_are_looked_up_together_and_read_right)
{
	struct ptio_tensor *t = calloc(LONG, sizeof(*t));
	struct ptio_description *d = calloc(LONG, sizeof(*d));
	int *codes = calloc(LONG, sizeof(*codes));
	uint64_t before, alone, again, batch;

	start();
	for (int i = 0; i < LONG; i++)
		if (i != 5)
			put(p, key[i], (uint8_t)i, (uint64_t)i % 60 + 1);
	before = calls();
	for (int i = 10; i < 10 + KEYS; i++) {
		MUST_WORK(ptio_get(p, keys[i], NULL, &t[i]));
		ptio_tensor_done(&t[i]);
	}
	alone = calls() - before;
	before = calls();
	for (int i = 10; i < 10 + KEYS; i++) {
		MUST_WORK(ptio_get(p, keys[i], NULL, &t[i]));
		ptio_tensor_done(&t[i]);
	}
	again = calls() - before;
	before = calls();
	MUST_WORK(ptio_batch_get(p, keys + 10, KEYS, NULL, 0, t, codes));
	batch = calls() - before;
	printf("%llu round trips for %d tensors one by one, %llu again, %llu in a batch\n", (unsigned long long)alone, KEYS, (unsigned long long)again,
	       (unsigned long long)batch);
	/* Whether anything has changed, the entry, what is there, a pin, the bytes, their checksums, an unpin. */
	ck_assert_uint_le(alone, 7 * KEYS + 4);
	/* Whether anything has changed, a pin that tells the same, the bytes, an unpin. */
	ck_assert_uint_eq(again, 4 * KEYS);
	ck_assert_uint_eq(batch, 3 * KEYS + 1);
	for (int i = 0; i < KEYS; i++)
		ptio_tensor_done(&t[i]);
	MUST_WORK(ptio_batch_get(p, keys, LONG, NULL, 0, t, codes));
	for (int i = 0; i < LONG; i++) {
		ck_assert_int_eq(codes[i], i == 5 ? -ENOENT : 0);
		if (i == 5)
			continue;
		MUST(t[i].bytes == (uint64_t)i % 60 + 1);
		for (uint64_t k = 0; k < t[i].bytes; k++)
			MUST(((uint8_t *)t[i].data)[k] == (uint8_t)i);
		ptio_tensor_done(&t[i]);
	}
	describe(LONG, d, codes);
	for (int i = 0; i < LONG; i++)
		MUST(i == 5 ? codes[i] == -ENOENT : codes[i] == 0 && d[i].payload_bytes == (uint64_t)i % 60 + 1);
	ptio_close(p);
	free(t);
	free(d);
	free(codes);
}
END_TEST

START_TEST(shards_of_a_batch_are_looked_up_together)
{
	static uint8_t room[KEYS][4096];
	uint64_t sizes[KEYS], before, cold;
	int64_t results[KEYS];
	void *bufs[KEYS];

	start();
	for (int i = 0; i < KEYS; i++) {
		put(p, key[i], (uint8_t)i, 8);
		bufs[i] = room[i];
		sizes[i] = sizeof(room[i]);
	}
	MUST_WORK(ptio_register_buffer(p, room, sizeof(room)));
	before = calls();
	MUST_WORK(ptio_batch_get_into_with_tp(p, keys, KEYS, bufs, KEYS, sizes, KEYS, 1, 2, 0, results));
	cold = calls() - before;
	for (int i = 0; i < KEYS; i++) {
		ck_assert_int_gt(results[i], 4);
		MUST(room[i][results[i] - 1] == (uint8_t)i && room[i][results[i] - 4] == (uint8_t)i);
	}
	printf("%llu round trips for %d shards in a batch\n", (unsigned long long)cold, KEYS);
	/* A pin, the bytes, their checksums, an unpin of each; and what is there of all. */
	ck_assert_uint_le(cold, 4 * KEYS + 5);
	MUST_WORK(ptio_unregister_buffer(p, room));
	ptio_close(p);
}
END_TEST

static int count_key(void *ctx, const char *name, int complete)
{
	int n;

	MUST(complete && sscanf(name, "model/layer%*d/w%d", &n) == 1);
	((int *)ctx)[n]++;
	return 0;
}

START_TEST(listing_looks_many_keys_up_together)
{
	int seen[LONG] = { 0 };
	uint64_t before, list;

	start();
	for (int i = 0; i < LONG; i++)
		put(p, key[i], 1, 5);
	before = calls();
	MUST_WORK(ptio_list(p, "", count_key, seen));
	list = calls() - before;
	printf("%llu round trips to list %d keys\n", (unsigned long long)list, LONG);
	for (int i = 0; i < LONG; i++)
		ck_assert_int_eq(seen[i], 1);
	/* Directories of a level are one question, up to 512, as are up to 128 nodes, and what up to 256 hold. */
	ck_assert_uint_le(list, 30);
	ptio_close(p);
}
END_TEST

#define WIDE 300                        /* more than fit a page of one directory */
#define DEEP 12

struct told {
	int wide[WIDE], apart[WIDE], deep[DEEP + 1], other;
};

static int tell(void *ctx, const char *name, int complete)
{
	struct told *t = ctx;
	int n;

	MUST(complete);
	if (sscanf(name, "wide/k%d", &n) == 1)
		t->wide[n]++;
	else if (sscanf(name, "apart/d%d/some/w", &n) == 1 && strstr(name, "/some/w"))
		t->apart[n]++;
	else if (strncmp(name, "d/", 2) == 0)
		t->deep[(strlen(name) - 1) / 2]++;
	else
		t->other++;
	return 0;
}

/* Pages that are full, directories of one name each, and a chain of them. */
START_TEST(listing_tells_each_key_once_whatever_the_tree_looks_like)
{
	char name[2 * DEEP + 4] = "d";
	struct told t = { .other = 0 };
	uint64_t before;

	start();
	for (int i = 0; i < WIDE; i++) {
		char k[40];

		snprintf(k, sizeof(k), "wide/k%d", i);
		put(p, k, 1, 5);
		snprintf(k, sizeof(k), "apart/d%d/some/w", i);
		put(p, k, 1, 5);
	}
	for (int i = 1; i <= DEEP; i++) {
		strcat(name, "/d");
		put(p, name, 1, 5);
	}
	put(p, "zz", 1, 5);
	before = calls();
	MUST_WORK(ptio_list(p, "", tell, &t));
	ck_assert_uint_le(calls() - before, 100);
	for (int i = 0; i < WIDE; i++)
		ck_assert(t.wide[i] == 1 && t.apart[i] == 1);
	for (int i = 1; i <= DEEP; i++)
		ck_assert_int_eq(t.deep[i], 1);
	ck_assert_int_eq(t.other, 1);
	ptio_close(p);
}
END_TEST

START_TEST(nodes_read_ahead_are_those_that_are_there)
{
	struct pt_repo_ahead *ahead;
	struct pt_node node;
	uint64_t id[10], before;

	start();
	for (int i = 0; i < 10; i++) {
		put(p, key[i], 1, 5);
		MUST_WORK(pt_node_by_key(p->repo, keys[i], false, &node));
		id[i] = node.id;
		pt_node_done(&node);
	}
	MUST_WORK(pt_repo_ahead_begin(p->repo, NULL, 0, &ahead));
	before = calls();
	MUST_WORK(pt_node_prefetch(p->repo, id, 10));
	for (int i = 0; i < 10; i++) {
		MUST_WORK(pt_node_get(p->repo, id[i], &node));
		MUST(node.id == id[i] && strcmp(node.name, strrchr(keys[i], '/') + 1) == 0);
		pt_node_done(&node);
	}
	ck_assert_uint_le(calls(), before + 2);
	pt_repo_ahead_end(ahead);
	before = calls();
	MUST_WORK(pt_node_get(p->repo, id[0], &node));
	pt_node_done(&node);
	ck_assert_uint_eq(calls(), before + 1);
	ptio_close(p);
}
END_TEST

static int count_row(void *ctx, const void *k, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	(void)k, (void)value;
	MUST(key_len == 11 && value_len == 1 && version);
	++*(int *)ctx;
	return 0;
}

START_TEST(looks_that_repeat_are_answered_as_one)
{
	struct pt_meta_look looks[] = { { { "looked at 1", 11 }, false }, { { "looked at", 9 }, true }, { { "looked at 0", 11 }, false },
					{ { "looked at 1", 11 }, false }, { { "looked at", 9 }, true }, { { "looked at 0", 11 }, false } };
	struct pt_meta_ahead *ahead;
	uint64_t version, before;
	struct pt_meta *m;
	int rows = 0;

	start();
	m = &pt_repo_store(p->repo)->meta;
	MUST_WORK(meta_put(m, "looked at 1", "x", 1, NULL));
	MUST_WORK(meta_put(m, "looked at 2", "x", 1, NULL));
	MUST_WORK(pt_meta_ahead_begin(m, &ahead));
	MUST(ahead);
	MUST_WORK(pt_meta_ahead_load(ahead, looks, sizeof(looks) / sizeof(looks[0])));
	before = calls();
	MUST_WORK(pt_meta_get(m, "looked at 1", 11, NULL, &version));
	MUST(version);
	MUST_WORK(pt_meta_get(m, "looked at 0", 11, NULL, &version));
	MUST(!version);
	MUST_WORK(pt_meta_scan_prefix(m, "looked at", 9, 0, count_row, &rows));
	ck_assert_int_eq(rows, 2);
	ck_assert_uint_eq(calls(), before);
	pt_meta_ahead_end(ahead);
	ptio_close(p);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("batch");

	tcase_add_test(tcase, a_batch_of_100_describes_is_a_few_round_trips);
	tcase_add_test(tcase, each_batch_tells_what_is_there_by_then);
	tcase_add_test(tcase, holes_nonsense_and_sets_that_wait_are_told_as_one_by_one);
	tcase_add_test(tcase, batches_of_tensors_are_looked_up_together_and_read_right);
	tcase_add_test(tcase, shards_of_a_batch_are_looked_up_together);
	tcase_add_test(tcase, listing_looks_many_keys_up_together);
	tcase_add_test(tcase, listing_tells_each_key_once_whatever_the_tree_looks_like);
	tcase_add_test(tcase, nodes_read_ahead_are_those_that_are_there);
	tcase_add_test(tcase, looks_that_repeat_are_answered_as_one);
	return run_suite("net: batches", &tcase, 1);
}
