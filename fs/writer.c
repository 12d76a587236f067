/* fs/writer.c - a view name being written: the stream, its order, its verdict and its publication; its attributes are writer_attr.c's (docs/PATHS.md "Writing").
 *
 * State is per inode, never per descriptor: dup, dup2 and fork make FLUSH come early and often. A stream takes bytes in order; the write that completes
 * the file seals it, the first flush, fsync or release after that publishes it. O_RDWR opens write at random and read back, so their bytes go to a
 * spool and are parsed at flush, and again at release if a shared map dirtied them in between. */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "writer_int.h"

int pt_fs_writer_create(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, struct pt_fs_inode **ret_inode)
{
	struct pt_fs_inode *i;
	struct pt_fs_writer *w = pt_calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return pt_fail_nomem();
	rc = pt_fs_inode_new(fs, PT_FS_WRITER, node, dir, name, &i);
	if (rc < 0) {
		free(w);
		return rc;
	}
	w->inode = i;
	w->spool = -1;
	w->attrs.mode = 0644;
	w->attrs.fd = -1;
	i->writer = w;
	*ret_inode = i;
	return 0;
}

void pt_fs_writer_done(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_writer *w = inode->writer;

	(void)fs;
	if (!w)
		return;
	pt_upload_free(w->upload);
	if (w->spool >= 0)
		close(w->spool);
	free(w);
	inode->writer = NULL;
}

int pt_fs_writer_start(struct pt_fs *fs, struct pt_fs_writer *w)
{
	struct pt_upload *u;
	int rc;

	rc = pt_fs_upload_open(fs, w->inode->node, w->inode->dir, w->inode->name, &w->hint, &w->attrs, &u);
	if (rc < 0)
		return rc;
	pt_upload_free(w->upload);
	w->upload = u;
	w->started = true;
	w->pos = 0;
	w->truncated = 0;
	w->verdict = 0;
	w->published = false;
	return 0;
}

/* The node's hints for raw bytes: user.ptio.dtype and user.ptio.shape set on the directory. They count until something is stored: copies of a
 * directory carry them, too. */
static void hint_from_node(struct pt_fs *fs, struct pt_fs_writer *w)
{
	struct pt_node n;
	struct pt_shape shape;
	char text[256];
	bool revision, pending;
	uint32_t i;

	if (pt_tensor_exists(fs->repo, w->inode->node, &revision, &pending) < 0 || revision)
		return;
	if (pt_node_get(fs->repo, w->inode->node, &n) < 0)
		return;
	for (i = 0; i < n.xattr_count; i++) {
		snprintf(text, sizeof(text), "%.*s", (int)n.xattrs[i].value_len, (const char *)n.xattrs[i].value);
		if (strcmp(n.xattrs[i].name, "user.ptio.dtype") == 0)
			w->hint.dtype = pt_dtype_by_name(text);
		if (strcmp(n.xattrs[i].name, "user.ptio.shape") == 0 && pt_shape_parse(text, &shape) == 0) {
			w->hint.shape = shape;
			w->hint.has_shape = true;
		}
	}
	pt_node_done(&n);
}

int pt_fs_writer_open(struct pt_fs *fs, struct pt_fs_inode *inode, int flags, uint32_t mode, uint32_t uid, uint32_t gid)
{
	struct pt_fs_writer *w = inode->writer;
	bool first;
	int rc = 0;

	pthread_mutex_lock(&inode->lock);
	if (!w->started) {
		w->attrs.mode = mode & 07777;
		w->attrs.uid = uid;
		w->attrs.gid = gid;
		hint_from_node(fs, w);
		rc = pt_fs_writer_start(fs, w);
		w->touches = !(flags & (O_TRUNC | O_CREAT));
		if (rc == 0 && (flags & O_ACCMODE) == O_RDWR && w->spool < 0)
			rc = pt_fs_spool_create(fs, &w->spool);
	}
	pthread_mutex_unlock(&inode->lock);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&fs->writers_lock);
	first = w->opens++ == 0;
	if (first) {
		w->next = fs->writers;
		fs->writers = w;
	}
	pthread_mutex_unlock(&fs->writers_lock);
	if (first)
		atomic_fetch_add(&fs->counters.open_writers, 1);
	return 0;
}

struct pt_fs_inode *pt_fs_writer_find(struct pt_fs *fs, uint64_t node, const char *dir, const char *name)
{
	struct pt_fs_inode *found = NULL;
	struct pt_fs_writer *w;

	pthread_mutex_lock(&fs->writers_lock);
	for (w = fs->writers; w && !found; w = w->next)
		if (!atomic_load(&w->published) && !w->hidden && w->inode->node == node && strcmp(w->inode->name, name) == 0 && strcmp(w->inode->dir, dir) == 0)
			found = pt_fs_inode_ref(fs, w->inode);
	pthread_mutex_unlock(&fs->writers_lock);
	return found;
}

