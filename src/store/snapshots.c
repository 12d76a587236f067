/* store/snapshots.c - see snapshots.h.
 *
 * A copy is made in one reading transaction, which holds up nobody: in WAL mode others go on committing, and only the log grows meanwhile. Whoever makes one holds flock() on the
 * directory, so what has a temporary name then is left over from a process that has died. */
#include "store/snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/thread.h"
#include "store/folder.h"

#define NS_PER_S INT64_C(1000000000)
#define LOOK_EVERY_NS (5 * NS_PER_S)            /* whether a copy is due; also how soon a store gets its first */
#define REST 50                                 /* times as long as a copy took, there is none */
#define ROOM_BYTES ((uint64_t)64 << 20)         /* left free, beside three times the index */
#define OLD_NS (24 * 3600 * NS_PER_S)

struct pt_snapshots {
	struct pt_store *store;
	int64_t every_ns;
	void (*failed)(const char *sentence);
	pthread_t thread;
	pthread_mutex_t lock;           /* the rest */
	pthread_cond_t cond;
	bool stop;
	struct pt_snapshots_counters counters;
};

/* ---- names ---- */
static void name_format(int64_t time_ns, uint64_t version, char *ret_name, size_t room)
{
	time_t t = (time_t)(time_ns / NS_PER_S);
	char when[32];
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(ret_name, room, "index-%s-%llu.db", when, (unsigned long long)version);
}

