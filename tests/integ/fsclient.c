/* tests/integ/fsclient.c - makes tensors and does system calls in a given order, for the tests of the mount.
 *
 *   fsclient npy DIMS SEED                    a float32 .npy file to standard output; DIMS as 4x6, values SEED, SEED+1, ...
 *   fsclient slice DIMS SEED DIM LO HI        the payload bytes of elements [LO,HI) along DIM of the same tensor
 *   fsclient ops SRC OP...                    system calls on one descriptor; stops at the first failure: prints OP: ERRNAME, exit 1. A trailing
 *                                             !ERRNAME wants just that failure.
 *      open=PATH:FLAGS  (r w rw, then any of c create t trunc x excl a append d direct)   w=OFF:LEN (from SRC at OFF)   wall   trunc=SIZE
 *      dupclose  fsync  close  size=N  chmod=MODE  utime=SECONDS  rename=OLD:NEW  unlink=PATH  exists=PATH  absent=PATH  setx=NAME:VALUE
 *      mapwrite (all of SRC through a shared map)  mapclose (unmap)  truncpath=PATH:SIZE  read=PATH (equals SRC)  sleepms=N
 *   fsclient hold MAP|READ PATH COMMAND       opens (and maps) PATH, runs COMMAND, then wants the bytes of before and a clean close
 *   fsclient list PATH COMMAND                reads half a directory, runs COMMAND, reads on: names once each to standard output */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "fsclient: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int dims_parse(const char *text, uint64_t dim[8])
{
	int n = 0;

	while (*text && n < 8) {
		dim[n++] = strtoull(text, (char **)&text, 10);
		if (*text == 'x')
			text++;
	}
	return n;
}

static int make_npy(const char *dims, float seed)
{
	char head[256], shape[128] = "";
	uint64_t dim[8], count = 1, i;
	int n = dims_parse(dims, dim), k, len;

	for (k = 0; k < n; k++) {
		count *= dim[k];
		sprintf(shape + strlen(shape), "%llu,%s", (unsigned long long)dim[k], k + 1 < n ? " " : "");
	}
	if (n > 1)
		shape[strlen(shape) - 1] = '\0';
	len = snprintf(head, sizeof(head), "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
	while ((10 + len + 1) % 64)
		head[len++] = ' ';
	head[len++] = '\n';
	fwrite("\x93NUMPY\1\0", 1, 8, stdout);
	putchar(len & 255);
	putchar(len >> 8);
	fwrite(head, 1, (size_t)len, stdout);
	for (i = 0; i < count; i++) {
		float v = seed + (float)i;

		fwrite(&v, 4, 1, stdout);
	}
	return fflush(stdout) ? 1 : 0;
}

static int make_slice(const char *dims, float seed, int d, uint64_t lo, uint64_t hi)
{
	uint64_t dim[8], count = 1, inner = 1, i, at;
	int n = dims_parse(dims, dim), k;

	for (k = 0; k < n; k++)
		count *= dim[k];
	for (k = d + 1; k < n; k++)
		inner *= dim[k];
	for (i = 0; i < count; i++) {
		float v = seed + (float)i;

		at = i / inner % dim[d];
		if (at >= lo && at < hi)
			fwrite(&v, 4, 1, stdout);
	}
	return fflush(stdout) ? 1 : 0;
}

static char *source;
static size_t source_len;

static void source_load(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st) < 0)
		die(path);
	source_len = (size_t)st.st_size;
	source = malloc(source_len + 1);
	if (!source || read(fd, source, source_len) != (ssize_t)source_len)
		die(path);
	close(fd);
}

static int fd = -1;
static void *map;

static int op_open(char *arg)
{
	char *flags = strchr(arg, ':');
	int f;

	*flags++ = '\0';
	f = strncmp(flags, "rw", 2) == 0 ? O_RDWR : flags[0] == 'w' ? O_WRONLY : O_RDONLY;
	f |= (strchr(flags, 'c') ? O_CREAT : 0) | (strchr(flags, 't') ? O_TRUNC : 0) | (strchr(flags, 'x') ? O_EXCL : 0) |
	     (strchr(flags, 'a') ? O_APPEND : 0) | (strchr(flags, 'd') ? O_DIRECT : 0);
	fd = open(arg, f, 0644);
	return fd < 0 ? -1 : 0;
}

