/* tools/fsck_rebuild.c - another index in place of one that is lost or damaged.
 *
 * It is made beside it, as index.db-rebuild: a copy of the newest snapshot that is sound, or an empty index; what it names and is gone altogether is taken out, what is there and it does not name is
 * put below lost+found/. Then the old one is put aside, with its log, and the new one gets its name. The store's lock is held alone all the time. Killed at any point before the last
 * rename, there is no index or the old one, and it can be run again; objects are read, and what makes no sense is moved out of the way. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "store/folder.h"
#include "store/held.h"
#include "store/snapshots.h"
#include "tools/fsck.h"
#include "tree/container.h"

#define INDEX "index.db"
#define NEW_INDEX "index.db-rebuild"
#define COPY_BYTES ((size_t)1 << 20)

struct rebuild {
	struct fsck *f;
	int dirfd;
	char now[32];                   /* UTC, for names */
	struct fsck_rescue rescue;
};

/* ---- the base: a snapshot ---- */
static int copy_file(int from_dir, const char *from, int to_dir, const char *to)
{
	int in = openat(from_dir, from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640), rc = 0;
	uint8_t *buf = pt_malloc(COPY_BYTES);
	uint64_t at = 0;
	int64_t n = 1;

	if (in < 0 || out < 0)
		rc = pt_fail(errno, "cannot copy %s to %s: %s", from, to, strerror(errno));
	else if (!buf)
		rc = pt_fail_nomem();
	else if ((rc = pt_folder_owner_set(to_dir, out)) < 0)
		rc = pt_fail(-rc, "cannot give %s to the owner of the store: %s", to, strerror(-rc));
	while (rc == 0 && n > 0) {
		n = pt_io_pread(in, buf, COPY_BYTES, at);
		rc = n < 0 ? (int)n : pt_io_pwrite(out, buf, (size_t)n, at);
		at += n > 0 ? (uint64_t)n : 0;
		if (rc < 0)
			pt_fail(-rc, "cannot copy %s to %s: %s", from, to, strerror(-rc));
	}
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	free(buf);
	return rc;
}

