/* fs/where.c - directories that the kernel finds by itself for a while (entry_timeout): where it believes they are.
 *
 * For that long a path walk enters such a directory, a layout's or a view below it without asking, and stat of it is answered by the kernel. Nothing else may be stale: whoever goes on, to a name
 * in the directory, to list it, to open a view, or to attributes that the kernel does not hold, comes by here, and where the directory is not any more where the kernel was told, because another mount moved, removed or replaced it or one
 * above it, the answer is ESTALE and the kernel walks the path again, asking for each component. A thread that has it as working directory, or open, comes
 * back with the same directory, and goes on then. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"

#define DEPTH_MAX 65536
#define SLACK_NS ((int64_t)1000000000)  /* for a reply to reach the kernel, and for a walk that is under way */

struct pt_fs_where {                    /* inode's lock */
	uint64_t parent;
	uint64_t serial;                /* of this telling */
	int64_t until_ns;               /* by then the kernel asks before it goes through it */
	int64_t doubt_ns;               /* by then the kernel has surely forgotten that it was elsewhere before */
	bool missed;                    /* since then it was not there, and somebody was sent back */
	bool is_checked;
	struct pt_meta_mark checked;    /* the store as it was when this and all above were found right */
	char name[];                    /* decoded */
};

void pt_fs_where_done(struct pt_fs_inode *dir)
{
	free(dir->where);
	dir->where = NULL;
}

/* Until the reply has reached the kernel, walks through the old place come here as those through the new one do. */
static int64_t doubt_until(const struct pt_fs_where *old, uint64_t parent, const char *name, int64_t now)
{
	if (!old)
		return 0;
	if ((old->parent != parent || strcmp(old->name, name) != 0) && now < old->until_ns)
		return now + SLACK_NS;
	return old->doubt_ns;
}

/* by_us: the kernel itself moves it, as part of the call that does so. right: the store as it was when it was found there, and all above right; or NULL. */
static bool told(struct pt_fs *fs, struct pt_fs_inode *dir, uint64_t parent, const char *name, bool by_us, const struct pt_meta_mark *right)
{
	int64_t now = pt_time_boot_ns();
	struct pt_fs_where *w;
	bool same;

	pthread_mutex_lock(&dir->lock);
	w = dir->where;
	same = w && !w->missed && w->parent == parent && strcmp(w->name, name) == 0;
	if (!same) {
		w = pt_calloc(1, sizeof(*w) + strlen(name) + 1);
		if (w) {
			w->parent = parent;
			w->serial = atomic_fetch_add(&fs->where_serial, 1) + 1;
			w->doubt_ns = by_us ? 0 : doubt_until(dir->where, parent, name, now);
			strcpy(w->name, name);
			free(dir->where);
			dir->where = w;
		}
	}
	if (w)
		w->until_ns = now + (int64_t)(fs->entry_timeout * 1e9) + SLACK_NS;
	if (w && right) {
		w->checked = *right;
		w->is_checked = true;
	}
	pthread_mutex_unlock(&dir->lock);
	return w != NULL;
}

void pt_fs_where_moved(struct pt_fs *fs, uint64_t parent, const char *name)
{
	struct pt_fs_inode *dir;
	struct pt_node node;

	if (fs->entry_timeout <= 0 || pt_node_lookup(fs->repo, parent, name, &node) < 0)
		return;
	dir = node.kind == PT_NODE_DIR ? pt_fs_inode_find(fs, PT_FS_DIR, node.id, "", "", 0) : NULL;
	if (dir)
		told(fs, dir, parent, name, true, NULL);
	pt_fs_inode_unref(fs, dir);
	pt_node_done(&node);
}

/* What is to be found right about one directory: 1, and where it is said to be; 0: nothing, it or all above were found right at this mark. */
static int to_check(struct pt_fs_inode *dir, const struct pt_meta_mark *mark, uint64_t *ret_parent, char ret_name[PT_NAME_MAX + 1])
{
	int wanted = 0;

	pthread_mutex_lock(&dir->lock);
	if (dir->where && (dir->where->doubt_ns || !(mark && dir->where->is_checked && memcmp(&dir->where->checked, mark, sizeof(*mark)) == 0))) {
		*ret_parent = dir->where->parent;
		strcpy(ret_name, dir->where->name);
		wanted = 1;
	}
	pthread_mutex_unlock(&dir->lock);
	return wanted;
}