static int write_at(uint64_t off, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = pwrite(fd, source + off, len, (off_t)off);
		if (n < 0)
			return -1;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int same_as_source(const char *path)
{
	char *got = malloc(source_len + 1);
	int f = open(path, O_RDONLY);
	ssize_t n;
	size_t at = 0;

	if (f < 0) {
		free(got);
		return -1;
	}
	while ((n = read(f, got + at, source_len + 1 - at)) > 0)
		at += (size_t)n;
	close(f);
	errno = n < 0 ? errno : EILSEQ;
	n = n == 0 && at == source_len && memcmp(got, source, at) == 0 ? 0 : -1;
	free(got);
	return (int)n;
}

static int run(char *op)
{
	char *arg = strchr(op, '='), *second;
	struct stat st;
	struct timespec times[2] = { 0 };
	uint64_t a = 0, b = 0;
	int d;

	if (arg)
		*arg++ = '\0';
	second = arg ? strchr(arg, ':') : NULL;
	if (arg) {
		a = strtoull(arg, NULL, 10);
		b = second ? strtoull(second + 1, NULL, 10) : 0;
	}
	if (strcmp(op, "open") == 0)
		return op_open(arg);
	if (second)
		*second++ = '\0';
	if (strcmp(op, "w") == 0)
		return write_at(a, b);
	if (strcmp(op, "wall") == 0)
		return write_at(0, source_len);
	if (strcmp(op, "trunc") == 0)
		return ftruncate(fd, (off_t)a);
	if (strcmp(op, "truncpath") == 0)
		return truncate(arg, (off_t)b);
	if (strcmp(op, "dupclose") == 0) {
		d = dup(fd);
		return d < 0 ? -1 : close(d);
	}
	if (strcmp(op, "fsync") == 0)
		return fsync(fd);
	if (strcmp(op, "close") == 0)
		return close(fd);
	if (strcmp(op, "size") == 0) {
		if (fstat(fd, &st) < 0)
			return -1;
		errno = ERANGE;
		return (uint64_t)st.st_size == a ? 0 : -1;
	}
	if (strcmp(op, "chmod") == 0)
		return fchmod(fd, (mode_t)strtoul(arg, NULL, 8));
	if (strcmp(op, "utime") == 0) {
		times[0].tv_sec = times[1].tv_sec = (time_t)a;
		return futimens(fd, times);
	}
	if (strcmp(op, "rename") == 0)
		return rename(arg, second);
	if (strcmp(op, "unlink") == 0)
		return unlink(arg);
	if (strcmp(op, "exists") == 0)
		return stat(arg, &st);
	if (strcmp(op, "absent") == 0) {
		if (stat(arg, &st) == 0) {
			errno = EEXIST;
			return -1;
		}
		return errno == ENOENT ? 0 : -1;
	}
	if (strcmp(op, "setx") == 0)
		return fsetxattr(fd, arg, second, strlen(second), 0);
	if (strcmp(op, "mapwrite") == 0) {
		map = mmap(NULL, source_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			return -1;
		memcpy(map, source, source_len);
		return 0;
	}
	if (strcmp(op, "mapclose") == 0)
		return munmap(map, source_len);
	if (strcmp(op, "read") == 0)
		return same_as_source(arg);
	if (strcmp(op, "sleepms") == 0)
		return usleep((useconds_t)a * 1000);
	errno = ENOSYS;
	return -1;
}

static int run_all(int count, char **ops)
{
	char *want, *shown;
	int i, rc;

	for (i = 0; i < count; i++) {
		want = strchr(ops[i], '!');
		if (want)
			*want++ = '\0';
		shown = strdup(ops[i]);
		rc = run(ops[i]);
		if (want ? rc == 0 || strcmp(strerrorname_np(errno), want) != 0 : rc < 0) {
			printf("%s: %s%s%s\n", shown, rc < 0 ? strerrorname_np(errno) : "no failure", want ? ", wanted " : "", want ? want : "");
			free(shown);
			return 1;
		}
		free(shown);
	}
	return 0;
}

static int hold(const char *how, const char *path, const char *command)
{
	char *before, *after;
	struct stat st;
	size_t len, i;
	char *m;

	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		die(path);
	len = (size_t)st.st_size;
	before = malloc(len);
	after = malloc(len);
	if (pread(fd, before, len, 0) != (ssize_t)len)
		die("read before");
	if (strcmp(how, "map") == 0) {
		m = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
		if (m == MAP_FAILED)
			die("mmap");
		close(fd);
		if (system(command) != 0)
			return 3;
		for (i = 0; i < len; i++)
			if (m[i] != before[i])
				return 4;
		munmap(m, len);
	} else {
		if (system(command) != 0)
			return 3;
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (pread(fd, after, len, 0) != (ssize_t)len || memcmp(before, after, len) != 0)
			return 4;
		if (fstat(fd, &st) < 0 || (size_t)st.st_size != len)
			return 5;
		close(fd);
	}
	free(before);
	free(after);
	return 0;
}

static int list(const char *path, const char *command)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	if (!d)
		die(path);
	while ((e = readdir(d))) {
		if (n++ == 10 && system(command) != 0)
			return 3;
		puts(e->d_name);
	}
	closedir(d);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "npy") == 0)
		return make_npy(argv[2], (float)atof(argv[3]));
	if (argc == 7 && strcmp(argv[1], "slice") == 0)
		return make_slice(argv[2], (float)atof(argv[3]), atoi(argv[4]), strtoull(argv[5], NULL, 10), strtoull(argv[6], NULL, 10));
	if (argc >= 3 && strcmp(argv[1], "ops") == 0) {
		source_load(argv[2]);
		return run_all(argc - 3, argv + 3);
	}
	if (argc == 5 && strcmp(argv[1], "hold") == 0)
		return hold(argv[2], argv[3], argv[4]);
	if (argc == 4 && strcmp(argv[1], "list") == 0)
		return list(argv[2], argv[3]);
	fprintf(stderr, "fsclient: see the top of tests/integ/fsclient.c\n");
	return 2;
}
