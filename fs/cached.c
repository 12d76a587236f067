/* fs/cached.c - how views are served: streamed, or from memory (cache/), or as the store has them (stored.c), by the kernel itself where it can (docs/PERFORMANCE.md "Which way a view is served").
 *
 * "View" means all that readers' inodes are: views, files of many tensors (many.c), containers under their own name (sealed.c).
 * A view that is whole in memory, or that the store has as it reads, has a second node, of kind PT_FS_WHOLE, whose opens are all passed through to that file: the kernel wants
 * every open of a node to be of one sort, and of one file. A copy in memory is taken before the store's own file once no open of that is left. Its origin is the view's own node; attributes and writes go there. OPEN of the origin is ESTALE then, and the look-up
 * that follows finds the whole one. Should the file be evicted between the two, the whole node is served as the origin would be (`plain`), and stays so until these are closed. */
#include "config.h"

#include "fs.h"
#include "cached_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"

#define WORKERS_MAX 8
#define LOAD_NS (INT64_C(20) * 1000000) /* who opens a file is busy with it for so long, and for so many bytes a ns */
#define LOAD_RATE 4
#define PASS_TRIES 10                   /* how often an open looks again what its node is passed to */
#define BUFFERS 50                      /* of 1 MiB, for read-ahead of all open files together: 60 MiB with what lies between them */

/* ---- starting and ending ---- */

void pt_fs_memory_add(void *ctx, void *addr, uint64_t len)
{
	struct pt_fs *fs = ctx;

	if (pt_data_buffer_register(&fs->store->data, addr, len) < 0)
		pt_fail_clear();
}

void pt_fs_memory_remove(void *ctx, void *addr)
{
	struct pt_fs *fs = ctx;

	pt_data_buffer_unregister(&fs->store->data, addr);
}

int pt_fs_cached_start(struct pt_fs *fs)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int rc;

	rc = pt_workers_create_idle(1, &fs->idle);
	if (rc == 0)
		rc = pt_workers_create(cpus < 2 ? 2 : cpus > WORKERS_MAX ? WORKERS_MAX : (uint32_t)cpus, &fs->workers);
	if (rc == 0)
		rc = pt_buffers_init(&fs->buffers, BUFFERS);
	if (rc == 0)
		rc = pt_share_init(&fs->share, &fs->buffers);
	fs->buffers.watch = (struct pt_buffers_watch){ pt_fs_memory_add, pt_fs_memory_remove, fs };
	if (rc == 0)
		rc = pt_vcache_create(fs->options->serve == PT_SERVE_STREAM ? 0 : fs->options->cache_size, fs->workers, &fs->cache);
	if (rc == 0)
		pt_vcache_idle(fs->cache, fs->idle);
	return rc;
}

void pt_fs_cached_stop(struct pt_fs *fs)
{
	pt_workers_stop(fs->workers);
	pt_workers_stop(fs->idle);
	pt_vcache_free(fs->cache);
	fs->cache = NULL;
	pt_workers_free(fs->idle);
	fs->idle = NULL;
	pt_share_done(&fs->share);
	pt_buffers_done(&fs->buffers);
	pt_workers_free(fs->workers);
	fs->workers = NULL;
}

/* Memory for first opens, where these are to be kept in memory. The kernel tells only at an open that it passes nothing through for who is not root. */
static void ready(struct pt_fs *fs)
{
	bool kept = fs->options->serve == PT_SERVE_CACHE || (atomic_load(&fs->passthrough) && pt_process_is_capable(CAP_SYS_ADMIN));

	if (pt_vcache_enabled(fs->cache))
		pt_vcache_ready(fs->cache, kept ? fs->options->reserve : 0);
}

