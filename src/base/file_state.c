/* base/file_state.c - see file_state.h.
 *
 * Times of files come from CLOCK_REALTIME_COARSE, or are later than it. Whoever changes the bytes sets both times to it, and nobody can set ctime: so a time that lies before
 * that clock, as it was read before the look, is another one after any change. On filesystems that keep less of it than nanoseconds (whole seconds in small inodes of ext4, two
 * on FAT) a time is that of a step, which must lie before the clock as a whole; how long it is, is seen by the zeros at its end. */
#include "base/file_state.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"

#define STEP_NS 1000000                 /* how often the clock is looked at */
#define STEPS_MAX 50
#define SECOND_NS INT64_C(1000000000)

static int64_t ns_of(const struct timespec *t)
{
	return (int64_t)t->tv_sec * SECOND_NS + t->tv_nsec;
}

/* The step that a time may stand for; nothing that is counted in nanoseconds waits for it. */
static int64_t step_of(const struct timespec *t)
{
	int64_t step = 1;

	if (!t->tv_nsec)
		return 2 * SECOND_NS;
	while (t->tv_nsec % (step * 10) == 0)
		step *= 10;
	return step;
}

static bool is_before(const struct timespec *t, const struct timespec *now)
{
	return ns_of(t) <= ns_of(now) - step_of(t);
}

int pt_file_state_get(int fd, struct pt_file_state *ret_state)
{
	struct timespec now, step = { 0, STEP_NS };
	struct stat st;
	int i;

	for (i = 0; i < STEPS_MAX; i++) {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		if (fstat(fd, &st) < 0)
			return -errno;
		if (is_before(&st.st_ctim, &now) || is_before(&st.st_mtim, &now)) {
			*ret_state = (struct pt_file_state){ .dev = st.st_dev, .ino = st.st_ino, .size = (uint64_t)st.st_size,
							     .mtime_ns = ns_of(&st.st_mtim), .ctime_ns = ns_of(&st.st_ctim) };
			return 0;
		}
		nanosleep(&step, NULL);
	}
	return -EAGAIN;
}

bool pt_file_state_same(const struct pt_file_state *a, const struct pt_file_state *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

uint64_t pt_file_state_stamp(const struct pt_file_state *state)
{
	uint64_t words[] = { state->dev, state->ino, state->size, (uint64_t)state->mtime_ns, (uint64_t)state->ctime_ns }, stamp;
	uint8_t bytes[sizeof(words)];
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		pt_put_le64(bytes + i * 8, words[i]);
	stamp = pt_hash64(bytes, sizeof(bytes));
	return stamp ? stamp : 1;
}

int pt_file_state_settle(int fd, int64_t *ret_mtime_ns)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	int64_t before;

	clock_gettime(CLOCK_REALTIME_COARSE, &times[1]);
	before = ns_of(&times[1]) - 1;
	times[1] = (struct timespec){ .tv_sec = before / SECOND_NS, .tv_nsec = before % SECOND_NS };
	if (futimens(fd, times) < 0)
		return -errno;
	*ret_mtime_ns = before;
	return 0;
}
