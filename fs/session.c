/* fs/session.c - one mount from store to unmount: the operations table, the session, its threads. */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "store/snapshots.h"

#define MAX_WRITE (1u << 20)
#define READ_AHEAD_KB "1024"

static void fs_init(void *userdata, struct fuse_conn_info *conn)
{
	struct pt_fs *fs = userdata;

	fs->proto_major = conn->proto_major;
	fs->proto_minor = conn->proto_minor;
	fs->kernel_caps = conn->capable;
	conn->max_write = MAX_WRITE;
	/* With the writeback cache RENAME would overtake the data; splice costs more than it saves at these sizes. */
	conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
				  FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_POSIX_LOCKS);
	pt_fs_cached_init(fs, conn);
	/* Attributes that come with names are good for the time that the kernel may keep them. */
	if (fs->entry_timeout > 0)
		conn->want |= conn->capable & (FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
	conn->want |= conn->capable & (FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ);
}

static void fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	struct pt_fs *fs = pt_fs_of(req);

	pt_fs_inode_forget(fs, pt_fs_inode(fs, ino), nlookup);
	fuse_reply_none(req);
}

static void fs_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct pt_fs *fs = pt_fs_of(req);
	size_t i;

	for (i = 0; i < count; i++)
		pt_fs_inode_forget(fs, pt_fs_inode(fs, forgets[i].ino), forgets[i].nlookup);
	fuse_reply_none(req);
}

static void fs_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	int rc;

	(void)datasync;
	(void)fi;
	pt_fail_clear();
	rc = pt_meta_settle(&fs->store->meta);
	if (rc < 0)
		pt_fs_fail(req, rc, pt_fs_inode(fs, ino), NULL, "fsync");
	else
		fuse_reply_err(req, 0);
}

/* Readahead and flock need nothing of us: locks are the kernel's own. */
const struct fuse_lowlevel_ops pt_fs_ops = {
	.init = fs_init,
	.lookup = pt_fs_lookup_at_once,
	.forget = fs_forget,
	.forget_multi = fs_forget_multi,
	.getattr = pt_fs_getattr_at_once,
	.setattr = pt_fs_setattr_at_once,
	.readlink = pt_fs_readlink_at_once,
	.mknod = pt_fs_mknod_at_once,
	.mkdir = pt_fs_mkdir_at_once,
	.unlink = pt_fs_unlink_at_once,
	.rmdir = pt_fs_rmdir_at_once,
	.symlink = pt_fs_symlink_at_once,
	.rename = pt_fs_rename,
	.link = pt_fs_link,
	.open = pt_fs_open_at_once,
	.create = pt_fs_create_at_once,
	.read = pt_fs_read,
	.write = pt_fs_write,
	.flush = pt_fs_flush,
	.release = pt_fs_release,
	.fsync = pt_fs_fsync,
	.fallocate = pt_fs_fallocate,
	.opendir = pt_fs_opendir_at_once,
	.readdir = pt_fs_readdir_at_once,
	.readdirplus = pt_fs_readdirplus_at_once,
	.releasedir = pt_fs_releasedir,
	.fsyncdir = fs_fsyncdir,
	.statfs = pt_fs_statfs,
	.setxattr = pt_fs_setxattr_at_once,
	.getxattr = pt_fs_getxattr_at_once,
	.listxattr = pt_fs_listxattr_at_once,
	.removexattr = pt_fs_removexattr_at_once,
};

/* Best effort: the kernel offers 128 KiB and lets the INIT reply only lower it. Found without a stat of the mount, which would wait for us. */
static void read_ahead_write(const char *mountpoint)
{
	char line[4096], path[128], at[4096];
	unsigned major_id, minor_id;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	int fd;

	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*d %*d %u:%u %*s %4095s", &major_id, &minor_id, at) != 3 || strcmp(at, mountpoint) != 0)
			continue;
		snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major_id, minor_id);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (write(fd, READ_AHEAD_KB, strlen(READ_AHEAD_KB)) < 0)
			pt_log(PT_LOG_DEBUG, "cannot set the read-ahead of the mount");
		close(fd);
	}
	fclose(f);
}

void pt_fs_read_ahead_set(struct pt_fs *fs)
{
	if (!atomic_load_explicit(&fs->read_ahead_set, memory_order_relaxed) && !atomic_exchange(&fs->read_ahead_set, true))
		read_ahead_write(fs->options->mountpoint);
}

static int store_open(struct pt_fs *fs)
{
	const struct pt_fs_options *o = fs->options;
	struct pt_store_options so = { .read_only = o->read_only, .create = o->create && !o->read_only, .force = o->force,
				      .secret_file = o->secret_file, .rdma_device = o->rdma_device, .rdma_port = o->rdma_port, .rdma_gid = o->rdma_gid, .tls = o->tls, .timeout_ns = o->timeout_s * INT64_C(1000000000) };
	struct pt_repo_options ro = { .verify = o->verify };
	struct pt_store *store;
	const char *dir;
	int rc;

	rc = pt_store_open(o->store, &so, &store);
	if (rc < 0)
		return rc;
	rc = pt_repo_open(store, &ro, &fs->repo);
	if (rc < 0) {
		pt_store_close(store);
		return rc;
	}
	fs->store = pt_repo_store(fs->repo);
	dir = fs->store->dir;
	if (!dir || access(dir, W_OK) < 0)
		dir = getenv("TMPDIR");
	fs->spool_dir = pt_strdup(dir && dir[0] ? dir : "/tmp");
	return fs->spool_dir ? 0 : pt_fail_nomem();
}

