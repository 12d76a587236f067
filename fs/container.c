/* fs/container.c - ordinary names that turn out to be tensor files: streams into containers while bytes come in order, and spools that are looked at when they are
 * sealed. What is no tensor file goes back to the spool as it came. */
#include "fs.h"
#include "file_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"

#define STEP PT_MIB
#define UPDATE_TRIES 20

bool pt_fs_looks_like_tensors(const void *buf, uint64_t len)
{
	switch (pt_format_sniff(buf, pt_size_min(len, PT_SNIFF_BYTES), 0)) {
	case PT_SNIFF_PT:
	case PT_SNIFF_SAFETENSORS:
	case PT_SNIFF_NPY:
	case PT_SNIFF_OBJ:
	case PT_SNIFF_MORE:
		return true;
	default:
		return false;
	}
}

/* The node's directory as a key, for objects' metadata. 0: not for a container (a file inside an axis directory, or removed). */
static int dir_key(struct pt_fs *fs, const struct pt_fs_inode *inode, char ret_key[PT_KEY_MAX + 1])
{
	struct pt_node n;
	bool side;
	int rc;

	rc = pt_node_get(fs->repo, inode->node, &n);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	side = n.name[0] == 1;
	if (!side && pt_node_key(fs->repo, n.parent, ret_key) < 0)
		ret_key[0] = '\0';
	pt_node_done(&n);
	pt_fail_clear();
	return side ? 0 : 1;
}

static int stream_start(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	char key[PT_KEY_MAX + 1];
	int rc;

	rc = dir_key(fs, inode, key);
	if (rc <= 0)
		return rc;
	rc = pt_container_writer_create(fs->repo, key, &inode->file->stream);
	return rc < 0 ? rc : 1;
}

/* The write that completes the file stores what is still on its way: there are programs that look at no result of close(), and rename the file then. What follows, or
 * comes again, goes to a spool with all that was stored. */
static int stream_store(struct pt_fs_file *f)
{
	int rc;

	pt_fs_file_show(f);
	atomic_store(&f->sealing, true);
	rc = pt_container_writer_seal(f->stream);
	atomic_store(&f->sealing, false);
	return rc;
}

int pt_fs_stream_write_locked(struct pt_fs *fs, struct pt_fs_inode *inode, const void *buf, uint64_t len, uint64_t off)
{
	struct pt_fs_file *f = inode->file;
	bool empty = f->fresh || (f->size == 0 && f->spool < 0 && pt_id_is_zero(&f->blob.id));
	int rc;

	if (f->gone || f->upload || f->spool >= 0 || f->shards || !len)
		return 0;
	if (!f->stream) {
		if (!empty || off != 0 || !pt_fs_looks_like_tensors(buf, len))
			return 0;
		rc = stream_start(fs, inode);
		if (rc <= 0)
			return rc;
	} else if (off != pt_container_writer_fed(f->stream) || !pt_container_writer_hopeful(f->stream)) {
		return 0;
	}
	rc = pt_container_writer_feed(f->stream, buf, len);
	if (rc < 0 && !pt_container_error_is_content(rc))
		return rc;
	pt_fail_clear();
	f->fresh = false;
	f->dirty = true;
	f->mtime_ns = pt_time_now_ns();
	if (off + len > f->size)
		f->size = off + len;
	if (rc == 0 && pt_container_writer_complete(f->stream) && f->size == pt_container_writer_fed(f->stream)) {
		rc = stream_store(f);
		if (rc < 0 && !pt_container_error_is_content(rc))
			return rc;
	}
	if (rc < 0) {                   /* no tensor file after all */
		rc = pt_fs_file_spool_locked(fs, f, false);
		if (rc < 0)
			return rc;
	}
	return 1;
}

struct spill {
	int fd;
	uint64_t off;
};

static int spill_piece(void *ctx, const void *data, uint64_t len)
{
	struct spill *s = ctx;
	int rc = pt_io_pwrite(s->fd, data, len, s->off);

	s->off += len;
	return rc < 0 ? pt_fail(-rc, "cannot write a spool file: %s", strerror(-rc)) : 0;
}