void pt_fs_cached_init(struct pt_fs *fs, struct fuse_conn_info *conn)
{
	(void)conn;
#ifdef HAVE_FUSE_PASSTHROUGH
	if (conn->capable & FUSE_CAP_DIRECT_IO_ALLOW_MMAP) {
		conn->want |= FUSE_CAP_DIRECT_IO_ALLOW_MMAP;
		fs->direct_mmap = true;
	}
	if (conn->capable & FUSE_CAP_PASSTHROUGH && (pt_vcache_enabled(fs->cache) || (fs->options->serve != PT_SERVE_STREAM && fs->store->data.ops->fd_get))) {
		conn->want |= FUSE_CAP_PASSTHROUGH;
		atomic_store(&fs->passthrough, true);
	}
#endif
	ready(fs);
}

/* ---- opening ---- */

/* Copies for those who come later do not take part of the processors and the memory from who loads a file now. */
static void loads(struct pt_fs *fs, struct pt_fs_inode *i)
{
	pt_vcache_hush(fs->cache, LOAD_NS + (int64_t)(pt_fs_reader_size(i) / LOAD_RATE));
}

static int64_t ahead_read(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	struct pt_fs_handle *h = ctx;
	struct pt_fs_inode *i = h->inode->kind == PT_FS_WHOLE ? h->inode->origin : h->inode;

	return pt_fs_reader_read(h->fs, i, buf, len, off);
}

static uint64_t ahead_cut(void *ctx, uint64_t off, uint64_t max)
{
	struct pt_fs_handle *h = ctx;

	return pt_fs_reader_cut(pt_fs_origin(h->inode), off, max);
}

/* Pinned, and not from memory: one pass by direct io with read-ahead, later ones through the kernel's cache. Who asked for O_DIRECT gets the read-ahead only: a file of direct io is
 * read a request at a time, O_DIRECT of another in several at once. */
static void stream(struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, bool again, struct fuse_file_info *fi)
{
	struct pt_vcache_key key;
	bool asked = fi->flags & O_DIRECT, direct = fs->direct_mmap && !again && !asked && pt_fs_reader_large(fs, i);

	fi->keep_cache = !direct;
	fi->direct_io = direct;
	if (direct)
		atomic_fetch_add(&fs->counters.direct_opens, 1);
	else if (!asked || !pt_fs_reader_large(fs, i))
		return;
	h->fs = fs;
	pt_fs_reader_key(fs, i, &key);
	if (pt_ahead_create(fs->workers, &fs->share, &key, pt_fs_reader_size(i), pt_fs_reader_align(i), ahead_read, ahead_cut, h, &h->ahead) < 0)
		pt_fail_clear();        /* slower */
}

/* From memory, whole or still being filled, by this process. */
static void from_memory(struct pt_fs *fs, struct pt_fs_handle *h, struct pt_vcache_file *file, struct fuse_file_info *fi)
{
	h->cached = file;
	fi->direct_io = fs->direct_mmap && !(fi->flags & O_DIRECT);
	fi->keep_cache = !fi->direct_io;
}

/* A large view: 1: it is to be opened by its whole node; else how it is served by its own. */
static int open_large(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, bool again, struct fuse_file_info *fi)
{
	bool retrying = pt_fs_intent_retrying(fs, fuse_req_ctx(req)->pid);      /* for the kernel looks again only once */
	struct pt_vcache_file *file;
	struct pt_vcache_key key;

	pt_fs_reader_key(fs, i, &key);
	if (!retrying && !(fi->flags & O_DIRECT) && (again || fs->options->open_wait_ns) && pt_fs_stored_is(fs, i)) {
		file = pt_vcache_find(fs->cache, &key, false);
		pt_vcache_put(fs->cache, file);
		if (file || pt_fs_stored_open(req, fs, i, &key, &h->looking))
			return 1;
		if (h->looking) {
			stream(fs, h, i, false, fi);
			return 0;
		}
	}
	file = pt_vcache_enabled(fs->cache) ? pt_fs_fill_for(fs, i, &key, again, fi->flags) : NULL;
	if (file && atomic_load(&fs->passthrough) && !retrying && pt_fs_fill_wait(req, fs, file, i)) {
		pt_vcache_put(fs->cache, file);
		return 1;
	}
	/* What is mapped would come by pages of the kernel's, which are as dear. */
	if (file && atomic_load(&fs->passthrough) && !pt_fs_reader_maps(fs, i) && pt_vcache_file_dear(fs->cache, file)) {
		pt_vcache_put(fs->cache, file);
		file = NULL;
	}
	if (file)
		from_memory(fs, h, file, fi);
	else
		stream(fs, h, i, again && fs->options->serve != PT_SERVE_STREAM, fi);
	return 0;
}