bool pt_fs_where_told(struct pt_fs *fs, struct pt_fs_inode *dir, struct pt_fs_inode *parent, const char *name, const struct pt_meta_mark *read_at)
{
	char above_name[PT_NAME_MAX + 1];
	uint64_t above;

	/* What lies above was found right when the parent was entered, at this mark or an earlier one. */
	if (read_at && parent != fs->root && to_check(parent, read_at, &above, above_name))
		read_at = NULL;
	return told(fs, dir, parent->node, name, false, read_at);
}

/* It is not where it is said to be: a serial of the telling, or 0 when that does not hold any more; it is forgotten then. */
static uint64_t miss(struct pt_fs_inode *dir, uint64_t parent, const char *name)
{
	struct pt_fs_where *w;
	uint64_t serial = 0;

	pthread_mutex_lock(&dir->lock);
	w = dir->where;
	if (w && w->parent == parent && strcmp(w->name, name) == 0) {
		if (pt_time_boot_ns() < w->until_ns) {
			w->missed = true;
			serial = w->serial;
		} else {
			pt_fs_where_done(dir);
		}
	}
	pthread_mutex_unlock(&dir->lock);
	return serial;
}

/* It is there, but the kernel may come through the place where it was before: a serial, or 0. */
static uint64_t doubt(struct pt_fs_inode *dir, uint64_t parent, const char *name)
{
	struct pt_fs_where *w;
	uint64_t serial = 0;

	pthread_mutex_lock(&dir->lock);
	w = dir->where;
	if (w && w->doubt_ns && w->parent == parent && strcmp(w->name, name) == 0) {
		if (pt_time_boot_ns() < w->doubt_ns)
			serial = w->serial;
		else
			w->doubt_ns = 0;
	}
	pthread_mutex_unlock(&dir->lock);
	return serial;
}

/* 1: it and all above are where the kernel was told; 0: one is not, or may not be, which the serial tells. */
static int chain_is_right(struct pt_fs *fs, struct pt_fs_inode *dir, const struct pt_meta_mark *mark, uint64_t *ret_serial)
{
	struct pt_fs_inode *at = pt_fs_inode_ref(fs, dir), *up;
	char name[PT_NAME_MAX + 1];
	uint64_t parent, serial;
	struct pt_node node;
	uint32_t depth;
	int rc = 1;

	for (depth = 0; rc == 1 && at && depth < DEPTH_MAX && to_check(at, mark, &parent, name); depth++) {
		rc = pt_node_get(fs->repo, at->node, &node);
		if (rc == 0) {
			rc = node.parent == parent && strcmp(node.name, name) == 0;
			pt_node_done(&node);
		} else if (rc == -ENOENT) {
			rc = 0;
		}
		up = NULL;
		if (rc == 0) {
			serial = miss(at, parent, name);
			if (serial)
				*ret_serial = serial;
			else
				rc = 1;         /* the kernel asks for it, and goes by what is above only then */
		} else if (rc == 1 && (serial = doubt(at, parent, name)) != 0) {
			*ret_serial = serial;
			rc = 0;
		} else if (rc == 1 && parent != PT_NODE_ROOT) {
			up = pt_fs_inode_find(fs, PT_FS_DIR, parent, "", "", 0);
		}
		pt_fs_inode_unref(fs, at);
		at = up;
	}
	pt_fs_inode_unref(fs, at);
	return rc;
}

/* Those that were looked at, from the top of the mount downwards, are right together. */
static void chain_found_right(struct pt_fs *fs, struct pt_fs_inode *dir, const struct pt_meta_mark *mark)
{
	struct pt_fs_inode *at = pt_fs_inode_ref(fs, dir), *up;
	char name[PT_NAME_MAX + 1];
	uint64_t parent;
	uint32_t depth;

	for (depth = 0; at && depth < DEPTH_MAX && to_check(at, mark, &parent, name); depth++) {
		pthread_mutex_lock(&at->lock);
		if (at->where && at->where->parent == parent && strcmp(at->where->name, name) == 0) {
			at->where->checked = *mark;
			at->where->is_checked = true;
		}
		pthread_mutex_unlock(&at->lock);
		up = parent == PT_NODE_ROOT ? NULL : pt_fs_inode_find(fs, PT_FS_DIR, parent, "", "", 0);
		pt_fs_inode_unref(fs, at);
		at = up;
	}
	pt_fs_inode_unref(fs, at);
}

