/* fs/open.c - opens and creations, sent to what the inode is, and what is open. */
#include "config.h"

#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

struct pt_fs_handle *pt_fs_handle_create(struct pt_fs *fs, struct pt_fs_inode *inode, bool writes)
{
	struct pt_fs_handle *h = pt_calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->inode = pt_fs_inode_ref(fs, inode);
	h->writes = writes;
	pthread_mutex_init(&h->lock, NULL);
	pthread_mutex_lock(&fs->handles_lock);
	h->next = fs->handles;
	if (h->next)
		h->next->prev = h;
	fs->handles = h;
	pthread_mutex_unlock(&fs->handles_lock);
	return h;
}

void pt_fs_handle_free(struct pt_fs *fs, struct pt_fs_handle *h)
{
	pthread_mutex_lock(&fs->handles_lock);
	*(h->prev ? &h->prev->next : &fs->handles) = h->next;
	if (h->next)
		h->next->prev = h->prev;
	pthread_mutex_unlock(&fs->handles_lock);
	pt_fs_inode_unref(fs, h->inode);
	pt_buf_done(&h->text);
	pt_fs_listing_free(h->listing);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

void pt_fs_handle_close(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h)
{
	struct pt_fs_inode *i = h->inode;

	switch (i->kind) {
	case PT_FS_VIEW:
	case PT_FS_MANY:
	case PT_FS_SEALED:
	case PT_FS_WHOLE:
		pt_fs_cached_release(req, fs, h);
		atomic_fetch_sub(&fs->counters.open_views, 1);
		break;
	case PT_FS_WRITER:
		pt_fs_writer_release(fs, i);
		break;
	case PT_FS_FILE:
		pt_fs_file_release(fs, i, h->writes);
		break;
	default:
		break;
	}
	pt_fs_handle_free(fs, h);
}

void pt_fs_handles_close(struct pt_fs *fs)
{
	while (fs->handles)
		pt_fs_handle_close(NULL, fs, fs->handles);
}

/* Several threads that look a name up at once are answered with one look-up, so another one's may have found the view for a thread that was sent back. It is that
 * thread's, too, if the name still meant it after the thread was sent back. */
static bool found_since(struct pt_fs_inode *i, int64_t since_ns)
{
	bool found;

	pthread_mutex_lock(&i->lock);
	found = i->view.since_ns >= since_ns;
	pthread_mutex_unlock(&i->lock);
	if (found)
		pt_fail_clear();
	return found;
}

/* An entry that the kernel has kept leads to what it led to when it was looked up; and a thread that has been sent back for that once gets what it found then. */
static int reader_check(struct pt_fs *fs, struct pt_fs_inode *i, pid_t tid)
{
	int64_t since_ns = pt_fs_intent_retrying_since(fs, tid);        /* before that is noted anew */
	int rc;

	if (!fs->keeps_views || i->kind != PT_FS_VIEW || pt_fs_intent_held(fs, tid, i))
		return 0;
	rc = pt_fs_where_check(fs, i, NULL, tid);
	if (rc == 0)
		rc = pt_fs_where_check_meaning(fs, i, tid);
	return rc == -ESTALE && found_since(i, since_ns) ? 0 : rc;
}

static int reader_opened(struct pt_fs *fs, pid_t tid, int rc)
{
	if (rc == -ESTALE) {
		atomic_fetch_add(&fs->counters.stale_retries, 1);
		pt_fs_intent_retry(fs, tid);
	}
	if (rc == 0) {
		atomic_fetch_add(&fs->counters.open_views, 1);
		pt_fs_intent_opened(fs, tid);
	}
	return rc;
}

/* Of a store that is away the answer to a pin tells whether anything has changed, which the check wants to know anyway: so that comes first, and the check asks for nothing. */
static int pin_ahead(struct pt_fs *fs, struct pt_fs_inode *i, bool *ret_pinned)
{
	int rc;

	*ret_pinned = false;
	if (!fs->news_away || i->kind != PT_FS_VIEW || i->stamp == PT_FS_STAMP_NONE)
		return 0;
	rc = pt_fs_reader_pin(fs, i);
	*ret_pinned = rc == 0;
	if (rc == 0 || rc == -EIO)
		return rc;
	pt_fail_clear();                /* the check says why not */
	return 0;
}

static int open_checked(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, struct fuse_file_info *fi)
{
	bool pinned;
	int rc = pin_ahead(fs, i, &pinned);

	if (rc == 0)
		rc = reader_check(fs, i, fuse_req_ctx(req)->pid);
	if (rc == 0)
		rc = h->inode->kind == PT_FS_WHOLE ? pt_fs_whole_open(req, fs, h, fi) : pt_fs_cached_open(req, fs, h, i, fi);
	if (pinned)
		pt_fs_reader_unpin(fs, i);
	return rc;
}

static int open_reader(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, struct fuse_file_info *fi)
{
	return reader_opened(fs, fuse_req_ctx(req)->pid, open_checked(req, fs, h, i, fi));
}

/* A view for writing, by an entry that the kernel may have kept. */
static int rewrite_check(struct pt_fs *fs, struct pt_fs_inode *i, pid_t tid)
{
	int rc = fs->keeps_views ? pt_fs_where_check(fs, i, NULL, tid) : 0;

	if (rc == 0 && fs->keeps_views && pt_fs_view_current(fs, i) == -ENOENT) {
		pt_fail_clear();
		rc = -ESTALE;           /* whether it is made then, the thread says */
	}
	return rc;
}

/* The thread looks again, wherever the directory is by then, and finds a fresh writer. */
static int written_anew(struct pt_fs *fs, pid_t tid, uint64_t node, const char *dir, const char *name)
{
	int rc = pt_fs_intent_write(fs, tid, node, dir, name);

	if (rc < 0)
		return rc;
	pt_fs_intent_retry(fs, tid);
	return -ESTALE;
}

static int open_view(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, struct fuse_file_info *fi)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	int acc = fi->flags & O_ACCMODE, rc;
	uint64_t node = i->node;
	const char *dir = i->dir;

	if (acc == O_RDONLY)
		return open_reader(req, fs, h, i, fi);
	rc = rewrite_check(fs, i, ctx->pid);
	if (rc < 0)
		return rc;
	if (!(fi->flags & O_TRUNC) && i->stamp != PT_FS_STAMP_NONE) {
		if (acc == O_RDWR)
			return pt_fail(EACCES, "a revision never changes: open it read only, or write a new one from an empty file (O_TRUNC)");
		if (fi->flags & O_APPEND)
			return pt_fail(EINVAL, "nothing can be appended to a tensor: write a new one from an empty file (O_TRUNC)");
	}
	if (pt_fs_alias_is(i->dir)) {   /* the writer belongs to the key that hides the alias from now on */
		rc = pt_fs_alias_key(fs, i->node, i->dir, &node, &dir);
		if (rc < 0)
			return rc;
	}
	return written_anew(fs, ctx->pid, node, dir, i->name);
}