int pt_fs_cached_open(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, struct fuse_file_info *fi)
{
	bool again;
	int rc;

	rc = pt_fs_reader_pin(fs, i);
	if (rc < 0)
		return rc;
	fi->noflush = 1;
	again = atomic_fetch_add(&i->opens, 1) > 0;
	pt_fs_intent_unpassed_end(fs, fuse_req_ctx(req)->pid, i->node);
	if (!pt_fs_reader_large(fs, i)) {
		stream(fs, h, i, again && fs->options->serve != PT_SERVE_STREAM, fi);
		pt_fs_pages_give(fs, i, !again, fi);
		return 0;
	}
	loads(fs, i);
	if (open_large(req, fs, h, i, again, fi) == 0)
		return 0;
	pt_fs_reader_unpin(fs, i);
	return -ESTALE;
}

/* Registers the file with the kernel, once for all opens of the node. */
static int pass_locked(fuse_req_t req, struct pt_fs_inode *whole, int fd, struct fuse_file_info *fi)
{
#ifdef HAVE_FUSE_PASSTHROUGH
	if (!whole->passes) {
		whole->backing_id = fuse_passthrough_open(req, fd);
		if (whole->backing_id <= 0)
			return -EOPNOTSUPP;
	}
	whole->passes++;
	fi->backing_id = whole->backing_id;
	return 0;
#else
	(void)req;
	(void)whole;
	(void)fd;
	(void)fi;
	return -EOPNOTSUPP;
#endif
}

/* What an open of a whole node can be passed through to. */
struct whole_file {
	struct pt_vcache_file *copy;    /* held; NULL: none is whole */
	struct pt_fs_lent lent;         /* the store's file, if there is no copy, or while it is passed through already; held NULL: not to be had */
	bool changed;                   /* the kernel has the store's file, which is not what was found right */
};

static void whole_file_get(struct pt_fs *fs, struct pt_fs_inode *whole, const struct pt_vcache_key *key, struct whole_file *ret_file)
{
	bool stored;

	memset(ret_file, 0, sizeof(*ret_file));
	ret_file->copy = pt_vcache_find(fs->cache, key, false);
	pthread_mutex_lock(&whole->lock);
	stored = whole->passes && whole->stored;
	pthread_mutex_unlock(&whole->lock);
	if (stored || !ret_file->copy)
		pt_fs_stored_get(fs, whole->origin, &ret_file->lent);
	if (stored) {
		pthread_mutex_lock(&whole->lock);
		whole->changed = !ret_file->lent.held;
		ret_file->changed = whole->changed;
		pthread_mutex_unlock(&whole->lock);
	}
	if (!ret_file->lent.held)
		pt_vcache_use(fs->cache, ret_file->copy);
}

