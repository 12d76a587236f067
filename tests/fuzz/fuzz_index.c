/* tests/fuzz/fuzz_index.c - an index file of any bytes, its page checksums made good, so that what lies behind them is tested:
 * it is opened, read and scanned. Each record that comes back has passed its own hash. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "store/meta.h"
#include "store/sqlite_vfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[256];

static void remove_files(void)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal", "-reserve" };
	char name[300];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", path, ends[i]);
		unlink(name);
	}
}

static void write_page(int fd, const uint8_t *bytes, size_t len, uint64_t off)
{
	uint8_t page[PT_SQLITE_PAGE] = { 0 }, sum[16];

	memcpy(page, bytes, len);
	pt_put_le64(sum, pt_hash64(page, PT_SQLITE_PAGE - PT_SQLITE_RESERVE));
	pt_put_le64(sum + 8, off);
	pt_put_le64(page + PT_SQLITE_PAGE - PT_SQLITE_RESERVE, pt_hash64(sum, sizeof(sum)));
	if (pwrite(fd, page, sizeof(page), (off_t)off) != (ssize_t)sizeof(page))
		abort();
}

static int see(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	(void)key, (void)value;
	if (version == 0 || key_len > (64u << 20) || value_len > (64u << 20))
		abort();
	return ++*(int *)ctx > 10000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_meta meta;
	uint64_t version;
	int fd, n = 0;

	if (!path[0]) {
		const char *tmp = getenv("TMPDIR");

		snprintf(path, sizeof(path), "%s/ptio-fuzz-index-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : tmp ? tmp : "/tmp",
			 (int)getpid());
		atexit(remove_files);
	}
	if (size > (1 << 20))
		return 0;
	remove_files();
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		abort();
	for (size_t off = 0; off < size; off += PT_SQLITE_PAGE)
		write_page(fd, data + off, size - off < PT_SQLITE_PAGE ? size - off : PT_SQLITE_PAGE, off);
	close(fd);
	if (pt_meta_sqlite_open(path, &meta) < 0)
		return 0;
	(void)pt_meta_get(&meta, "key/17", 6, &value, &version);
	(void)pt_meta_get(&meta, "absent", 6, &value, &version);
	(void)pt_meta_scan(&meta, NULL, 0, NULL, 0, 0, see, &n);
	(void)pt_meta_commit(&meta, &(struct pt_meta_op){ .kind = PT_META_PUT, .key = { "key/5", 5 }, .value = "new", .value_len = 3 }, 1, NULL);
	(void)pt_meta_commit(&meta, &(struct pt_meta_op){ .kind = PT_META_DELETE, .key = { "key/30", 6 } }, 1, NULL);
	pt_meta_close(&meta);
	pt_buf_done(&value);
	return 0;
}
