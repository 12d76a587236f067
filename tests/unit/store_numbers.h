/* tests/unit/store_numbers.h - numbers as records of an index, and what must hold of them for one who has answers in memory (mine) beside one who commits as well (other),
 * in whatever way either reaches the index. Moments (pt_meta_moment_begin) count for an index that is away only. */
#ifndef TESTS_UNIT_STORE_NUMBERS_H
#define TESTS_UNIT_STORE_NUMBERS_H

#include <pthread.h>
#include <string.h>

#include "unit/rng.h"
#include "unit/store_support.h"

/* 0: there is none. */
static inline uint64_t number_of(struct pt_meta *m, const char *key)
{
	struct pt_buf b = PT_BUF_INIT;
	uint64_t version, number = 0;

	MUST_WORK(pt_meta_get(m, key, strlen(key), &b, &version));
	if (version) {
		MUST(b.len == 8);
		number = pt_get_le64(b.data);
	}
	pt_buf_done(&b);
	return number;
}

static inline void number_put(struct pt_meta *m, const char *key, uint64_t number)
{
	uint8_t b[8];

	pt_put_le64(b, number);
	MUST_WORK(meta_put(m, key, b, sizeof(b), NULL));
}

static inline void number_delete(struct pt_meta *m, const char *key)
{
	MUST_WORK(pt_meta_commit(m, &(struct pt_meta_op){ .kind = PT_META_DELETE, .key = { key, strlen(key) } }, 1, NULL));
}

static inline int numbers_add_up(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	uint64_t *sum = ctx;

	(void)key, (void)version;
	MUST(value_len == 8);
	*sum = *sum * 31 + pt_get_le64(value) + key_len;
	return 0;
}

/* Of all numbers whose keys begin so, and their order. */
static inline uint64_t sum_of(struct pt_meta *m, const char *prefix)
{
	uint64_t sum = 7;

	MUST_WORK(pt_meta_scan_prefix(m, prefix, strlen(prefix), 0, numbers_add_up, &sum));
	return sum;
}

/* Random commits of both: each sees the same numbers. */
static inline void numbers_are_the_same(struct pt_meta *mine, struct pt_meta *other, int rounds)
{
	static const char *const keys[] = { "a", "a1", "a2", "b", "b1", "b11", "c" };
	static const char *const prefixes[] = { "a", "b", "b1", "c" };
	struct rng r = { rng_seed(4711) };

	for (int i = 0; i < rounds; i++) {
		const char *key = keys[rng_below(&r, 7)];
		uint64_t what = rng_below(&r, 8);

		if (what < 2)
			number_put(what ? other : mine, key, rng_next(&r));
		else if (what == 2)
			number_delete(rng_below(&r, 2) ? mine : other, key);
		pt_meta_moment_begin(mine);
		for (int k = 0; k < 3; k++) {
			key = keys[rng_below(&r, 7)];
			MUST(number_of(mine, key) == number_of(other, key));
			key = prefixes[rng_below(&r, 4)];
			MUST(sum_of(mine, key) == sum_of(other, key));
		}
		pt_meta_moment_end(mine);
	}
}

struct numbers_race {
	struct pt_meta *mine, *other;
	bool both;                              /* commit; else the other one only */
	uint64_t done;                          /* committed, and its commit has returned */
	bool over;
};

static inline void *numbers_race_write(void *arg)
{
	struct numbers_race *race = arg;

	for (uint64_t n = 1; n <= 400; n++) {
		number_put(race->both && n % 2 ? race->mine : race->other, "k", n);
		__atomic_store_n(&race->done, n, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&race->over, true, __ATOMIC_RELEASE);
	return NULL;
}

static inline void *numbers_race_read(void *arg)
{
	struct numbers_race *race = arg;
	uint64_t last = 0, least, n;

	while (!__atomic_load_n(&race->over, __ATOMIC_ACQUIRE)) {
		least = __atomic_load_n(&race->done, __ATOMIC_ACQUIRE);
		pt_meta_moment_begin(race->mine);
		for (int i = 0; i < 3; i++) {
			n = number_of(race->mine, "k");
			MUST(n >= least && n >= last);
			last = n;
			MUST(number_of(race->mine, "fixed") == 5);
		}
		pt_meta_moment_end(race->mine);
	}
	return NULL;
}

/* Three threads read what one commits: never less than had been committed before they asked, nor than they have seen. */
static inline void numbers_never_go_back(struct pt_meta *mine, struct pt_meta *other, bool both)
{
	struct numbers_race race = { .mine = mine, .other = other, .both = both };
	pthread_t thread[4];

	number_put(mine, "fixed", 5);
	MUST(pthread_create(&thread[0], NULL, numbers_race_write, &race) == 0);
	for (int i = 1; i < 4; i++)
		MUST(pthread_create(&thread[i], NULL, numbers_race_read, &race) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	pt_meta_moment_begin(mine);
	MUST(number_of(mine, "k") == 400);
	pt_meta_moment_end(mine);
}

#endif
