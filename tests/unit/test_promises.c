/* tests/unit/test_promises.c - promises 1, 2 and 4 of docs/DESIGN.md at the API: what closed is seen, a reader sees one revision whole, steps never
 * mix, whatever the writers' timing. */
#include "lib/case.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define WRITERS 4
#define READERS 4
#define ELEMS 4096                      /* 64 x 64 */
#define SECONDS 3
#define STEPS_MAX 2000                  /* nothing is collected here, and the store in memory holds 64 MiB */

static atomic_bool stop;
static atomic_int bad, reads_done, steps_done;
static pthread_barrier_t round_gate;

/* Every element of a step's tensor is the step's number. */
static void check_one_step(const struct ptio_tensor *t)
{
	const float *f = t->data;
	uint64_t i;

	for (i = 1; i < t->bytes / 4; i++)
		if (f[i] != f[0]) {
			atomic_fetch_add(&bad, 1);
			return;
		}
}

/* Reads the tensor once. False: an error, which has been told. *ret_step stays as it is while there is nothing to read. */
static bool read_step(const struct ptio_read_target *target, float *ret_step)
{
	struct ptio_tensor t;
	int rc = ptio_get(P, "w", target, &t);

	if (rc == -ENOENT || rc == -ENODATA)
		return true;
	if (rc) {
		fprintf(stderr, "read: %d %s\n", rc, ptio_last_error());
		atomic_fetch_add(&bad, 1);
		return false;
	}
	check_one_step(&t);
	*ret_step = *(float *)t.data;
	ptio_tensor_done(&t);
	atomic_fetch_add(&reads_done, 1);
	return true;
}

struct target_of {
	struct ptio_axis axis;
	struct ptio_parallelism parallelism;
	struct ptio_read_target target;
};

static void *read_loop(void *arg)
{
	struct target_of shard = { .target = { .mode = PTIO_FULL } };
	intptr_t who = (intptr_t)arg;
	float last = -1, step = -1;

	if (who % 2) {
		shard.axis = ptio_axis_tp(1, 3, (int32_t)(who / 2 % 2));
		shard.parallelism = (struct ptio_parallelism){ &shard.axis, 1 };
		shard.target.mode = PTIO_SHARD;
		shard.target.parallelism = &shard.parallelism;
	}
	while (!atomic_load(&stop) && read_step(&shard.target, &step)) {
		/* Steps are published in order here, so they are seen in order (promise 1). */
		if (step < last)
			atomic_fetch_add(&bad, 1);
		last = step;
	}
	return NULL;
}

static void write_step(int rank, int step, float *values)
{
	struct ptio_writer_partition part = { .rank = rank, .size = WRITERS, .split_dim = 0 };
	struct ptio_tensor t = { .dtype = PTIO_F32, .ndim = 2, .shape = { 64, 64 }, .data = values, .bytes = ELEMS * 4 };
	char tag[16];
	struct ptio_write w = { .writer = &part, .step = tag };
	int i;

	for (i = 0; i < ELEMS; i++)
		values[i] = (float)step;
	snprintf(tag, sizeof(tag), "%d", step);
	if (ptio_upsert(P, "w", &t, &w)) {
		fprintf(stderr, "write: %s\n", ptio_last_error());
		atomic_fetch_add(&bad, 1);
	}
}

static void *write_in_rounds(void *arg)
{
	int rank = (int)(intptr_t)arg, step;
	float *values = malloc(ELEMS * 4);

	for (step = 1; ; step++) {
		write_step(rank, step, values);
		pthread_barrier_wait(&round_gate);
		if (!rank && atomic_load(&steps_done) >= 0)
			atomic_fetch_add(&steps_done, 1);
		if ((atomic_load(&stop) || step == STEPS_MAX) && rank == 0)
			atomic_store(&steps_done, -1);
		pthread_barrier_wait(&round_gate);
		if (atomic_load(&steps_done) < 0)
			break;
	}
	free(values);
	return NULL;
}

