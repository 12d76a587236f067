/* fs/stored.c - containers that the store has as they read: the kernel reads and maps the store's own file by passthrough, without a copy (docs/PERFORMANCE.md
 * "Which way a view is served").
 *
 * Before that all of the file is looked through, by the threads and in the pieces in which other files are read into memory (cache/); an open waits for it as long, and reads until
 * then are answered as always, verified chunk by chunk. That a file was found right is known of its chunks (manifest/checked.h), as long as the file is unchanged; no
 * descriptor is kept: the kernel has one of its own while a file is open or mapped. Nothing is lent by stores that are no directory here. */
#include "config.h"

#include "fs.h"
#include "cached_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

#define KEY_LOOK ((uint64_t)1 << 63)    /* in the key's first word: looking through, not memory */

bool pt_fs_stored_is(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_blob_ref blob;

	return i->kind == PT_FS_SEALED && fs->options->serve != PT_SERVE_STREAM && atomic_load(&fs->passthrough) && !atomic_load(&fs->stored_refused) &&
	       fs->store->data.ops->fd_get && pt_fs_sealed_stored(i, &blob);
}

/* ---- the store's file ---- */

void pt_fs_stored_put(struct pt_fs *fs, struct pt_fs_lent *lent)
{
	pt_data_fd_put(&fs->store->data, lent->held);
	lent->held = NULL;
}

/* -ESTALE: it is not what it should be, or cannot be had; who reads it is told why. */
static int lend(struct pt_fs *fs, struct pt_fs_inode *i, struct pt_fs_lent *ret_lent)
{
	struct pt_fs_lent lent = { .fd = -1 };
	struct pt_blob_ref blob;
	int rc;

	if (!pt_fs_stored_is(fs, i) || !pt_fs_sealed_stored(i, &blob))
		return -ESTALE;
	rc = pt_data_fd_get(&fs->store->data, &blob, &lent.fd, &lent.held);
	if (rc == 0)
		rc = pt_file_state_get(lent.fd, &lent.state);
	if (rc == 0 && lent.state.size != pt_fs_reader_size(i))
		rc = -ESTALE;           /* the kernel would read what is there */
	if (rc < 0) {
		pt_fs_stored_put(fs, &lent);
		pt_fail_clear();
		return -ESTALE;
	}
	*ret_lent = lent;
	return 0;
}

bool pt_fs_stored_found(struct pt_fs *fs, const struct pt_fs_inode *i)
{
	return !atomic_load(&fs->stored_refused) && pt_fs_sealed_is_found(i);
}

/* The file is one that was found right, and is as it was then; who looks it up is told. */
static bool is_right(struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_file_state *state)
{
	bool right = fs->options->verify == PT_VERIFY_OFF || pt_fs_sealed_whole(i, state);

	pt_fs_sealed_found(i, right);
	return right;
}

int pt_fs_stored_get(struct pt_fs *fs, struct pt_fs_inode *i, struct pt_fs_lent *ret_lent)
{
	struct pt_fs_lent lent;
	int rc = lend(fs, i, &lent);

	if (rc < 0)
		return rc;
	if (!is_right(fs, i, &lent.state)) {
		pt_fs_stored_put(fs, &lent);
		return -ESTALE;
	}
	*ret_lent = lent;
	return 0;
}

int pt_fs_stored_state(struct pt_fs *fs, struct pt_fs_inode *i, struct pt_file_state *ret_state)
{
	struct pt_fs_lent lent;
	int rc = lend(fs, i, &lent);

	if (rc < 0)
		return rc;
	*ret_state = lent.state;
	pt_fs_stored_put(fs, &lent);
	return 0;
}

void pt_fs_stored_refuse(struct pt_fs *fs)
{
	if (!atomic_exchange(&fs->stored_refused, true))
		pt_log(PT_LOG_WARN, "the kernel does not pass reads through to files of the store's filesystem: large files are copied into memory for that, or read by ptiofs");
}

/* Asked once, before anybody is sent to look again for nothing. */
static bool kernel_takes(fuse_req_t req, struct pt_fs *fs, int fd)
{
#ifdef HAVE_FUSE_PASSTHROUGH
	int id;

	if (atomic_load(&fs->stored_taken))
		return true;
	id = fuse_passthrough_open(req, fd);
	if (id > 0) {
		fuse_passthrough_close(req, id);
		atomic_store(&fs->stored_taken, true);
		return true;
	}
	pt_fs_stored_refuse(fs);
#else
	(void)req;
	(void)fs;
	(void)fd;
#endif
	return false;
}

/* ---- looking through ---- */

struct looking {
	struct pt_fs *fs;
	struct pt_fs_inode *inode;      /* a reference and a pin */
	struct pt_fs_lent lent;         /* as it was before */
};

static int looking_check(void *ctx, uint64_t len, uint64_t off)
{
	struct looking *l = ctx;

	return pt_fs_sealed_check(l->inode, len, off);
}

static int looking_finish(void *ctx)
{
	struct looking *l = ctx;
	struct pt_file_state after;

	if (pt_file_state_get(l->lent.fd, &after) < 0 || !pt_file_state_same(&after, &l->lent.state))
		return -EAGAIN;
	return is_right(l->fs, l->inode, &after) ? 0 : -EAGAIN;
}

static void looking_release(void *ctx)
{
	struct looking *l = ctx;

	pt_fs_stored_put(l->fs, &l->lent);
	pt_fs_reader_unpin(l->fs, l->inode);
	pt_fs_inode_unref(l->fs, l->inode);
	free(l);
}

/* Takes over what is lent. NULL: no memory. */
static struct pt_vcache_file *look(struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key, const struct pt_fs_lent *lent)
{
	struct pt_vcache_source source = { .check = looking_check, .finish = looking_finish, .release = looking_release };
	struct pt_vcache_key look_key = *key;
	struct pt_vcache_file *file = NULL;
	struct looking *l;
	int rc;

	l = pt_malloc(sizeof(*l));
	if (!l || pt_fs_reader_pin(fs, i) < 0) {
		struct pt_fs_lent mine = *lent;

		pt_fs_stored_put(fs, &mine);
		free(l);
		pt_fail_clear();
		return NULL;
	}
	*l = (struct looking){ .fs = fs, .inode = pt_fs_inode_ref(fs, i), .lent = *lent };
	source.ctx = l;
	look_key.word[0] |= KEY_LOOK;
	look_key.word[3] = pt_hash64(&lent->state, sizeof(lent->state));        /* what is found of a file before it was changed is another thing */
	rc = pt_vcache_fill(fs->cache, &look_key, pt_fs_reader_size(i), 0, PT_VCACHE_TRY, &source, &file);
	if (rc != 0)
		looking_release(l);
	pt_fail_clear();
	return rc < 0 ? NULL : file;
}

bool pt_fs_stored_open(fuse_req_t req, struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key, struct pt_vcache_file **ret_looking)
{
	struct pt_vcache_file *file;
	struct pt_fs_lent lent;

	if (lend(fs, i, &lent) < 0)
		return false;
	if (!kernel_takes(req, fs, lent.fd)) {
		pt_fs_stored_put(fs, &lent);
		return false;
	}
	if (is_right(fs, i, &lent.state)) {
		pt_fs_stored_put(fs, &lent);
		return true;
	}
	file = look(fs, i, key, &lent);
	if (file && pt_fs_fill_wait(req, fs, file, i)) {
		pt_vcache_put(fs->cache, file);
		return true;
	}
	*ret_looking = file;
	return false;
}