enum pt_fs_writer_state pt_fs_writer_state(struct pt_fs_inode *inode)
{
	enum pt_fs_writer_state s = PT_FS_WRITER_BUSY;

	pthread_mutex_lock(&inode->lock);
	if (!inode->writer->started)
		s = PT_FS_WRITER_FRESH;
	else if (inode->writer->published)
		s = PT_FS_WRITER_PUBLISHED;
	pthread_mutex_unlock(&inode->lock);
	return s;
}

void pt_fs_writer_abandon(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_writer *w = inode->writer;

	pthread_mutex_lock(&fs->writers_lock);
	w->hidden = true;
	pthread_mutex_unlock(&fs->writers_lock);
	pthread_mutex_lock(&inode->lock);
	if (!w->published)
		w->abandoned = true;
	pthread_mutex_unlock(&inode->lock);
}

/* The first failure stays until the stream is restarted. */
static int verdict_locked(struct pt_fs_writer *w, int rc)
{
	char sentence[PT_FAIL_SENTENCE_MAX];

	if (rc < 0 && w->verdict == 0) {
		w->verdict = rc;
		if (!w->published) {    /* now, not at release: its space may be what the next try needs */
			snprintf(sentence, sizeof(sentence), "%s", pt_fail_sentence());
			pt_upload_free(w->upload);
			w->upload = NULL;
			pt_fail(-rc, "%s", sentence);
		}
	}
	return rc;
}

static int verdict_again_locked(const struct pt_fs_writer *w)
{
	/* Recorded when it happened: the sentence is not reported twice. */
	pt_fail_clear();
	return w->verdict;
}

static int zeros_to_locked(struct pt_fs_writer *w, uint64_t size)
{
	int rc;

	if (size <= w->pos || pt_upload_complete(w->upload))
		return 0;
	rc = pt_upload_feed(w->upload, NULL, size - w->pos);
	if (rc == 0)
		w->pos = size;
	return rc;
}

static int stream_write_locked(struct pt_fs_writer *w, const void *buf, uint64_t len, uint64_t off)
{
	int rc;

	if (off < w->pos)
		return pt_fail(EINVAL, "bytes arrived at offset %llu when %llu had already been taken: a tensor must be written from front to back "
			       "(write to another name and rename it here, or write to a local file and cp it)",
			       (unsigned long long)off, (unsigned long long)w->pos);
	rc = zeros_to_locked(w, off);
	if (rc == 0)
		rc = pt_upload_feed(w->upload, buf, len);
	if (rc == 0)
		w->pos = off + len;
	return rc;
}

int pt_fs_writer_write(struct pt_fs *fs, struct pt_fs_inode *inode, const void *buf, uint64_t len, uint64_t off, pid_t tid)
{
	struct pt_fs_writer *w = inode->writer;
	int rc;

	(void)fs;
	pthread_mutex_lock(&inode->lock);
	w->last_tid = tid;
	w->truncated_last = false;
	if (w->abandoned) {
		rc = 0;
		if (off + len > w->pos)
			w->pos = off + len;
	} else if (w->spool >= 0) {
		rc = pt_io_pwrite(w->spool, buf, len, off);
		w->dirty = true;
		if (rc == 0 && off + len > w->pos)
			w->pos = off + len;
	} else if (!w->started) {
		rc = pt_fail(EBADF, "this file was not opened for writing");
	} else {
		rc = w->verdict ? verdict_again_locked(w) : verdict_locked(w, stream_write_locked(w, buf, len, off));
	}
	pthread_mutex_unlock(&inode->lock);
	return rc;
}

int64_t pt_fs_writer_read(struct pt_fs_inode *inode, void *buf, uint64_t len, uint64_t off)
{
	struct pt_fs_writer *w = inode->writer;
	int64_t n;
	uint64_t size;

	pthread_mutex_lock(&inode->lock);
	size = pt_fs_writer_size_locked(w);
	if (w->spool >= 0) {
		n = pt_io_pread(w->spool, buf, len, off);
	} else {                        /* what a stream took is not kept: shared maps read holes before they write them */
		n = off < size ? (int64_t)(len < size - off ? len : size - off) : 0;
		memset(buf, 0, (size_t)n);
	}
	pthread_mutex_unlock(&inode->lock);
	return n;
}

int pt_fs_writer_truncate(struct pt_fs *fs, struct pt_fs_inode *inode, uint64_t size)
{
	struct pt_fs_writer *w = inode->writer;
	int rc = 0;

	pthread_mutex_lock(&inode->lock);
	if (w->spool >= 0) {
		rc = ftruncate(w->spool, (off_t)size) < 0 ? pt_fail(errno, "cannot set the size of the spool file: %s", strerror(errno)) : 0;
		if (rc == 0)
			w->pos = size;
		w->dirty = true;
	} else if (size == 0) {
		if (w->started && (w->pos || w->verdict || w->published || w->truncated))
			rc = pt_fs_writer_start(fs, w);
	} else if (size < w->pos) {
		rc = pt_fail(EINVAL, "the file cannot be cut to %llu bytes when %llu have been taken: start again from an empty file",
			     (unsigned long long)size, (unsigned long long)w->pos);
	} else {
		w->truncated = size;
		w->truncated_last = true;
	}
	pthread_mutex_unlock(&inode->lock);
	return rc;
}

