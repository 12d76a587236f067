/* store/data_file.c - the file data engine: one file a blob, below one directory that many processes use at once.
 *
 * Owns the descriptors of its directories; file_write.c, file_read.c and file_list.c are its operations. Assumes a local
 * filesystem (rename, flock and fsync as on ext4 or xfs); store.c refuses others. Operations complete before they return. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/process.h"
#include "base/size.h"
#include "store/file_int.h"
#include "store/folder.h"

#define OPEN_MAX 256                    /* blobs kept open for reading */

void pt_file_name(const struct pt_blob_ref *ref, char ret_name[PT_FILE_NAME_LEN])
{
	pt_id_hex(&ref->id, ret_name);
	strcpy(ret_name + PT_ID_HEX_LEN, ref->kind == PT_BLOB_TENSOR ? ".safetensors" : ".blob");
}

bool pt_file_name_parse(const char *name, struct pt_blob_ref *ret_ref)
{
	char hex[PT_ID_HEX_LEN + 1];
	struct pt_blob_ref ref;

	if (strnlen(name, PT_ID_HEX_LEN + 1) <= PT_ID_HEX_LEN)
		return false;
	memcpy(hex, name, PT_ID_HEX_LEN);
	hex[PT_ID_HEX_LEN] = '\0';
	if (!pt_token_name_is(hex) || pt_id_parse(hex, &ref.id) < 0)
		return false;
	if (strcmp(name + PT_ID_HEX_LEN, ".safetensors") == 0)
		ref.kind = PT_BLOB_TENSOR;
	else if (strcmp(name + PT_ID_HEX_LEN, ".blob") == 0)
		ref.kind = PT_BLOB_PLAIN;
	else
		return false;
	*ret_ref = ref;
	return true;
}

int pt_file_fail(const struct pt_file_store *f, const struct pt_blob_ref *ref, const char *what, int err)
{
	char name[PT_FILE_NAME_LEN];
	const char *hint = "";

	pt_file_name(ref, name);
	switch (err) {
	case ENOSPC:
		hint = "; free some space on its filesystem";
		break;
	case EDQUOT:
		hint = "; free some space or raise the quota";
		break;
	case EMFILE:
	case ENFILE:
		hint = "; raise the limit on open files (ulimit -n)";
		break;
	case EROFS:
		hint = "; mount its filesystem read-write";
		break;
	case EACCES:
	case EPERM:
		hint = "; give this user the right to read and write the store";
		break;
	case EIO:
		hint = "; see the kernel log for what the device says";
		break;
	}
	return pt_fail(err, "cannot %s object %s in %s: %s%s", what, name, f->dir, strerror(err), hint);
}

/* Sets no sentence. */
static int bucket_open(const struct pt_file_store *f, const char *name, int *ret_fd)
{
	char bucket[3] = { name[0], name[1], '\0' };

	return pt_folder_try(f->objects, bucket, O_PATH, ret_fd);
}

int pt_file_bucket(const struct pt_file_store *f, const struct pt_blob_ref *ref, const char *what, char ret_name[PT_FILE_NAME_LEN], int *ret_fd)
{
	char bucket[3];
	int rc;

	pt_file_name(ref, ret_name);
	rc = bucket_open(f, ret_name, ret_fd);
	if (rc != -ELOOP && rc != -EPERM)
		return rc < 0 ? pt_file_fail(f, ref, what, -rc) : 0;
	snprintf(bucket, sizeof(bucket), "%.2s", ret_name);
	return pt_folder_open(f->objects, bucket, O_PATH, ret_fd);      /* says which */
}

bool pt_file_is_there(const struct pt_file_store *f, const struct pt_blob_ref *ref)
{
	char name[PT_FILE_NAME_LEN];
	bool there;
	int fd;

	pt_file_name(ref, name);
	if (bucket_open(f, name, &fd) < 0)
		return false;
	there = faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	close(fd);
	return there;
}

static void file_remove(void *h, const struct pt_blob_ref *ref, struct pt_done *done)
{
	char name[PT_FILE_NAME_LEN];
	struct pt_file_store *f = h;
	int bucket;
	int rc = pt_file_bucket(f, ref, "remove", name, &bucket);

	if (rc == 0) {
		if (unlinkat(bucket, name, 0) < 0)
			rc = pt_file_fail(f, ref, "remove", errno);
		close(bucket);
	}
	if (rc == 0 || rc == -ENOENT)
		pt_fdcache_forget(f->cache, ref);
	pt_done_call(done, rc);
}

/* A file cut short from outside while mapped is SIGBUS, and no stored byte may end the process: reads are used instead. */
static int file_map(void *h, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, const void **ret_addr, void **ret_map)
{
	(void)h, (void)ref, (void)off, (void)len, (void)ret_addr, (void)ret_map;
	return pt_fail(EOPNOTSUPP, "objects in files are not mapped; read them");
}

static void file_unmap(void *h, void *map)
{
	(void)h, (void)map;
}

static void file_pin(void *h, const struct pt_blob_ref *refs, size_t count, struct pt_done *done)
{
	struct pt_file_store *f = h;

	if (f->pid != pt_process_id())
		pt_done_call(done, pt_fail(EIO, "the store was opened before fork(); open it in the process that uses it"));
	else
		pt_done_call(done, pt_pins_add(f->pins, refs, count));
}

static void file_unpin(void *h, const struct pt_blob_ref *refs, size_t count)
{
	struct pt_file_store *f = h;

	pt_pins_drop(f->pins, refs, count);
}