static int args_add(struct fuse_args *args, const struct pt_fs_options *o)
{
	const char *name = strncmp(o->store, "dir:", 4) == 0 ? o->store + 4 : o->store;
	char *base = NULL, *arg = NULL;
	int rc = 0;

	/* df and mount show the store; first, so that a fsname= of the command line wins */
	if (fuse_opt_add_opt(&base, "subtype=ptiofs,default_permissions") < 0 || !(arg = pt_asprintf("fsname=%s", name)) ||
	    fuse_opt_add_opt_escaped(&base, arg) < 0 || fuse_opt_insert_arg(args, 1, "-o") < 0 || fuse_opt_insert_arg(args, 2, base) < 0)
		rc = pt_fail_nomem();
	free(base);
	free(arg);
	if (rc < 0)
		return rc;
	if ((o->allow_other && fuse_opt_add_arg(args, "-oallow_other") < 0) || (o->read_only && fuse_opt_add_arg(args, "-oro") < 0) ||
	    (o->debug && fuse_opt_add_arg(args, "-odebug") < 0))
		return pt_fail_nomem();
	return 0;
}

static int loop(struct pt_fs *fs)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int rc;

	if (!config)
		return pt_fail_nomem();
	fuse_loop_cfg_set_clone_fd(config, 1);
	fuse_loop_cfg_set_idle_threads(config, 8);
	fuse_loop_cfg_set_max_threads(config, 16);
	rc = fuse_session_loop_mt(fs->session, config);
	fuse_loop_cfg_destroy(config);
	/* > 0: ended by a signal, as asked. */
	return rc < 0 ? pt_fail(-rc, "the connection to the kernel failed: %s", strerror(-rc)) : 0;
}

/* Before the store is opened, so that a wrong option makes none. */
static int session_make(struct pt_fs *fs, struct fuse_args *args)
{
	int rc = args_add(args, fs->options);

	if (rc < 0)
		return rc;
	fs->session = fuse_session_new(args, &pt_fs_ops, sizeof(pt_fs_ops), fs);
	if (!fs->session)
		return pt_fail(EINVAL, "libfuse refused the mount options (its message is above; ptiofs -h lists what ptiofs knows)");
	return 0;
}

static int serve(struct pt_fs *fs, void (*ready)(void *ctx), void *ctx)
{
	const struct pt_fs_options *o = fs->options;
	int rc;

	if (fuse_set_signal_handlers(fs->session) < 0)
		return pt_fail(EIO, "cannot set signal handlers");
	if (fuse_session_mount(fs->session, o->mountpoint) < 0) {
		rc = pt_fail(EIO, "cannot mount on %s (the reason is above; /dev/fuse and fusermount3 are needed, and allow_other needs "
			     "user_allow_other in /etc/fuse.conf unless you are root)", o->mountpoint);
		goto signals;
	}
	ready(ctx);
	rc = loop(fs);
	pt_fs_told_end(fs);
	fuse_session_unmount(fs->session);
signals:
	fuse_remove_signal_handlers(fs->session);
	return rc;
}

static void snapshot_failed(const char *sentence)
{
	pt_log(PT_LOG_WARN, "snapshot of the index: %s", sentence);
}

int pt_fs_run(const struct pt_fs_options *options, struct fuse_args *args, void (*ready)(void *ctx), void *ctx)
{
	struct pt_fs *fs = pt_calloc(1, sizeof(*fs));
	int rc;

	if (!fs)
		return pt_fail_nomem();
	fs->options = options;
	fs->started_ns = pt_time_now_ns();
	pthread_mutex_init(&fs->writers_lock, NULL);
	pthread_mutex_init(&fs->room_lock, NULL);
	pthread_mutex_init(&fs->handles_lock, NULL);
	rc = session_make(fs, args);
	if (rc == 0)
		rc = store_open(fs);
	if (rc == 0)
		rc = pt_fs_errors_init(fs);
	if (rc == 0)
		rc = pt_fs_intents_init(fs);
	if (rc == 0)
		rc = pt_models_create(fs->repo, &fs->models);
	if (rc == 0)
		rc = pt_fs_table_init(fs);
	if (rc == 0)
		rc = pt_fs_cached_start(fs);
	if (rc == 0)
		rc = pt_fs_told_start(fs);
	if (rc == 0)
		rc = pt_fs_gc_start(fs);
	if (rc == 0)
		rc = pt_snapshots_start(fs->store, options->snapshots_s * INT64_C(1000000000), snapshot_failed, &fs->snapshots);
	if (rc == 0)
		rc = serve(fs, ready, ctx);
	pt_fs_told_stop(fs);
	if (fs->session)
		fuse_session_destroy(fs->session);
	pt_fs_gc_stop(fs);
	pt_snapshots_stop(fs->snapshots);
	pt_fs_handles_close(fs);
	pt_fs_cached_stop(fs);
	pt_fs_intents_done(fs);
	pt_fs_table_done(fs);
	pt_fs_errors_done(fs);
	pt_models_free(fs->models);
	if (fs->repo)
		pt_repo_close(fs->repo);
	pt_fs_told_free(fs);
	free(fs->spool_dir);
	pthread_mutex_destroy(&fs->handles_lock);
	pthread_mutex_destroy(&fs->writers_lock);
	pthread_mutex_destroy(&fs->room_lock);
	free(fs);
	return rc;
}
