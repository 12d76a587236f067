/* fs/fill.c - which views are read into memory (cache/) when they are opened, and how long an open waits for that (docs/PERFORMANCE.md "Which way a view is served"). */
#include "fs.h"
#include "cached_int.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"

#define WAITING_MAX 8                   /* threads that wait for fillings; the others of the session have reads to answer */
#define COPY_PART 2                     /* no copy takes more of the cache than one part of so many */
#define HEAD_PART 8                     /* the first of so many parts of the time tells nothing of the rest */
#define WAIT_STEP_NS (INT64_C(5) * 1000000)     /* how often one that waits looks whether it still should */

struct filling {
	struct pt_fs *fs;
	struct pt_fs_inode *inode;      /* a reference and a pin */
	struct pt_file_state state;     /* of a file that the store has as it reads: what that is to be like at the end, too */
};

static int64_t filling_read(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	struct filling *f = ctx;
	int64_t n;

	/* For this piece only: files come and go, and what is registered cannot be. */
	pt_fs_memory_add(f->fs, buf, len);
	n = pt_fs_reader_read(f->fs, f->inode, buf, len, off);
	pt_fs_memory_remove(f->fs, buf);
	return n;
}

static uint64_t filling_cut(void *ctx, uint64_t off, uint64_t max)
{
	struct filling *f = ctx;

	return pt_fs_reader_cut(f->inode, off, max);
}

/* Chunks that were verified once are read as they are, and what is in memory outlives the pin that they were verified under: so nobody may have changed the file meanwhile. */
static int filling_finish(void *ctx)
{
	struct filling *f = ctx;
	struct pt_file_state after;

	return pt_fs_stored_state(f->fs, f->inode, &after) == 0 && pt_file_state_same(&after, &f->state) ? 0 : -EAGAIN;
}

static void filling_release(void *ctx)
{
	struct filling *f = ctx;

	pt_fs_reader_unpin(f->fs, f->inode);
	pt_fs_inode_unref(f->fs, f->inode);
	free(f);
}

/* i is pinned by the caller. NULL: no room. */
static struct pt_vcache_file *fill(struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key, enum pt_vcache_want want)
{
	struct pt_vcache_source source = { .read = filling_read, .cut = filling_cut, .release = filling_release };
	struct pt_vcache_file *file;
	struct filling *f;
	int rc;

	f = pt_malloc(sizeof(*f));
	if (!f)
		return NULL;
	/* Before the pin, which finds out what still counts as verified. */
	if (pt_fs_stored_state(fs, i, &f->state) == 0)
		source.finish = filling_finish;
	if (pt_fs_reader_pin(fs, i) < 0) {
		free(f);
		pt_fail_clear();
		return NULL;
	}
	f->fs = fs;
	f->inode = pt_fs_inode_ref(fs, i);
	source.ctx = f;
	source.subject = pt_fs_ino(i->node, i->dir, i->name);
	rc = pt_vcache_fill(fs->cache, key, pt_fs_reader_size(i), pt_fs_reader_align(i), want, &source, &file);
	if (rc != 0)
		filling_release(f);
	pt_fail_clear();
	return rc < 0 ? NULL : file;
}

struct pt_vcache_file *pt_fs_fill_for(struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key, bool again, int flags)
{
	struct pt_vcache_file *file = pt_vcache_find(fs->cache, key, false);
	int64_t wait_ns = fs->options->open_wait_ns;

	if (file)
		return file;
	if (fs->options->serve == PT_SERVE_CACHE || (again && atomic_load(&fs->passthrough)))
		return fill(fs, i, key, PT_VCACHE_KEEP);
	if (again || !atomic_load(&fs->passthrough) || !wait_ns || flags & O_DIRECT)
		return NULL;
	/* What cannot be whole in time and may be read only once, in order, is better streamed: its bytes would take memory for nothing. */
	if (!pt_vcache_soon(fs->cache, PT_VCACHE_FILL, pt_fs_reader_size(i), wait_ns) && !pt_fs_reader_maps(fs, i))
		return NULL;
	return fill(fs, i, key, PT_VCACHE_TRY);
}

void pt_fs_fill_copy(struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key)
{
	if (pt_vcache_enabled(fs->cache) && pt_fs_reader_size(i) <= pt_vcache_limit(fs->cache) / COPY_PART)
		pt_vcache_put(fs->cache, fill(fs, i, key, PT_VCACHE_IDLE));
}

/* Waits for as long as it still looks as if the file will be whole in time, and not at the price of memory that takes longer to have than reading does: what is mapped would need as much. */
static bool wait_in_time(fuse_req_t req, struct pt_fs *fs, struct pt_vcache_file *file, struct pt_fs_inode *i)
{
	int (*wait)(struct pt_vcache *c, struct pt_vcache_file *f, int64_t ns) = pt_fs_reader_maps(fs, i) ? pt_vcache_file_wait : pt_vcache_file_wait_cheap;
	int64_t budget = fs->options->open_wait_ns, begin = pt_time_boot_ns(), passed = 0;
	uint64_t before = pt_vcache_file_filled(fs->cache, file), gained = 0, size = pt_fs_reader_size(i);
	int rc = 0;

	if (!pt_vcache_soon(fs->cache, pt_vcache_file_work(file), size - before, budget))
		return false;
	atomic_fetch_add(&fs->counters.open_waits, 1);
	while (passed < budget) {
		if (fuse_req_interrupted(req) || fuse_session_exited(fs->session))
			return false;           /* which tells nothing of the store */
		rc = wait(fs->cache, file, budget - passed < WAIT_STEP_NS ? budget - passed : WAIT_STEP_NS);
		if (rc != 0 && rc != -ENOBUFS)
			return rc == 1;
		passed = pt_time_boot_ns() - begin;
		gained = pt_vcache_file_filled(fs->cache, file) - before;
		if (rc == -ENOBUFS)
			break;
		/* Pieces that are under way count as one, and threads that wake and checksums that are looked up do not count. */
		if (passed > budget / HEAD_PART && (double)(gained + PT_VCACHE_PIECE) * (double)budget < (double)(size - before) * (double)passed)
			break;
	}
	pt_vcache_file_slow(fs->cache, pt_vcache_file_work(file), gained, passed);
	return false;
}

bool pt_fs_fill_wait(fuse_req_t req, struct pt_fs *fs, struct pt_vcache_file *file, struct pt_fs_inode *i)
{
	bool whole = pt_vcache_file_whole(file);

	if (whole || !fs->options->open_wait_ns)
		return whole;
	if (atomic_fetch_add(&fs->waiting, 1) < WAITING_MAX)
		whole = wait_in_time(req, fs, file, i);
	atomic_fetch_sub(&fs->waiting, 1);
	return whole;
}
