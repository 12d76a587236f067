/* tests/bench/bench_meta.c - what a program pays for names, attributes and small files, without the cost of an interpreter. Run by tests/bench/bench.py:
 *   bench_meta list DIR                 reads the directory, and the attributes of each entry as ls -l does
 *   bench_meta stat DIR COUNT SUFFIX    attributes of DIR/t0SUFFIX, DIR/t1SUFFIX, ...
 *   bench_meta read DIR COUNT SUFFIX    opens each, reads it by one read(2), closes it
 * Prints how many there were, and the seconds that they took. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SMALL 4096

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned long list(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned long count = 0;
	struct dirent *e;
	struct stat st;

	if (!d)
		die(dir);
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			die(e->d_name);
		count++;
	}
	closedir(d);
	return count;
}

static void use(int dir, const char *name, int whole)
{
	char bytes[SMALL];
	struct stat st;
	int fd;

	if (!whole) {
		if (fstatat(dir, name, &st, 0) < 0)
			die(name);
		return;
	}
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, bytes, sizeof(bytes)) <= 0)
		die(name);
	close(fd);
}

int main(int argc, char **argv)
{
	unsigned long count, i;
	char name[256];
	double begin;
	int dir;

	if (argc == 3 && !strcmp(argv[1], "list")) {
		begin = now();
		count = list(argv[2]);
		printf("%lu %.9f\n", count, now() - begin);
		return 0;
	}
	if (argc != 5 || (strcmp(argv[1], "stat") && strcmp(argv[1], "read"))) {
		fprintf(stderr, "usage: bench_meta list DIR | stat DIR COUNT SUFFIX | read DIR COUNT SUFFIX\n");
		return 2;
	}
	dir = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		die(argv[2]);
	count = strtoul(argv[3], NULL, 10);
	begin = now();
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "t%lu%s", i, argv[4]);
		use(dir, name, !strcmp(argv[1], "read"));
	}
	printf("%lu %.9f\n", count, now() - begin);
	close(dir);
	return 0;
}
