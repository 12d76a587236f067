/* fs/xattr.c - extended attributes: user.ptio.* tell about tensors, others are kept with ordinary nodes. */
#include "fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tree/alias.h"

#define PREFIX "user.ptio."
#define VALUE_MAX 65536u                /* the kernel's limit */
#define TOTAL_MAX (256u << 10)          /* of one node */
#define UPDATE_TRIES 20

static const char *const told[] = { "key", "dtype", "shape", "global_shape", "layout", "revision", "xxh3", "complete", "source", "error" };
#define TOLD (sizeof(told) / sizeof(told[0]))

static bool has_node_xattrs(const struct pt_fs_inode *i)
{
	return i->kind == PT_FS_DIR || i->kind == PT_FS_FILE || i->kind == PT_FS_SYMLINK;
}

static bool tells(const struct pt_fs_inode *i)
{
	return i->kind == PT_FS_DIR || i->kind == PT_FS_AXIS || i->kind == PT_FS_VIEW || i->kind == PT_FS_WRITER || i->kind == PT_FS_FILE;
}

/* What the inode is a view of, or a directory's whole. Referenced; -ENODATA when there is no tensor. */
static int view_of(struct pt_fs *fs, struct pt_fs_inode *i, struct pt_view **ret_view)
{
	char alias[PT_KEY_MAX + 1] = "";
	struct pt_fs_resolved r;
	struct pt_request req;
	const char *axes;
	int rc;

	if ((i->node == PT_NODE_ROOT && !pt_fs_alias_is(i->dir)) || i->kind == PT_FS_FILE)
		return -ENODATA;
	if (i->kind == PT_FS_VIEW) {
		pthread_mutex_lock(&i->lock);
		*ret_view = i->view.file ? pt_view_ref(pt_vfile_view(i->view.file)) : NULL;
		pthread_mutex_unlock(&i->lock);
		if (*ret_view)
			return 0;
		rc = pt_fs_view_resolve(fs, i->node, i->dir, i->name, &r);
		if (rc < 0)
			return rc;
		if (!r.view)
			return r.rc;
		*ret_view = pt_view_ref(r.view);
		pt_fs_resolved_done(&r);
		return 0;
	}
	rc = pt_tree_dir_parse(i->dir, &req);
	if (rc < 0)
		return rc;
	req.target = pt_layout_find(&req.layout, PT_AXIS_TP) ? PT_TARGET_SHARD : PT_TARGET_FULL;
	if (req.split == PT_SPLIT_UNSET)
		req.split = fs->options->split;
	pt_fs_alias_split(i->dir, alias, &axes);
	return pt_tree_view(fs->models, fs->repo, i->node, alias, &req, ret_view);
}

static void hash_text(const struct pt_view_info *info, const struct pt_manifest *m, struct pt_buf *out)
{
	size_t i;

	/* A tensor in a file with others has no hash of its own. */
	if (!info->exact || !m || info->object >= m->object_count || m->objects[info->object].hashed)
		return;
	for (i = 0; i < sizeof(m->objects[0].hash.b); i++)
		pt_buf_printf(out, "%02x", m->objects[info->object].hash.b[i]);
}

static void shape_text(const struct pt_shape *s, struct pt_buf *out)
{
	char text[PT_DIMS_MAX * 21 + 3];

	pt_shape_format(s, text, sizeof(text));
	pt_buf_append_str(out, text);
}

