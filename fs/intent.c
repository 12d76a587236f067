/* fs/intent.c - what threads are about to do: a small table of short-lived notes.
 *
 * The kernel sets the old inode's size to 0 when an open with O_TRUNC succeeds on it, which would cut the pages from under mapped readers. So such
 * an open gets ESTALE; the kernel looks the name up again (twice) and opens what it finds: for this thread a fresh writer. A reader that lost a race
 * with a commit gets ESTALE as well, and only one more try: what its next look-up finds is pinned at once. Notes expire, for a thread may die. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"

#define INTENTS 256
#define INTENT_TTL_NS ((int64_t)5 * 1000000000)
#define WALK_ON_NS ((int64_t)100000000)

enum intent_kind { INTENT_FREE, INTENT_WRITE, INTENT_GONE, INTENT_RETRY, INTENT_HOLD, INTENT_AGAIN, INTENT_PLAIN, INTENT_UNPASSED, INTENT_REWRITE };

struct intent {
	enum intent_kind kind;
	pid_t tid;
	uint64_t ino;                   /* pt_fs_ino of the name; PLAIN: the node; AGAIN: a serial of where.c; 0 for RETRY, HOLD and REWRITE */
	struct pt_fs_inode *inode;      /* WRITE: the fresh writer; HOLD: what a reader has pinned; a reference */
	uint64_t revision;              /* GONE: the key's first revision that is newer than the unlinking; AGAIN: not 0 when the thread has been sent back */
	const void *walked, *from;      /* RETRY: the inode that it has just looked up, and the directory where; never followed */
	int64_t walked_until_ns;        /* RETRY: what comes later is not of that walk */
	uint64_t call;                  /* AGAIN, REWRITE, RETRY, HOLD: what tells the system call from others of the thread */
	int64_t until_ns;
};

struct pt_fs_intents {
	pthread_mutex_t lock;           /* intent */
	atomic_uint count;
	struct intent intent[INTENTS];
};

int pt_fs_intents_init(struct pt_fs *fs)
{
	fs->intents = pt_calloc(1, sizeof(*fs->intents));
	if (!fs->intents)
		return pt_fail_nomem();
	pthread_mutex_init(&fs->intents->lock, NULL);
	return 0;
}

/* Empties the slot; what it held is returned in *ret_old to be let go after unlocking. */
static void slot_clear_locked(struct pt_fs_intents *t, struct intent *i, struct intent *ret_old)
{
	*ret_old = *i;
	if (i->kind != INTENT_FREE)
		atomic_fetch_sub(&t->count, 1);
	memset(i, 0, sizeof(*i));
}

static void old_done(struct pt_fs *fs, struct intent *old)
{
	if (old->kind == INTENT_HOLD)
		pt_fs_reader_unpin(fs, old->inode);
	pt_fs_inode_unref(fs, old->inode);
}

/* What is lost with the least harm: that a thread was sent back (each superseded view leaves such a note), and of those the oldest. */
static bool goes_before(const struct intent *a, const struct intent *b)
{
	bool again = a->kind == INTENT_AGAIN;

	return again == (b->kind == INTENT_AGAIN) ? a->until_ns < b->until_ns : again;
}

/* A free slot, or one whose note goes. */
static struct intent *slot_take_locked(struct pt_fs_intents *t, struct intent *ret_old)
{
	struct intent *best = &t->intent[0];
	size_t i;

	for (i = 0; i < INTENTS; i++) {
		if (t->intent[i].kind == INTENT_FREE) {
			best = &t->intent[i];
			break;
		}
		if (goes_before(&t->intent[i], best))
			best = &t->intent[i];
	}
	slot_clear_locked(t, best, ret_old);
	return best;
}

static struct intent *find_locked(struct pt_fs_intents *t, enum intent_kind kind, pid_t tid, uint64_t ino)
{
	int64_t now = pt_time_boot_ns();
	size_t i;

	for (i = 0; i < INTENTS; i++)
		if (t->intent[i].kind == kind && t->intent[i].tid == tid && t->intent[i].ino == ino && t->intent[i].until_ns > now)
			return &t->intent[i];
	return NULL;
}

