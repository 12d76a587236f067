/* fs/shards.c - state dicts that ranks write: tensor files inside axis directories. Their tensors become parts of sets, staged while the bytes come in order, else
 * when a spool is closed; the file's own name goes, and the directory
 * shows all of it once the last rank has closed (tree/shard_write.h). Names that begin with a dot, or end as those of temporary files do
 * are temporary: they are looked at when they get another. */
#include "fs.h"
#include "file_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "tree/shard_write.h"

static bool temporary(const char *name)
{
	static const char *const ends[] = { ".tmp", ".part", ".partial", "~" };
	size_t len = strlen(name), i, n;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		n = strlen(ends[i]);
		if (len > n && strcmp(name + len - n, ends[i]) == 0)
			return true;
	}
	return name[0] == '.';
}

static int feed(void *ctx, const void *data, uint64_t len)
{
	return pt_shard_writer_feed(ctx, data, len);
}

static int feed_all(struct pt_fs *fs, const struct pt_fs_file *f, struct pt_shard_writer *w)
{
	if (f->spool >= 0)
		return pt_fs_spool_each(f->spool, f->size, feed, w);
	if (f->container)
		return pt_fs_container_each(f->container, feed, w);
	return pt_fs_blob_each(fs, &f->blob, f->size, feed, w);
}

/* The name is used up: what was written is stored, or has failed. */
static void name_drop(struct pt_fs *fs, struct pt_fs_file *f, const struct pt_node *n)
{
	int rc = pt_node_unlink_id(fs->repo, n->parent, n->name, n->id);

	if (rc < 0)
		pt_fail_clear();
	f->gone = true;
	f->dirty = false;
	pt_fs_gc_poke(fs);
}

static int writer_make(struct pt_fs *fs, const struct pt_fs_file *f, const struct pt_node *n, const char *dir, const char *name, struct pt_shard_writer **ret_w)
{
	struct pt_upload_options attrs = { .mode = f->mode ? f->mode : 0644, .uid = f->uid, .gid = f->gid, .mtime_ns = f->mtime_ns };
	struct pt_request base;
	int rc;

	rc = pt_tree_dir_parse(dir, &base);
	if (rc < 0)
		return rc;
	if (base.split == PT_SPLIT_UNSET)
		base.split = fs->options->split;
	return pt_shard_writer_create(fs->models, fs->repo, n->parent, &base, name, &attrs, ret_w);
}

/* Publishes what the writer has been fed, with the verdict rc so far. 1: done; 0: no tensor file. *ret_more: it is not over, more bytes may come. */
static int publish(struct pt_fs *fs, struct pt_fs_file *f, const struct pt_node *n, struct pt_shard_writer *w, int rc, const char *dir, const char *name, bool last,
		   bool *ret_more)
{
	char sentence[PT_FAIL_SENTENCE_MAX], key[PT_KEY_MAX + 1];
	bool incomplete = false;

	*ret_more = false;
	if (rc == 0) {
		rc = pt_shard_writer_end(w);
		incomplete = rc < 0;
	}
	if (rc < 0 && !pt_shard_writer_is_tensors(w)) {
		pt_fail_clear();
		return pt_container_error_is_content(rc) || incomplete ? 0 : rc;
	}
	if (rc < 0 && incomplete && !last) {
		*ret_more = true;
		return rc;
	}
	if (rc == 0)
		rc = pt_shard_writer_publish(w);
	snprintf(sentence, sizeof(sentence), "%s", pt_fail_sentence());
	if (rc < 0 && pt_node_key(fs->repo, n->parent, key) < 0)
		key[0] = '\0';
	name_drop(fs, f, n);
	if (rc < 0)                     /* the whole name: what is told has none any more */
		return pt_fail(-rc, "%s%s%s/%s: %s", key, key[0] ? "/" : "", dir, name, sentence);
	atomic_fetch_add(&fs->counters.published, 1);
	return 1;
}