/* A user.ptio. value; -ENODATA when it does not apply. what: without the prefix. */
static int value_told(struct pt_fs *fs, struct pt_fs_inode *i, const char *what, struct pt_buf *out)
{
	char text[PT_FAIL_SENTENCE_MAX + 64];
	const struct pt_view_info *info;
	const struct pt_dtype_info *d;
	struct pt_layout layout = { 0 };
	struct pt_manifest *m;
	struct pt_view *v;
	uint32_t a;
	int rc;

	if (strcmp(what, "error") == 0) {
		if (!pt_fs_errors_last(fs, pt_fs_ino(i->node, i->dir, i->name), text, sizeof(text)))
			return -ENODATA;
		pt_buf_append_str(out, text);
		return 0;
	}
	rc = view_of(fs, i, &v);
	if (rc == -EINVAL && strcmp(what, "key") == 0 && i->node != PT_NODE_ROOT)
		v = NULL;
	else if (rc < 0)
		return rc == -ENOENT || rc == -EINVAL ? -ENODATA : rc;
	info = v ? pt_view_info(v) : NULL;
	m = v ? pt_view_manifest(v) : NULL;
	rc = 0;
	if (strcmp(what, "key") == 0) {
		char key[PT_KEY_MAX + 1], alias[PT_KEY_MAX + 1];
		const char *axes;

		rc = pt_node_key(fs->repo, i->node, key);
		if (rc == 0)
			pt_buf_append_str(out, key);
		if (rc == 0 && pt_fs_alias_split(i->dir, alias, &axes))
			pt_buf_printf(out, "%s%s", key[0] ? "/" : "", alias);
	} else if (strcmp(what, "dtype") == 0) {
		d = pt_dtype_info(info->dtype);
		if (d)
			pt_buf_append_str(out, d->name);
	} else if (strcmp(what, "shape") == 0 && info->shape_known) {
		shape_text(&info->shape, out);
	} else if (strcmp(what, "global_shape") == 0 && info->shape_known) {
		shape_text(&info->global_shape, out);
	} else if (strcmp(what, "layout") == 0) {
		for (a = 0; a < info->axis_count && a < PT_AXIS_KINDS; a++)
			pt_layout_add(&layout, &info->axis[a]);
		pt_layout_format(&layout, text);
		pt_buf_append_str(out, text[0] ? text : "full");
	} else if (strcmp(what, "revision") == 0) {
		pt_buf_printf(out, "%llu", (unsigned long long)info->revision);
	} else if (strcmp(what, "xxh3") == 0) {
		hash_text(info, m, out);
	} else if (strcmp(what, "complete") == 0) {
		pt_buf_append_str(out, info->complete && !(m && m->pending) ? "1" : "0");
	} else if (strcmp(what, "source") == 0 && info->source) {
		pt_buf_append_str(out, info->source);
	}
	if (v)
		pt_view_unref(v);
	if (rc < 0)
		return rc;
	return pt_buf_failed(out) ? -ENOMEM : out->len ? 0 : -ENODATA;
}

static int value_stored(struct pt_fs *fs, struct pt_fs_inode *i, const char *name, struct pt_buf *out)
{
	struct pt_node n;
	uint32_t x;
	int rc;

	if (!has_node_xattrs(i))
		return -ENODATA;
	rc = pt_node_get(fs->repo, i->node, &n);
	if (rc < 0)
		return rc == -ENOENT ? -ENODATA : rc;
	rc = -ENODATA;
	for (x = 0; x < n.xattr_count && rc; x++)
		if (strcmp(n.xattrs[x].name, name) == 0) {
			pt_buf_append(out, n.xattrs[x].value, n.xattrs[x].value_len);
			rc = 0;
		}
	pt_node_done(&n);
	return rc;
}

/* Of what readers open: how much of it is in memory. */
static int value_cached(struct pt_fs *fs, struct pt_fs_inode *reader, struct pt_buf *out)
{
	uint64_t filled, size;

	if (!pt_fs_cached_progress(fs, reader, &filled, &size))
		return -ENODATA;
	pt_buf_printf(out, "%llu/%llu", (unsigned long long)filled, (unsigned long long)size);
	return 0;
}

static void reply_value(fuse_req_t req, const struct pt_buf *value, size_t size)
{
	if (pt_buf_failed(value))
		fuse_reply_err(req, ENOMEM);
	else if (size == 0)
		fuse_reply_xattr(req, value->len);
	else if (value->len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, (const char *)value->data, value->len);
}

