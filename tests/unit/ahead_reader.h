/* tests/unit/ahead_reader.h - readers of a source that is read ahead, and what all of them share. */
#ifndef TESTS_UNIT_AHEAD_READER_H
#define TESTS_UNIT_AHEAD_READER_H

#include "cache/ahead.h"
#include "cache_source.h"

static struct pt_workers *workers;
static struct pt_buffers buffers;
static struct pt_share share;

static inline void begin(uint32_t threads, uint32_t buffers_max)
{
	ck_assert_int_eq(pt_workers_create(threads, &workers), 0);
	ck_assert_int_eq(pt_buffers_init(&buffers, buffers_max), 0);
	ck_assert_int_eq(pt_share_init(&share, &buffers), 0);
}

/* Every buffer has come back. */
static inline void end(void)
{
	ck_assert_uint_eq(buffers.free_count, buffers.made);
	pt_share_done(&share);
	pt_buffers_done(&buffers);
	pt_workers_free(workers);
}

static inline uint64_t read_ahead(struct pt_ahead *a, uint64_t off, uint64_t len, uint64_t seed)
{
	struct pt_ahead_lease lease;
	uint64_t done = 0;
	int i;

	if (!pt_ahead_get(a, off, len, &lease))
		return 0;
	for (i = 0; i < lease.iov_count; i++) {
		check_bytes(lease.iov[i].iov_base, seed, off + done, lease.iov[i].iov_len);
		done += lease.iov[i].iov_len;
	}
	ck_assert_uint_eq(done, len);
	pt_ahead_put(&lease);
	return 1;
}

/* Keeps a worker busy. */
struct keeper {
	struct pt_work work;            /* first */
	atomic_bool there, go;
};

static inline void keep(struct pt_work *work)
{
	struct keeper *k = (struct keeper *)work;

	atomic_store(&k->there, true);
	while (!atomic_load(&k->go))
		usleep(100);
}

static inline void keep_worker(struct keeper *k)
{
	k->work.run = keep;
	pt_workers_add(workers, &k->work, true);
	while (!atomic_load(&k->there))
		usleep(100);
}

#endif
