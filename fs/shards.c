/* fs/shards.c - state dicts that ranks write: tensor files inside axis directories. Their tensors become parts of sets; the file's own name goes, and the directory
 * shows all of it once the last rank has closed (tree/shard_write.h). Names that begin with a dot, or end as those of temporary files do
 * are temporary: they are looked at when they get another. */
#include "fs.h"
#include "file_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
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

static int take(struct pt_fs *fs, struct pt_fs_file *f, const struct pt_node *n, const char *dir, const char *name, bool last)
{
	struct pt_upload_options attrs = { .mode = f->mode ? f->mode : 0644, .uid = f->uid, .gid = f->gid, .mtime_ns = f->mtime_ns };
	char sentence[PT_FAIL_SENTENCE_MAX];
	struct pt_shard_writer *w;
	struct pt_request base;
	bool incomplete = false;
	int rc;

	rc = pt_tree_dir_parse(dir, &base);
	if (rc < 0)
		return rc;
	if (base.split == PT_SPLIT_UNSET)
		base.split = fs->options->split;
	rc = pt_shard_writer_create(fs->models, fs->repo, n->parent, &base, name, &attrs, &w);
	if (rc < 0)
		return rc;
	rc = feed_all(fs, f, w);
	if (rc == 0) {
		rc = pt_shard_writer_end(w);
		incomplete = rc < 0;
	}
	if (rc < 0 && !pt_shard_writer_is_tensors(w)) {
		pt_shard_writer_free(w);
		pt_fail_clear();
		return pt_container_error_is_content(rc) || incomplete ? 0 : rc;
	}
	if (rc == 0)
		rc = pt_shard_writer_publish(w);
	snprintf(sentence, sizeof(sentence), "%s", pt_fail_sentence());
	pt_shard_writer_free(w);
	if (rc < 0 && incomplete && !last)
		return pt_fail(-rc, "%s", sentence);            /* more may come */
	name_drop(fs, f, n);
	if (rc < 0)
		return pt_fail(-rc, "%s/%s: %s", dir, name, sentence);
	atomic_fetch_add(&fs->counters.published, 1);
	return 1;
}

int pt_fs_shards_take_locked(struct pt_fs *fs, struct pt_fs_inode *inode, bool last)
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
	if (pt_tree_component_split(n.name, dir, &name) && !temporary(name) && f->size > 0) {
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
