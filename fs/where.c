/* fs/where.c - directories that the kernel finds by itself for a while (entry_timeout): where it believes they are, and telling it that they changed.
 *
 * For that long a path walk enters such a directory without asking, and stat of it is answered by the kernel. Nothing else may be stale: whoever goes on, to a name
 * in the directory, to list it, or to its attributes to change them, comes by here, and where the directory is not any more where the kernel was told, because another mount moved, removed or replaced it or one
 * above it, the answer is ESTALE and the kernel walks the path again, asking for each component. A thread that has it as working directory, or open, comes
 * back with the same directory, and goes on then. What this mount changes itself is told to the kernel before the call that changes it returns, by
 * a thread of its own. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"

#define DEPTH_MAX 65536
#define QUEUE 256
#define SLACK_NS ((int64_t)1000000000)  /* for a reply to reach the kernel, and for a walk that is under way */
#define NEWS_TRIES 20
#define NEWS_WAIT_NS 200000L
#define LATE_MAX 64
#define LATE_WAIT_MAX_NS 100000000

struct pt_fs_where {                    /* inode's lock */
	uint64_t parent;
	uint64_t serial;                /* of this telling */
	int64_t until_ns;               /* by then the kernel asks before it goes through it */
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

bool pt_fs_where_told(struct pt_fs *fs, struct pt_fs_inode *dir, uint64_t parent, const char *name)
{
	int64_t until_ns = pt_time_boot_ns() + (int64_t)(fs->dir_timeout * 1e9) + SLACK_NS;
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
			strcpy(w->name, name);
			free(dir->where);
			dir->where = w;
		}
	}
	if (w)
		w->until_ns = until_ns;
	pthread_mutex_unlock(&dir->lock);
	return w != NULL;
}

void pt_fs_where_moved(struct pt_fs *fs, uint64_t parent, const char *name)
{
	struct pt_fs_inode *dir;
	struct pt_node node;

	if (fs->dir_timeout <= 0 || pt_node_lookup(fs->repo, parent, name, &node) < 0)
		return;
	dir = node.kind == PT_NODE_DIR ? pt_fs_inode_find(fs, PT_FS_DIR, node.id, "", "", 0) : NULL;
	if (dir)
		pt_fs_where_told(fs, dir, parent, name);
	pt_fs_inode_unref(fs, dir);
	pt_node_done(&node);
}

/* What is to be found right about one directory: 1, and where it is said to be; 0: nothing, it or all above were found right at this mark. */
static int to_check(struct pt_fs_inode *dir, const struct pt_meta_mark *mark, uint64_t *ret_parent, char ret_name[PT_NAME_MAX + 1])
{
	int wanted = 0;

	pthread_mutex_lock(&dir->lock);
	if (dir->where && !(mark && dir->where->is_checked && memcmp(&dir->where->checked, mark, sizeof(*mark)) == 0)) {
		*ret_parent = dir->where->parent;
		strcpy(ret_name, dir->where->name);
		wanted = 1;
	}
	pthread_mutex_unlock(&dir->lock);
	return wanted;
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

/* 1: it and all above are where the kernel was told; 0: one is not, which the serial tells. */
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
	if (dir->kind == PT_FS_DIR)
		atomic_fetch_or(&dir->entries, name_bit(name));
}

/* ESTALE begins the walk anew only as the answer to a look-up that is not one of an entry that the kernel has: of that it only learns that the entry is wrong, and asks a
 * second time. A call is begun anew once, from the root or from what it has open: what comes again from the same call has no other way here; a walk that begins with this name does
 * so here, and is right already. After ESTALE
 * for the name that mkdir(2) and the like are to make the walk is not begun anew, but after ESTALE for making it. */
