/* tests/unit/test_conformance_rest.c - cases A86..A101: stale and mixed sets, concurrency, files, listing. */
#include "lib/case.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* ---- N: order and staleness ---- */

CASE(A86_republish_with_fewer_ranks)
	struct ptio_tensor a = ar(PTIO_F32, "8,2", 0), b = ar(PTIO_F32, "8,2", 100);
	char text[32];
	int r;

	for (r = 0; r < 4; r++) {
		snprintf(text, sizeof(text), "tp=%dof4@0", r);
		OK(upsert("k", part(a, 0, r, 4), text));
	}
	for (r = 0; r < 2; r++) {
		snprintf(text, sizeof(text), "tp=%dof2@0", r);
		OK(upsert("k", part(b, 0, r, 2), text));
	}
	for (r = 0; r < 4; r++) {
		snprintf(text, sizeof(text), "shard tp=%dof4@0", r);
		EXPECT("k", text, part(b, 0, r, 4));
		snprintf(text, sizeof(text), "as_stored tp=%dof4@0", r);
		EXPECT_CODE("k", text, -ENOENT);
	}
	EXPECT("k", "shard tp=0of2@0", part(b, 0, 0, 2));
	EXPECT("k", "full tp=0of4@0", b);
END_CASE

CASE(A87_stale_manifest)
	struct ptio_tensor a = ar(PTIO_F32, "8,2", 0), b = ar(PTIO_F32, "8,2", 100);

	put_ranks("k", a, "dp=0of2/tp=Rof4@0", 4, 0);
	FAILS(put("k", b, "dp=0of2/tp=0of2@0"), -EEXIST);
	EXPECT("k", "shard dp=0of2/tp=1of2@0", cut(a, 0, 4, 4));
	EXPECT("k", "full dp=0of2/tp=0of2@0", a);
	OK(upsert("k", b, "dp=0of2/tp=0of2@0"));
	EXPECT("k", "full dp=0of2/tp=0of2@0", a);
	OK(upsert("k", b, "dp=0of2/tp=1of2@0"));
	EXPECT("k", "shard dp=0of2/tp=1of2@0", cut(b, 0, 4, 4));
	EXPECT("k", "full dp=0of2/tp=0of2@0", b);
END_CASE

CASE(A88_incomplete_writer_set)
	struct ptio_tensor a = ar(PTIO_F32, "8,2", 0), b = ar(PTIO_F32, "8,2", 100);
	char text[32], *json;
	int r;

	OK(put("k", b, ""));
	for (r = 0; r < 3; r++) {
		snprintf(text, sizeof(text), "writer=%dof4@0", r);
		FAILS(put("k", a, text), -EEXIST);
		OK(upsert("k", a, text));
	}
	EXPECT("k", "full", b);
	EXPECT("k", "as_stored", b);
	OK(ptio_describe_json(P, "k", &json));
	ck_assert_ptr_nonnull(strstr(json, "\"missing\": [\n    3\n   ]"));
	free(json);
	OK(upsert("k", a, "writer=3of4@0"));
	EXPECT("k", "full", a);
	EXPECT_CODE("k", "as_stored", -ENOENT);
END_CASE

CASE(A89_shard_from_a_full_object)
	struct ptio_tensor x = ar(PTIO_F32, "4,4", 0);

	OK(put("w", x, ""));
	EXPECT("w", "shard tp=1of2@0", cut(x, 0, 2, 2));
	EXPECT("w", "shard tp=0of1@0", x);
	EXPECT_CODE("w", "as_stored tp=0of1@0", -ENOENT);
END_CASE

CASE(A90_user_key_looks_like_a_shard)
	OK(put("w_tp_0", ar(PTIO_F32, "2,2", 0), ""));
	EXPECT_CODE("w", "shard tp=0of2@0", -ENOENT);
	EXPECT_CODE("w", "full", -ENOENT);
END_CASE

CASE(A91_tp_of_size_1)
	struct ptio_tensor x = ar(PTIO_F32, "2,2", 0), t;

	OK(put("w", x, "tp=0of1@0"));
	ck_assert_str_eq(keys_listed(), "w");
	EXPECT("w", "shard tp=0of1@0", x);
	EXPECT("w", "full tp=0of1@0", x);
	OK(ptio_get_with_tp(P, "w", 0, 1, 0, &t));
	ck_assert(same(&t, &x));
	ptio_tensor_done(&t);
END_CASE

CASE(A92_shards_of_different_dtype)
	OK(put("a", ar(PTIO_F32, "2,2", 0), "tp=0of2@0"));
	OK(put("a", ar(PTIO_F16, "2,2", 0), "tp=1of2@0"));
	EXPECT_CODE("a", "full tp=0of2@0", -ENODATA);
	OK(put("b", ar(PTIO_F16, "2,2", 0), "tp=1of2@0"));
	OK(put("b", ar(PTIO_F32, "2,2", 0), "tp=0of2@0"));
	EXPECT_CODE("b", "full tp=0of2@0", -ENODATA);
