/* fs/sealed.c - containers under their own name, for readers: one inode a sealed state of the file, served as views are (cached.c).
 *
 * An ordinary file has one node, and what is written to it is seen by all who have it open, so that node's pages must go through the kernel's cache. A container that
 * nobody is changing gets a second node instead, one for each state: its bytes never change, so it can be streamed, kept in memory and passed through, and a map of it
 * outlives the file's being written again. Attributes and extended attributes are the file's own (`origin`). Who opens it for writing gets ESTALE, and the look-up
 * that follows finds the ordinary node; as long as that is open for writing, or has changes that are not sealed yet, so does everybody. */
#include "fs.h"
#include "file_int.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

struct pt_fs_sealed {
	struct pt_blob_ref blob;        /* blob and size never change */
	uint64_t size;
	uint32_t mode, uid, gid;        /* the rest: the inode's lock */
	int64_t mtime_ns;
	uint32_t pins;
	struct pt_container *container; /* while pins > 0 */
	uint32_t held;                  /* objects of the container, for its release */
	atomic_bool found;              /* right, when last looked at (stored.c) */
};

static void attributes_locked(struct pt_fs_sealed *s, const struct pt_node *n)
{
	s->mode = n->mode;
	s->uid = n->uid;
	s->gid = n->gid;
	s->mtime_ns = n->mtime_ns;
}

/* Nobody is changing the file, nor has it open to do so. */
static bool at_rest(struct pt_fs_inode *file)
{
	const struct pt_fs_file *f;
	bool rest;

	if (!pt_fs_file_lock_unless_sealed(file))
		return false;
	f = file->file;
	rest = !f || (!f->writers && !f->dirty && !f->fresh && !f->gone && !f->stream && !f->shards && !f->upload);
	pthread_mutex_unlock(&file->lock);
	return rest;
}

struct pt_fs_inode *pt_fs_sealed_prefer(struct pt_fs *fs, struct pt_fs_inode *file, const struct pt_node *node, pid_t tid)
{
	struct pt_fs_inode *i;
	uint64_t stamp;

	if (!fs->direct_mmap || node->kind != PT_NODE_CONTAINER || !node->size || node->size < fs->options->cache_min)
		return file;
	if (pt_fs_intent_plain(fs, tid, node->id) || !at_rest(file))
		return file;
	stamp = pt_hash64(node->blob.id.b, sizeof(node->blob.id.b));
	if (stamp <= PT_FS_STAMP_NONE)
		stamp += 2;
	if (pt_fs_inode_get(fs, PT_FS_SEALED, node->id, "", "", stamp, &i) < 0) {
		pt_fail_clear();
		return file;
	}
	pthread_mutex_lock(&i->lock);
	if (!i->sealed) {
		i->sealed = pt_calloc(1, sizeof(*i->sealed));
		if (i->sealed) {
			i->sealed->blob = node->blob;
			i->sealed->size = node->size;
			i->origin = pt_fs_inode_ref(fs, file);
		}
	}
	if (i->sealed)
		attributes_locked(i->sealed, node);
	pthread_mutex_unlock(&i->lock);
	if (!i->sealed) {
		pt_fs_inode_unref(fs, i);
		return file;
	}
	pt_fs_inode_unref(fs, file);
	return i;
}

static void let_go(struct pt_fs *fs, struct pt_fs_sealed *s)
{
	struct pt_node n = { .kind = PT_NODE_CONTAINER, .blob = s->blob };

	pt_container_release(s->container, s->held);
	pt_container_unref(s->container);
	s->container = NULL;
	pt_node_unpin(fs->repo, &n);
}

void pt_fs_sealed_done(struct pt_fs *fs, struct pt_fs_inode *i)
{
	if (!i->sealed)
		return;
	if (i->sealed->pins)
		let_go(fs, i->sealed);
	free(i->sealed);
	i->sealed = NULL;
}

uint64_t pt_fs_sealed_size(const struct pt_fs_inode *i)
{
	return i->sealed->size;
}

enum pt_format pt_fs_sealed_format(const struct pt_fs_inode *i)
{
	return i->sealed->container->format;
}