int pt_fs_where_check(struct pt_fs *fs, struct pt_fs_inode *dir, const char *name, pid_t tid)
{
	struct pt_meta_mark mark;
	char told[PT_NAME_MAX + 1];
	uint64_t parent, serial = 0, call;
	bool marked;
	int rc;

	if (fs->dir_timeout <= 0 || dir->kind != PT_FS_DIR || dir == fs->root)
		return 0;
	marked = pt_meta_mark(&fs->store->meta, &mark);
	if (!to_check(dir, marked ? &mark : NULL, &parent, told))
		return 0;
	rc = chain_is_right(fs, dir, marked ? &mark : NULL, &serial);
	if (rc == 1 && marked)
		chain_found_right(fs, dir, &mark);
	if (rc >= 0)
		pt_fail_clear();
	if (rc)
		return rc < 0 ? rc : 0;
	call = pt_fs_caller_call(tid);
	if (pt_fs_intent_sent_back(fs, tid, serial, call))
		return 0;
	if (name && pt_fs_caller_makes(tid, name))
		return -ENOENT;
	if (pt_fs_intent_again(fs, tid, serial, call, !name || !(atomic_load(&dir->entries) & name_bit(name)) || pt_fs_caller_begins(tid, name)))
		return 0;
	atomic_fetch_add(&fs->counters.stale_dirs, 1);
	return -ESTALE;
}

int pt_fs_where_check_itself(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid)
{
	int rc = pt_fs_where_check(fs, inode, NULL, tid);

	return rc == -ESTALE && pt_fs_caller_has_open(tid) ? 0 : rc;
}

/* ---- telling the kernel ---- */

struct pt_fs_notifier {
	pthread_mutex_t lock;           /* all below */
	pthread_cond_t cond;            /* something was queued, or told, or it is the end */
	pthread_t thread;
	bool started, stop;
	fuse_ino_t queue[QUEUE];
	uint64_t queued, told;          /* ever */
};

/* What the kernel did not know in time, for whoever replies was held up: told until it does, but nobody waits for it. The notifier's thread alone. */
struct late {
	size_t count;
	int64_t wait_ns, next_ns;
	struct {
		fuse_ino_t ino;
		int64_t until_ns;       /* what the kernel was told before is not believed any longer */
	} at[LATE_MAX];
};

/* False: the kernel does not know the inode. */
static bool tell_once(struct pt_fs *fs, fuse_ino_t ino)
{
	return fuse_lowlevel_notify_inval_inode(fs->session, ino, -1, 0) != -ENOENT;
}

/* The kernel knows an inode a moment after the reply that names it. */
static void tell(struct pt_fs *fs, fuse_ino_t ino, struct late *late)
{
	int try;

	for (try = 0; try < NEWS_TRIES; try++) {
		if (tell_once(fs, ino))
			return;
		nanosleep(&(struct timespec){ .tv_nsec = NEWS_WAIT_NS }, NULL);
	}
	if (late->count < LATE_MAX) {
		late->at[late->count].ino = ino;
		late->at[late->count++].until_ns = pt_time_boot_ns() + (int64_t)(fs->dir_timeout * 1e9);
		late->wait_ns = 2 * NEWS_WAIT_NS;
		late->next_ns = pt_time_boot_ns() + late->wait_ns;
	}
}

static void tell_late(struct pt_fs *fs, struct late *late)
{
	int64_t now = pt_time_boot_ns();
	size_t i, kept = 0;

	for (i = 0; i < late->count; i++)
		if (!tell_once(fs, late->at[i].ino) && now < late->at[i].until_ns)
			late->at[kept++] = late->at[i];
	late->count = kept;
	late->wait_ns = late->wait_ns < LATE_WAIT_MAX_NS / 2 ? late->wait_ns * 2 : LATE_WAIT_MAX_NS;
	late->next_ns = now + late->wait_ns;
}

/* Until something is queued, or ns have passed. */
static void sleep_locked(struct pt_fs_notifier *n, int64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t = pt_fs_time(pt_fs_time_ns(t) + ns);
	pthread_cond_timedwait(&n->cond, &n->lock, &t);
}