END_CASE

/* ---- C: concurrency ---- */

static const struct {
	const char *key, *written, *read;
	int dim;
} layouts[3] = { { "base0", "tp=%dof4@0", "shard tp=%dof2@0", 0 }, { "base1", "dp=0of2/tp=%dof4@1", "shard dp=0of2/tp=%dof2@1", 1 },
		 { "base2", "pp=1of2s3/tp=%dof4@2", "shard pp=1of2s3/tp=%dof2@2", 2 } };
static struct ptio_tensor cube, cube_part[3][4], cube_half[3][2];
static const struct how *cube_how[3][4], *cube_target[3][2];

static void *write_half(void *arg)
{
	intptr_t who = (intptr_t)arg, rc = 0;
	int l, r;

	for (l = 0; l < 3; l++)
		for (r = (int)who; r < 4; r += 2)
			rc |= ptio_put(P, layouts[l].key, l ? &cube : &cube_part[0][r], &cube_how[l][r]->write);
	return (void *)rc;
}

static void *read_halves(void *arg)
{
	intptr_t bad = 0;
	int round, l, r;

	(void)arg;
	for (round = 0; round < 10; round++)
		for (l = 0; l < 3; l++)
			for (r = 0; r < 2; r++) {
				struct ptio_tensor t;

				if (ptio_get(P, layouts[l].key, &cube_target[l][r]->target, &t) || !same(&t, &cube_half[l][r]))
					bad++;
				else
					ptio_tensor_done(&t);
			}
	return (void *)bad;
}

CASE(A93_parallel_writers_and_readers)
	pthread_t threads[4];
	char text[64];
	void *result;
	int l, r;

	cube = ar(PTIO_F32, "16,16,16", 0);
	for (l = 0; l < 3; l++) {
		for (r = 0; r < 4; r++) {
			snprintf(text, sizeof(text), layouts[l].written, r);
			cube_how[l][r] = how(text);
			cube_part[l][r] = part(cube, (uint32_t)layouts[l].dim, r, 4);
		}
		for (r = 0; r < 2; r++) {
			struct how *h;

			snprintf(text, sizeof(text), layouts[l].read + 6, r);
			h = (struct how *)how(text);
			h->target.mode = PTIO_SHARD;
			cube_target[l][r] = h;
			cube_half[l][r] = part(cube, (uint32_t)layouts[l].dim, r, 2);
		}
	}
	for (r = 0; r < 2; r++)
		ck_assert_int_eq(pthread_create(&threads[r], NULL, write_half, (void *)(intptr_t)r), 0);
	for (r = 0; r < 2; r++) {
		pthread_join(threads[r], &result);
		ck_assert_ptr_null(result);
	}
	for (r = 0; r < 4; r++)
		ck_assert_int_eq(pthread_create(&threads[r], NULL, read_halves, NULL), 0);
	for (r = 0; r < 4; r++) {
		pthread_join(threads[r], &result);
		ck_assert_ptr_null(result);
	}
END_CASE

static struct ptio_tensor race[2];
static pthread_barrier_t gate;

static void *put_race(void *arg)
{
	pthread_barrier_wait(&gate);
	return (void *)(intptr_t)ptio_put(P, "k", &race[(intptr_t)arg], NULL);
}

CASE(A94_put_race_on_one_key)
	pthread_t threads[2];
	void *codes[2];
	int round, i, winner;

	race[0] = ar(PTIO_F32, "64,64", 1);
	race[1] = ar(PTIO_F32, "64,64", 7);
	pthread_barrier_init(&gate, NULL, 2);
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 2; i++)
			ck_assert_int_eq(pthread_create(&threads[i], NULL, put_race, (void *)(intptr_t)i), 0);
		for (i = 0; i < 2; i++)
			pthread_join(threads[i], &codes[i]);
		winner = codes[0] ? 1 : 0;
		ck_assert_int_eq((int)(intptr_t)codes[winner], 0);
		ck_assert_int_eq((int)(intptr_t)codes[!winner], -EEXIST);
		EXPECT("k", NULL, race[winner]);
		OK(ptio_remove(P, "k", NULL));
	}
	pthread_barrier_destroy(&gate);
END_CASE

/* ---- E: files ---- */