static int open_writer(struct pt_fs *fs, struct pt_fs_inode *i, const struct fuse_ctx *ctx, struct fuse_file_info *fi)
{
	enum pt_fs_writer_state state = pt_fs_writer_state(i);
	int acc = fi->flags & O_ACCMODE, rc;

	if (acc == O_RDONLY) {
		if (state == PT_FS_WRITER_PUBLISHED && pt_fs_intent_walks(fs, ctx->pid, i) != 1) {
			pt_fs_intent_retry(fs, ctx->pid);
			return -ESTALE;
		}
		return pt_fail(ENODATA, "the file is being written; it can be read when its writer has closed it");
	}
	if (state == PT_FS_WRITER_PUBLISHED || (state == PT_FS_WRITER_BUSY && fi->flags & O_TRUNC))
		return written_anew(fs, ctx->pid, i->node, i->dir, i->name);
	rc = pt_fs_writer_open(fs, i, fi->flags, 0644, ctx->uid, ctx->gid);
	if (rc == 0) {
		pt_fs_intent_end(fs, i->node, i->dir, i->name, i);
		pt_fs_intent_opened(fs, ctx->pid);
	}
	fi->direct_io = acc == O_WRONLY;        /* nothing can map it; bytes come in the order and size they are written */
	return rc;
}

static int open_many(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, struct fuse_file_info *fi)
{
	if ((fi->flags & O_ACCMODE) != O_RDONLY)
		return pt_fs_many_write(fs, i, fuse_req_ctx(req));
	return open_reader(req, fs, h, i, fi);
}

/* Writes of an ordinary file that is not read by the same descriptor go around the kernel's cache, which would hold every byte once more; what others map of it stays coherent
 * where direct io and maps go together. And so do reads while somebody else writes: the kernel would fill what is missing of a page at the file's end with zeros, and where that
 * is overtaken by a write give them as the file's. */
