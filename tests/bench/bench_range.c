/* tests/bench/bench_range.c - range gets of one object through the client library, against the same bytes by the plainest means, in interleaved rounds.
 *
 *     bench_range STORE-URI [MIB [ROUNDS [PID]]]
 *
 * The object is written first. A get asks for 16 MiB in ranges of a size that do not touch, which is what a plan of a strided box is, or in one. Nothing is
 * verified: verify=off. Limits: a process that sends the same number of bytes of a file in memory by sendfile() over loopback TCP, and one that sends them from its
 * memory by write(), as iperf3 does, both into a buffer that is used again. At an rdma:// store only ranges of 64 KiB and 1 MiB, and no limits: ib_read_bw is one
 * (tests/vm/bench). Prints a line for each way: name, bytes, and seconds of each round; with the daemon's PID
 * a second one, "cpu NAME", of the processor time that both sides took, which says more where a machine is busy. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "store/store.h"

#define MIB ((uint64_t)1 << 20)
#define GET (16 * MIB)
#define ROUNDS_MAX 100

static struct pt_store *store;
static struct pt_blob_ref blob = { .kind = PT_BLOB_PLAIN };
static uint64_t object;                 /* bytes of it */
static uint8_t *into;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_range: %s: %s\n", what, *pt_fail_sentence() ? pt_fail_sentence() : strerror(errno));
	exit(1);
}

static pid_t daemon_pid;

/* Of the daemon's threads. */
static double daemon_cpu(void)
{
	char path[300];
	double sum = 0;
	struct dirent *e;
	DIR *d;

	if (!daemon_pid)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)daemon_pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		unsigned long long ns = 0;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", (int)daemon_pid, e->d_name);
		f = fopen(path, "r");
		if (f && fscanf(f, "%llu", &ns) == 1)
			sum += (double)ns / 1e9;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return sum;
}

static double usage(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double cpu(void)
{
	return daemon_cpu() + usage(RUSAGE_SELF) + usage(RUSAGE_CHILDREN);
}

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 2654435761u >> 13);
}

static void write_object(void)
{
	void *up;

	for (uint64_t i = 0; i < GET; i++)
		into[i] = byte_at(i);
	if (pt_id_random(&blob.id) < 0 || pt_data_create(&store->data, &blob, object, &up) < 0)
		die("create");
	for (uint64_t at = 0; at < object; at += MIB)
		if (pt_data_write(&store->data, up, into + at % GET, MIB, at) < 0)
			die("write");
	if (pt_data_seal(&store->data, up, object) < 0)
		die("seal");
	if (pt_data_pin(&store->data, &blob, 1) < 0)
		die("pin");
}

/* All of the object once, size bytes a range: of 32 MiB first the even ranges, then the odd ones. */
static double get_all(uint64_t size)
{
	static struct pt_data_range ranges[GET / 4096];
	double began = now();

	for (uint64_t at = 0; at < object; at += 2 * GET)
		for (uint64_t odd = 0; odd < 2; odd++) {
			size_t n = 0;

			for (uint64_t done = 0; done < GET; done += size, n++)
				ranges[n] = (struct pt_data_range){ blob, size == GET ? at + odd * GET : at + (2 * n + odd) * size, size, into + done };
			if (pt_data_read(&store->data, ranges, n) < 0)
				die("read");
		}
	return now() - began;
}

static void check(uint64_t size)
{
	memset(into, 0, GET);
	get_all(size);
	for (uint64_t i = 0; i < GET; i++) {
		uint64_t at = size == GET ? GET + i : (2 * (i / size) + 1) * size + i % size;

		if (into[i] != byte_at(at % GET)) {
			fprintf(stderr, "bench_range: wrong byte at %" PRIu64 " in ranges of %" PRIu64 "\n", i, size);
			exit(1);
		}
	}
}

/* ---- the plainest means ---- */

static int listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof(*at)) < 0 || listen(fd, 1) < 0 || getsockname(fd, (struct sockaddr *)at, &len) < 0)
		die("socket");
	return fd;
}

