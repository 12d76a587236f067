/* fs/control.c - the files of `.ptio/` and `.ptio.json`: made when opened, read only. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/error.h"
#include "tree/rank_view.h"
#include "base/io.h"
#include "store/snapshots.h"
#include "transport.h"

#include "ptio/version.h"

#define INFO_KEPT_MAX ((size_t)1 << 20)        /* longer ones are made each time */

static const char *const names[] = { "version", "status.json", "metrics", "errors", "pending" };

static const char *const op_names[PT_FS_OP_COUNT] = {
	"lookup", "getattr", "setattr", "readlink", "mkdir", "unlink", "rmdir", "symlink", "rename", "open", "create", "read", "write", "flush",
	"release", "fsync", "readdir", "statfs", "xattr"
};

const char *pt_fs_control_name(size_t index)
{
	return index < sizeof(names) / sizeof(names[0]) ? names[index] : NULL;
}

static const char *verify_name(enum pt_verify v)
{
	return v == PT_VERIFY_OFF ? "off" : v == PT_VERIFY_WHOLE ? "whole" : "touch";
}

/* Kernel and library both have it. */
static bool passthrough_possible(const struct pt_fs *fs)
{
#ifdef FUSE_CAP_PASSTHROUGH
	return fs->kernel_caps & FUSE_CAP_PASSTHROUGH;
#else
	(void)fs;
	return false;
#endif
}

static const char *serve_name(enum pt_serve_way way)
{
	return way == PT_SERVE_STREAM ? "stream" : way == PT_SERVE_CACHE ? "cache" : "auto";
}

static int status(struct pt_fs *fs, struct pt_buf *out)
{
	const struct pt_fs_options *o = fs->options;
	json_t *root;

#ifdef FUSE_CAP_PASSTHROUGH
	const int library = 1;
#else
	const int library = 0;
#endif
	root = json_pack("{s:s, s:s, s:s, s:b, s:b, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:{s:b, s:b, s:b}, s:s, s:{s:s, s:I}, s:b}",
				  "version", ptio_version(), "store", fs->store->uri, "transport", pt_fs_transport_name(fs), "durable", fs->store->durable, "read_only", o->read_only,
				  "pid", (int)getpid(), "mountpoint", o->mountpoint, "libfuse", fuse_pkgversion(), "bare", pt_format_name(o->bare),
				  "list", o->list_all ? "all" : "once", "verify", verify_name(o->verify), "split",
				  o->split == PT_SPLIT_CHUNK ? "chunk" : "balanced", "gc", o->gc, "kernel_protocol_minor",
				  (json_int_t)fs->proto_minor, "passthrough", "library", library, "kernel", passthrough_possible(fs), "used", atomic_load(&fs->passthrough),
				  "serve", serve_name(o->serve), "cache", "memory", pt_vcache_memory(fs->cache), "limit", (json_int_t)pt_vcache_limit(fs->cache),
				  "direct_io", fs->direct_mmap);
	pt_fs_transport_status(fs, root);
	return pt_json_append(root, out);
}

static void metric(struct pt_buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
	pt_buf_printf(out, "# HELP ptio_%s %s\n# TYPE ptio_%s %s\nptio_%s %llu\n", name, help, name, type, name, (unsigned long long)value);
}

static int metrics(struct pt_fs *fs, struct pt_buf *out)
{
	const struct pt_fs_counters *c = &fs->counters;
	struct pt_repo_counters r;
	struct pt_meta_counters index;
	struct pt_snapshots_counters snapshots;
	uint64_t told, failed;
	int i;

	pt_repo_counters(fs->repo, &r);
	pt_buf_append_str(out, "# HELP ptio_fs_operations_total Requests of the kernel.\n# TYPE ptio_fs_operations_total counter\n");
	for (i = 0; i < PT_FS_OP_COUNT; i++)
		pt_buf_printf(out, "ptio_fs_operations_total{op=\"%s\"} %llu\n", op_names[i], (unsigned long long)atomic_load(&c->ops[i]));
	metric(out, "fs_read_bytes_total", "counter", "Bytes answered to reads.", atomic_load(&c->read_bytes));
	metric(out, "fs_overlapped_writes_total", "counter", "Writes that came while another one was being taken.", atomic_load(&c->overlapped_writes));
	metric(out, "fs_written_bytes_total", "counter", "Bytes taken from writes.", atomic_load(&c->written_bytes));
	metric(out, "fs_errors_total", "counter", "Failures recorded in .ptio/errors.", atomic_load(&c->errors));
	metric(out, "fs_published_total", "counter", "Files that became a part or a revision.", atomic_load(&c->published));
	metric(out, "fs_dropped_total", "counter", "Written files dropped at close, incomplete or wrong.", atomic_load(&c->dropped));
	metric(out, "fs_stale_retries_total", "counter", "Opens that lost a race with a commit and were looked up again.", atomic_load(&c->stale_retries));
	metric(out, "fs_stale_directories_total", "counter", "Path walks that came through a directory that another mount had moved or removed, and were begun anew.", atomic_load(&c->stale_dirs));
	metric(out, "fs_open_views", "gauge", "Views open for reading.", atomic_load(&c->open_views));
	metric(out, "fs_open_writers", "gauge", "Views open for writing.", atomic_load(&c->open_writers));
	metric(out, "fs_open_files", "gauge", "Ordinary files open.", atomic_load(&c->open_files));
	pt_fs_cached_text(fs, metric, out);
	pt_fs_transport_text(fs, metric, out);
	pt_meta_counters(&fs->store->meta, &index);
	metric(out, "index_queries_total", "counter", "Questions that the index was asked.", index.queries);
	metric(out, "index_hits_total", "counter", "Those that were answered from memory, since nothing had been committed.", index.hits);
	pt_snapshots_count(fs->snapshots, &snapshots);
	metric(out, "index_snapshots_total", "counter", "Copies of the index that were made.", snapshots.made);
	metric(out, "index_snapshots_given_up_total", "counter", "Those that were not made for want of room, or failed.", snapshots.given_up);
	metric(out, "store_reads_total", "counter", "Reads of object ranges.", r.reads);
	metric(out, "store_read_bytes_asked_total", "counter", "Payload bytes asked for.", r.read_bytes_asked);
	metric(out, "store_read_bytes_moved_total", "counter", "Payload bytes read from the store.", r.read_bytes_moved);
	metric(out, "store_ranges_total", "counter", "Ranges read.", r.ranges);
	metric(out, "store_chunks_verified_total", "counter", "Chunks whose hash was checked.", r.chunks_verified);
	metric(out, "store_verify_failures_total", "counter", "Chunks whose hash did not match.", r.verify_failures);
	metric(out, "store_objects_proved_total", "counter", "Objects that were taken for verified, since that was done before on this machine.", r.objects_proved);
	pt_data_proof_counts(&fs->store->data, &told, &failed);
	metric(out, "store_proofs_told_total", "counter", "Objects that other processes of this machine were told have been verified.", told);
	metric(out, "store_proofs_failed_total", "counter", "Those that they could not be told of.", failed);
	metric(out, "store_commits_total", "counter", "Revisions committed.", r.commits);
	metric(out, "store_parts_total", "counter", "Parts stored.", r.parts);
	metric(out, "store_bytes_stored_total", "counter", "Payload bytes stored.", r.bytes_stored);
	return 0;
}