/* -ESTALE: the file has been written again, or removed. */
static int load_locked(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_sealed *s = i->sealed;
	struct pt_node n;
	int rc;

	rc = pt_node_get(fs->repo, i->node, &n);
	if (rc < 0)
		return rc == -ENOENT ? -ESTALE : rc;
	if (n.kind != PT_NODE_CONTAINER || pt_id_compare(&n.blob.id, &s->blob.id)) {
		pt_node_done(&n);
		return -ESTALE;
	}
	attributes_locked(s, &n);
	rc = pt_node_pin(fs->repo, &n);
	if (rc == 0) {
		rc = pt_models_container(fs->models, &n, &s->container);
		if (rc < 0)
			pt_node_unpin(fs->repo, &n);
	}
	pt_node_done(&n);
	if (rc == 0)
		s->held = pt_container_hold(s->container);
	if (rc == -ENOENT || rc == -ESTALE) {
		pt_fail_clear();
		rc = -ESTALE;
	}
	return rc;
}

int pt_fs_sealed_pin(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_blob_ref blob;
	int rc = 0;

	pthread_mutex_lock(&i->lock);
	if (i->sealed->pins == 0)
		rc = load_locked(fs, i);
	if (rc == 0 && pt_fs_sealed_stored(i, &blob))
		pt_container_renew(i->sealed->container);
	if (rc == 0)
		i->sealed->pins++;
	pthread_mutex_unlock(&i->lock);
	return rc;
}

void pt_fs_sealed_unpin(struct pt_fs *fs, struct pt_fs_inode *i)
{
	pthread_mutex_lock(&i->lock);
	if (i->sealed->pins > 0 && --i->sealed->pins == 0)
		let_go(fs, i->sealed);
	pthread_mutex_unlock(&i->lock);
}

int64_t pt_fs_sealed_read(struct pt_fs_inode *i, void *buf, uint64_t len, uint64_t off)
{
	/* The handle's pin keeps the container. */
	return pt_container_read(i->sealed->container, buf, len, off);
}

bool pt_fs_sealed_stored(const struct pt_fs_inode *i, struct pt_blob_ref *ret_blob)
{
	return i->sealed->container->size == i->sealed->size && pt_container_stored(i->sealed->container, ret_blob);
}

int pt_fs_sealed_check(struct pt_fs_inode *i, uint64_t len, uint64_t off)
{
	return pt_container_check(i->sealed->container, off, len);
}

bool pt_fs_sealed_whole(struct pt_fs_inode *i, const struct pt_file_state *state)
{
	return pt_container_whole(i->sealed->container, pt_file_state_stamp(state));
}

void pt_fs_sealed_found(struct pt_fs_inode *i, bool right)
{
	atomic_store(&i->sealed->found, right);
}

bool pt_fs_sealed_is_found(const struct pt_fs_inode *i)
{
	return atomic_load(&i->sealed->found);
}

uint64_t pt_fs_sealed_cut(struct pt_fs_inode *i, uint64_t off, uint64_t max)
{
	return pt_container_cut(i->sealed->container, off, max);
}

void pt_fs_sealed_stat(struct pt_fs_inode *i, struct stat *st)
{
	const struct pt_fs_sealed *s = i->sealed;

	pthread_mutex_lock(&i->lock);
	st->st_size = (off_t)s->size;
	st->st_mode = S_IFREG | s->mode;
	st->st_uid = s->uid;
	st->st_gid = s->gid;
	st->st_mtim = pt_fs_time(s->mtime_ns);
	pthread_mutex_unlock(&i->lock);
}

int pt_fs_sealed_setattr(struct pt_fs *fs, struct pt_fs_inode *i, const struct stat *attr, int to_set, pid_t tid)
{
	struct pt_node n;
	int rc;

	if (to_set & FUSE_SET_ATTR_SIZE && (uint64_t)attr->st_size != i->sealed->size)
		return pt_fs_sealed_write(fs, i, tid);
	to_set &= ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_CTIME);
	rc = to_set ? pt_fs_file_setattr(fs, i->origin, attr, to_set) : 0;
	if (rc == 0 && pt_node_get(fs->repo, i->node, &n) == 0) {
		pthread_mutex_lock(&i->lock);
		attributes_locked(i->sealed, &n);
		pthread_mutex_unlock(&i->lock);
		pt_node_done(&n);
	}
	return rc;
}

int pt_fs_sealed_write(struct pt_fs *fs, const struct pt_fs_inode *i, pid_t tid)
{
	pt_fs_intent_plain_begin(fs, tid, i->node);
	return -ESTALE;
}
