/* tests/unit/store_support.c - see store_support.h. Owns the list of folders to remove. */
#include "unit/store_support.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/remote.h"
#include "unit/daemon.h"
#include "unit/rng.h"

static char made[8][256];
static size_t made_count;
static pid_t made_by;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

void dir_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_made(void)
{
	if (made_by != getpid())
		return;
	for (size_t i = 0; i < made_count; i++) {
		static const char *const beside[] = { "", ".run", ".log", ".secret" };    /* daemon.c puts some there */

		for (size_t k = 0; k < sizeof(beside) / sizeof(beside[0]); k++) {
			char path[sizeof(made[0]) + 8];

			snprintf(path, sizeof(path), "%.255s%s", made[i], beside[k]);
			dir_remove(path);
		}
	}
}

const char *dir_make(void)
{
	const char *tmp = getenv("TMPDIR");

	ck_assert_uint_lt(made_count, sizeof(made) / sizeof(made[0]));
	snprintf(made[made_count], sizeof(made[0]), "%s/ptio-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(made[made_count]));
	if (made_by != getpid()) {
		made_by = getpid();
		atexit(remove_made);
	}
	return made[made_count++];
}

int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	MUST(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

char *path_in(const char *dir, const char *name)
{
	char *path = NULL;

	MUST(asprintf(&path, "%s/%s", dir, name) > 0);
	return path;
}

/* Rules that never hit, so that every call passes through the layer. */
#define NO_FAULTS "meta.*:error=EIO:times=0,data.*:error=EIO:times=0"

/* Through a daemon, which serves the folder until the test ends. */
static void remote_open(int engine, const char *dir, struct pt_meta *ret_meta, struct pt_data *ret_data)
{
	const char *hosts = daemon_for(dir, engine == META_LOCAL ? NULL : "mem:64M");
	struct pt_remote_options options = { .secret_file = daemon_secret(dir) };
	bool read_only;

	MUST_WORK(pt_remote_open(hosts, &options, ret_meta, ret_data, &read_only));
	MUST(!read_only);
}

void meta_open(int engine, const char *dir, struct pt_meta *ret_meta)
{
	char *path = path_in(dir, "index.db");
	struct pt_data data;

	if (engine >= META_LOCAL) {
		free(path);
		remote_open(engine, dir, ret_meta, &data);
		pt_data_close(&data);
		return;
	}
	MUST_WORK(pt_meta_sqlite_open(engine < 2 ? path : NULL, ret_meta));
	if (engine % 2)
		MUST_WORK(pt_fault_meta_stack(ret_meta, NO_FAULTS));
	free(path);
}

void data_open(int engine, const char *dir, struct pt_data *ret_data)
{
	struct pt_meta meta;

	if (engine >= META_LOCAL) {
		remote_open(engine, dir, &meta, ret_data);
		pt_meta_close(&meta);
		return;
	}
	if (engine < 2)
		MUST_WORK(pt_data_file_open(dir, ret_data));
	else
		MUST_WORK(pt_data_memory_open(64 << 20, 0, ret_data));
	if (engine % 2)
		MUST_WORK(pt_fault_data_stack(ret_data, NO_FAULTS));
}

pid_t child_start(void (*fn)(void *ctx, int pipe_fd), void *ctx, int *ret_pipe_fd)
{
	int fds[2];
	pid_t pid;

	MUST(pipe(fds) == 0);
	fflush(NULL);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		fn(ctx, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	if (ret_pipe_fd)
		*ret_pipe_fd = fds[0];
	else
		close(fds[0]);
	return pid;
}

void child_join(pid_t pid)
{
	int status;

	MUST(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		ck_abort_msg("a child ended with status 0x%x", status);
}

void child_kill(pid_t pid)
{
	int status;

	MUST(kill(pid, SIGKILL) == 0);
	MUST(waitpid(pid, &status, 0) == pid);
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void child_fail(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: in a child, not true: %s (%s)\n", file, line, what, pt_fail_sentence());
	_exit(1);
}

int meta_put(struct pt_meta *m, const char *key, const void *value, size_t len, uint64_t *ret_version)
{
	struct pt_meta_op op = { .kind = PT_META_PUT, .key = { key, strlen(key) }, .value = value, .value_len = len };

	return pt_meta_commit(m, &op, 1, ret_version);
}

int meta_count_up(struct pt_meta *m)
{
	struct pt_meta_op ops[2] = {
		{ .kind = PT_META_COMPARE, .key = { "counter", 7 } },
		{ .kind = PT_META_PUT, .key = { "counter", 7 }, .value_len = 8 },
	};
	struct pt_buf b = PT_BUF_INIT;
	uint8_t value[8];
	int rc;

	rc = pt_meta_get(m, "counter", 7, &b, &ops[0].version);
	if (!rc) {
		pt_put_le64(value, (b.len ? pt_get_le64(b.data) : 0) + 1);
		ops[1].value = value;
		rc = pt_meta_commit(m, ops, 2, NULL);
	}
	pt_buf_done(&b);
	return rc;
}

static int count_one(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	(void)key, (void)key_len, (void)value, (void)value_len, (void)version;
	++*(uint64_t *)ctx;
	return 0;
}

uint64_t meta_count(struct pt_meta *m)
{
	uint64_t n = 0;

	MUST_WORK(pt_meta_scan(m, NULL, 0, NULL, 0, 0, count_one, &n));
	return n;
}

struct pt_blob_ref blob_new(enum pt_blob_kind kind)
{
	struct pt_blob_ref ref = { .kind = kind };

	MUST_WORK(pt_id_random(&ref.id));
	return ref;
}

int blob_put(struct pt_data *d, const struct pt_blob_ref *ref, const void *bytes, uint64_t len)
{
	void *blob;
	int rc = pt_data_create(d, ref, len, &blob);

	if (rc < 0)
		return rc;
	rc = pt_data_write(d, blob, bytes, len, 0);
	if (rc < 0) {
		pt_data_abort(d, blob);
		return rc;
	}
	return pt_data_seal(d, blob, len);
}

int blob_get(struct pt_data *d, const struct pt_blob_ref *ref, void *buf, uint64_t len, uint64_t off)
{
	struct pt_data_range range = { *ref, off, len, buf };

	return pt_data_read(d, &range, 1);
}

void pattern_fill(void *buf, size_t len, uint64_t seed)
{
	struct rng r = { seed };
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)rng_next(&r);
}