static uint64_t name_bit(const char *name)
{
	return (uint64_t)1 << pt_hash64(name, strlen(name)) % 64;
}

void pt_fs_where_entry(struct pt_fs_inode *dir, const char *name)
{
	if (dir->kind == PT_FS_DIR || dir->kind == PT_FS_AXIS)
		atomic_fetch_or(&dir->entries, name_bit(name));
}

/* The namespace node's directory that the kernel came through to the inode: a reference, or NULL where it knows none. */
static struct pt_fs_inode *way_to(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	switch (inode->kind) {
	case PT_FS_DIR:
		return pt_fs_inode_ref(fs, inode);
	case PT_FS_AXIS:
	case PT_FS_VIEW:
		return inode->node == PT_NODE_ROOT ? NULL : pt_fs_inode_find(fs, PT_FS_DIR, inode->node, "", "", 0);
	default:
		return NULL;
	}
}

/* 1: the way to it is as the kernel was told; 0: it is not, which the serial tells. */
static int is_there(struct pt_fs *fs, struct pt_fs_inode *inode, uint64_t *ret_serial)
{
	char told[PT_NAME_MAX + 1];
	struct pt_meta_mark mark;
	struct pt_fs_inode *dir;
	uint64_t parent;
	bool marked;
	int rc = 1;

	dir = way_to(fs, inode);
	if (!dir)
		return 1;
	marked = dir != fs->root && pt_meta_mark(&fs->store->meta, &mark);
	if (dir != fs->root && to_check(dir, marked ? &mark : NULL, &parent, told)) {
		rc = chain_is_right(fs, dir, marked ? &mark : NULL, ret_serial);
		if (rc == 1 && marked)
			chain_found_right(fs, dir, &mark);
		if (rc >= 0)
			pt_fail_clear();
	}
	pt_fs_inode_unref(fs, dir);
	return rc;
}

/* What it finds then is not to be superseded under it once more, nor is it to be told by ESTALE that it is given a fresh writer. */
void pt_fs_where_sent_back(struct pt_fs *fs, pid_t tid)
{
	uint64_t call = pt_fs_caller_call(tid);

	if (call)
		pt_fs_intent_retry(fs, tid);
	if (call && pt_fs_caller_rewrites(tid))
		pt_fs_intent_rewrite_begin(fs, tid, call);
}

/* ESTALE begins the walk anew only as the answer to a look-up that is not one of an entry that the kernel has: of that it only learns that the entry is wrong, and asks a
 * second time. A call is begun anew once, from the root or from what it has open: what comes again from the same call has no other way here; a walk that begins with this name does
 * so here, and is right already. After ESTALE
 * for the name that mkdir(2) and the like are to make the walk is not begun anew, but after ESTALE for making it. The walk that was begun anew asks for each component: what it has
 * just been told was right after the call began, though it may have been moved since. */
static int way_check(struct pt_fs *fs, struct pt_fs_inode *inode, const char *name, pid_t tid)
{
	uint64_t serial = 0, call;
	int rc, walks;

	inode = pt_fs_origin(inode);
	rc = fs->entry_timeout <= 0 ? 1 : is_there(fs, inode, &serial);
	if (rc)
		return rc < 0 ? rc : 0;
	call = pt_fs_caller_call(tid);
	walks = pt_fs_intent_walks(fs, tid, inode);
	if (walks < 0 && !pt_fs_caller_opens(tid))      /* rename(2) has two paths, of which one is walked after the other */
		walks = 0;
	if (walks == 1 || (walks == 0 && pt_fs_intent_sent_back(fs, tid, serial, call)))
		return 0;
	if (name && pt_fs_caller_makes(tid, name))
		return -ENOENT;
	if (pt_fs_intent_again(fs, tid, serial, call, !name || !(atomic_load(&inode->entries) & name_bit(name)) || pt_fs_caller_begins(tid, name),
				walks < 0))
		return 0;
	pt_fs_where_sent_back(fs, tid);
	atomic_fetch_add(&fs->counters.stale_dirs, 1);
	return -ESTALE;
}