/* The buffer that write() sends is its own, as in iperf3. */
static void send_all(int to, int file)
{
	static uint8_t own[MIB];

	memset(own, 1, sizeof(own));
	for (uint64_t at = 0; at < object;) {
		off_t off = (off_t)at;
		ssize_t n = file >= 0 ? sendfile(to, file, &off, object - at) : write(to, own, sizeof(own));

		if (n <= 0)
			_exit(1);
		at += (uint64_t)n;
	}
}

/* The sender is a process of its own, made before the clock starts; a byte asks it to begin. */
static double plain(int file)
{
	struct sockaddr_in at;
	int l = listener(&at), s;
	uint64_t got = 0;
	double began;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		char go;

		s = accept(l, NULL, NULL);
		if (s < 0 || read(s, &go, 1) != 1)
			_exit(1);
		send_all(s, file);
		_exit(0);
	}
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&at, sizeof(at)) < 0)
		die("connect");
	began = now();
	if (write(s, "g", 1) != 1)
		die("write");
	while (got < object) {
		ssize_t n = read(s, into + got % GET, GET - got % GET);

		if (n <= 0)
			die("read");
		got += (uint64_t)n;
	}
	began = now() - began;
	close(s);
	close(l);
	waitpid(pid, NULL, 0);
	return began;
}

static void print(const char *name, const char *what, const double *seconds, int rounds)
{
	printf("%s%s\t%" PRIu64, what, name, object);
	for (int r = 0; r < rounds; r++)
		printf("\t%.6f", seconds[r]);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = { 4096, 65536, MIB, GET };
	static const char *const names[] = { "4 KiB", "64 KiB", "1 MiB", "16 MiB" };
	static double seconds[6][ROUNDS_MAX], used[6][ROUNDS_MAX];
	int rounds = argc > 3 ? atoi(argv[3]) : 5, file = memfd_create("bench", MFD_CLOEXEC);
	const struct pt_store_options options = { .create = true };
	size_t first = 0, end = 6;

	if (argc < 2 || argc > 5 || rounds < 1 || rounds > ROUNDS_MAX || file < 0) {
		fprintf(stderr, "usage: bench_range STORE-URI [MIB [ROUNDS [PID]]]\n");
		return 2;
	}
	if (strncmp(argv[1], "rdma:", 5) == 0) {
		first = 1;
		end = 3;
	}
	daemon_pid = argc > 4 ? atoi(argv[4]) : 0;
	object = (argc > 2 ? strtoull(argv[2], NULL, 10) : 256) * MIB / (2 * GET) * (2 * GET);
	into = mmap(NULL, GET, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* The plain senders are children, which must not make its pages copy-on-write. */
	if (!object || into == MAP_FAILED || madvise(into, GET, MADV_DONTFORK) < 0)
		die("memory");
	if (pt_store_open(argv[1], &options, &store) < 0)
		die("open");
	write_object();
	for (uint64_t at = 0; at < object; at += GET)
		if (pt_io_pwrite(file, into, GET, at) < 0)
			die("memfd");
	if (pt_data_buffer_register(&store->data, into, GET) < 0)
		die("register");
	for (size_t i = first; i < 4 && i < end; i++)
		check(sizes[i]);
	for (int r = 0; r < rounds; r++)
		for (size_t i = first; i < end; i++) {
			double began = cpu();

			seconds[i][r] = i < 4 ? get_all(sizes[i]) : plain(i == 4 ? file : -1);
			used[i][r] = cpu() - began;
		}
	for (size_t i = first; i < end; i++) {
		const char *name = i < 4 ? names[i] : i == 4 ? "sendfile" : "write";

		print(name, "", seconds[i], rounds);
		if (daemon_pid)
			print(name, "cpu ", used[i], rounds);
	}
	pt_data_buffer_unregister(&store->data, into);
	pt_data_unpin(&store->data, &blob, 1);
	pt_data_remove(&store->data, &blob);
	pt_store_close(store);
	return 0;
}
