/* Windows on their way to an engine: as many at once as were put where it is away, else one after the other; what comes of those that fail. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "manifest/internal.h"
#include "manifest/pump.h"
#include "manifest_help.h"

#define WINDOWS (2 * PT_PUMP_DEPTH)

static char dir[256];
static struct pt_repo *repo;
static struct pt_data *data;
static struct pt_blob_ref ref = { .kind = PT_BLOB_TENSOR };
static struct pt_pump_stream stream;
static uint8_t *bytes;

/* An engine in front of the store's, which holds the first writes back until `hold` are there, and ends them last first. */
static struct held {
	const void *buf;
	uint64_t len, off;
	struct pt_done *done;
} held[WINDOWS];
static const struct pt_data_ops *below;
static struct pt_data_ops ops;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t hold, held_count, writing, most;
static int fails;                       /* which of those held fails; -1: none */

static void end_held(void *h, void *blob)
{
	while (held_count) {
		struct held *w = &held[--held_count];

		if (fails == (int)held_count)
			pt_done_call(w->done, pt_fail(EIO, "window %d is lost", fails));
		else
			below->write(h, blob, w->buf, w->len, w->off, w->done);
	}
}

static void write_held(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done)
{
	bool pass;

	pthread_mutex_lock(&lock);
	pass = !hold;
	if (!pass) {
		held[held_count++] = (struct held){ buf, len, off, done };
		if (held_count == hold) {
			hold = 0;
			end_held(h, blob);
		}
	}
	pthread_mutex_unlock(&lock);
	if (pass)
		below->write(h, blob, buf, len, off, done);
}

struct late {
	void *h, *blob;
	struct held write;
};

static void *end_late(void *arg)
{
	struct late *l = arg;

	usleep(2000);
	__atomic_sub_fetch(&writing, 1, __ATOMIC_SEQ_CST);
	below->write(l->h, l->blob, l->write.buf, l->write.len, l->write.off, l->write.done);
	free(l);
	return NULL;
}

/* It ends after it has returned. */
static void write_late(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done)
{
	uint32_t now = __atomic_add_fetch(&writing, 1, __ATOMIC_SEQ_CST);
	struct late *l = malloc(sizeof(*l));
	pthread_t thread;

	if (now > most)
		most = now;
	*l = (struct late){ h, blob, { buf, len, off, done } };
	ck_assert_int_eq(pthread_create(&thread, NULL, end_late, l), 0);
	pthread_detach(thread);
}

static void setup(void)
{
	void *blob;

	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, NULL);
	data = &pt_repo_store(repo)->data;
	below = data->ops;
	ops = *below;
	data->ops = &ops;
	hold = held_count = writing = most = 0;
	fails = -1;
	bytes = malloc(WINDOWS * PT_WINDOW_BYTES);
	help_fill(bytes, 5, 0, WINDOWS * PT_WINDOW_BYTES);
	check_ok(pt_id_random(&ref.id));
	check_ok(pt_data_create(data, &ref, WINDOWS * PT_WINDOW_BYTES, &blob));
	pt_pump_stream_init(&stream, repo, blob);
}

static void teardown(void)
{
	data->ops = below;
	pt_repo_close(repo);
	help_dir_remove(dir);
	free(bytes);
}

static int put(uint64_t window)
{
	return pt_pump_put(&stream, NULL, bytes + window * PT_WINDOW_BYTES, PT_WINDOW_BYTES, window * PT_WINDOW_BYTES);
}

static void put_all(void)
{
	for (uint64_t i = 0; i < WINDOWS; i++)
		check_ok(put(i));
	check_ok(pt_pump_wait(&stream));
}

static void check_stored(void)
{
	uint8_t *got = malloc(WINDOWS * PT_WINDOW_BYTES);

	check_ok(pt_data_seal(data, stream.blob, WINDOWS * PT_WINDOW_BYTES));
	check_ok(pt_data_read(data, &(struct pt_data_range){ .blob = ref, .len = WINDOWS * PT_WINDOW_BYTES, .buf = got }, 1));
	ck_assert(!memcmp(got, bytes, WINDOWS * PT_WINDOW_BYTES));
	free(got);
}

/* The first is answered only when the last is there. */
START_TEST(an_engine_that_is_away_has_all_windows_before_it_answers_one)
{
	ops.away = true;
	ops.write = write_held;
	hold = PT_PUMP_DEPTH;
	put_all();
	check_stored();
}
END_TEST

START_TEST(what_is_put_while_others_are_under_way_follows_at_once)
{
	ops.away = true;
	ops.write = write_held;
	hold = PT_PUMP_DEPTH;
	for (uint64_t i = 0; i < WINDOWS; i++) {
		check_ok(put(i));
		usleep(i < PT_PUMP_DEPTH ? 20000 : 0);  /* the thread waits for an answer by then, most likely */
	}
	check_ok(pt_pump_wait(&stream));
	check_stored();
}
END_TEST

START_TEST(any_other_engine_gets_them_one_by_one)
{
	ops.write = write_late;
	put_all();
	ck_assert_uint_eq(most, 1);
	check_stored();
}
END_TEST

START_TEST(one_that_fails_among_others_is_what_the_writer_is_told)
{
	ops.away = true;
	ops.write = write_held;
	hold = PT_PUMP_DEPTH;
	fails = _i;
	for (uint64_t i = 0; i < PT_PUMP_DEPTH; i++)
		check_ok(put(i));
	check_err(pt_pump_wait(&stream), EIO);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "is lost"));
	/* And nothing goes out after it. */
	hold = 1;
	check_err(put(PT_PUMP_DEPTH), EIO);
	check_err(pt_pump_wait(&stream), EIO);
	ck_assert_uint_eq(hold, 1);
	pt_data_abort(data, stream.blob);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("windows");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, an_engine_that_is_away_has_all_windows_before_it_answers_one);
	tcase_add_test(c, what_is_put_while_others_are_under_way_follows_at_once);
	tcase_add_test(c, any_other_engine_gets_them_one_by_one);
	tcase_add_loop_test(c, one_that_fails_among_others_is_what_the_writer_is_told, 0, PT_PUMP_DEPTH);
	return run_suite("pump", &c, 1);
}
