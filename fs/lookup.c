/* fs/lookup.c - from a name in a directory to an inode. */
#include "fs.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

#define HOLD_TRIES 10

int pt_fs_dir_of(const struct pt_fs_inode *dir, uint64_t *ret_node, const char **ret_dir)
{
	if (dir->kind != PT_FS_DIR && dir->kind != PT_FS_AXIS)
		return -ENOTDIR;
	*ret_node = dir->node;
	*ret_dir = dir->dir;
	return 0;
}

int pt_fs_component(const struct pt_fs_inode *dir, const char *name, char ret_component[PT_NAME_MAX + 1])
{
	struct pt_path_name n;
	int rc;

	if (dir->kind != PT_FS_DIR && dir->kind != PT_FS_AXIS)
		return pt_fail(EACCES, "nothing can be made here");
	rc = pt_path_classify(name, &n);
	if (rc < 0)
		return rc;
	if (n.kind == PT_PATH_INFO || n.kind == PT_PATH_CONTROL)
		return pt_fail(EACCES, "%s is made by ptio and read only", name);
	if (n.kind != PT_PATH_PLAIN)
		return pt_fail(EINVAL, "%s means a layout or view of a tensor: a file or directory of that name is spelled with its first letter as %%%02X", name,
			       (unsigned char)name[0]);
	return pt_tree_component(dir->dir, n.component, ret_component);
}

int pt_fs_node_inode(struct pt_fs *fs, const struct pt_node *node, struct pt_fs_inode **ret_inode)
{
	enum pt_fs_kind kind = node->kind == PT_NODE_DIR ? PT_FS_DIR : node->kind == PT_NODE_SYMLINK ? PT_FS_SYMLINK : PT_FS_FILE;

	if (node->id == PT_NODE_ROOT) {
		*ret_inode = pt_fs_inode_ref(fs, fs->root);
		return 0;
	}
	return pt_fs_inode_get(fs, kind, node->id, "", "", 0, ret_inode);
}

int pt_fs_entry_fill(struct pt_fs *fs, struct pt_fs_inode *inode, const struct pt_node *known, struct fuse_entry_param *ret_e)
{
	int rc;

	memset(ret_e, 0, sizeof(*ret_e));
	rc = pt_fs_attr(fs, inode, known, &ret_e->attr, &ret_e->attr_timeout);
	if (rc < 0)
		return rc;
	if (inode->kind == PT_FS_DIR || inode->kind == PT_FS_AXIS)
		ret_e->attr_timeout = 0;        /* see pt_fs_entry_keep */
	ret_e->ino = pt_fs_inode_id(fs, inode);
	ret_e->generation = inode->generation;
	return 0;
}

/* Where nothing is escaped they are the same. */
static bool spells(const char *name, const char *component)
{
	char encoded[PT_PATH_COMPONENT_MAX + 1];

	if (!strchr(name, '%'))
		return strcmp(name, component) == 0;
	return pt_path_component_encode(component, encoded) == 0 && strcmp(encoded, name) == 0;
}

bool pt_fs_entry_keep(struct pt_fs *fs, struct pt_fs_inode *parent, const char *name, struct pt_fs_inode *inode, const struct pt_node *node,
		      const struct pt_meta_mark *read_at, struct fuse_entry_param *e)
{
	if (fs->entry_timeout <= 0 || inode->kind != PT_FS_DIR || parent->kind != PT_FS_DIR || node->id != inode->node || node->parent != parent->node ||
	    !spells(name, node->name) || !pt_fs_where_told(fs, inode, parent, node->name, read_at))
		return false;
	e->attr_timeout = e->entry_timeout = fs->entry_timeout;
	return true;
}

/* What a look-up has found, and when. */
struct found {
	struct pt_fs_inode *parent;
	const char *name;
	struct pt_meta_mark mark;       /* from before */
	bool marked;                    /* false: the kernel is not to keep anything */
	bool held;                      /* for this thread alone, which may find something else the next time */
};

/* A name is kept where it can be told from a descriptor of what it once led to. */
static bool keeps_for(struct pt_fs *fs, pid_t tid)
{
	return !atomic_load(&fs->callers_silent) && (atomic_load(&fs->callers_tell) || pt_fs_caller_tells(fs, tid));
}