int pt_fs_stream_spill_locked(struct pt_fs_file *f, int fd)
{
	struct spill s = { fd, 0 };
	int rc;

	rc = pt_container_writer_replay(f->stream, spill_piece, &s);
	if (rc == 0) {
		pt_container_writer_free(f->stream);
		f->stream = NULL;
	}
	return rc;
}

int pt_fs_container_each(struct pt_container *c, pt_fs_spool_fn *fn, void *ctx)
{
	uint64_t off = 0;
	int64_t n = 1;
	void *buf;
	int rc = 0;

	buf = pt_malloc(STEP);
	if (!buf)
		return pt_fail_nomem();
	while (rc == 0 && n > 0) {
		n = pt_container_read(c, buf, STEP, off);
		rc = n < 0 ? (int)n : n == 0 ? 0 : fn(ctx, buf, (uint64_t)n);
		off += n > 0 ? (uint64_t)n : 0;
	}
	free(buf);
	return rc;
}

int pt_fs_container_copy(struct pt_container *c, int fd)
{
	struct spill s = { fd, 0 };

	return pt_fs_container_each(c, spill_piece, &s);
}

/* The node becomes the sealed container. 1, or the node is gone: 0. */
static int publish(struct pt_fs *fs, struct pt_fs_inode *inode, struct pt_container_writer *w)
{
	struct pt_fs_file *f = inode->file;
	struct pt_node n;
	int rc, try;

	for (try = 0;; try++) {
		rc = pt_node_get(fs->repo, inode->node, &n);
		if (rc < 0)
			break;
		n.mtime_ns = f->mtime_ns;
		rc = pt_container_writer_publish(w, &n);
		if (rc == 0)
			pt_fs_file_took_locked(fs, f, PT_NODE_CONTAINER, &n.blob);
		pt_node_done(&n);
		if (rc != -EAGAIN || try == UPDATE_TRIES)
			break;
	}
	if (rc == -ENOENT) {            /* unlinked while open */
		f->gone = true;
		pt_fail_clear();
		return 0;
	}
	if (rc < 0)
		return rc;
	atomic_fetch_add(&fs->counters.published, 1);
	return 1;
}

int pt_fs_stream_seal_locked(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_file *f = inode->file;
	int rc = -EINVAL;

	if (f->size == pt_container_writer_fed(f->stream))
		rc = pt_container_writer_seal(f->stream);
	if (rc == 0)
		rc = publish(fs, inode, f->stream);
	else if (pt_container_error_is_content(rc))
		rc = 0;
	if (rc < 0)
		return rc;
	if (rc == 0) {
		pt_fail_clear();
		return pt_fs_file_spool_locked(fs, f, false);
	}
	pt_container_writer_free(f->stream);
	f->stream = NULL;
	rc = pt_fs_file_reload_locked(fs, inode);
	return rc < 0 ? rc : 1;
}

static int feed(void *ctx, const void *data, uint64_t len)
{
	return pt_container_writer_feed(ctx, data, len);
}

int pt_fs_spool_contain_locked(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_file *f = inode->file;
	struct pt_container_writer *w;
	char head[PT_SNIFF_BYTES], key[PT_KEY_MAX + 1];
	int64_t n;
	int rc;

	n = pt_io_pread(f->spool, head, sizeof(head), 0);
	if (n <= 0 || !pt_fs_looks_like_tensors(head, (uint64_t)n) || f->size < 8)
		return n < 0 ? (int)n : 0;
	rc = dir_key(fs, inode, key);
	if (rc <= 0)
		return rc;
	rc = pt_container_writer_create(fs->repo, key, &w);
	if (rc < 0)
		return rc;
	rc = pt_fs_spool_each(f->spool, f->size, feed, w);
	if (rc == 0)
		rc = pt_container_writer_seal(w);
	if (rc == 0)
		rc = publish(fs, inode, w);
	else if (pt_container_error_is_content(rc))
		rc = 0;
	pt_container_writer_free(w);
	if (rc <= 0) {
		if (rc == 0)
			pt_fail_clear();
		return rc;
	}
	/* The spool goes on serving those who have the file open. */
	return 1;
}