static void intent_put_call(struct pt_fs *fs, enum intent_kind kind, pid_t tid, uint64_t ino, struct pt_fs_inode *inode, uint64_t revision, uint64_t call)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent old = { 0 }, *i;

	pthread_mutex_lock(&t->lock);
	i = find_locked(t, kind, tid, ino);
	if (i)
		slot_clear_locked(t, i, &old);
	else
		i = slot_take_locked(t, &old);
	*i = (struct intent){ .kind = kind, .tid = tid, .ino = ino, .inode = inode, .revision = revision, .call = call,
			      .until_ns = pt_time_boot_ns() + INTENT_TTL_NS };
	atomic_fetch_add(&t->count, 1);
	pthread_mutex_unlock(&t->lock);
	old_done(fs, &old);
}

static void intent_put(struct pt_fs *fs, enum intent_kind kind, pid_t tid, uint64_t ino, struct pt_fs_inode *inode, uint64_t revision)
{
	intent_put_call(fs, kind, tid, ino, inode, revision, 0);
}

int pt_fs_intent_write(struct pt_fs *fs, pid_t tid, uint64_t node, const char *dir, const char *name)
{
	struct pt_fs_inode *writer;
	int rc;

	rc = pt_fs_writer_create(fs, node, dir, name, &writer);
	if (rc < 0)
		return rc;
	intent_put(fs, INTENT_WRITE, tid, pt_fs_ino(node, dir, name), writer, 0);
	return 0;
}

void pt_fs_intent_gone(struct pt_fs *fs, pid_t tid, uint64_t node, const char *dir, const char *name, uint64_t next_revision)
{
	intent_put(fs, INTENT_GONE, tid, pt_fs_ino(node, dir, name), NULL, next_revision);
}

void pt_fs_intent_retry(struct pt_fs *fs, pid_t tid)
{
	intent_put_call(fs, INTENT_RETRY, tid, 0, NULL, 0, pt_fs_caller_call(tid));
}

enum pt_fs_intent_found pt_fs_intent_find(struct pt_fs *fs, pid_t tid, uint64_t node, const char *dir, const char *name,
					  struct pt_fs_inode **ret_inode, uint64_t *ret_next_revision)
{
	struct pt_fs_intents *t = fs->intents;
	enum pt_fs_intent_found found = PT_FS_INTENT_NONE;
	uint64_t ino;
	struct intent *i;

	if (atomic_load(&t->count) == 0)
		return PT_FS_INTENT_NONE;
	ino = pt_fs_ino(node, dir, name);
	pthread_mutex_lock(&t->lock);
	i = find_locked(t, INTENT_WRITE, tid, ino);
	if (i) {
		*ret_inode = pt_fs_inode_ref(fs, i->inode);
		found = PT_FS_INTENT_WRITER;
	} else if ((i = find_locked(t, INTENT_GONE, tid, ino))) {
		*ret_next_revision = i->revision;
		found = PT_FS_INTENT_GONE;
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

/* The thread is still in the call that the note is of: the next one has its own walk, and must not be answered with what this one has found. */
static bool noted_of_call(struct pt_fs *fs, enum intent_kind kind, pid_t tid, const struct pt_fs_inode *view, struct intent *ret_note)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent *i;

	if (atomic_load(&t->count) == 0)
		return false;
	pthread_mutex_lock(&t->lock);
	i = find_locked(t, kind, tid, 0);
	if (i && view && i->inode != view)
		i = NULL;
	if (i)
		*ret_note = *i;
	pthread_mutex_unlock(&t->lock);
	return i && ret_note->call == pt_fs_caller_call(tid);
}

static bool noted(struct pt_fs *fs, enum intent_kind kind, pid_t tid, uint64_t ino)
{
	struct pt_fs_intents *t = fs->intents;
	bool found;

	if (atomic_load(&t->count) == 0)
		return false;
	pthread_mutex_lock(&t->lock);
	found = find_locked(t, kind, tid, ino) != NULL;
	pthread_mutex_unlock(&t->lock);
	return found;
}

static void note_drop(struct pt_fs *fs, enum intent_kind kind, pid_t tid, uint64_t ino)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent old = { 0 }, *i;