/* May the kernel keep the entry and its attributes? It is on the list of what is told before the mark is compared: whoever changes something later finds it there. */
static void keep(struct pt_fs *fs, const struct found *f, struct pt_fs_inode *inode, const struct pt_node *known, pid_t tid, struct fuse_entry_param *e)
{
	struct pt_fs_inode *origin = pt_fs_origin(inode);
	bool axis = inode->kind == PT_FS_AXIS && !pt_fs_alias_is(inode->dir), view = origin->kind == PT_FS_VIEW && origin->view.keeps;
	struct pt_meta_mark now;

	if (fs->entry_timeout <= 0 || !((fs->keeps_views && (axis || view)) || (inode->kind == PT_FS_DIR && known)))
		return;
	e->attr_timeout = 0;
	if (!f->marked)
		return;
	pt_fs_told(fs, inode);
	if (!pt_meta_mark(&fs->store->meta, &now) || memcmp(&now, &f->mark, sizeof(now)) != 0 || pt_fs_news_missed(fs, &now))
		return;
	if (inode->kind == PT_FS_DIR) {
		pt_fs_entry_keep(fs, f->parent, f->name, inode, known, &f->mark, e);
		return;
	}
	e->attr_timeout = fs->entry_timeout;
	e->entry_timeout = f->held || (view && !keeps_for(fs, tid)) ? 0 : fs->entry_timeout;
}

/* f: NULL: the kernel is not to keep it. */
static void reply(fuse_req_t req, const struct found *f, struct pt_fs_inode *inode, const struct pt_node *known, struct fuse_entry_param *e)
{
	struct pt_fs *fs = pt_fs_of(req);

	pt_fs_inode_looked_up(fs, inode);
	if (f)
		keep(fs, f, inode, known, fuse_req_ctx(req)->pid, e);
	if (fuse_reply_entry(req, e) < 0)       /* interrupted: the kernel never saw it */
		pt_fs_inode_forget(fs, inode, 1);
}

void pt_fs_reply_entry(fuse_req_t req, struct pt_fs_inode *inode, const struct pt_node *known)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct fuse_entry_param e;
	int rc;

	rc = pt_fs_entry_fill(fs, inode, known, &e);
	if (rc < 0) {
		pt_fs_fail(req, rc == -ESTALE ? -ENOENT : rc, inode, NULL, "lookup");
		pt_fs_inode_unref(fs, inode);
		return;
	}
	reply(req, NULL, inode, known, &e);
}

static int lookup_view(struct pt_fs *fs, struct pt_fs_inode *parent, const char *name, pid_t tid, struct pt_fs_inode **ret_inode)
{
	uint64_t node = parent->node;
	const char *dir = parent->dir;
	enum pt_fs_intent_found intent;
	struct pt_fs_resolved r;
	struct pt_fs_inode *i;
	uint64_t next_revision;
	bool rewrites;
	int rc, found;

	intent = pt_fs_intent_find(fs, tid, node, dir, name, ret_inode, &next_revision);
	if (intent == PT_FS_INTENT_WRITER)
		return 0;
	rewrites = pt_fs_intent_rewrite_end(fs, tid);
	found = pt_fs_view_resolve(fs, node, dir, name, &r);
	if (intent == PT_FS_INTENT_GONE && (found < 0 || !r.view || pt_view_info(r.view)->revision < next_revision)) {
		if (found == 0)
			pt_fs_resolved_done(&r);
		pt_fail_clear();
		return -ENOENT;
	}
	if (found < 0 && found != -ENOENT)
		return found;
	if (found < 0 || r.stamp == PT_FS_STAMP_NONE) {
		i = pt_fs_writer_find(fs, node, dir, name);
		if (i) {
			if (found == 0)
				pt_fs_resolved_done(&r);
			*ret_inode = i;
			return 0;
		}
		if (found < 0) {
			pt_fail_clear();        /* not there is no failure to report */
			return -ENOENT;
		}
	}
	if (!r.listed && pt_fs_caller_excludes(tid)) {
		pt_fs_resolved_done(&r);
		pt_fail_clear();
		return -ENOENT;
	}
	if (rewrites && !pt_fs_alias_is(dir)) {
		pt_fs_resolved_done(&r);
		pt_fail_clear();
		rc = pt_fs_intent_write(fs, tid, node, dir, name);
		if (rc == 0 && pt_fs_intent_find(fs, tid, node, dir, name, ret_inode, &next_revision) != PT_FS_INTENT_WRITER)
			rc = -ENOENT;
		return rc;
	}
	rc = pt_fs_view_inode(fs, node, dir, name, &r, &i);
	pt_fs_resolved_done(&r);
	if (rc < 0)
		return rc;
	pt_fail_clear();
	*ret_inode = i;
	return 0;
}