static void open_direct(const struct pt_fs *fs, struct pt_fs_inode *i, struct fuse_file_info *fi)
{
	if (!fs->direct_mmap || ((fi->flags & O_ACCMODE) != O_WRONLY && !pt_fs_file_shared(i, fi->flags)))
		return;
	fi->direct_io = 1;
#ifdef HAVE_FUSE_PASSTHROUGH
	fi->parallel_direct_writes = 1;
#endif
}

/* An ordinary file, which is gone when another one was renamed over it since it was looked up: the thread then gets the one that it finds now. */
static int open_file(struct pt_fs *fs, struct pt_fs_inode *i, pid_t tid, struct fuse_file_info *fi)
{
	bool keep = false;
	int rc = pt_fs_file_open(fs, i, fi->flags, &keep);

	pt_fs_intent_plain_end(fs, tid, i->node);
	fi->keep_cache = keep;
	fi->noflush = (fi->flags & O_ACCMODE) == O_RDONLY;
	if (rc == 0)
		open_direct(fs, i, fi);
	if (rc == -ESTALE) {
		atomic_fetch_add(&fs->counters.stale_retries, 1);
		pt_fs_intent_retry(fs, tid);
	} else if (rc == 0) {
		pt_fs_intent_opened(fs, tid);
	}
	return rc;
}

/* The look-up that follows finds the ordinary node, and holds it for this thread: the file may be replaced before it is opened. */
static int sealed_written(struct pt_fs *fs, const struct pt_fs_inode *i, pid_t tid)
{
	pt_fs_intent_retry(fs, tid);
	return pt_fs_sealed_write(fs, i, tid);
}

static int open_sealed(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, struct fuse_file_info *fi)
{
	if ((fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC)
		return sealed_written(fs, i, fuse_req_ctx(req)->pid);
	return open_reader(req, fs, h, i, fi);
}

static int open_whole(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct fuse_file_info *fi)
{
	struct pt_fs_inode *origin = h->inode->origin;

	if (origin->kind == PT_FS_SEALED && ((fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC))
		return sealed_written(fs, origin, fuse_req_ctx(req)->pid);
	if ((fi->flags & O_ACCMODE) != O_RDONLY)
		return origin->kind == PT_FS_VIEW ? open_view(req, fs, h, origin, fi) : open_many(req, fs, h, origin, fi);
	return open_reader(req, fs, h, origin, fi);
}

static int open_inode(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct fuse_file_info *fi, struct pt_buf *text)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct pt_fs_inode *i = h->inode;
	bool writes = (fi->flags & O_ACCMODE) != O_RDONLY;

	switch (i->kind) {
	case PT_FS_VIEW:
		return open_view(req, fs, h, i, fi);
	case PT_FS_WRITER:
		return open_writer(fs, i, ctx, fi);
	case PT_FS_FILE:
		return open_file(fs, i, ctx->pid, fi);
	case PT_FS_MANY:
		return open_many(req, fs, h, i, fi);
	case PT_FS_SEALED:
		return open_sealed(req, fs, h, i, fi);
	case PT_FS_WHOLE:
		return open_whole(req, fs, h, fi);
	case PT_FS_CONTROL:
	case PT_FS_INFO:
		if (writes)
			return pt_fail(EACCES, "this file is made by ptio and read only");
		fi->direct_io = 1;
		fi->noflush = 1;
		return i->kind == PT_FS_INFO ? pt_fs_info_text(fs, i, text) : pt_fs_control_text(fs, i->name, text);
	default:
		return -EISDIR;
	}
}

void pt_fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	struct pt_buf text = PT_BUF_INIT;
	struct pt_fs_handle *h;
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_OPEN], 1);
	h = pt_fs_handle_create(fs, i, (fi->flags & O_ACCMODE) != O_RDONLY);
	rc = h ? open_inode(req, fs, h, fi, &text) : pt_fail_nomem();
	if (rc < 0) {
		pt_buf_done(&text);
		pt_fs_fail(req, rc, i, NULL, "open");
		if (h)
			pt_fs_handle_free(fs, h);
		return;
	}
	h->text = text;
	fi->fh = (uint64_t)(uintptr_t)h;
	pt_fs_intent_over(fs, fuse_req_ctx(req)->pid);
	if (fuse_reply_open(req, fi) < 0)
		pt_fs_handle_close(req, fs, h);
}

static int create_view(struct pt_fs *fs, struct pt_fs_inode *dir, const char *name, mode_t mode, const struct fuse_ctx *ctx,
		       struct fuse_file_info *fi, struct pt_fs_inode **ret_inode)
{
	struct pt_fs_resolved r;
	struct pt_fs_inode *i;
	int rc;