/* What an earlier try has left. */
static void remove_new(struct rebuild *r)
{
	static const char *const names[] = { NEW_INDEX, NEW_INDEX "-wal", NEW_INDEX "-shm", NEW_INDEX "-journal", NEW_INDEX "-reserve" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(r->dirfd, names[i], 0);
}

/* name: below the store's directory; dirfd: of the folder that it is in. */
static int is_sound(struct rebuild *r, int dirfd, const char *name)
{
	char *path = pt_asprintf("%s/%s", r->f->dir, name);
	uint64_t version, records;
	int rc = path ? pt_meta_sqlite_check(dirfd, path, true, &version, &records) : pt_fail_nomem();

	free(path);
	return rc;
}

/* A snapshot that is damaged, and one that is newer than what the store goes on with, must not be taken for the newest again. */
static void put_aside(struct rebuild *r, int dirfd, const struct pt_snapshot *s)
{
	char to[128];

	snprintf(to, sizeof(to), "damaged-%s", s->name);
	if (!r->f->dry_run)
		renameat(dirfd, s->name, dirfd, to);
}

static int take_snapshot(struct rebuild *r)
{
	struct pt_snapshot *all = NULL;
	size_t count = 0, i;
	char name[128];
	int dirfd = -1;
	int rc = pt_snapshots_list(r->dirfd, &all, &count);
	bool taken = false;

	if (rc == 0 && count)
		rc = pt_folder_open(r->dirfd, PT_SNAPSHOTS_DIR, O_RDONLY, &dirfd);
	for (i = 0; rc == 0 && i < count && !taken; i++) {
		snprintf(name, sizeof(name), "%s/%s", PT_SNAPSHOTS_DIR, all[i].name);
		rc = is_sound(r, dirfd, name);
		if (rc == 0) {
			rc = copy_file(dirfd, all[i].name, r->dirfd, NEW_INDEX);
			taken = rc == 0;
			if (taken)
				fsck_say(r->f, "index: from the snapshot %s", all[i].name);
		} else if (rc == -EIO) {
			fsck_say(r->f, "snapshot %s: %s", all[i].name, pt_fail_sentence());
			put_aside(r, dirfd, &all[i]);
			rc = 0;
		}
	}
	if (dirfd >= 0)
		close(dirfd);
	free(all);
	if (rc == 0 && !taken)
		fsck_say(r->f, "index: there is no sound snapshot, so that all names are lost; everything goes below " FSCK_LOST "/");
	return rc;
}

/* ---- what it names and is gone ---- */
struct gone {
	struct rebuild *r;
	struct pt_repo *repo;
	const char *key;
	char (*scopes)[PT_LAYOUT_TEXT_MAX];
	size_t count;
};

/* Of what one name leads to. */
struct left {
	uint32_t good, harmed, gone;    /* blobs: as they should be; cut short or damaged; not there */
};

/* bytes 0: any size will do. */
static int look_blob(struct pt_repo *repo, const struct pt_blob_ref *ref, uint64_t bytes, struct left *left)
{
	uint64_t have = 0;
	int rc = pt_data_stat(&pt_repo_store(repo)->data, ref, &have);

	if (rc == -ENOENT)
		left->gone++;
	else if (rc == 0 && bytes && have != bytes)
		left->harmed++;
	else if (rc == 0)
		left->good++;
	return rc == -ENOENT ? 0 : rc;
}

static int look_objects(struct pt_repo *repo, const struct pt_object *o, uint32_t count, struct left *left)
{
	uint32_t i;
	int rc = 0;

	for (i = 0; i < count && rc == 0; i++)
		rc = look_blob(repo, &o[i].blob, o[i].payload_off + o[i].bytes, left);
	return rc;
}

/* What was removed or replaced since is gone altogether. Where something is left it keeps its name, since whatever has none is collected. */
static bool is_gone(struct gone *g, const struct left *left, const char *scope)
{
	if (!left->good && !left->harmed)
		return left->gone != 0;
	if (left->harmed || left->gone)
		fsck_problem(g->r->f, "%s%s%s: kept as it is: of its %u objects %u are gone, and %u cut short or damaged", g->key, *scope ? "/" : "", scope,
			     (unsigned)(left->good + left->harmed + left->gone), (unsigned)left->gone, (unsigned)left->harmed);
	return false;
}

static int look_revision(void *ctx, struct pt_manifest *m)
{
	struct gone *g = ctx;
	struct left left = { 0 };
	void *more;
	int rc = look_objects(g->repo, m->objects, m->object_count, &left);

	if (rc < 0 || !is_gone(g, &left, m->scope))
		return rc;
	more = pt_reallocarray(g->scopes, g->count + 1, sizeof(*g->scopes));
	if (!more)
		return pt_fail_nomem();
	g->scopes = more;
	memcpy(g->scopes[g->count++], m->scope, sizeof(m->scope));
	return 0;
}

static int look_set(void *ctx, const struct pt_pending *p)
{
	struct gone *g = ctx;
	struct left left = { 0 };
	int rc = look_objects(g->repo, p->objects, p->object_count, &left);

	if (rc < 0 || !is_gone(g, &left, ""))
		return rc;
	fsck_say(g->r->f, "%s: dropped an incomplete set whose parts are gone", g->key);
	return pt_pending_remove(g->repo, p);
}

static int drop_tensors(struct gone *g, const struct pt_node *node)
{
	size_t i;
	int rc;

	g->count = 0;
	rc = pt_manifest_list(g->repo, node->id, look_revision, g);
	for (i = 0; rc == 0 && i < g->count; i++) {
		fsck_say(g->r->f, "%s%s%s: dropped: it was removed or replaced since, or its bytes are lost", g->key, g->scopes[i][0] ? "/" : "", g->scopes[i]);
		rc = pt_manifest_remove(g->repo, node->id, g->scopes[i]);
	}
	if (rc == 0)
		rc = pt_pending_list(g->repo, node->id, look_set, g);
	/* Its directory was most likely removed with it; one that holds something else stays. */
	if (rc == 0 && g->count) {
		rc = pt_node_rmdir(g->repo, node->parent, node->name);
		if (rc == -ENOTEMPTY)
			rc = 0;
		else if (rc == 0)
			rc = pt_node_prune(g->repo, node->parent);
	}
	return rc;
}

/* What a tensor file is made of, by the index, for its description may be what is lost. */
static int look_contents(struct pt_repo *repo, const struct pt_node *node, struct left *left)
{
	struct pt_blob_ref *refs;
	size_t count, i;
	int rc = pt_container_refs(repo, &node->blob, &refs, &count);

	if (rc < 0)
		return rc;
	for (i = 0; i < count && rc == 0; i++)
		rc = look_blob(repo, &refs[i], 0, left);
	free(refs);
	return rc;
}

/* The sizes are in the description, which may itself be damaged. */
static int look_sizes(struct pt_repo *repo, const struct pt_node *node, struct left *left)
{
	struct pt_container *c = NULL;
	struct left objects = { 0 };
	uint32_t i;
	int rc = pt_node_pin(repo, node);

	if (rc < 0)
		return rc;
	rc = pt_container_load(repo, node, &c);
	for (i = 0; rc == 0 && i < c->object_count; i++)
		rc = look_blob(repo, &c->objects[i].blob, c->objects[i].payload_off + c->objects[i].bytes, &objects);
	if (rc == -EIO)
		objects.harmed = 1;
	left->good -= pt_size_min(left->good, objects.harmed);
	left->harmed += objects.harmed;
	pt_container_unref(c);
	pt_node_unpin(repo, node);
	return rc == -EIO ? 0 : rc;
}

static int look_file(struct pt_repo *repo, const struct pt_node *node, struct left *left)
{
	bool container = node->kind == PT_NODE_CONTAINER;
	int rc = look_blob(repo, &node->blob, container ? 0 : node->size, left);
	bool described = left->good;

	if (rc == 0 && container)
		rc = look_contents(repo, node, left);
	if (rc == 0 && container && described)
		rc = look_sizes(repo, node, left);
	return rc;
}

static int drop_node(void *ctx, const char *key, const struct pt_node *node)
{
	struct gone *g = ctx;
	struct left left = { 0 };
	int rc;

	g->key = key;
	if (node->kind == PT_NODE_DIR)
		return drop_tensors(g, node);
	if (node->kind == PT_NODE_SYMLINK || pt_id_is_zero(&node->blob.id))
		return 0;
	rc = look_file(g->repo, node, &left);
	if (rc < 0 || !is_gone(g, &left, ""))
		return rc;
	fsck_say(g->r->f, "%s: dropped: the file was removed or replaced since, or its bytes are lost", key);
	return pt_node_unlink_id(g->repo, node->parent, node->name, node->id);
}

static int drop_gone(struct rebuild *r, struct pt_repo *repo)
{
	struct gone g = { .r = r, .repo = repo };
	int rc = pt_node_walk(repo, PT_NODE_ROOT, drop_node, &g);

	free(g.scopes);
	return rc;
}

/* ---- the exchange ---- */
static int sync_dir(struct rebuild *r)
{
	int rc = pt_io_fsync_dir(r->dirfd);

	return rc < 0 ? pt_fail(-rc, "cannot sync %s: %s", r->f->dir, strerror(-rc)) : 0;
}

/* -ENOENT is no failure: there was none. */
static int move(struct rebuild *r, const char *from, const char *to)
{
	if (renameat(r->dirfd, from, r->dirfd, to) < 0 && errno != ENOENT)
		return pt_fail(errno, "cannot move %s/%s away: %s", r->f->dir, from, strerror(errno));
	return 0;
}

/* The log goes with its index: beside another one it would be taken in. Without an index the store does not open, so there is no moment at which it could. */
static int exchange(struct rebuild *r)
{
	char aside[64], log[80];
	struct stat st;
	bool old = fstatat(r->dirfd, INDEX, &st, AT_SYMLINK_NOFOLLOW) == 0;
	int rc;

	snprintf(aside, sizeof(aside), "index.damaged-%s", r->now);
	snprintf(log, sizeof(log), "%s-wal", aside);
	rc = move(r, INDEX, aside);
	if (rc == 0)
		rc = sync_dir(r);
	if (rc == 0)
		rc = move(r, INDEX "-wal", log);
	if (rc == 0 && unlinkat(r->dirfd, INDEX "-shm", 0) < 0 && errno != ENOENT)
		rc = pt_fail(errno, "cannot remove %s/%s-shm: %s", r->f->dir, INDEX, strerror(errno));
	if (rc == 0)
		rc = sync_dir(r);
	if (rc == 0 && renameat(r->dirfd, NEW_INDEX, r->dirfd, INDEX) < 0)
		rc = pt_fail(errno, "cannot put the new index in place in %s: %s", r->f->dir, strerror(errno));
	if (rc == 0)
		rc = sync_dir(r);
	if (rc == 0) {
		unlinkat(r->dirfd, NEW_INDEX "-reserve", 0);
		if (old)
			fsck_say(r->f, "the damaged index is kept as %s/%s; remove it when all is well", r->f->dir, aside);
	}
	return rc;
}

/* Durable, and without a log beside it. */
static int close_new(struct rebuild *r)
{
	struct stat st;
	int fd, rc;

	pt_repo_close(r->f->cli->repo);
	r->f->cli->repo = NULL;
	if (fstatat(r->dirfd, NEW_INDEX "-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		return pt_fail(EIO, "the log of %s/%s could not be taken in; free some space and try again", r->f->dir, NEW_INDEX);
	rc = is_sound(r, r->dirfd, NEW_INDEX);
	if (rc < 0)
		return rc;
	fd = openat(r->dirfd, NEW_INDEX, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	rc = fd < 0 ? -errno : pt_io_fsync(fd);
	if (fd >= 0)
		close(fd);
	return rc < 0 ? pt_fail(-rc, "cannot finish %s/%s: %s", r->f->dir, NEW_INDEX, strerror(-rc)) : 0;
}

static int open_new(struct rebuild *r)
{
	struct pt_store_options so = { .force = r->f->cli->force, .index = NEW_INDEX, .index_dirfd = r->dirfd };
	struct pt_repo_options ro = { .verify = PT_VERIFY_TOUCH };
	struct pt_store *store;
	int rc = pt_store_open(r->f->uri, &so, &store);

	if (rc < 0)
		return rc;
	rc = pt_repo_open(store, &ro, &r->f->cli->repo);
	if (rc < 0)
		pt_store_close(store);
	return rc;
}

static int make_new(struct rebuild *r)
{
	int rc;

	remove_new(r);
	rc = take_snapshot(r);
	if (rc == 0)
		rc = open_new(r);
	if (rc == 0)
		rc = drop_gone(r, r->f->cli->repo);
	if (rc == 0)
		rc = fsck_rescue(r->f, r->now, &r->rescue);
	if (rc == 0)
		rc = close_new(r);
	return rc;
}

static int stop(struct rebuild *r, int rc)
{
	pt_repo_close(r->f->cli->repo);
	r->f->cli->repo = NULL;
	remove_new(r);
	return fsck_failed(rc);
}

static int rebuild_held(struct rebuild *r)
{
	const struct fsck_rescue *n = &r->rescue;
	char size[32];
	int rc = make_new(r);

	if (rc < 0)
		return stop(r, rc);
	fsck_say(r->f, "below " FSCK_LOST "/: %llu tensors, %llu files, %llu parts of sets that are not whole (%s)%s", (unsigned long long)n->tensors, (unsigned long long)n->files,
		 (unsigned long long)n->parts, cli_size(n->bytes, size), n->tensors + n->files + n->parts ? "; give them their names with mv on a mount" : "");
	if (r->f->dry_run) {
		remove_new(r);
		fsck_say(r->f, "nothing was changed (--dry-run)");
		return r->f->problems ? FSCK_LEFT : FSCK_CLEAN;
	}
	rc = exchange(r);
	if (rc < 0)
		return fsck_failed(rc);
	return FSCK_MENDED | (r->f->problems ? FSCK_LEFT : 0);
}

/* 1: it has to be rebuilt; 0: it is sound. */
static int is_needed(struct rebuild *r)
{
	struct stat st;
	int rc;

	if (fstatat(r->dirfd, "objects", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return pt_fail(ENOENT, "%s is no store: it has no objects; give the directory of a ptio store", r->f->dir);
	if (fstatat(r->dirfd, INDEX, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : pt_fail(errno, "cannot look at %s/%s: %s", r->f->dir, INDEX, strerror(errno));
	rc = fsck_check_index(r->f, r->dirfd);
	if (rc == -EIO)
		fsck_say(r->f, "%s", pt_fail_sentence());
	return rc == -EIO ? 1 : rc;
}

int fsck_rebuild(struct fsck *f)
{
	struct rebuild r = { .f = f, .dirfd = -1 };
	time_t t = time(NULL);
	struct tm tm;
	int rc, status;

	rc = pt_held_take(f->dir, true, &r.dirfd);
	if (rc < 0)
		return fsck_failed(rc);
	gmtime_r(&t, &tm);
	strftime(r.now, sizeof(r.now), "%Y%m%dT%H%M%SZ", &tm);
	rc = is_needed(&r);
	if (rc > 0) {
		status = rebuild_held(&r);
	} else {
		pt_held_give(r.dirfd);
		r.dirfd = -1;
		status = rc < 0 ? fsck_failed(rc) : fsck_check(f);
		if (rc == 0)
			fsck_say(f, "the index is sound, so it was not rebuilt");
	}
	pt_held_give(r.dirfd);
	return status;
}
