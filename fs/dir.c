/* fs/dir.c - reading directories: a snapshot at the first read and at every rewind, so that offsets stay put whatever changes meanwhile. */
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

struct fill {
	struct pt_fs_handle *h;
	const struct pt_fs_inode *dir;
	char path[PT_TREE_DIR_MAX];     /* dir of what is below */
	int rc;
};

/* A record: st_ino, d_type, name with its NUL. */
static int record_add(struct pt_fs_handle *h, uint64_t ino, unsigned char type, const char *name)
{
	uint32_t *more;

	if (h->entry_count == h->entry_cap) {
		more = pt_reallocarray(h->entry, h->entry_cap ? 2 * (size_t)h->entry_cap : 64, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		h->entry = more;
		h->entry_cap = h->entry_cap ? 2 * h->entry_cap : 64;
	}
	if (h->text.len > UINT32_MAX / 2)
		return pt_fail(EOVERFLOW, "the directory is too large to list");
	h->entry[h->entry_count++] = (uint32_t)h->text.len;
	pt_buf_append_le64(&h->text, ino);
	pt_buf_append_u8(&h->text, type);
	pt_buf_append(&h->text, name, strlen(name) + 1);
	return pt_buf_failed(&h->text) ? pt_fail_nomem() : 0;
}

static int fill_one(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	struct fill *f = ctx;
	size_t len = strlen(f->dir->dir);
	uint64_t ino = id;

	if (!id && kind == PT_NODE_DIR) {
		if (len + strlen(name) + 2 > sizeof(f->path))
			return 0;
		memcpy(f->path, f->dir->dir, len);
		if (len)
			f->path[len++] = '/';
		strcpy(f->path + len, name);
		ino = pt_fs_ino(f->dir->node, f->path, "");
	} else if (!id) {
		ino = pt_fs_ino(f->dir->node, f->dir->dir, name);
	}
	f->rc = record_add(f->h, ino, kind == PT_NODE_DIR ? DT_DIR : kind == PT_NODE_SYMLINK ? DT_LNK : DT_REG, name);
	return f->rc ? 1 : 0;
}

static int fill(struct pt_fs *fs, struct pt_fs_handle *h)
{
	struct fill f = { .h = h, .dir = h->inode };
	size_t i;
	int rc;

	h->entry_count = 0;
	pt_buf_reset(&h->text);
	rc = record_add(h, pt_fs_ino(h->inode->node, h->inode->dir, h->inode->name), DT_DIR, ".");
	if (rc == 0)
		rc = record_add(h, PT_NODE_ROOT, DT_DIR, "..");
	if (rc < 0)
		return rc;
	if (h->inode->kind == PT_FS_CONTROL_DIR) {
		for (i = 0; rc == 0 && pt_fs_control_name(i); i++)
			rc = record_add(h, pt_fs_ino(PT_NODE_ROOT, "", pt_fs_control_name(i)), DT_REG, pt_fs_control_name(i));
		return rc;
	}
	if (pt_fs_alias_is(h->inode->dir)) {
		if (pt_fs_alias_itself(h->inode->dir))
			fill_one(&f, "full", 0, PT_NODE_FILE);
		return f.rc;
	}
	rc = pt_tree_list(fs->repo, h->inode->node, h->inode->dir, fs->options->list_all, fill_one, &f);
	if (rc == 0 && f.rc == 0 && h->inode->kind == PT_FS_AXIS)
		rc = pt_fs_rank_list(fs, h->inode, fill_one, &f);
	return rc < 0 ? rc : f.rc;
}

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

void pt_fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_handle *h = (struct pt_fs_handle *)(uintptr_t)fi->fh;
	struct stat st = { 0 };
	const uint8_t *record;
	size_t used = 0, n;
	uint64_t at;
	int rc = 0;
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
	if (off == 0 || !h->filled) {
		rc = fill(fs, h);
		h->filled = rc == 0;
	}
	for (at = (uint64_t)off; rc == 0 && at < h->entry_count; at++) {
		record = h->text.data + h->entry[at];
		st.st_ino = pt_get_le64(record);
		st.st_mode = (mode_t)DTTOIF(record[8]);
		n = fuse_add_direntry(req, buf + used, size - used, (const char *)record + 9, &st, (off_t)at + 1);
		if (n > size - used)
			break;
		used += n;
	}
	pthread_mutex_unlock(&h->lock);
	if (rc < 0)
		pt_fs_fail(req, rc, h->inode, NULL, "readdir");
	else
		fuse_reply_buf(req, buf, used);
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