	if (fi->flags & O_EXCL && pt_fs_view_resolve(fs, dir->node, dir->dir, name, &r) == 0) {
		rc = r.listed ? -EEXIST : 0;
		pt_fs_resolved_done(&r);
		if (rc < 0)
			return rc;
	}
	pt_fail_clear();
	rc = pt_fs_writer_create(fs, dir->node, dir->dir, name, &i);
	if (rc < 0)
		return rc;
	rc = pt_fs_writer_open(fs, i, fi->flags | O_CREAT, mode, ctx->uid, ctx->gid);
	if (rc < 0) {
		pt_fs_inode_unref(fs, i);
		return rc;
	}
	fi->direct_io = (fi->flags & O_ACCMODE) == O_WRONLY;
	pt_fs_intent_end(fs, dir->node, dir->dir, name, i);
	*ret_inode = i;
	return 0;
}

static int create_file(struct pt_fs *fs, struct pt_fs_inode *dir, const char *name, mode_t mode, const struct fuse_ctx *ctx,
		       struct fuse_file_info *fi, struct pt_fs_inode **ret_inode)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = mode & 07777, .uid = ctx->uid, .gid = ctx->gid }, node;
	char component[PT_NAME_MAX + 1];
	bool keep;
	int rc;

	rc = pt_fs_component(dir, name, component);
	if (rc < 0)
		return rc;
	rc = pt_node_create(fs->repo, dir->node, component, &attrs, &node);
	if (rc == -EEXIST && !(fi->flags & O_EXCL)) {
		rc = pt_node_lookup(fs->repo, dir->node, component, &node);
		if (rc == 0 && node.kind != PT_NODE_FILE && node.kind != PT_NODE_CONTAINER) {
			pt_node_done(&node);
			return -EEXIST;
		}
	}
	if (rc < 0)
		return rc;
	rc = pt_fs_node_inode(fs, &node, ret_inode);
	pt_node_done(&node);
	if (rc < 0)
		return rc;
	rc = pt_fs_file_open(fs, *ret_inode, fi->flags, &keep);
	if (rc < 0)
		pt_fs_inode_unref(fs, *ret_inode);
	else
		open_direct(fs, *ret_inode, fi);
	return rc;
}

void pt_fs_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *dir = pt_fs_inode(fs, parent), *i;
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct pt_fs_inode *made = NULL;        /* where it is made: the key that hides an alias from now on, or parent */
	struct fuse_entry_param e;
	struct pt_fs_handle *h;
	struct pt_path_name n;
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_CREATE], 1);
	rc = pt_fs_where_check(fs, dir, NULL, ctx->pid);
	if (rc == 0)
		rc = dir->kind == PT_FS_DIR || dir->kind == PT_FS_AXIS ? pt_path_classify(name, &n) : pt_fail(EACCES, "nothing can be made here");
	if (rc == 0)
		rc = pt_fs_alias_dir(fs, dir, &made);
	if (rc == 0 && n.kind == PT_PATH_VIEW)
		rc = create_view(fs, made, name, mode, ctx, fi, &i);
	else if (rc == 0)
		rc = create_file(fs, made, name, mode, ctx, fi, &i);
	if (rc < 0) {
		if (rc == -EEXIST)
			pt_fail_clear();
		pt_fs_fail(req, rc, dir, name, "create");
		pt_fs_inode_unref(fs, made);
		return;
	}
	h = pt_fs_handle_create(fs, i, (fi->flags & O_ACCMODE) != O_RDONLY);
	rc = h ? pt_fs_entry_fill(fs, i, NULL, &e) : pt_fail_nomem();
	if (rc < 0) {
		pt_fs_fail(req, rc, dir, name, "create");
		if (h)
			pt_fs_handle_close(req, fs, h);
		pt_fs_inode_unref(fs, i);
		pt_fs_inode_unref(fs, made);
		return;
	}
	pt_fs_inode_unref(fs, made);
	pt_fs_intent_opened(fs, ctx->pid);
	fi->fh = (uint64_t)(uintptr_t)h;
	pt_fs_where_entry(dir, name);
	pt_fs_inode_looked_up(fs, i);
	pt_fs_intent_over(fs, ctx->pid);
	if (fuse_reply_create(req, &e, fi) < 0) {
		pt_fs_handle_close(req, fs, h);
		pt_fs_inode_forget(fs, i, 1);
	}
}