static void run_threads(void *(*writer)(void *), int seconds)
{
	pthread_t writers[WRITERS], readers[READERS];
	intptr_t i;

	atomic_store(&stop, false);
	atomic_store(&bad, 0);
	atomic_store(&reads_done, 0);
	atomic_store(&steps_done, 0);
	for (i = 0; i < WRITERS; i++)
		ck_assert_int_eq(pthread_create(&writers[i], NULL, writer, (void *)i), 0);
	for (i = 0; i < READERS; i++)
		ck_assert_int_eq(pthread_create(&readers[i], NULL, read_loop, (void *)i), 0);
	sleep((unsigned)seconds);
	atomic_store(&stop, true);
	for (i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	for (i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	ck_assert_int_eq(atomic_load(&bad), 0);
	ck_assert_int_gt(atomic_load(&reads_done), 10);
}

CASE(promise_2_readers_see_one_revision_whole_while_writers_replace_it)
	pthread_barrier_init(&round_gate, NULL, WRITERS);
	run_threads(write_in_rounds, SECONDS);
	pthread_barrier_destroy(&round_gate);
END_CASE

/* Without a barrier: each writer goes on by itself, one of them late now and then. Steps may be published out of order or never,
 * but never mixed. */
static void *write_freely(void *arg)
{
	int rank = (int)(intptr_t)arg, step;
	float *values = malloc(ELEMS * 4);

	for (step = 1; step <= STEPS_MAX && !atomic_load(&stop); step++) {
		if (rank == 2 && step % 5 == 0)
			nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		write_step(rank, step, values);
	}
	free(values);
	return NULL;
}

static void *read_any_order(void *arg)
{
	const struct ptio_read_target full = { .mode = PTIO_FULL };
	float step;

	(void)arg;
	while (!atomic_load(&stop) && read_step(&full, &step))
		;
	return NULL;
}

CASE(promise_2_steps_of_writers_without_a_barrier_never_mix)
	pthread_t writers[WRITERS], readers[2];
	intptr_t i;

	atomic_store(&stop, false);
	atomic_store(&bad, 0);
	for (i = 0; i < WRITERS; i++)
		ck_assert_int_eq(pthread_create(&writers[i], NULL, write_freely, (void *)i), 0);
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&readers[i], NULL, read_any_order, (void *)i), 0);
	sleep(SECONDS);
	atomic_store(&stop, true);
	for (i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	for (i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	ck_assert_int_eq(atomic_load(&bad), 0);
END_CASE

CASE(promise_2_a_writer_delayed_past_the_next_step_mixes_nothing)
	struct ptio_tensor one = ar(PTIO_F32, "4,4", 100), two = ar(PTIO_F32, "4,4", 200);

	OK(ptio_upsert(P, "k", &one, write_at("writer=0of2@0", "1")));
	OK(ptio_upsert(P, "k", &two, write_at("writer=0of2@0", "2")));
	OK(ptio_upsert(P, "k", &two, write_at("writer=1of2@0", "2")));
	EXPECT("k", "full", two);
	OK(ptio_upsert(P, "k", &one, write_at("writer=1of2@0", "1")));
	EXPECT("k", "full", one);                       /* whole, if late */
END_CASE

CASE(promise_1_what_returned_is_seen_after_the_store_is_opened_again)
	struct ptio_tensor x = ar(PTIO_F32, "8,6", 1);

	put_ranks("k", x, "writer=Rof3@1", 3, 1);
	OK(put("pending", x, "writer=0of2@0"));
	case_reopen();
	EXPECT("k", "full", x);
	EXPECT_CODE("pending", "full", -ENODATA);
	OK(put("pending", x, "writer=1of2@0"));
	EXPECT("pending", "full", x);
END_CASE

CASE(failed_writes_leave_the_revision_that_is_there)
	struct ptio_tensor x = ar(PTIO_F32, "4,4", 1), y = ar(PTIO_F32, "4,4", 2);
	uint64_t size;
	const void *o = object_of(y, &size);

	OK(put("k", x, ""));
	FAILS(upsert("k", y, "tp=0of2@5"), -EINVAL);
	FAILS(ptio_upsert_from(P, "k", o, size - 1, NULL), -EINVAL);
	y.bytes--;
	FAILS(upsert("k", y, ""), -EINVAL);
	EXPECT("k", "full", x);
	FAILS(put("new/key/deep", y, ""), -EINVAL);
	ck_assert_str_eq(keys_listed(), "k");
END_CASE

static void add(TCase *tc)
{
	ADD_CASE(tc, promise_2_readers_see_one_revision_whole_while_writers_replace_it);
	ADD_CASE(tc, promise_2_steps_of_writers_without_a_barrier_never_mix);
	ADD_CASE(tc, promise_2_a_writer_delayed_past_the_next_step_mixes_nothing);
	ADD_CASE(tc, promise_1_what_returned_is_seen_after_the_store_is_opened_again);
	ADD_CASE(tc, failed_writes_leave_the_revision_that_is_there);
}

int main(void)
{
	return run_case("promises", add);
}