int pt_fs_axis_inode(struct pt_fs *fs, struct pt_fs_inode *parent, const struct pt_path_name *n, const char *name, struct pt_fs_inode **ret_inode)
{
	char dir[PT_KEY_MAX + 2 + PT_TREE_DIR_MAX];     /* an alias's name comes first */
	struct pt_request base;
	size_t len = strlen(parent->dir);
	int rc;

	rc = pt_tree_dir_parse(parent->dir, &base);
	if (rc == 0)
		rc = pt_tree_dir_append(&base, n);
	if (rc < 0)
		return rc;
	if (len + strlen(name) + 2 > sizeof(dir))
		return -ENAMETOOLONG;
	memcpy(dir, parent->dir, len);
	if (len && dir[len - 1] != 1)
		dir[len++] = '/';
	strcpy(dir + len, name);
	return pt_fs_inode_get(fs, PT_FS_AXIS, parent->node, dir, "", 0, ret_inode);
}

static int something(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	(void)name;
	(void)id;
	(void)kind;
	*(bool *)ctx = true;
	return 1;
}

static int lookup_axis(struct pt_fs *fs, struct pt_fs_inode *parent, const struct pt_path_name *n, const char *name, pid_t tid,
		       struct pt_fs_inode **ret_inode)
{
	bool some = false;
	int rc;

	rc = pt_fs_axis_inode(fs, parent, n, name, ret_inode);
	if (rc < 0 || atomic_load(&(*ret_inode)->made) || !pt_fs_caller_makes_dir(fs, tid, name))
		return rc;
	rc = pt_tree_list(fs->repo, (*ret_inode)->node, (*ret_inode)->dir, false, something, &some);
	if (rc == 0 && !some)
		rc = -ENOENT;
	if (rc < 0)
		pt_fs_inode_unref(fs, *ret_inode);
	return rc;
}

static int lookup_plain(struct pt_fs *fs, struct pt_fs_inode *parent, const struct pt_path_name *n, const char *name, pid_t tid,
			struct pt_node *ret_node, struct pt_fs_inode **ret_inode)
{
	char component[PT_NAME_MAX + 1];
	struct pt_node node;
	int rc;

	if (pt_fs_alias_is(parent->dir))
		return pt_fs_alias_lookup(fs, parent, n->component, ret_inode);
	rc = pt_tree_component(parent->dir, n->component, component);
	if (rc < 0)
		return rc;
	rc = pt_node_lookup(fs->repo, parent->node, component, &node);
	if (rc == -ENOENT && parent->kind == PT_FS_AXIS)
		return pt_fs_rank_lookup(fs, parent, n->component, name, ret_inode);
	if (rc == -ENOENT)
		return pt_fs_alias_lookup(fs, parent, n->component, ret_inode);
	if (rc < 0)
		return rc;
	if (node.kind == PT_NODE_CONTAINER && parent->kind == PT_FS_DIR) {
		rc = pt_fs_many_lookup(fs, parent, name, ret_inode);
		if (rc != -ENOENT)
			goto out;
	}
	rc = pt_fs_node_inode(fs, &node, ret_inode);
	if (rc == 0) {
		*ret_inode = pt_fs_sealed_prefer(fs, *ret_inode, &node, tid);
		*ret_node = node;
		return 0;
	}
out:
	pt_node_done(&node);
	return rc;
}

/* ret_node: filled when the name is that of a node, else left alone; the caller's. */
static int lookup(struct pt_fs *fs, struct pt_fs_inode *parent, const char *name, pid_t tid, struct pt_node *ret_node, struct pt_fs_inode **ret_inode)
{
	struct pt_path_name n;
	size_t i;
	int rc;

	if (parent->kind == PT_FS_CONTROL_DIR) {
		for (i = 0; pt_fs_control_name(i); i++)
			if (strcmp(name, pt_fs_control_name(i)) == 0)
				return pt_fs_inode_get(fs, PT_FS_CONTROL, PT_NODE_ROOT, "", pt_fs_control_name(i), 0, ret_inode);
		return -ENOENT;
	}
	if (parent->kind != PT_FS_DIR && parent->kind != PT_FS_AXIS)
		return -ENOTDIR;
	rc = pt_path_classify(name, &n);
	if (rc < 0)
		return rc;
	switch (n.kind) {
	case PT_PATH_AXIS:
	case PT_PATH_PARTITION:
		return lookup_axis(fs, parent, &n, name, tid, ret_inode);
	case PT_PATH_VIEW:
		return lookup_view(fs, parent, name, tid, ret_inode);
	case PT_PATH_INFO:
		return pt_fs_inode_get(fs, PT_FS_INFO, parent->node, parent->dir, PT_PATH_INFO_NAME, 0, ret_inode);
	case PT_PATH_CONTROL:
		if (parent != fs->root)
			return -ENOENT;
		return pt_fs_inode_get(fs, PT_FS_CONTROL_DIR, PT_NODE_ROOT, "", PT_PATH_CONTROL_NAME, 0, ret_inode);
	case PT_PATH_ALL:
		return pt_fs_alias_is(parent->dir) ? -ENOENT : pt_fs_many_lookup(fs, parent, name, ret_inode);
	case PT_PATH_PLAIN:
		rc = lookup_plain(fs, parent, &n, name, tid, ret_node, ret_inode);
		/* A key may be made where an alias is. */
		if (rc == 0 && pt_fs_alias_itself((*ret_inode)->dir) && pt_fs_caller_makes_dir(fs, tid, name)) {
			pt_fs_inode_unref(fs, *ret_inode);
			rc = -ENOENT;
		}
		return rc;
	default:
		return -ENOENT;
	}
}

