/* fs/io.c - what is done with open files: reads, writes, flushes and closes, sent to what the inode is. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/error.h"

/* One buffer a thread for bytes on their way to the kernel, so that the data path does not allocate. */
static pthread_key_t buffer_key;
static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;

struct buffer {
	struct pt_fs *fs;
	size_t size;
	void *data;                     /* a huge page where there are some: the kernel copies out of it faster */
};

static void buffer_free(void *arg)
{
	struct buffer *b = arg;

	if (b) {
		pt_data_buffer_unregister(&b->fs->store->data, b->data);
		free(b->data);
	}
	free(b);
}

static void buffer_key_make(void)
{
	pthread_key_create(&buffer_key, buffer_free);
}

void *pt_fs_reply_buffer(struct pt_fs *fs, size_t size)
{
	struct buffer *b;

	pthread_once(&buffer_once, buffer_key_make);
	b = pthread_getspecific(buffer_key);
	if (b && b->size >= size)
		return b->data;
	buffer_free(b);
	if (size < 1u << 20)
		size = 1u << 20;
	b = pt_calloc(1, sizeof(*b));
	if (b && posix_memalign(&b->data, PT_MEMORY_HUGE, PT_MEMORY_HUGE < size ? size : PT_MEMORY_HUGE)) {
		free(b);
		b = NULL;
	}
	if (b) {
		b->fs = fs;
		b->size = size;
		madvise(b->data, PT_MEMORY_HUGE, MADV_HUGEPAGE);
		/* Unregistered it is only slower. */
		if (pt_data_buffer_register(&fs->store->data, b->data, size) < 0)
			pt_fail_clear();
	}
	pthread_setspecific(buffer_key, b);
	return b ? b->data : NULL;
}

/* A copy: once the kernel has the reply, RELEASE may come before the replying thread goes on. */
static int64_t text_read(const struct pt_fs_handle *h, void *buf, size_t size, uint64_t off)
{
	size_t n = off < h->text.len ? h->text.len - (size_t)off : 0;

	if (n > size)
		n = size;
	if (n)
		memcpy(buf, h->text.data + off, n);
	return (int64_t)n;
}

void pt_fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_handle *h = (struct pt_fs_handle *)(uintptr_t)fi->fh;
	struct pt_fs_inode *i = h->inode;
	int64_t n;
	void *buf;

	(void)ino;
	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_READ], 1);
	if ((h->cached || h->ahead) && pt_fs_cached_reply(req, fs, h, size, (uint64_t)off))
		return;
	buf = pt_fs_reply_buffer(fs, size);
	if (!buf)
		n = pt_fail_nomem();
	else if (i->kind == PT_FS_CONTROL || i->kind == PT_FS_INFO)
		n = text_read(h, buf, size, (uint64_t)off);
	else if (pt_fs_reader_is(i) || i->kind == PT_FS_WHOLE)
		n = pt_fs_cached_read(fs, i, buf, size, (uint64_t)off);
	else if (i->kind == PT_FS_WRITER)
		n = pt_fs_writer_read(i, buf, size, (uint64_t)off);
	else
		n = pt_fs_file_read(fs, i, buf, size, (uint64_t)off);
	if (n < 0) {
		pt_fs_fail(req, (int)n, i, NULL, "read");
		return;
	}
	atomic_fetch_add(&fs->counters.read_bytes, (uint64_t)n);
	fuse_reply_buf(req, buf, (size_t)n);
}

void pt_fs_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	int rc;

	(void)fi;
	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_WRITE], 1);
	if (atomic_fetch_add(&fs->counters.writing, 1) > 0)
		atomic_fetch_add(&fs->counters.overlapped_writes, 1);
	if (i->kind == PT_FS_WRITER)
		rc = pt_fs_writer_write(fs, i, buf, size, (uint64_t)off, fuse_req_ctx(req)->pid);
	else if (i->kind == PT_FS_FILE && i->file)
		rc = pt_fs_file_write(fs, i, buf, size, (uint64_t)off);
	else
		rc = -EBADF;
	atomic_fetch_sub(&fs->counters.writing, 1);
	if (rc < 0) {
		pt_fs_fail(req, rc, i, NULL, "write");
		return;
	}
	atomic_fetch_add(&fs->counters.written_bytes, size);
	fuse_reply_write(req, size);
}

void pt_fs_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_handle *h = (struct pt_fs_handle *)(uintptr_t)fi->fh;
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	int rc = 0;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_FLUSH], 1);
	if (i->kind == PT_FS_WRITER)
		rc = pt_fs_writer_flush(fs, i, fuse_req_ctx(req)->pid);
	else if (i->kind == PT_FS_FILE && h->writes)
		rc = pt_fs_file_seal(fs, i);
	if (rc == 0 && h->writes)       /* the name, and the attributes, also of a file that nothing was written into */
		rc = pt_meta_settle(&fs->store->meta);
	if (rc < 0)
		pt_fs_fail(req, rc, i, NULL, "close");
	else
		fuse_reply_err(req, 0);
}

void pt_fs_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	int rc = 0;

	(void)datasync;
	(void)fi;
	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_FSYNC], 1);
	if (i->kind == PT_FS_WRITER)
		rc = pt_fs_writer_fsync(fs, i);
	else if (i->kind == PT_FS_FILE)
		rc = pt_fs_file_seal(fs, i);
	if (rc == 0)
		rc = pt_meta_settle(&fs->store->meta);
	if (rc < 0)
		pt_fs_fail(req, rc, i, NULL, "fsync");
	else
		fuse_reply_err(req, 0);
}

void pt_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);

	(void)ino;
	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_RELEASE], 1);
	pt_fs_handle_close(req, fs, (struct pt_fs_handle *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

void pt_fs_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	int rc = -EOPNOTSUPP;

	(void)fi;
	pt_fail_clear();
	if (i->kind == PT_FS_FILE && i->file)
		rc = pt_fs_file_fallocate(fs, i, mode, (uint64_t)off, (uint64_t)len);
	fuse_reply_err(req, -rc);
}