static void *notify(void *arg)
{
	struct pt_fs *fs = arg;
	struct pt_fs_notifier *n = fs->notifier;
	struct late late = { .count = 0 };
	fuse_ino_t ino;
	int64_t left;

	pthread_mutex_lock(&n->lock);
	while (!n->stop) {
		left = late.count ? late.next_ns - pt_time_boot_ns() : INT64_MAX;
		if (left <= 0) {
			pthread_mutex_unlock(&n->lock);
			tell_late(fs, &late);
			pthread_mutex_lock(&n->lock);
		} else if (n->told < n->queued) {
			ino = n->queue[n->told % QUEUE];
			pthread_mutex_unlock(&n->lock);
			tell(fs, ino, &late);
			pthread_mutex_lock(&n->lock);
			n->told++;
			pthread_cond_broadcast(&n->cond);
		} else if (late.count) {
			sleep_locked(n, left);
		} else {
			pthread_cond_wait(&n->cond, &n->lock);
		}
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

/* A commit of this process has changed a node: attributes of it that the kernel holds are wrong from now on. */
static void changed(void *ctx, uint64_t node)
{
	struct pt_fs *fs = ctx;
	struct pt_fs_notifier *n = fs->notifier;
	struct pt_fs_inode *dir;
	uint64_t mine;
	bool known;

	atomic_fetch_add(&fs->changes, 1);
	dir = pt_fs_inode_find(fs, PT_FS_DIR, node, "", "", 0);
	if (!dir)
		return;
	pthread_mutex_lock(&fs->table_lock);
	known = dir->nlookup > 0 || dir == fs->root;
	pthread_mutex_unlock(&fs->table_lock);
	pthread_mutex_lock(&n->lock);
	while (known && !n->stop && n->queued - n->told == QUEUE)
		pthread_cond_wait(&n->cond, &n->lock);
	if (known && !n->stop) {
		n->queue[n->queued % QUEUE] = pt_fs_inode_id(fs, dir);
		mine = ++n->queued;
		pthread_cond_broadcast(&n->cond);
		while (!n->stop && n->told < mine)
			pthread_cond_wait(&n->cond, &n->lock);
	}
	pthread_mutex_unlock(&n->lock);
	pt_fs_inode_unref(fs, dir);
}

int pt_fs_where_start(struct pt_fs *fs)
{
	pthread_condattr_t attr;
	struct pt_meta_mark mark;
	int rc;

	/* Without marks every step would have to ask the store, which is what the time is to save. */
	fs->dir_timeout = pt_meta_mark(&fs->store->meta, &mark) ? fs->options->entry_timeout : 0;
	if (fs->dir_timeout <= 0)
		return 0;
	fs->notifier = pt_calloc(1, sizeof(*fs->notifier));
	if (!fs->notifier)
		return pt_fail_nomem();
	pthread_mutex_init(&fs->notifier->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fs->notifier->cond, &attr);
	pthread_condattr_destroy(&attr);
	rc = pthread_create(&fs->notifier->thread, NULL, notify, fs);
	if (rc)
		return pt_fail(rc, "cannot start a thread: %s", strerror(rc));
	fs->notifier->started = true;
	pt_repo_on_change(fs->repo, changed, fs);
	return 0;
}

void pt_fs_where_stop(struct pt_fs *fs)
{
	struct pt_fs_notifier *n = fs->notifier;

	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_broadcast(&n->cond);
	pthread_mutex_unlock(&n->lock);
	if (n->started)
		pthread_join(n->thread, NULL);
	n->started = false;
}

void pt_fs_where_free(struct pt_fs *fs)
{
	struct pt_fs_notifier *n = fs->notifier;

	if (!n)
		return;
	pthread_cond_destroy(&n->cond);
	pthread_mutex_destroy(&n->lock);
	free(n);
	fs->notifier = NULL;
}