/* A thread that has lost one race with a commit gets what it finds now, whatever comes before its OPEN. -ESTALE: superseded already. */
static int hold_for_retry(struct pt_fs *fs, struct pt_fs_inode *i, pid_t tid, bool *ret_held)
{
	int rc;

	if ((i->kind != PT_FS_FILE && (!pt_fs_reader_is(i) || i->stamp == PT_FS_STAMP_NONE)) || !pt_fs_intent_retrying(fs, tid))
		return 0;
	rc = pt_fs_reader_pin(fs, i);
	if (rc == 0)
		pt_fs_intent_hold(fs, tid, pt_fs_inode_ref(fs, i));
	*ret_held = rc == 0;
	pt_fail_clear();
	return rc;
}

/* What the name leads to, with its attributes. Who replaces a file removes the one before, so where that is gone by the time that its attributes are asked for, the name leads to another. */
static int find(fuse_req_t req, struct pt_fs *fs, struct found *f, struct pt_node *ret_node, struct pt_fs_inode **ret_inode, struct fuse_entry_param *ret_e)
{
	pid_t tid = fuse_req_ctx(req)->pid;
	struct pt_fs_inode *i;
	int rc, try;

	for (try = 1;; try++) {
		f->held = false;
		rc = lookup(fs, f->parent, f->name, tid, ret_node, &i);
		if (rc < 0)
			return rc;
		if (hold_for_retry(fs, i, tid, &f->held) != -ESTALE || try == HOLD_TRIES) {
			pt_fs_intent_walked(fs, tid, i, f->parent);
			if (f->held)
				pt_fs_cached_await(req, fs, i);
			i = pt_fs_whole_prefer(fs, i, tid);
			rc = pt_fs_entry_fill(fs, i, ret_node->id ? ret_node : NULL, ret_e);
			if (rc != -ESTALE || try == HOLD_TRIES)
				break;
			pt_fail_clear();
		}
		pt_fs_inode_unref(fs, i);
		pt_node_done(ret_node);
		memset(ret_node, 0, sizeof(*ret_node));
	}
	if (rc < 0) {
		pt_fs_inode_unref(fs, i);
		return rc == -ESTALE ? -ENOENT : rc;
	}
	*ret_inode = i;
	return 0;
}

void pt_fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *dir = pt_fs_inode(fs, parent), *i = NULL;
	struct pt_node node = { 0 };
	struct found f = { .parent = dir, .name = name };
	struct fuse_entry_param e;
	pid_t tid = fuse_req_ctx(req)->pid;
	int rc;

	pt_fail_clear();
	pt_fs_read_ahead_set(fs);
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_LOOKUP], 1);
	f.marked = fs->entry_timeout > 0 && pt_meta_mark(&fs->store->meta, &f.mark);
	rc = pt_fs_where_check(fs, dir, name, tid);
	if (rc == 0)
		rc = find(req, fs, &f, &node, &i, &e);
	if (rc == 0)
		pt_fs_where_entry(dir, name);
	else if (rc == -ENOENT)
		pt_fs_intent_walked(fs, tid, NULL, dir);
	if (rc == -ENOENT)
		fuse_reply_err(req, ENOENT);
	else if (rc < 0)
		pt_fs_fail(req, rc, dir, name, "lookup");
	else
		reply(req, &f, i, node.id ? &node : NULL, &e);
	pt_node_done(&node);
}