/* -EAGAIN: not this time; -EBUSY: others have had it passed to the other of the two since it was looked for; -EOPNOTSUPP: the kernel refuses. */
static int whole_pass(fuse_req_t req, struct pt_fs *fs, struct pt_fs_inode *whole, const struct whole_file *file, struct fuse_file_info *fi)
{
	bool stored;
	int rc = -EAGAIN;

	pthread_mutex_lock(&whole->lock);
	stored = whole->passes ? whole->stored : !file->copy;
	if (!whole->plain && (whole->passes || atomic_load(&fs->passthrough)) && (stored ? file->lent.held != NULL : file->copy != NULL))
		rc = pass_locked(req, whole, stored ? file->lent.fd : pt_vcache_file_fd(file->copy), fi);
	if (rc == 0 && whole->passes == 1)
		whole->changed = false;
	if (rc == 0)
		whole->stored = stored;
	else if (whole->passes && !file->changed && rc == -EAGAIN)
		rc = -EBUSY;
	else if (whole->passes)
		rc = pt_fail(EIO, "the store's file has been changed while it is open: close it everywhere, and run ptio verify");
	else
		whole->plain++;
	pthread_mutex_unlock(&whole->lock);
	if (rc == 0)
		return stored;
	if (rc == -EOPNOTSUPP && stored) {
		pt_fs_stored_refuse(fs);
	} else if (rc == -EOPNOTSUPP) {
		pt_log(PT_LOG_WARN, "the kernel refuses to pass reads through (it needs CAP_SYS_ADMIN): views in memory are served by ptiofs itself");
		atomic_store(&fs->passthrough, false);
		ready(fs);
	}
	return rc;
}

/* A whole node that is to be opened by its origin: there is nothing to pass it through to, for the kernel may come by an entry that it has kept; or it would be passed to the
 * store's file, whose filesystem has rules of its own of what can be read with O_DIRECT; or the kernel has that, which has been changed since, while there is a copy from before. */
static bool opens_origin(struct pt_fs *fs, struct pt_fs_inode *origin, const struct whole_file *file, pid_t tid, int flags)
{
	if (pt_fs_intent_retrying(fs, tid))
		return false;
	if ((file->lent.held && flags & O_DIRECT) || (file->copy && file->changed)) {
		pt_fs_intent_unpassed_begin(fs, tid, origin->node);
		return true;
	}
	return !file->copy && !file->lent.held && (fs->entry_timeout > 0 || origin->kind == PT_FS_SEALED);
}

int pt_fs_whole_open(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct fuse_file_info *fi)
{
	struct pt_fs_inode *whole = h->inode, *origin = whole->origin;
	struct pt_vcache_key key;
	struct whole_file file;
	int rc, try;

	rc = pt_fs_reader_pin(fs, origin);
	if (rc < 0)
		return rc;
	fi->noflush = 1;
	loads(fs, origin);
	pt_fs_reader_key(fs, origin, &key);
	for (try = 1;; try++) {
		whole_file_get(fs, whole, &key, &file);
		rc = opens_origin(fs, origin, &file, fuse_req_ctx(req)->pid, fi->flags) ? -ESTALE : whole_pass(req, fs, whole, &file, fi);
		pt_fs_stored_put(fs, &file.lent);
		if (rc >= 0 || (rc != -ESTALE && rc != -EIO && rc != -EBUSY))
			break;
		pt_vcache_put(fs->cache, file.copy);
		if (rc == -EBUSY && try < PASS_TRIES)
			continue;
		pt_fs_reader_unpin(fs, origin);
		return rc;
	}
	h->passed = rc >= 0;
	if (rc == 1) {
		atomic_fetch_add(&fs->counters.stored_opens, 1);
		if (!file.copy && atomic_fetch_add(&whole->opens, 1) > 0)
			pt_fs_fill_copy(fs, origin, &key);
	}
	if (rc >= 0) {
		h->cached = file.copy;
		atomic_fetch_add(&fs->counters.passed_opens, 1);
	} else if (file.copy) {
		from_memory(fs, h, file.copy, fi);
	} else {
		stream(fs, h, origin, false, fi);
	}
	return 0;
}

void pt_fs_cached_release(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h)
{
	struct pt_fs_inode *i = h->inode;

	pt_ahead_close(h->ahead);
	h->ahead = NULL;
	if (i->kind == PT_FS_WHOLE) {
		pthread_mutex_lock(&i->lock);
		if (!h->passed)
			i->plain--;
#ifdef HAVE_FUSE_PASSTHROUGH
		else if (--i->passes == 0 && req)
			fuse_passthrough_close(req, i->backing_id);
#endif
		pthread_mutex_unlock(&i->lock);
	}
	(void)req;
	pt_vcache_put(fs->cache, h->cached);
	pt_vcache_put(fs->cache, h->looking);
	h->cached = h->looking = NULL;
	pt_fs_reader_unpin(fs, i->kind == PT_FS_WHOLE ? i->origin : i);
}

