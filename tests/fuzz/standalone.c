/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() for fuzz targets that are built without libFuzzer: runs the target on
 * every file of its corpus, on short prefixes of each and on copies with bits
 * flipped. What it runs depends on the corpus only, so a failure repeats.
 *
 * Arguments are files or directories; without any it takes
 * $PTIO_SRC/tests/fuzz/corpus/NAME for a program called fuzz_NAME.
 */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILE_BYTES (16u << 20)
#define MAX_CHANGED_BYTES (64u << 10)
#define PREFIXES 96
#define FLIPS 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t inputs;

/* The target gets an exact-sized copy, so that a sanitizer sees any overrun. */
static void run_one(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy) {
		perror("malloc");
		exit(1);
	}
	if (size)
		memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	inputs++;
}

static uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static void run_changed(uint8_t *data, size_t size)
{
	uint64_t state = 0x9e3779b97f4a7c15u ^ size;
	size_t step = size / PREFIXES + 1;

	for (size_t n = 0; n < size; n += step)
		run_one(data, n);
	for (unsigned int i = 0; size && i < FLIPS; i++) {
		/* Headers are at the front: half of the flips go there. */
		size_t span = i % 2 && size > 64 ? 64 : size;
		size_t at = random_next(&state) % span;
		uint8_t old = data[at];

		if (i % 4 == 3)
			data[at] = (uint8_t)random_next(&state);
		else
			data[at] ^= (uint8_t)(1u << (random_next(&state) % 8));
		run_one(data, size);
		data[at] = old;
	}
}

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;
	size_t size = 0;
	int ret = -1;

	if (!f) {
		perror(path);
		return -1;
	}
	data = malloc(MAX_FILE_BYTES);
	if (!data) {
		perror("malloc");
		goto out;
	}
	size = fread(data, 1, MAX_FILE_BYTES, f);
	if (ferror(f)) {
		perror(path);
		goto out;
	}
	run_one(data, size);
	if (size <= MAX_CHANGED_BYTES)
		run_changed(data, size);
	ret = 0;
out:
	free(data);
	fclose(f);
	return ret;
}

static int run_path(const char *path)
{
	struct dirent **names;
	struct stat st;
	int ret = 0;
	int n;

	if (stat(path, &st)) {
		perror(path);
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return run_file(path);
	n = scandir(path, &names, NULL, alphasort);
	if (n < 0) {
		perror(path);
		return -1;
	}
	for (int i = 0; i < n; i++) {
		char sub[PATH_MAX];
		int len = snprintf(sub, sizeof(sub), "%s/%s", path, names[i]->d_name);

		if (names[i]->d_name[0] != '.') {
			if (len < 0 || (size_t)len >= sizeof(sub)) {
				fprintf(stderr, "%s: path too long\n", path);
				ret = -1;
			} else if (run_path(sub)) {
				ret = -1;
			}
		}
		free(names[i]);
	}
	free(names);
	return ret;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	const char *src = getenv("PTIO_SRC");
	char dir[PATH_MAX];
	int ret = 0;
	int len;

	name = name ? name + 1 : argv[0];
	run_one(NULL, 0);
	for (int i = 1; i < argc; i++)
		ret |= run_path(argv[i]);
	if (argc == 1) {
		if (strncmp(name, "fuzz_", 5) == 0)
			name += 5;
		len = snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/%s",
			       src ? src : ".", name);
		if (len < 0 || (size_t)len >= sizeof(dir)) {
			fprintf(stderr, "%s: path too long\n", name);
			return 1;
		}
		ret = run_path(dir);
	}
	printf("%s: %llu inputs\n", name, (unsigned long long)inputs);
	return ret ? 1 : 0;
}