static void file_pinned(void *h, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned, struct pt_done *done)
{
	struct pt_file_store *f = h;

	pt_done_call(done, pt_pins_query(f->pins, refs, count, ret_pinned));
}

static int file_buffer_register(void *h, void *addr, uint64_t len)
{
	(void)h, (void)addr, (void)len;
	return 0;
}

static void file_buffer_unregister(void *h, void *addr)
{
	(void)h, (void)addr;
}

static void file_space(void *h, struct pt_data_space *ret_space, struct pt_done *done)
{
	struct pt_file_store *f = h;
	struct statvfs fs;
	int rc = 0;

	if (fstatvfs(f->dirfd, &fs) < 0) {
		rc = pt_fail(errno, "cannot look at the filesystem of %s: %s", f->dir, strerror(errno));
	} else {
		ret_space->total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
		ret_space->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		ret_space->used_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
		ret_space->total_files = fs.f_files;
		ret_space->free_files = fs.f_favail;
	}
	pt_done_call(done, rc);
}

/* Each seal has synced its own file and directory. */
static void file_sync(void *h, struct pt_done *done)
{
	(void)h;
	pt_done_call(done, 0);
}

static void file_close(void *h)
{
	struct pt_file_store *f = h;
	int fds[] = { f->pins_dir, f->staging, f->objects, f->dirfd };

	pt_fdcache_free(f->cache);
	pt_ledger_free(f->ledger);
	/* A forked child leaves the parent's marks alone. */
	if (f->pid == pt_process_id()) {
		pt_pins_free(f->pins);
		pt_token_remove(f->staging, true, &f->token);
	}
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	pthread_mutex_destroy(&f->lock);
	free(f->dir);
	free(f);
}

static const struct pt_data_ops file_ops = {
	.size = sizeof(struct pt_data_ops),
	.version = 1,
	.name = "file",
	.durable = true,
	.close = file_close,
	.create = pt_file_create,
	.write = pt_file_write,
	.seal = pt_file_seal,
	.abort = pt_file_abort,
	.read = pt_file_read,
	.map = file_map,
	.unmap = file_unmap,
	.stat = pt_file_stat,
	.remove = file_remove,
	.list = pt_file_list,
	.pin = file_pin,
	.unpin = file_unpin,
	.pinned = file_pinned,
	.buffer_register = file_buffer_register,
	.buffer_unregister = file_buffer_unregister,
	.space = file_space,
	.sync = file_sync,
	.sweep = pt_file_sweep,
	.tidy = pt_file_tidy,
	.stamp = pt_file_stamp,
	.proved = pt_file_proved,
	.prove = pt_file_prove,
	.doubt = pt_file_doubt,
	.hashed = pt_file_hashed,
	.proof_counts = pt_file_proof_counts,
	.fd_get = pt_file_fd_get,
	.fd_put = pt_file_fd_put,
};

/* Opens a folder of the store, made if it may be. *made: it was. */
static int open_dir(struct pt_file_store *f, const char *name, bool *made, int *ret_fd)
{
	bool made_now = false;
	int rc = f->read_only ? pt_folder_open(f->dirfd, name, O_RDONLY, ret_fd) : pt_folder_make(f->dirfd, name, &made_now, ret_fd);

	*made |= made_now;
	return rc;
}

static size_t open_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return OPEN_MAX;
	return (size_t)pt_size_max(4, pt_size_min(OPEN_MAX, limit.rlim_cur / 4));
}

int pt_data_file_open_at(int dirfd, const char *dir, struct pt_data *ret_data)
{
	struct pt_file_store *f = pt_calloc(1, sizeof(*f));
	bool made = false;
	struct statvfs fs;
	int rc;

	if (!f)
		return pt_fail_nomem();
	f->pid = pt_process_id();
	f->dirfd = f->objects = f->staging = f->pins_dir = f->token.fd = -1;
	pthread_mutex_init(&f->lock, NULL);
	f->dir = pt_strdup(dir);
	if (!f->dir) {
		rc = pt_fail_nomem();
		goto fail;
	}
	f->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	if (f->dirfd < 0 || fstatvfs(f->dirfd, &fs) < 0) {
		rc = pt_fail(errno, "cannot open the store %s: %s", dir, strerror(errno));
		goto fail;
	}
	f->read_only = fs.f_flag & ST_RDONLY;
	rc = open_dir(f, "objects", &made, &f->objects);
	if (rc == 0)
		rc = open_dir(f, "staging", &made, &f->staging);
	if (rc == 0)
		rc = open_dir(f, "pins", &made, &f->pins_dir);
	if (rc < 0)
		goto fail;
	if (made) {
		rc = pt_io_fsync_dir(f->dirfd);
		if (rc < 0) {
			pt_fail(-rc, "cannot sync the store %s: %s", dir, strerror(-rc));
			goto fail;
		}
	}
	rc = pt_pins_create(f->read_only ? -1 : f->pins_dir, &f->pins);
	if (rc == 0)
		rc = pt_fdcache_create(open_max(), pt_file_open_blob, f, &f->cache);
	if (rc == 0)
		rc = pt_ledger_create(f->dirfd, NULL, &f->ledger);
	if (rc < 0)
		goto fail;
	ret_data->ops = &file_ops;
	ret_data->h = f;
	ret_data->read_only = false;
	return 0;
fail:
	file_close(f);
	return rc;
}

int pt_data_file_open(const char *dir, struct pt_data *ret_data)
{
	int fd, rc;

	(void)mkdir(dir, 0750);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return pt_fail(errno, "cannot open the store %s: %s", dir, strerror(errno));
	rc = pt_data_file_open_at(fd, dir, ret_data);
	close(fd);
	return rc;
}