void pt_fs_cached_await(fuse_req_t req, struct pt_fs *fs, struct pt_fs_inode *i)
{
	pid_t tid = fuse_req_ctx(req)->pid;
	struct pt_vcache_file *file;
	struct pt_vcache_key key;

	/* Of all else the kernel keeps no entry that could lead to what was replaced. */
	if (i->kind != PT_FS_VIEW || !atomic_load(&fs->passthrough) || !pt_vcache_enabled(fs->cache) || !fs->options->open_wait_ns || !pt_fs_reader_large(fs, i))
		return;
	if (!pt_fs_caller_opens(tid) || pt_fs_caller_rewrites(tid))
		return;
	pt_fs_reader_key(fs, i, &key);
	file = pt_fs_fill_for(fs, i, &key, atomic_load(&i->opens) > 0, 0);
	if (file)
		pt_fs_fill_wait(req, fs, file, i);
	pt_vcache_put(fs->cache, file);
}

struct pt_fs_inode *pt_fs_whole_prefer(struct pt_fs *fs, struct pt_fs_inode *i, pid_t tid)
{
	struct pt_vcache_file *file;
	struct pt_vcache_key key;
	struct pt_fs_inode *whole;

	if (!atomic_load(&fs->passthrough) || !pt_fs_reader_large(fs, i))
		return i;
	pt_fs_reader_key(fs, i, &key);
	if (pt_fs_intent_unpassed(fs, tid, i->node))
		return i;
	file = pt_vcache_find(fs->cache, &key, false);
	if (!file && (i->kind != PT_FS_SEALED || !pt_fs_stored_found(fs, i)))
		return i;
	if (pt_fs_inode_get(fs, PT_FS_WHOLE, i->node, i->dir, i->name, i->stamp, &whole) < 0) {
		pt_fail_clear();
		whole = i;
	} else {
		pthread_mutex_lock(&whole->lock);
		if (!whole->origin)
			whole->origin = pt_fs_inode_ref(fs, i);
		pthread_mutex_unlock(&whole->lock);
		pt_fs_inode_unref(fs, i);
	}
	pt_vcache_put(fs->cache, file);
	return whole;
}

bool pt_fs_cached_progress(struct pt_fs *fs, struct pt_fs_inode *i, uint64_t *ret_filled, uint64_t *ret_size)
{
	struct pt_vcache_key key;

	if (!pt_fs_reader_large(fs, i) || !pt_vcache_enabled(fs->cache))
		return false;
	pt_fs_reader_key(fs, i, &key);
	*ret_size = pt_fs_reader_size(i);
	*ret_filled = pt_vcache_progress(fs->cache, &key);
	return true;
}

/* ---- reading ---- */

bool pt_fs_cached_reply(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, size_t size, uint64_t off)
{
	struct pt_fs_inode *i = h->inode->kind == PT_FS_WHOLE ? h->inode->origin : h->inode;
	uint64_t total = pt_fs_reader_size(i);
	struct pt_ahead_lease lease;
	const void *data;

	if (off >= total)
		return false;
	if (size > total - off)
		size = (size_t)(total - off);
	if (h->cached && pt_vcache_file_get(fs->cache, h->cached, off, size, &data) == 0) {
		atomic_fetch_add(&fs->counters.read_bytes, size);
		fuse_reply_buf(req, data, size);
		return true;
	}
	if (!h->ahead || !pt_ahead_get(h->ahead, off, size, &lease))
		return false;
	atomic_fetch_add(&fs->counters.read_bytes, size);
	atomic_fetch_add(&fs->counters.ahead_bytes, size);
	fuse_reply_iov(req, lease.iov, lease.iov_count);
	pt_ahead_put(&lease);
	return true;
}