static int publish_locked(struct pt_fs *fs, struct pt_fs_writer *w)
{
	struct pt_published p;
	int rc;

	if (w->published)
		return 0;
	rc = verdict_locked(w, pt_upload_publish(w->upload, &p));
	if (rc == 0) {
		w->published = true;
		atomic_fetch_add(&fs->counters.published, 1);
		pt_fs_gc_poke(fs);
	}
	return rc;
}

/* Parses and publishes a spool's present contents. */
static int spool_publish_locked(struct pt_fs *fs, struct pt_fs_writer *w)
{
	struct pt_fs_source source = w->attrs;
	struct pt_upload *u;
	int rc;

	if (!w->dirty)
		return w->verdict ? verdict_again_locked(w) : 0;
	w->verdict = 0;
	w->dirty = false;
	if (w->pos == 0)
		return 0;
	source.fd = w->spool;
	source.size = w->pos;
	rc = pt_fs_upload_source(fs, w->inode->node, w->inode->dir, w->inode->name, &source, &u);
	if (rc < 0)
		return verdict_locked(w, rc);
	pt_upload_free(w->upload);
	w->upload = u;
	w->published = true;
	return 0;
}

int pt_fs_writer_flush(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid)
{
	struct pt_fs_writer *w = inode->writer;
	struct pt_published p;
	int rc = 0;

	pthread_mutex_lock(&inode->lock);
	if (w->abandoned)
		goto out;
	if (w->spool >= 0) {
		rc = spool_publish_locked(fs, w);
		goto out;
	}
	if (w->verdict) {
		rc = verdict_again_locked(w);
		goto out;
	}
	if (!w->upload || w->published || (w->pos == 0 && w->truncated == 0))
		goto out;
	/* A hole at the end. A flush in the middle of the writing, by a child that closes what it inherited, must not fill it. */
	if (w->pos > 0 && w->truncated > w->pos && (w->truncated_last || tid == w->last_tid))
		rc = verdict_locked(w, zeros_to_locked(w, w->truncated));
	if (rc < 0)
		goto out;
	if (pt_upload_complete(w->upload))
		rc = publish_locked(fs, w);
	else
		rc = pt_upload_publish(w->upload, &p);          /* says what is missing; the stream goes on */
	if (rc < 0 && !w->verdict)
		w->told_pos = w->pos;
out:
	pthread_mutex_unlock(&inode->lock);
	return rc;
}

int pt_fs_writer_fsync(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_writer *w = inode->writer;
	int rc = 0;

	pthread_mutex_lock(&inode->lock);
	if (w->verdict && !w->abandoned)
		rc = verdict_again_locked(w);
	else if (!w->abandoned && w->spool < 0 && w->upload && pt_upload_complete(w->upload))
		rc = publish_locked(fs, w);
	pthread_mutex_unlock(&inode->lock);
	return rc;
}

void pt_fs_writer_release(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_writer *w = inode->writer, **p;
	struct pt_published published;
	bool last, told;
	int rc = 0;

	/* Releases come one by one through the inode's lock: exactly one is the last. */
	pt_fail_clear();
	pthread_mutex_lock(&inode->lock);
	pthread_mutex_lock(&fs->writers_lock);
	last = w->opens == 1;
	pthread_mutex_unlock(&fs->writers_lock);
	if (last) {
		if (w->abandoned) {
			rc = 0;
		} else if (w->spool >= 0) {
			rc = spool_publish_locked(fs, w);
		} else if (!w->verdict && w->upload && !w->published && (w->pos || w->truncated)) {
			rc = verdict_locked(w, zeros_to_locked(w, w->truncated));
			if (rc == 0)
				rc = pt_upload_complete(w->upload) ? publish_locked(fs, w) : pt_upload_publish(w->upload, &published);
		}
		if (rc < 0 && w->told_pos == w->pos)
			pt_fail_clear();
		if (!w->published && (w->pos || w->truncated))
			atomic_fetch_add(&fs->counters.dropped, 1);
	}
	told = !pt_fail_sentence()[0];          /* by FLUSH already */
	pthread_mutex_lock(&fs->writers_lock);
	if (--w->opens == 0) {
		for (p = &fs->writers; *p && *p != w; p = &(*p)->next)
			;
		if (*p)
			*p = w->next;
		atomic_fetch_sub(&fs->counters.open_writers, 1);
	}
	pthread_mutex_unlock(&fs->writers_lock);
	pthread_mutex_unlock(&inode->lock);
	if (rc < 0 && !told)
		pt_fs_errors_add(fs, rc, inode, NULL, "close");
}