CASE(A95_save_and_load_back)
	struct ptio_tensor x = floats("4", 1.0, 2.0, 3.0, 4.0), t;
	char path[] = "/tmp/ptio-case-XXXXXX";
	int fd = mkstemp(path);

	close(fd);
	OK(put("k", x, ""));
	OK(ptio_save_safetensors(P, "k", NULL, path));
	OK(ptio_remove(P, "k", NULL));
	EXPECT_CODE("k", NULL, -ENOENT);
	OK(ptio_load_safetensors(P, "k", path, &t));
	ck_assert(same(&t, &x));
	ptio_tensor_done(&t);
	EXPECT("k", NULL, x);
	unlink(path);
	FAILS(ptio_save_safetensors(P, "missing", NULL, path), -ENOENT);
END_CASE

CASE(A96_default_file_name)
	struct ptio_tensor x = ar(PTIO_BF16, "3,5", 1);
	char dir[] = "/tmp/ptio-case-XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
	put_ranks("k", x, "writer=Rof2@0", 2, 0);
	OK(ptio_save_safetensors(P, "k", target("full"), NULL));
	ck_assert_int_eq(access("k", R_OK), 0);
	OK(ptio_load_safetensors(P, "m", "k", NULL));
	EXPECT("m", NULL, x);
	unlink("k");
	ck_assert_int_eq(chdir("/"), 0);
	rmdir(dir);
END_CASE

CASE(A97_missing_file)
	struct ptio_tensor t;

	FAILS(ptio_load_safetensors(P, "k", "/nonexistent/file", &t), -ENOENT);
	ck_assert_str_eq(keys_listed(), "");
END_CASE

/* ---- P: listing ---- */

CASE(A98_all_keys)
	OK(put("b", ar(PTIO_U8, "1", 0), ""));
	OK(put("a", ar(PTIO_U8, "1", 0), ""));
	OK(put("c", ar(PTIO_U8, "1", 0), ""));
	OK(ptio_remove(P, "c", NULL));
	ck_assert_str_eq(keys_listed(), "a b");
	OK(put("a/x", ar(PTIO_U8, "1", 0), "writer=0of2@0"));
	ck_assert_str_eq(keys_listed(), "a a/x b");
	FAILS(ptio_remove(P, "c", NULL), -ENOENT);
	OK(ptio_remove(P, "a", NULL));
	ck_assert_str_eq(keys_listed(), "a/x b");
END_CASE

CASE(A99_batch_query_without_keys)
	OK(ptio_batch_get(P, NULL, 0, NULL, 0, NULL, NULL));
	FAILS(ptio_list(P, "", NULL, NULL), -EINVAL);
	FAILS(ptio_batch_get(P, (const char *[]){ "k" }, 1, NULL, 0, NULL, NULL), -EINVAL);
END_CASE

CASE(A100_other_stores_are_not_listed)
	struct ptio_tensor x = ar(PTIO_U8, "1", 0);
	struct ptio *other;

	OK(ptio_open("mem:1M", NULL, &other));
	OK(put("x", x, ""));
	OK(ptio_put(other, "x", &x, NULL));
	OK(ptio_put(other, "y", &x, NULL));
	ck_assert_str_eq(keys_listed(), "x");
	ptio_close(other);
END_CASE

CASE(A101_names_that_only_look_derived)
	struct ptio_description d;
	struct ptio_tensor x = ar(PTIO_F32, "2,2", 0);

	OK(put("x_tp_0", x, ""));
	OK(put("y__writer_manifest", x, ""));
	ck_assert_str_eq(keys_listed(), "x_tp_0 y__writer_manifest");
	OK(ptio_describe(P, "x_tp_0", NULL, &d));
	ck_assert(d.complete && !d.axis_count);
	OK(ptio_describe(P, "y__writer_manifest", NULL, &d));
	ck_assert(d.complete && !d.axis_count);
END_CASE

static void add(TCase *tc)
{
	ADD_CASE(tc, A86_republish_with_fewer_ranks);
	ADD_CASE(tc, A87_stale_manifest);
	ADD_CASE(tc, A88_incomplete_writer_set);
	ADD_CASE(tc, A89_shard_from_a_full_object);
	ADD_CASE(tc, A90_user_key_looks_like_a_shard);
	ADD_CASE(tc, A91_tp_of_size_1);
	ADD_CASE(tc, A92_shards_of_different_dtype);
	ADD_CASE(tc, A93_parallel_writers_and_readers);
	ADD_CASE(tc, A94_put_race_on_one_key);
	ADD_CASE(tc, A95_save_and_load_back);
	ADD_CASE(tc, A96_default_file_name);
	ADD_CASE(tc, A97_missing_file);
	ADD_CASE(tc, A98_all_keys);
	ADD_CASE(tc, A99_batch_query_without_keys);
	ADD_CASE(tc, A100_other_stores_are_not_listed);
	ADD_CASE(tc, A101_names_that_only_look_derived);
}

int main(void)
{
	return run_case("conformance: staleness, concurrency, files, listing", add);
}
