/* fs/attr.c - attributes of every kind of inode, and of the filesystem. */
#include "fs.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "transport.h"

#define VIEW_ATTR_TIMEOUT 3600.0
#define UPDATE_TRIES 20

int64_t pt_fs_setattr_mtime(const struct stat *attr, int to_set, int64_t old)
{
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		return pt_time_now_ns();
	if (to_set & FUSE_SET_ATTR_MTIME)
		return pt_fs_time_ns(attr->st_mtim);
	return old;
}

static void node_stat(const struct pt_node *n, struct stat *st)
{
	st->st_mode = (n->kind == PT_NODE_DIR ? S_IFDIR : n->kind == PT_NODE_SYMLINK ? S_IFLNK : S_IFREG) | n->mode;
	st->st_uid = n->uid;
	st->st_gid = n->gid;
	st->st_size = n->kind == PT_NODE_DIR ? 0 : (off_t)n->size;
	st->st_mtim = pt_fs_time(n->mtime_ns);
	st->st_ctim = pt_fs_time(n->ctime_ns);
}

static int node_attr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct pt_node *known, struct stat *st)
{
	struct pt_node n;
	int rc;

	if (known && known->id == inode->node) {
		node_stat(known, st);
		return 0;
	}
	rc = pt_node_get(fs->repo, inode->node, &n);
	if (rc < 0)
		return rc == -ENOENT ? -ESTALE : rc;
	node_stat(&n, st);
	pt_node_done(&n);
	return 0;
}

/* All paths lead through the root, those to .ptio too: while a daemon cannot be reached it is as it last was, so that what is wrong can be read. A local store has no such
 * excuse. */
static int root_attr(struct pt_fs *fs, const struct pt_node *known, struct stat *st)
{
	struct pt_fs_inode *root = fs->root;
	bool have;
	int rc = -EIO;

	pthread_mutex_lock(&root->lock);
	have = fs->root_known;
	pthread_mutex_unlock(&root->lock);
	if (!have || !pt_fs_transport_is_down(fs))
		rc = node_attr(fs, root, known, st);
	pthread_mutex_lock(&root->lock);
	if (rc == 0) {
		fs->root_st = *st;
		fs->root_known = true;
	} else if (rc == -EIO && fs->root_known && pt_fs_transport_is_remote(fs)) {
		*st = fs->root_st;
		pt_fail_clear();
		rc = 0;
	}
	pthread_mutex_unlock(&root->lock);
	return rc;
}

static void view_attr(struct pt_fs_inode *inode, struct stat *st)
{
	const struct pt_fs_view *v = &inode->view;

	pthread_mutex_lock(&inode->lock);
	st->st_mode = S_IFREG | v->mode;
	st->st_uid = v->uid;
	st->st_gid = v->gid;
	st->st_size = (off_t)v->size;
	/* Never 0 when the size is not, or tar -S would archive zeros without reading. */
	st->st_blocks = (blkcnt_t)((v->stored + 511) / 512);
	if (v->size && !st->st_blocks)
		st->st_blocks = 1;
	st->st_mtim = pt_fs_time(v->mtime_ns);
	pthread_mutex_unlock(&inode->lock);
}