	if (atomic_load(&t->count) == 0)
		return;
	pthread_mutex_lock(&t->lock);
	i = find_locked(t, kind, tid, ino);
	if (i)
		slot_clear_locked(t, i, &old);
	pthread_mutex_unlock(&t->lock);
	old_done(fs, &old);
}

bool pt_fs_intent_sent_back(struct pt_fs *fs, pid_t tid, uint64_t serial, uint64_t call)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent *i;
	bool found;

	if (atomic_load(&t->count) == 0)
		return false;
	pthread_mutex_lock(&t->lock);
	i = find_locked(t, INTENT_AGAIN, tid, serial);
	found = i && i->call == call && i->revision;
	pthread_mutex_unlock(&t->lock);
	return found;
}

bool pt_fs_intent_again(struct pt_fs *fs, pid_t tid, uint64_t serial, uint64_t call, bool last, bool anew)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent old = { 0 }, *i;
	bool passes = false;

	pthread_mutex_lock(&t->lock);
	i = find_locked(t, INTENT_AGAIN, tid, serial);
	if (i && i->call == call && !anew) {
		passes = i->revision != 0;
		i->revision = 1;
	} else {
		if (i)
			slot_clear_locked(t, i, &old);
		else
			i = slot_take_locked(t, &old);
		*i = (struct intent){ .kind = INTENT_AGAIN, .tid = tid, .ino = serial, .revision = last, .call = call,
				      .until_ns = pt_time_boot_ns() + INTENT_TTL_NS };
		atomic_fetch_add(&t->count, 1);
	}
	pthread_mutex_unlock(&t->lock);
	old_done(fs, &old);
	return passes;
}

void pt_fs_intent_over(struct pt_fs *fs, pid_t tid)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent old;                      /* such a note holds nothing */
	size_t i;

	if (atomic_load(&t->count) == 0)
		return;
	pthread_mutex_lock(&t->lock);
	for (i = 0; i < INTENTS; i++)
		if (t->intent[i].kind == INTENT_AGAIN && t->intent[i].tid == tid)
			slot_clear_locked(t, &t->intent[i], &old);
	pthread_mutex_unlock(&t->lock);
}

void pt_fs_intent_plain_begin(struct pt_fs *fs, pid_t tid, uint64_t node)
{
	intent_put(fs, INTENT_PLAIN, tid, node, NULL, 0);
}

bool pt_fs_intent_plain(struct pt_fs *fs, pid_t tid, uint64_t node)
{
	return noted(fs, INTENT_PLAIN, tid, node);
}

void pt_fs_intent_plain_end(struct pt_fs *fs, pid_t tid, uint64_t node)
{
	note_drop(fs, INTENT_PLAIN, tid, node);
}

void pt_fs_intent_unpassed_begin(struct pt_fs *fs, pid_t tid, uint64_t node)
{
	intent_put(fs, INTENT_UNPASSED, tid, node, NULL, 0);
}

bool pt_fs_intent_unpassed(struct pt_fs *fs, pid_t tid, uint64_t node)
{
	return noted(fs, INTENT_UNPASSED, tid, node);
}

void pt_fs_intent_unpassed_end(struct pt_fs *fs, pid_t tid, uint64_t node)
{
	note_drop(fs, INTENT_UNPASSED, tid, node);
}

bool pt_fs_intent_retrying(struct pt_fs *fs, pid_t tid)
{
	struct intent note;

	return noted_of_call(fs, INTENT_RETRY, tid, NULL, &note);
}

void pt_fs_intent_walked(struct pt_fs *fs, pid_t tid, const struct pt_fs_inode *inode, const struct pt_fs_inode *from)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent note, *i;

	if (!noted(fs, INTENT_RETRY, tid, 0))
		return;
	if (!noted_of_call(fs, INTENT_RETRY, tid, NULL, &note)) {
		note_drop(fs, INTENT_RETRY, tid, 0);    /* another call has begun */
		return;
	}
	pthread_mutex_lock(&t->lock);
	i = find_locked(t, INTENT_RETRY, tid, 0);
	if (i) {
		i->walked = inode;
		i->from = from;
		i->walked_until_ns = inode ? i->until_ns : pt_time_boot_ns() + WALK_ON_NS;
	}
	pthread_mutex_unlock(&t->lock);
}