static int take(struct pt_fs *fs, struct pt_fs_file *f, const struct pt_node *n, const char *dir, const char *name, bool last)
{
	struct pt_shard_writer *w;
	bool more;
	int rc;

	rc = writer_make(fs, f, n, dir, name, &w);
	if (rc < 0)
		return rc;
	rc = publish(fs, f, n, w, feed_all(fs, f, w), dir, name, last, &more);
	pt_shard_writer_free(w);
	return rc;
}

/* ---- state dicts that are stored while they come ---- */

void pt_fs_shards_drop_locked(struct pt_fs_file *f)
{
	pt_shard_writer_free(f->shards);
	f->shards = NULL;
	free(f->shards_dir);
	f->shards_dir = NULL;
}

int pt_fs_shards_spill_locked(struct pt_fs_file *f, int fd)
{
	const struct pt_buf *head = pt_shard_writer_head(f->shards);
	int rc;

	if (!head) {
		rc = pt_shard_writer_feed(f->shards, NULL, 0);
		if (rc < 0)             /* what it has failed for stays the reason */
			return rc;
		return pt_fail(EINVAL, "a rank's state dict is stored tensor by tensor while it is written, so it can neither be read before it is closed nor written "
				       "elsewhere than at its end: write it under a name that begins with a dot, and rename that");
	}
	rc = pt_io_pwrite(fd, head->data, head->len, 0);
	return rc < 0 ? pt_fail(-rc, "cannot write a spool file: %s", strerror(-rc)) : 0;
}

/* 1: begun, 0: not for a file like this. */
static int begin(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_file *f = inode->file;
	char dir[PT_TREE_DIR_MAX];
	const char *name;
	struct pt_node n;
	int rc;

	rc = pt_node_get(fs->repo, inode->node, &n);
	if (rc < 0) {
		pt_fail_clear();
		return rc == -ENOENT ? 0 : rc;
	}
	rc = 0;
	if (pt_tree_component_split(n.name, dir, &name) && !temporary(name)) {
		f->shards_dir = pt_strdup(dir);
		rc = f->shards_dir ? writer_make(fs, f, &n, dir, name, &f->shards) : pt_fail_nomem();
		f->shards_parent = n.parent;
		if (rc < 0)
			pt_fs_shards_drop_locked(f);
	}
	pt_node_done(&n);
	return rc < 0 ? rc : f->shards != NULL;
}

int pt_fs_shards_write_locked(struct pt_fs *fs, struct pt_fs_inode *inode, const void *buf, uint64_t len, uint64_t off)
{
	struct pt_fs_file *f = inode->file;
	bool empty = f->fresh || (f->size == 0 && f->spool < 0 && pt_id_is_zero(&f->blob.id));
	uint64_t fed;
	int rc;

	if (f->gone || f->upload || f->spool >= 0 || f->stream || !len)
		return 0;
	if (!f->shards) {
		if (!empty || off != 0 || f->read_back || !pt_fs_looks_like_tensors(buf, len))
			return 0;
		rc = begin(fs, inode);
		if (rc <= 0)
			return rc;
	}
	fed = pt_shard_writer_fed(f->shards);
	if (off < fed)
		return 0;
	rc = off > fed ? pt_shard_writer_feed(f->shards, NULL, off - fed) : 0;
	if (rc == 0)
		rc = pt_shard_writer_feed(f->shards, buf, len);
	f->fresh = false;
	f->dirty = true;
	if (rc < 0 && !(pt_container_error_is_content(rc) && pt_shard_writer_head(f->shards)))
		return rc;
	f->mtime_ns = pt_time_now_ns();
	if (rc < 0) {                   /* no such file after all; the head may lack what was written here */
		pt_fail_clear();
		rc = pt_fs_file_spool_locked(fs, f, false);
		if (rc == 0)
			rc = pt_io_pwrite(f->spool, buf, len, off);
		if (rc < 0)
			return rc;
	}
	if (off + len > f->size)
		f->size = off + len;
	return 1;
}