int pt_fs_attr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct pt_node *known, struct stat *ret_st, double *ret_timeout)
{
	struct pt_buf text = PT_BUF_INIT;
	struct stat st;
	double timeout = 0;
	int rc = 0;

	inode = pt_fs_origin(inode);
	memset(&st, 0, sizeof(st));
	st.st_ino = pt_fs_ino(inode->node, inode->dir, inode->name);
	st.st_nlink = 1;
	st.st_blksize = 65536;
	switch (inode->kind) {
	case PT_FS_DIR:
	case PT_FS_SYMLINK:
		rc = inode == fs->root ? root_attr(fs, known, &st) : node_attr(fs, inode, known, &st);
		timeout = inode->kind == PT_FS_DIR ? fs->entry_timeout : 0;
		break;
	case PT_FS_AXIS:
		rc = node_attr(fs, inode, known, &st);
		timeout = pt_fs_alias_is(inode->dir) || !fs->keeps_views ? 0 : fs->entry_timeout;
		break;
	case PT_FS_VIEW:
		view_attr(inode, &st);
		timeout = inode->stamp == PT_FS_STAMP_NONE ? 0 : fs->keeps_views && inode->view.keeps ? fs->entry_timeout : VIEW_ATTR_TIMEOUT;
		break;
	case PT_FS_WRITER:
		pt_fs_writer_stat(inode, &st);
		break;
	case PT_FS_FILE:
		rc = pt_fs_file_stat(fs, inode, &st);
		break;
	case PT_FS_SEALED:
		pt_fs_sealed_stat(inode, &st);
		break;
	case PT_FS_WHOLE:               /* its origin */
		break;
	case PT_FS_MANY:
		pt_fs_many_stat(inode, &st);
		timeout = inode->stamp == PT_FS_STAMP_NONE ? 0 : VIEW_ATTR_TIMEOUT;
		break;
	case PT_FS_CONTROL_DIR:
		st.st_mode = S_IFDIR | 0555;
		st.st_mtim = pt_fs_time(fs->started_ns);
		break;
	case PT_FS_CONTROL:
		st.st_mode = S_IFREG | 0444;
		st.st_mtim = pt_fs_time(pt_time_now_ns());
		break;
	case PT_FS_INFO:
		rc = node_attr(fs, inode, known, &st);
		st.st_mode = S_IFREG | 0444;
		if (rc == 0)
			rc = pt_fs_info_text(fs, inode, &text);
		st.st_size = (off_t)text.len;
		pt_buf_done(&text);
		break;
	}
	if (rc < 0)
		return rc;
	if (!st.st_blocks && S_ISREG(st.st_mode))
		st.st_blocks = (st.st_size + 511) / 512;
	if (!st.st_ctim.tv_sec)
		st.st_ctim = st.st_mtim;
	st.st_atim = st.st_mtim;
	if (fs->options->set_uid)
		st.st_uid = fs->options->uid;
	if (fs->options->set_gid)
		st.st_gid = fs->options->gid;
	st.st_mode &= ~fs->options->umask;
	*ret_st = st;
	*ret_timeout = timeout;
	return 0;
}

/* The answer where a directory has been removed under a walk, or by somebody else than who has it open: opendir(3) asks for attributes. A walk that was begun anew and meets that
 * once more has found that there was nothing: ESTALE again would be the program's. */
static int removed(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid, struct stat *ret_st, double *ret_timeout)
{
	if (inode->kind == PT_FS_FILE)
		pt_fs_intent_retry(fs, tid);    /* another one was renamed over it: what is found now is held */
	if (inode->kind != PT_FS_DIR && inode->kind != PT_FS_AXIS)
		return -ESTALE;
	if (pt_fs_caller_has_open(tid)) {
		pt_fail_clear();
		*ret_st = (struct stat){ .st_ino = pt_fs_ino(inode->node, inode->dir, inode->name), .st_mode = S_IFDIR | 0700, .st_blksize = 65536 };
		*ret_timeout = 0;
		return 0;
	}
	if (pt_fs_intent_walks(fs, tid, inode) == 1) {
		pt_fail_clear();
		return -ENOENT;
	}
	pt_fs_where_sent_back(fs, tid);
	return -ESTALE;
}

void pt_fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	bool told;
	double timeout;
	struct stat st;
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_GETATTR], 1);
	pt_fs_told(fs, i);
	rc = pt_fs_where_check_attr(fs, i, fi != NULL, fuse_req_ctx(req)->pid, &told);
	if (rc == 0)
		rc = pt_fs_attr(fs, i, NULL, &st, &timeout);
	if (rc == -ESTALE)
		rc = removed(fs, i, fuse_req_ctx(req)->pid, &st, &timeout);
	if (rc < 0)
		pt_fs_fail(req, rc, i, NULL, "getattr");
	else
		fuse_reply_attr(req, &st, told ? timeout : 0);
}