int64_t pt_fs_cached_read(struct pt_fs *fs, struct pt_fs_inode *i, void *buf, uint64_t len, uint64_t off)
{
	return pt_fs_reader_read(fs, i->kind == PT_FS_WHOLE ? i->origin : i, buf, len, off);
}

int pt_fs_cached_text(struct pt_fs *fs, void (*metric)(struct pt_buf *out, const char *name, const char *type, const char *help, uint64_t value),
		      struct pt_buf *out)
{
	struct pt_vcache_stats s;

	pt_vcache_stats(fs->cache, &s);
	metric(out, "fs_direct_opens_total", "counter", "Opens of views that are streamed by direct io.", atomic_load(&fs->counters.direct_opens));
	metric(out, "fs_passed_opens_total", "counter", "Opens of views that the kernel reads and maps by itself, from memory or as the store has them.",
	       atomic_load(&fs->counters.passed_opens));
	metric(out, "fs_stored_opens_total", "counter", "Those of them that are passed through to the store's own file.", atomic_load(&fs->counters.stored_opens));
	metric(out, "fs_given_opens_total", "counter", "Opens of small views with which the kernel got all their bytes, so that it need not read them.",
	       atomic_load(&fs->counters.given_opens));
	metric(out, "fs_open_waits_total", "counter", "Opens that waited for a view to be whole in memory.", atomic_load(&fs->counters.open_waits));
	metric(out, "fs_ahead_bytes_total", "counter", "Bytes answered from what was read ahead.", atomic_load(&fs->counters.ahead_bytes));
	metric(out, "fs_shared_bytes_total", "counter", "Bytes read ahead for one reader that another one of the same file took.", pt_share_bytes(&fs->share));
	metric(out, "cache_limit_bytes", "gauge", "Memory that views may take.", s.limit);
	metric(out, "cache_used_bytes", "gauge", "Memory that views take.", s.used);
	metric(out, "cache_reserve_bytes", "gauge", "Memory that is, or is being made, ready for views that are opened later.", s.reserve);
	metric(out, "cache_reserve_ready_bytes", "gauge", "Of that, memory that is ready.", s.reserve_ready);
	metric(out, "cache_reserve_filled_bytes_total", "counter", "Bytes read into such memory to fill views.", s.reserve_filled_bytes);
	metric(out, "cache_files", "gauge", "Views in memory.", s.files);
	metric(out, "cache_filling", "gauge", "Views being filled.", s.filling);
	metric(out, "cache_hits_total", "counter", "Opens of views whose whole node was found in memory.", s.hits);
	metric(out, "cache_misses_total", "counter", "Those that were evicted just before.", s.misses);
	metric(out, "cache_fills_total", "counter", "Views that became whole in memory.", s.fills);
	metric(out, "cache_filled_bytes_total", "counter", "Bytes read to fill views.", s.filled_bytes);
	metric(out, "cache_checks_total", "counter", "Files of the store that were looked through before they are passed through.", s.checks);
	metric(out, "cache_checks_failed_total", "counter", "Those that were not found right.", s.checks_failed);
	metric(out, "cache_checked_bytes_total", "counter", "Bytes verified for them.", s.checked_bytes);
	metric(out, "cache_failed_total", "counter", "Fillings that failed.", s.fills_failed);
	metric(out, "cache_given_up_total", "counter", "Fillings that nobody wanted the rest of.", s.given_up);
	metric(out, "cache_evictions_total", "counter", "Views dropped to make room.", s.evictions);
	metric(out, "cache_dear_total", "counter", "First opens that read the store, since memory for a copy took longer than reading.", s.dear);
	metric(out, "cache_rests_total", "counter", "How often the making of a copy waited for somebody who loads a file.", s.rests);
	metric(out, "cache_superseded_total", "counter", "Views dropped since a later revision of them was opened.", s.superseded);
	metric(out, "cache_refused_total", "counter", "Views for which there was no room.", s.refused);
	return 0;
}
