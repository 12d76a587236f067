/* fs/dir.c - opening and reading directories: entries of listing.c into replies. */
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

void pt_fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	struct pt_fs_handle *h;

	pt_fail_clear();
	if (i->kind != PT_FS_DIR && i->kind != PT_FS_AXIS && i->kind != PT_FS_CONTROL_DIR) {
		fuse_reply_err(req, ENOTDIR);
		return;
	}
	h = pt_fs_handle_create(fs, i, false);
	if (!h) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	if (fuse_reply_open(req, fi) < 0)
		pt_fs_handle_free(fs, h);
}

/* Entries from off on, as many as fit. */
static int64_t fill(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, char *buf, size_t size, uint64_t off)
{
	struct pt_fs_listed e;
	struct stat st = { 0 };
	size_t used = 0, n;
	uint64_t at;
	int rc;

	if (!h->listing) {
		rc = pt_fs_listing_create(&h->listing);
		if (rc < 0)
			return rc;
	}
	for (at = off; (rc = pt_fs_listing_at(fs, h->inode, h->listing, off, at, &e)) > 0; at++) {
		st.st_ino = e.ino;
		st.st_mode = (mode_t)DTTOIF(e.type);
		n = fuse_add_direntry(req, buf + used, size - used, e.name, &st, (off_t)at + 1);
		if (n > size - used)
			break;
		used += n;
	}
	return rc < 0 && !used ? rc : (int64_t)used;
}

void pt_fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_handle *h = (struct pt_fs_handle *)(uintptr_t)fi->fh;
	int64_t n;
	char *buf;

	(void)ino;
	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_READDIR], 1);
	buf = pt_malloc(size);
	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	pthread_mutex_lock(&h->lock);
	n = fill(req, fs, h, buf, size, (uint64_t)off);
	pthread_mutex_unlock(&h->lock);
	if (n < 0)
		pt_fs_fail(req, (int)n, h->inode, NULL, "readdir");
	else
		fuse_reply_buf(req, buf, (size_t)n);
	free(buf);
}

void pt_fs_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_handle *h = (struct pt_fs_handle *)(uintptr_t)fi->fh;

	(void)ino;
	pt_fs_handle_free(fs, h);
	fuse_reply_err(req, 0);
}