int pt_fs_where_check(struct pt_fs *fs, struct pt_fs_inode *inode, const char *name, pid_t tid)
{
	int rc = way_check(fs, inode, name, tid);

	if (rc == 0 && !name)
		pt_fs_intent_walked(fs, tid, NULL, NULL);
	return rc;
}

/* A view that its name does not lead to any more. A call that has been sent back for that and comes again does not come by the name, but by a descriptor, as through /proc/self/fd. */
static int superseded(struct pt_fs *fs, const struct pt_fs_inode *view, pid_t tid)
{
	uint64_t serial = ~view->generation;    /* those of directories count from the other end */
	uint64_t call = pt_fs_caller_call(tid);

	if (pt_fs_intent_again(fs, tid, serial, call, true, false)) {
		pt_fail_clear();
		return 0;
	}
	pt_fs_where_sent_back(fs, tid);
	return -ESTALE;
}

int pt_fs_where_check_meaning(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid)
{
	int rc;

	if (!fs->keeps_views || pt_fs_intent_held(fs, tid, inode))
		return 0;
	rc = pt_fs_view_current(fs, inode);
	return rc == -ENOENT || rc == -ESTALE ? superseded(fs, inode, tid) : rc;
}

static bool is_open(struct pt_fs_inode *view)
{
	bool pinned;

	pthread_mutex_lock(&view->lock);
	pinned = view->view.pins > 0;
	pthread_mutex_unlock(&view->lock);
	return pinned;
}

/* The thread asks by descriptor, or about a view that somebody has open, and nobody can tell whether it is that one. */
static bool may_have_open(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid)
{
	return pt_fs_caller_has_open(tid) || (inode->kind == PT_FS_VIEW && is_open(inode) && !pt_fs_caller_tells(fs, tid));
}

int pt_fs_where_check_itself(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid)
{
	int rc;

	inode = pt_fs_origin(inode);
	rc = pt_fs_where_check(fs, inode, NULL, tid);
	if (rc == 0)
		rc = pt_fs_where_check_meaning(fs, inode, tid);
	return rc == -ESTALE && may_have_open(fs, inode, tid) ? 0 : rc;
}

/* Of a view that was superseded. Nothing is noted of that: what the thread asks by a path is sent back for it. */
static bool asks_by_descriptor(struct pt_fs *fs, struct pt_fs_inode *view, bool open, pid_t tid, bool *ret_told)
{
	uint64_t serial;

	if (!fs->keeps_views || (is_there(fs, view, &serial) == 1 && pt_fs_view_current(fs, view) == 0))
		return false;
	*ret_told = false;
	pt_fail_clear();
	return open || may_have_open(fs, view, tid);
}

/* open(2) may ask whether it could make something in a directory, and goes on looking the name up if that fails: what it asks then, or the open, is answered with ESTALE. */
static bool opens_below(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid, bool *ret_told)
{
	uint64_t serial;

	if (fs->entry_timeout <= 0 || is_there(fs, inode, &serial) != 0 || !pt_fs_caller_opens(tid))
		return false;
	*ret_told = false;
	return true;
}

int pt_fs_where_check_attr(struct pt_fs *fs, struct pt_fs_inode *inode, bool open, pid_t tid, bool *ret_told)
{
	bool view;
	int rc;

	inode = pt_fs_origin(inode);
	view = inode->kind == PT_FS_VIEW;
	*ret_told = !view || !pt_fs_intent_held(fs, tid, inode);
	if (view ? asks_by_descriptor(fs, inode, open, tid, ret_told) : opens_below(fs, inode, tid, ret_told))
		return 0;
	rc = way_check(fs, inode, NULL, tid);
	if (rc == 0)
		rc = pt_fs_where_check_meaning(fs, inode, tid);
	if (rc == -ESTALE && (open || pt_fs_caller_has_open(tid))) {    /* since the look at that */
		*ret_told = false;
		rc = 0;
	}
	return rc;
}