static int node_setattr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set)
{
	struct pt_node n;
	int rc, try;

	for (try = 0;; try++) {
		rc = pt_node_get(fs->repo, inode->node, &n);
		if (rc < 0)
			return rc == -ENOENT ? -ESTALE : rc;
		if (to_set & FUSE_SET_ATTR_MODE)
			n.mode = attr->st_mode & 07777;
		if (to_set & FUSE_SET_ATTR_UID)
			n.uid = attr->st_uid;
		if (to_set & FUSE_SET_ATTR_GID)
			n.gid = attr->st_gid;
		n.mtime_ns = pt_fs_setattr_mtime(attr, to_set, n.mtime_ns);
		rc = pt_node_update(fs->repo, &n);
		pt_node_done(&n);
		if (rc != -EAGAIN || try == UPDATE_TRIES)
			return rc;
	}
}

static int view_setattr(struct pt_fs *fs, struct pt_fs_inode *i, const struct stat *attr, int to_set, pid_t tid)
{
	int rc;

	if (to_set & FUSE_SET_ATTR_SIZE && (uint64_t)attr->st_size != i->view.size) {
		rc = pt_fs_intent_write(fs, tid, i->node, i->dir, i->name);
		return rc < 0 ? rc : -ESTALE;
	}
	if (to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW))
		return pt_fs_view_setattr(fs, i, attr, to_set);
	return 0;
}

static int setattr_size(struct pt_fs *fs, struct pt_fs_inode *i, uint64_t size)
{
	if (i->kind == PT_FS_WRITER)
		return pt_fs_writer_truncate(fs, i, size);
	if (i->kind == PT_FS_FILE)
		return pt_fs_file_truncate(fs, i, size);
	return pt_fail(EACCES, "this file is made by ptio and read only");
}

void pt_fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_origin(pt_fs_inode(fs, ino));
	double timeout;
	struct stat st;
	int rc;

	(void)fi;
	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_SETATTR], 1);
	rc = pt_fs_where_check_itself(fs, i, fuse_req_ctx(req)->pid);
	if (rc == 0 && to_set & FUSE_SET_ATTR_SIZE && i->kind != PT_FS_VIEW && i->kind != PT_FS_SEALED)
		rc = setattr_size(fs, i, (uint64_t)attr->st_size);
	if (rc == 0) {
		switch (i->kind) {
		case PT_FS_VIEW:
			rc = view_setattr(fs, i, attr, to_set, fuse_req_ctx(req)->pid);
			break;
		case PT_FS_WRITER:
			rc = pt_fs_writer_setattr(fs, i, attr, to_set);
			break;
		case PT_FS_SEALED:
			rc = pt_fs_sealed_setattr(fs, i, attr, to_set, fuse_req_ctx(req)->pid);
			break;
		case PT_FS_FILE:
			if (to_set & FUSE_SET_ATTR_SIZE)
				pt_fs_intent_plain_end(fs, fuse_req_ctx(req)->pid, i->node);
			if (to_set & ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_CTIME))
				rc = pt_fs_file_setattr(fs, i, attr, to_set);
			break;
		case PT_FS_DIR:
		case PT_FS_SYMLINK:
			rc = node_setattr(fs, i, attr, to_set);
			break;
		case PT_FS_AXIS:        /* no attributes of its own; cp -a and tar set them */
			break;
		default:
			rc = pt_fail(EACCES, "this file is made by ptio and read only");
		}
	}
	if (rc == 0)
		rc = pt_fs_attr(fs, i, NULL, &st, &timeout);
	if (rc < 0)
		pt_fs_fail(req, rc, i, NULL, "setattr");
	else
		fuse_reply_attr(req, &st, 0);   /* older kernels believe it even where they were told to forget the attributes after they had asked */
}

void pt_fs_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_data_space s = { 0 };
	struct statvfs v = { .f_bsize = 4096, .f_frsize = 4096, .f_namemax = PT_NAME_MAX };
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_STATFS], 1);
	rc = pt_data_space(&fs->store->data, &s);
	if (rc < 0) {
		pt_fs_fail(req, rc, pt_fs_inode(fs, ino), NULL, "statfs");
		return;
	}
	v.f_blocks = s.total_bytes / 4096;
	v.f_bfree = v.f_bavail = s.free_bytes / 4096;
	v.f_files = s.total_files;
	v.f_ffree = v.f_favail = s.free_files;
	fuse_reply_statfs(req, &v);
}