static bool name_parse(const char *name, struct pt_snapshot *ret)
{
	unsigned long long version;
	struct tm tm = { 0 };
	char again[64];
	int end = 0;

	if (sscanf(name, "index-%4d%2d%2dT%2d%2d%2dZ-%llu.db%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &version, &end) != 7)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	ret->time_ns = (int64_t)timegm(&tm) * NS_PER_S;
	ret->version = version;
	name_format(ret->time_ns, version, again, sizeof(again));
	if (strcmp(again, name) != 0)
		return false;
	memcpy(ret->name, again, sizeof(again));
	return true;
}

static int newest_first(const void *a, const void *b)
{
	const struct pt_snapshot *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? 1 : -1;
	return (x->version < y->version) - (x->version > y->version);
}

/* A pipe would be waited for, and what is no copy must not be taken for the newest. */
static bool is_file(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* fd: of the folder. stale: of names that are no copies yet, called with the lock held. */
static int list(int fd, void (*stale)(int dirfd, const char *name), struct pt_snapshot **ret_list, size_t *ret_count)
{
	struct pt_buf all = PT_BUF_INIT;
	struct pt_snapshot one;
	struct dirent *e;
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	int rc;

	if (!dir) {
		rc = pt_fail(errno, "cannot list " PT_SNAPSHOTS_DIR "/ of the store: %s", strerror(errno));
		if (again >= 0)
			close(again);
		return rc;
	}
	while ((e = readdir(dir))) {
		memset(&one, 0, sizeof(one));
		if (name_parse(e->d_name, &one)) {
			if (is_file(dirfd(dir), e->d_name))
				pt_buf_append(&all, &one, sizeof(one));
		} else if (stale && strncmp(e->d_name, "index-", 6) == 0 && strstr(e->d_name, ".db.new-")) {
			stale(dirfd(dir), e->d_name);
		}
	}
	closedir(dir);
	if (all.failed) {
		pt_buf_done(&all);
		return pt_fail_nomem();
	}
	*ret_count = all.len / sizeof(one);
	*ret_list = (void *)all.data;
	if (*ret_count)
		qsort(*ret_list, *ret_count, sizeof(one), newest_first);
	return 0;
}

int pt_snapshots_list(int dirfd, struct pt_snapshot **ret_list, size_t *ret_count)
{
	int fd;
	int rc = pt_folder_open(dirfd, PT_SNAPSHOTS_DIR, O_RDONLY, &fd);

	if (rc == -ENOENT) {
		*ret_list = NULL;
		*ret_count = 0;
		return 0;
	}
	if (rc < 0)
		return rc;
	rc = list(fd, NULL, ret_list, ret_count);
	close(fd);
	return rc;
}

/* ---- one copy ---- */
static void remove_stale(int dirfd, const char *name)
{
	unlinkat(dirfd, name, 0);
}

/* Whether the i-th newest stays. */
static bool stays(const struct pt_snapshot *all, size_t count, size_t i, int64_t now)
{
	size_t old;

	for (old = 0; old < count && now - all[old].time_ns < OLD_NS; old++)
		;
	return i < 2 || i == old || i + 1 == old;
}

static void rotate(int dirfd)
{
	struct pt_snapshot *all = NULL;
	int64_t now = pt_time_now_ns();
	size_t count = 0, i;

	if (list(dirfd, NULL, &all, &count) < 0)
		return;
	for (i = 0; i < count; i++)
		if (!stays(all, count, i, now))
			unlinkat(dirfd, all[i].name, 0);
	free(all);
}

/* Before anything is made, be it a directory: what little a full filesystem has left is for pins. */
static int check_room(struct pt_store *store)
{
	struct pt_meta_space space;
	struct statvfs fs;
	uint64_t room;
	int rc = pt_meta_space(&store->meta, &space);

	if (rc < 0)
		return rc;
	if (fstatvfs(store->dirfd, &fs) < 0)
		return pt_fail(errno, "cannot look at the filesystem of %s: %s", store->dir, strerror(errno));
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (room < ROOM_BYTES || (room - ROOM_BYTES) / 3 < space.used_bytes)
		return pt_fail(ENOSPC, "too little room for a snapshot of the index in %s/" PT_SNAPSHOTS_DIR "; free some on its filesystem", store->dir);
	return 0;
}

/* The clock has been set back: copies that seem to come from later would stay the newest, and each new one would go at once. They keep their order, by their versions, and are
 * older than what is made now. The directory's lock is held. */
static void date_back(int dirfd, const struct pt_snapshot *all, size_t count, int64_t now)
{
	char name[64];
	size_t i;

	for (i = 0; i < count && all[i].time_ns > now; i++) {
		name_format(now - NS_PER_S, all[i].version, name, sizeof(name));
		renameat(dirfd, all[i].name, dirfd, name);
	}
}

/* The directory's lock is held. */
static int make_locked(struct pt_store *store, int dirfd, bool *ret_made)
{
	struct pt_snapshot *all = NULL;
	char name[64], *file = NULL;
	size_t count = 0;
	uint64_t version;
	int64_t now;
	int rc;

	rc = list(dirfd, remove_stale, &all, &count);
	if (rc == 0)
		rc = pt_meta_watch(&store->meta, 0, 0, &version);
	if (rc == 0 && (!version || (count && all[0].version == version)))
		goto out;
	if (rc < 0)
		goto out;
	now = pt_time_now_ns();
	date_back(dirfd, all, count, now);
	name_format(now, version, name, sizeof(name));
	file = pt_asprintf("%s/" PT_SNAPSHOTS_DIR "/%s", store->dir, name);
	rc = file ? pt_meta_snapshot(&store->meta, dirfd, file) : pt_fail_nomem();
	if (rc == 0) {
		*ret_made = true;
		rotate(dirfd);
	}
out:
	free(file);
	free(all);
	return rc;
}

int pt_snapshots_make(struct pt_store *store, bool *ret_made)
{
	bool made;
	int fd = -1, rc;

	*ret_made = false;
	rc = check_room(store);
	if (rc == 0)
		rc = pt_folder_make(store->dirfd, PT_SNAPSHOTS_DIR, &made, &fd);
	/* Who does not get it leaves it to the other. */
	if (rc == 0 && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK))
		rc = make_locked(store, fd, ret_made);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- the thread ---- */
/* When the newest was made; 0: there is none. */
static int64_t newest(const struct pt_store *store)
{
	struct pt_snapshot *all = NULL;
	size_t count = 0;
	int64_t time = 0;

	if (pt_snapshots_list(store->dirfd, &all, &count) == 0 && count)
		time = all[0].time_ns;
	free(all);
	return time;
}

/* By the clock of the names, which may have been set back. */
static bool is_due(const struct pt_snapshots *s)
{
	int64_t last = newest(s->store), now = pt_time_now_ns();

	return !last || now - last >= s->every_ns || now < last;
}

/* How long there is to be none after it. */
static int64_t look(struct pt_snapshots *s, struct pt_meta_mark *seen)
{
	int64_t began = pt_time_boot_ns(), took = 0;
	struct pt_meta_mark mark;
	bool made = false;
	int rc;

	if (pt_meta_mark(&s->store->meta, &mark)) {
		if (memcmp(&mark, seen, sizeof(mark)) == 0)
			return 0;
	} else {
		memset(&mark, 0, sizeof(mark));
	}
	if (!is_due(s))
		return 0;
	pt_fail_clear();
	rc = pt_snapshots_make(s->store, &made);
	if (rc < 0)
		s->failed(pt_fail_sentence());
	else
		*seen = mark;
	took = pt_time_boot_ns() - began;
	pthread_mutex_lock(&s->lock);
	s->counters.made += made;
	s->counters.given_up += rc < 0;
	pthread_mutex_unlock(&s->lock);
	/* What has failed is likely to fail again. */
	return rc < 0 && took * REST < s->every_ns ? s->every_ns : took * REST;
}

static void *run(void *arg)
{
	struct pt_snapshots *s = arg;
	struct pt_meta_mark seen = { { 0 } };
	const int64_t every = s->every_ns < LOOK_EVERY_NS ? s->every_ns : LOOK_EVERY_NS;
	int64_t rest, until = 0;
	struct timespec t;

	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		t.tv_sec += every / NS_PER_S;
		pthread_cond_timedwait(&s->cond, &s->lock, &t);
		if (s->stop || pt_time_boot_ns() < until)
			continue;
		pthread_mutex_unlock(&s->lock);
		rest = look(s, &seen);
		until = rest ? pt_time_boot_ns() + rest : 0;
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	if (pt_time_boot_ns() >= until)
		look(s, &seen);
	return NULL;
}

int pt_snapshots_start(struct pt_store *store, int64_t every_ns, void (*failed)(const char *sentence), struct pt_snapshots **ret_s)
{
	struct pt_snapshots *s;
	pthread_condattr_t attr;
	int err;

	*ret_s = NULL;
	if (!store->dir || store->read_only || !every_ns)
		return 0;
	s = pt_calloc(1, sizeof(*s));
	if (!s)
		return pt_fail_nomem();
	s->store = store;
	s->every_ns = every_ns;
	s->failed = failed;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->cond, &attr);
	pthread_condattr_destroy(&attr);
	err = pt_thread_start(&s->thread, run, s);
	if (err) {
		pthread_cond_destroy(&s->cond);
		pthread_mutex_destroy(&s->lock);
		free(s);
		return pt_fail(err, "cannot start a thread: %s", strerror(err));
	}
	*ret_s = s;
	return 0;
}

void pt_snapshots_stop(struct pt_snapshots *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->cond);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->cond);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void pt_snapshots_count(struct pt_snapshots *s, struct pt_snapshots_counters *ret)
{
	*ret = (struct pt_snapshots_counters){ 0 };
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	*ret = s->counters;
	pthread_mutex_unlock(&s->lock);
}