struct pending_list {
	struct pt_fs *fs;
	json_t *array;
	bool failed;
};

static int pending_one(void *ctx, const struct pt_pending *p)
{
	struct pending_list *l = ctx;
	char key[PT_KEY_MAX + 1] = "";
	json_t *set;

	if (pt_node_key(l->fs->repo, p->node, key) == -ENOENT)  /* removed meanwhile */
		return 0;
	set = pt_pending_json(p);
	if (!set || json_object_set_new(set, "key", json_string(key)) < 0 ||
	    json_object_set_new(set, "idle_seconds", json_real((double)(pt_time_now_ns() - p->updated_ns) / 1e9)) < 0) {
		json_decref(set);
		set = NULL;
	}
	if (!set || json_array_append_new(l->array, set) < 0) {
		l->failed = true;
		return 1;
	}
	return 0;
}

static int pending(struct pt_fs *fs, struct pt_buf *out)
{
	struct pending_list l = { fs, json_array(), false };
	int rc;

	rc = pt_pending_list(fs->repo, 0, pending_one, &l);
	if (rc < 0 || l.failed) {
		json_decref(l.array);
		return rc < 0 ? rc : pt_fail_nomem();
	}
	return pt_json_append(l.array, out);
}

int pt_fs_control_text(struct pt_fs *fs, const char *name, struct pt_buf *out)
{
	int rc = -ENOENT;

	if (strcmp(name, "version") == 0) {
		pt_buf_printf(out, "ptiofs %s\n", ptio_version());
		rc = 0;
	} else if (strcmp(name, "status.json") == 0) {
		rc = status(fs, out);
	} else if (strcmp(name, "metrics") == 0) {
		rc = metrics(fs, out);
	} else if (strcmp(name, "errors") == 0) {
		rc = pt_fs_errors_text(fs, out);
	} else if (strcmp(name, "pending") == 0) {
		rc = pending(fs, out);
	}
	return rc == 0 && pt_buf_failed(out) ? pt_fail_nomem() : rc;
}

static int info_make(struct pt_fs *fs, const struct pt_fs_inode *inode, struct pt_buf *out)
{
	char alias[PT_KEY_MAX + 1] = "";
	const char *axes = inode->dir;

	pt_fs_alias_split(inode->dir, alias, &axes);
	return pt_tree_info_json(fs->models, fs->repo, inode->node, alias, axes, out);
}

int pt_fs_info_text(struct pt_fs *fs, struct pt_fs_inode *inode, struct pt_buf *out)
{
	struct pt_buf made = PT_BUF_INIT, old;
	uint64_t version;
	bool kept = false;
	int rc;

	/* Asked before: what changes meanwhile makes the next caller look again. */
	rc = pt_meta_version(&fs->store->meta, &version);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&inode->lock);
	if (inode->info.len && inode->info_version == version) {
		pt_buf_append(out, inode->info.data, inode->info.len);
		kept = true;
	}
	pthread_mutex_unlock(&inode->lock);
	if (!kept) {
		rc = info_make(fs, inode, &made);
		if (rc == 0)
			pt_buf_append(out, made.data, made.len);
		if (rc == 0 && made.len <= INFO_KEPT_MAX) {
			pthread_mutex_lock(&inode->lock);
			old = inode->info;
			inode->info = made;
			inode->info_version = version;
			pthread_mutex_unlock(&inode->lock);
			made = old;
		}
		pt_buf_done(&made);
	}
	return rc == 0 && pt_buf_failed(out) ? pt_fail_nomem() : rc;
}