void pt_fs_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_owner(pt_fs_inode(fs, ino));
	struct pt_buf value = PT_BUF_INIT;
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_XATTR], 1);
	if (strncmp(name, "user.", 5) != 0) {   /* ls -l asks each file for security.selinux, until one says that there are none here */
		fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	rc = pt_fs_where_check_itself(fs, i, fuse_req_ctx(req)->pid);
	if (rc == 0)
		rc = strcmp(name, PREFIX "cached") == 0 ? value_cached(fs, pt_fs_origin(pt_fs_inode(fs, ino)), &value) : -ENODATA;
	if (rc == -ENODATA && strncmp(name, PREFIX, strlen(PREFIX)) == 0 && tells(i))
		rc = value_told(fs, i, name + strlen(PREFIX), &value);
	if (rc == -ENODATA)             /* also hints for what is still to be written */
		rc = value_stored(fs, i, name, &value);
	if (rc == -ENODATA)
		pt_fail_clear();
	if (rc < 0)
		pt_fs_fail(req, rc, i, NULL, "getxattr");
	else
		reply_value(req, &value, size);
	pt_buf_done(&value);
}

static bool listed_before(const struct pt_buf *names, const char *name)
{
	size_t at;

	for (at = 0; at < names->len; at += strlen((const char *)names->data + at) + 1)
		if (strcmp((const char *)names->data + at, name) == 0)
			return true;
	return false;
}

void pt_fs_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_owner(pt_fs_inode(fs, ino));
	struct pt_buf names = PT_BUF_INIT, value = PT_BUF_INIT;
	struct pt_node n;
	uint32_t x;
	size_t t;
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_XATTR], 1);
	rc = pt_fs_where_check_itself(fs, i, fuse_req_ctx(req)->pid);
	if (rc < 0) {
		pt_fs_fail(req, rc, i, NULL, "listxattr");
		return;
	}
	for (t = 0; t < TOLD && tells(i); t++) {
		pt_buf_reset(&value);
		if (value_told(fs, i, told[t], &value) == 0) {
			pt_buf_append_str(&names, PREFIX);
			pt_buf_append(&names, told[t], strlen(told[t]) + 1);
		}
	}
	if (has_node_xattrs(i) && pt_node_get(fs->repo, i->node, &n) == 0) {
		for (x = 0; x < n.xattr_count; x++)
			if (!listed_before(&names, n.xattrs[x].name))
				pt_buf_append(&names, n.xattrs[x].name, strlen(n.xattrs[x].name) + 1);
		pt_node_done(&n);
	}
	reply_value(req, &names, size);
	pt_buf_done(&names);
	pt_buf_done(&value);
}

/* Puts, replaces or (value NULL) removes one attribute of a node in memory. */
static int node_xattr_change(struct pt_node *n, const char *name, const char *value, size_t size, int flags)
{
	struct pt_xattr *more, x = { 0 };
	uint64_t total = strlen(name) + size;
	uint32_t at, i;

	for (at = 0; at < n->xattr_count && strcmp(n->xattrs[at].name, name) != 0; at++)
		;
	if (at < n->xattr_count ? flags & XATTR_CREATE : flags & XATTR_REPLACE)
		return at < n->xattr_count ? -EEXIST : -ENODATA;
	if (!value) {
		free(n->xattrs[at].name);
		free(n->xattrs[at].value);
		n->xattrs[at] = n->xattrs[--n->xattr_count];
		return 0;
	}
	for (i = 0; i < n->xattr_count; i++)
		total += i == at ? 0 : strlen(n->xattrs[i].name) + n->xattrs[i].value_len;
	if (total > TOTAL_MAX)
		return pt_fail(ENOSPC, "the extended attributes of one file may not exceed %u bytes", TOTAL_MAX);
	x.name = pt_strdup(name);
	x.value = pt_memdup(value, size ? size : 1);
	x.value_len = (uint32_t)size;
	if (!x.name || !x.value)
		goto nomem;
	if (at == n->xattr_count) {
		more = pt_reallocarray(n->xattrs, (size_t)n->xattr_count + 1, sizeof(*more));
		if (!more)
			goto nomem;
		n->xattrs = more;
		n->xattr_count++;
	} else {
		free(n->xattrs[at].name);
		free(n->xattrs[at].value);
	}
	n->xattrs[at] = x;
	return 0;
nomem:
	free(x.name);
	free(x.value);
	return pt_fail_nomem();
}