/* As pt_fs_shards_take_locked. */
static int take_streamed(struct pt_fs *fs, struct pt_fs_file *f, const struct pt_node *n, const char *dir, const char *name, bool last)
{
	uint64_t fed = pt_shard_writer_fed(f->shards);
	bool more = false, head = pt_shard_writer_head(f->shards);
	int rc = 0;

	if (n->parent != f->shards_parent || strcmp(dir, f->shards_dir) != 0 || temporary(name)) {
		if (head)
			return pt_fs_file_spool_locked(fs, f, false);
		rc = pt_fail(EINVAL, "%s was moved while it was written as a rank's state dict: write it again, and move it when it is closed", name);
		name_drop(fs, f, n);
		pt_fs_shards_drop_locked(f);
		return rc;
	}
	rc = pt_shard_writer_rename(f->shards, name);
	if (rc == 0)                    /* a hole at the end; or what a write has failed for */
		rc = pt_shard_writer_feed(f->shards, NULL, f->size > fed ? f->size - fed : 0);
	rc = publish(fs, f, n, f->shards, rc, dir, name, last, &more);
	if (more)
		return rc;
	if (rc == 0)                    /* an ordinary file */
		return pt_fs_file_spool_locked(fs, f, false);
	pt_fs_shards_drop_locked(f);
	return rc;
}

int pt_fs_shards_take_locked(struct pt_fs *fs, struct pt_fs_inode *inode, bool last)
{
	struct pt_fs_file *f = inode->file;
	char dir[PT_TREE_DIR_MAX];
	const char *name;
	struct pt_node n;
	bool inside;
	int rc;

	rc = pt_node_get(fs->repo, inode->node, &n);
	if (rc < 0) {
		pt_fail_clear();
		if (rc == -ENOENT && f->shards) {       /* unlinked while open */
			pt_fs_shards_drop_locked(f);
			f->gone = true;
			f->dirty = false;
		}
		return rc == -ENOENT ? 0 : rc;
	}
	rc = 0;
	inside = pt_tree_component_split(n.name, dir, &name);
	if (f->shards) {
		rc = take_streamed(fs, f, &n, dir, name, last);
	} else if (inside && !temporary(name) && f->size > 0) {
		if (f->stream || f->fresh)
			rc = pt_fs_file_spool_locked(fs, f, false);
		if (rc == 0)
			rc = take(fs, f, &n, dir, name, last);
	}
	pt_node_done(&n);
	return rc;
}

int pt_fs_shards_renamed(struct pt_fs *fs, const struct pt_fs_inode *dir, const char *component, const char *name)
{
	struct pt_fs_inode *i = NULL;
	bool lost = false;
	struct pt_node n;
	int rc;

	rc = pt_node_lookup(fs->repo, dir->node, component, &n);
	if (rc < 0)
		return 0;
	if (n.kind != PT_NODE_FILE && n.kind != PT_NODE_CONTAINER) {
		pt_node_done(&n);
		return 0;
	}
	rc = pt_fs_node_inode(fs, &n, &i);
	pt_node_done(&n);
	if (rc == 0)
		rc = pt_fs_file_attach(fs, i);
	if (rc == 0) {
		pthread_mutex_lock(&i->lock);
		/* Still being written: it is looked at when it is closed. */
		if (!i->file->dirty) {
			rc = pt_fs_file_reload_locked(fs, i);
			if (rc == 0)
				rc = pt_fs_shards_take_locked(fs, i, true);
			lost = i->file->gone;
			pt_fs_file_idle_locked(fs, i->file);
		}
		pt_fs_file_unlock(i);
	}
	pt_fs_inode_unref(fs, i);
	if (rc >= 0 || lost)
		return rc < 0 ? rc : 0;
	/* The file has its new name and all its bytes: the rename holds, and why it became no tensors is told. */
	pt_fs_errors_add(fs, rc, dir, name, "rename");
	return 0;
}