int pt_fs_intent_walks(struct pt_fs *fs, pid_t tid, const struct pt_fs_inode *inode)
{
	struct intent note;

	if (!noted_of_call(fs, INTENT_RETRY, tid, NULL, &note) || (!note.walked && !note.from))
		return 0;
	return (note.walked == inode || note.from == inode) && pt_time_boot_ns() < note.walked_until_ns ? 1 : -1;
}

int64_t pt_fs_intent_retrying_since(struct pt_fs *fs, pid_t tid)
{
	struct intent note;

	return noted_of_call(fs, INTENT_RETRY, tid, NULL, &note) ? note.until_ns - INTENT_TTL_NS : INT64_MAX;
}

void pt_fs_intent_hold(struct pt_fs *fs, pid_t tid, struct pt_fs_inode *view)
{
	intent_put_call(fs, INTENT_HOLD, tid, 0, view, 0, pt_fs_caller_call(tid));
}

bool pt_fs_intent_held(struct pt_fs *fs, pid_t tid, const struct pt_fs_inode *view)
{
	struct intent note;

	return noted_of_call(fs, INTENT_HOLD, tid, view, &note);
}

void pt_fs_intent_opened(struct pt_fs *fs, pid_t tid)
{
	note_drop(fs, INTENT_RETRY, tid, 0);
	note_drop(fs, INTENT_HOLD, tid, 0);
}

void pt_fs_intent_rewrite_begin(struct pt_fs *fs, pid_t tid, uint64_t call)
{
	intent_put_call(fs, INTENT_REWRITE, tid, 0, NULL, 0, call);
}

bool pt_fs_intent_rewrite_end(struct pt_fs *fs, pid_t tid)
{
	struct pt_fs_intents *t = fs->intents;
	uint64_t call = 0;
	struct intent *i;

	if (atomic_load(&t->count) == 0)
		return false;
	pthread_mutex_lock(&t->lock);
	i = find_locked(t, INTENT_REWRITE, tid, 0);
	if (i)
		call = i->call;
	pthread_mutex_unlock(&t->lock);
	if (!i)
		return false;
	note_drop(fs, INTENT_REWRITE, tid, 0);
	return call == pt_fs_caller_call(tid);
}

void pt_fs_intent_end(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, const struct pt_fs_inode *writer)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent old[8] = { 0 };
	uint64_t ino = pt_fs_ino(node, dir, name);
	size_t i, n = 0;

	if (atomic_load(&t->count) == 0)
		return;
	pthread_mutex_lock(&t->lock);
	for (i = 0; i < INTENTS && n < 8; i++)
		if ((t->intent[i].kind == INTENT_WRITE && t->intent[i].inode == writer) ||
		    (t->intent[i].kind == INTENT_GONE && t->intent[i].ino == ino))
			slot_clear_locked(t, &t->intent[i], &old[n++]);
	pthread_mutex_unlock(&t->lock);
	while (n > 0)
		old_done(fs, &old[--n]);
}

static void expire(struct pt_fs *fs, int64_t now)
{
	struct pt_fs_intents *t = fs->intents;
	struct intent old;
	size_t i;

	for (i = 0; i < INTENTS; i++) {
		memset(&old, 0, sizeof(old));
		pthread_mutex_lock(&t->lock);
		if (t->intent[i].kind != INTENT_FREE && t->intent[i].until_ns <= now)
			slot_clear_locked(t, &t->intent[i], &old);
		pthread_mutex_unlock(&t->lock);
		old_done(fs, &old);
	}
}

void pt_fs_intents_tick(struct pt_fs *fs)
{
	if (atomic_load(&fs->intents->count))
		expire(fs, pt_time_boot_ns());
}

void pt_fs_intents_done(struct pt_fs *fs)
{
	if (!fs->intents)
		return;
	expire(fs, INT64_MAX);
	pthread_mutex_destroy(&fs->intents->lock);
	free(fs->intents);
	fs->intents = NULL;
}