static int node_xattr_set(struct pt_fs *fs, struct pt_fs_inode *i, const char *name, const char *value, size_t size, int flags)
{
	struct pt_node n;
	int rc, try;

	if (size > VALUE_MAX)
		return -E2BIG;
	for (try = 0;; try++) {
		rc = pt_node_get(fs->repo, i->node, &n);
		if (rc < 0)
			return rc == -ENOENT ? -ESTALE : rc;
		rc = node_xattr_change(&n, name, value, size, flags);
		if (rc == 0)
			rc = pt_node_update(fs->repo, &n);
		pt_node_done(&n);
		if (rc != -EAGAIN || try == UPDATE_TRIES)
			return rc;
	}
}

/* dtype and shape describe raw bytes that are still to come; the rest is computed, and copies of it are accepted and ignored. */
static int told_set(struct pt_fs *fs, struct pt_fs_inode *i, const char *name, const char *value, size_t size, int flags)
{
	const char *what = name + strlen(PREFIX);
	bool dtype = strcmp(what, "dtype") == 0, shape = strcmp(what, "shape") == 0;
	char text[PT_DIMS_MAX * 21 + 3];
	struct pt_shape s;
	int rc;

	if (!dtype && !shape)
		return 0;
	if (size >= sizeof(text))
		return pt_fail(EINVAL, "%s is too long", name);
	memcpy(text, value, size);
	text[size] = '\0';
	if (i->kind == PT_FS_WRITER)
		return pt_fs_writer_hint(fs, i, dtype ? text : NULL, shape ? text : NULL);
	if (i->kind != PT_FS_DIR)
		return 0;
	if (dtype && pt_dtype_by_name(text) == PT_DTYPE_INVALID)
		return pt_fail(EINVAL, "%s is no dtype: use float32, bfloat16, int64, ...", text);
	rc = shape ? pt_shape_parse(text, &s) : 0;
	return rc < 0 ? rc : node_xattr_set(fs, i, name, value, size, flags);
}

void pt_fs_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_owner(pt_fs_inode(fs, ino));
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_XATTR], 1);
	rc = pt_fs_where_check_itself(fs, i, fuse_req_ctx(req)->pid);
	if (rc == 0 && strncmp(name, PREFIX, strlen(PREFIX)) == 0 && tells(i))
		rc = told_set(fs, i, name, value, size, flags);
	else if (rc == 0)
		rc = strncmp(name, "user.", 5) == 0 && has_node_xattrs(i) ? node_xattr_set(fs, i, name, value, size, flags) : -EOPNOTSUPP;
	if (rc < 0)
		pt_fs_fail(req, rc, i, NULL, "setxattr");
	else
		fuse_reply_err(req, 0);
}

void pt_fs_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_owner(pt_fs_inode(fs, ino));
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_XATTR], 1);
	rc = pt_fs_where_check_itself(fs, i, fuse_req_ctx(req)->pid);
	if (rc == 0)
		rc = has_node_xattrs(i) ? node_xattr_set(fs, i, name, NULL, 0, XATTR_REPLACE) : -ENODATA;
	if (rc < 0)
		pt_fs_fail(req, rc, i, NULL, "removexattr");
	else
		fuse_reply_err(req, 0);
}
