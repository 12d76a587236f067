/* store/store.c - stores by URI (store.h).
 *
 * A dir: store is DIR/index.db (the SQLite index, with its -wal and -shm while in use) beside what the file data engine keeps, DIR/snapshots with copies of the index, and
 * DIR/index.damaged-* that ptio fsck has put aside. */
#include "store/store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "store/fault.h"
#include "store/folder.h"
#include "store/held.h"
#include "store/ledger.h"
#include "store/remote.h"
#include "store/snapshots.h"

#define INDEX_NAME "index.db"
#define ASIDE_PREFIX "index.damaged-"

int pt_size_parse(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGTPE";
	const char *unit;
	uint64_t n = 0;
	const char *p = text;

	if (!isdigit((unsigned char)*p))
		goto bad;
	for (; isdigit((unsigned char)*p); p++)
		if (!pt_size_mul(n, 10, &n) || !pt_size_add(n, (uint64_t)(*p - '0'), &n))
			goto bad;
	if (*p && strcasecmp(p, "B") != 0) {
		unit = strchr(units, toupper((unsigned char)*p));
		if (!unit || (p[1] && strcasecmp(p + 1, "iB") != 0 && strcasecmp(p + 1, "B") != 0))
			goto bad;
		if (!pt_size_mul(n, (uint64_t)1 << (10 * (unit - units + 1)), &n))
			goto bad;
	}
	*ret_bytes = n;
	return 0;
bad:
	return pt_fail(EINVAL, "\"%s\" is not a size; write bytes, or a number with K, M, G or T (powers of 1024), as in 64M", text);
}

/* Filesystems whose locks, renames or syncs do not reach every client as this store needs them to. */
static const char *network_name(long type)
{
	static const struct {
		unsigned int magic;
		const char *name;
	} kinds[] = {
		{ 0x6969, "NFS" }, { 0x01021997, "9p" }, { 0x65735546, "FUSE" }, { 0xff534d42, "CIFS" }, { 0xfe534d42, "SMB" },
		{ 0x517b, "SMB" }, { 0x00c36400, "Ceph" }, { 0x0bd00bd0, "Lustre" }, { 0x5346414f, "AFS" }, { 0x73757245, "Coda" },
		{ 0x6b414653, "AFS" }, { 0x19830326, "FhGFS" },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((unsigned int)type == kinds[i].magic)
			return kinds[i].name;
	return NULL;
}

static int check_filesystem(const char *dir)
{
	const char *name;
	struct statfs fs;

	if (statfs(dir, &fs) < 0)
		return errno == ENOENT ? 0 : pt_fail(errno, "cannot look at the filesystem of %s: %s", dir, strerror(errno));
	name = network_name((long)fs.f_type);
	if (name)
		return pt_fail(ENOTSUP, "%s is on %s, where several machines would corrupt a store; use a local filesystem, or force it (-o force, ptio --force) if only this machine uses it",
			       dir, name);
	return 0;
}

/* A new directory lasts once the one that holds it is synced. */
static int sync_parent(const char *dir)
{
	char *parent = pt_asprintf("%s/..", dir);
	int fd, rc;

	if (!parent)
		return pt_fail_nomem();
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = fd < 0 ? -errno : pt_io_fsync_dir(fd);
	if (rc < 0)
		pt_fail(-rc, "cannot sync the directory that holds the store %s: %s", dir, strerror(-rc));
	if (fd >= 0)
		close(fd);
	free(parent);
	return rc;
}

static bool is_ours(const char *name)
{
	return strncmp(name, INDEX_NAME, strlen(INDEX_NAME)) == 0 || strcmp(name, "objects") == 0 || strcmp(name, "staging") == 0 ||
	       strcmp(name, "pins") == 0 || strcmp(name, PT_SNAPSHOTS_DIR) == 0 || strcmp(name, PT_LEDGER_DIR) == 0 ||
	       strncmp(name, ASIDE_PREFIX, strlen(ASIDE_PREFIX)) == 0 || strcmp(name, "lost+found") == 0;
}

typedef bool entry_fn(int dirfd, const char *name);

/* Calls for each name in a folder of the store but "." and "..": 1 when fn says so for one. */
static int any_entry(int dirfd, const char *folder, entry_fn *fn, int *ret_any)
{
	struct dirent *e;
	int fd, any = 0;
	DIR *dir;
	int rc = pt_folder_open(dirfd, folder, O_RDONLY, &fd);

	if (rc == -ENOENT) {
		*ret_any = 0;
		return 0;
	}
	if (rc < 0)
		return rc;
	dir = fdopendir(fd);
	if (!dir) {
		rc = pt_fail(errno, "cannot list %s in the store: %s", folder, strerror(errno));
		close(fd);
		return rc;
	}
	while (!any && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			any = fn(fd, e->d_name);
	closedir(dir);
	*ret_any = any;
	return 0;
}

static bool is_foreign(int dirfd, const char *name)
{
	(void)dirfd;
	return !is_ours(name);
}

static bool is_anything(int dirfd, const char *name)
{
	(void)dirfd, (void)name;
	return true;
}

/* A bucket of objects that holds something, or cannot be looked into. */
static bool is_full_bucket(int dirfd, const char *name)
{
	int any = 0, rc = any_entry(dirfd, name, is_anything, &any);

	return any || (rc < 0 && rc != -ENOTDIR);
}

/* The log of an index that is not there: SQLite would take it for a new one's. */
static int check_log(int dirfd, const char *dir)
{
	struct stat st;

	if (fstatat(dirfd, INDEX_NAME "-wal", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return pt_fail(EIO, "the store %s has the log of an index but no index (%s); run ptio fsck --rebuild on it, or remove %s/" INDEX_NAME "-wal where it never held anything", dir,
		       INDEX_NAME, dir);
}

/* No index: a new store may be made here if nothing says that there was one, or that the directory is another's. */
static int check_new(int dirfd, const char *dir)
{
	int any;
	int rc;

	rc = any_entry(dirfd, ".", is_foreign, &any);
	if (rc == 0 && any)
		rc = pt_fail(ENOTEMPTY, "%s is neither empty nor a ptio store; give a new or empty directory", dir);
	if (rc == 0)
		rc = any_entry(dirfd, "objects", is_full_bucket, &any);
	if (rc == 0 && !any)
		rc = check_log(dirfd, dir);
	else if (rc == 0)
		rc = pt_fail(EIO, "the store %s has objects but no index (%s); run ptio fsck --rebuild on it", dir, INDEX_NAME);
	return rc;
}

/* The directory there; makes it if that is asked. */
static int prepare_dir(const char *dir, const struct pt_store_options *o)
{
	bool made = false;
	struct stat st;
	int rc;

	/* The filesystem first: one without its server answers nothing else. */
	rc = o->force ? 0 : check_filesystem(dir);
	if (rc < 0)
		return rc;
	if (stat(dir, &st) < 0) {
		if (errno != ENOENT)
			return pt_fail(errno, "cannot look at the store %s: %s", dir, strerror(errno));
		if (!o->create || o->read_only)
			return pt_fail(ENOENT, "there is no store at %s; mounting it with ptiofs, or ptio put, makes one", dir);
		made = mkdir(dir, 0750) == 0;
		if (!made && errno == ENOENT)
			return pt_fail(ENOENT, "cannot make the store %s: the directory that it would be in is not there; make that first (mkdir -p)", dir);
		if (!made && errno != EEXIST)
			return pt_fail(errno, "cannot make the store %s: %s", dir, strerror(errno));
		rc = o->force ? 0 : check_filesystem(dir);
		if (rc == 0)
			rc = sync_parent(dir);
		if (rc < 0) {
			if (made)
				rmdir(dir);
			return rc;
		}
	} else if (!S_ISDIR(st.st_mode)) {
		return pt_fail(ENOTDIR, "%s is not a directory; a store is one", dir);
	}
	return 0;
}

/* It is a store, or fit to become one if that is asked. */
static int check_store(int dirfd, const char *dir, const struct pt_store_options *o)
{
	struct stat st;
	int rc;

	if (fstatat(dirfd, INDEX_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOENT)
		return pt_fail(errno, "cannot look at the index %s/%s: %s", dir, INDEX_NAME, strerror(errno));
	rc = check_new(dirfd, dir);
	/* Somebody else may have made it meanwhile. */
	if (rc < 0 && fstatat(dirfd, INDEX_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (rc == 0 && (!o->create || o->read_only))
		rc = pt_fail(ENOENT, "there is no store at %s; mounting it with ptiofs, or ptio put, makes one", dir);
	return rc;
}

/* The path is walked once: whoever may change what it leads to does not get half of one store and half of another opened as one. */
static int take_dir(struct pt_store *s, const struct pt_store_options *o)
{
	int rc;

	if (o->index) {
		s->dirfd = fcntl(o->index_dirfd, F_DUPFD_CLOEXEC, 0);
		return s->dirfd < 0 ? pt_fail(errno, "cannot open the store %s: %s", s->dir, strerror(errno)) : 0;
	}
	rc = prepare_dir(s->dir, o);
	if (rc == 0)
		rc = pt_held_take(s->dir, false, &s->dirfd);
	return rc < 0 ? rc : check_store(s->dirfd, s->dir, o);
}

static int open_dir(struct pt_store *s, const char *path, const struct pt_store_options *o)
{
	char *index = NULL;
	char *cwd = NULL;
	int rc;

	if (!*path)
		return pt_fail(EINVAL, "dir: wants a path, as in dir:/var/lib/ptio");
	if (*path == '/') {
		s->dir = pt_strdup(path);
	} else {
		cwd = getcwd(NULL, 0);
		if (!cwd)
			return pt_fail(errno, "cannot tell the working directory: %s", strerror(errno));
		s->dir = pt_asprintf("%s/%s", cwd, path);
		free(cwd);
	}
	if (!s->dir)
		return pt_fail_nomem();
	index = pt_asprintf("%s/%s", s->dir, o->index ? o->index : INDEX_NAME);
	if (!index)
		return pt_fail_nomem();
	rc = take_dir(s, o);
	if (rc == 0)
		rc = pt_meta_sqlite_open_at(s->dirfd, index, &s->meta);
	if (rc == 0)
		rc = pt_data_file_open_at(s->dirfd, s->dir, &s->data);
	free(index);
	return rc;
}

static int open_memory(struct pt_store *s, const char *size, const struct pt_store_options *o)
{
	struct pt_budget budget;
	uint64_t capacity, limit;
	int rc = pt_size_parse(size, &capacity);

	pt_budget_find(&budget, "");
	limit = pt_budget_group_limit(&budget);
	if (rc == 0 && capacity > limit)        /* else the kernel would end the process when the store fills */
		rc = pt_fail(ENOMEM, "mem:%s is more than the %llu MiB that the control group (cgroup) of this process may have: give less, or raise that limit", size,
			     (unsigned long long)(limit / PT_MIB));
	if (rc == 0)
		rc = pt_meta_sqlite_open(NULL, &s->meta);
	if (rc == 0)
		rc = pt_data_memory_open(capacity, o->reserve_bytes, &s->data);
	return rc;
}

/* A store that a ptiod exports. */
static int open_remote(struct pt_store *s, const char *hosts, int transport, const struct pt_store_options *o)
{
	struct pt_remote_options remote = { .secret_file = o->secret_file, .tls = o->tls, .timeout_ns = o->timeout_ns, .rdma_bind = getenv("PTIO_RDMA_BIND"),
					    .rdma_costs = getenv("PTIO_RDMA_COSTS"), .rdma_device = o->rdma_device, .rdma_port = o->rdma_port,
					    .rdma_gid = o->rdma_gid };
	const char *tls = getenv("PTIO_TLS"), *timeout = getenv("PTIO_TIMEOUT");
	uint64_t seconds;
	int rc;

	remote.transport = transport;
	if (!remote.rdma_device)
		remote.rdma_device = getenv("PTIO_RDMA_DEVICE");
	if (!remote.rdma_port)
		remote.rdma_port = getenv("PTIO_RDMA_PORT");
	if (!remote.rdma_gid)
		remote.rdma_gid = getenv("PTIO_RDMA_GID");
	if (!remote.secret_file)
		remote.secret_file = getenv("PTIO_SECRET_FILE");
	if (tls && (strcmp(tls, "1") == 0 || strcmp(tls, "on") == 0 || strcmp(tls, "yes") == 0))
		remote.tls = true;
	else if (tls && *tls && strcmp(tls, "0") != 0 && strcmp(tls, "off") != 0 && strcmp(tls, "no") != 0)
		return pt_fail(EINVAL, "PTIO_TLS is 1 or 0, not \"%s\"", tls);
	if (!remote.timeout_ns && timeout && *timeout) {
		rc = pt_size_parse(timeout, &seconds);
		if (rc < 0 || seconds < 1 || seconds > 86400)
			return pt_fail(EINVAL, "PTIO_TIMEOUT is a number of seconds from 1 to 86400, not \"%s\"", timeout);
		remote.timeout_ns = (int64_t)seconds * 1000000000;
	}
	return pt_remote_open(hosts, &remote, &s->meta, &s->data, &s->read_only);
}

int pt_store_open(const char *uri, const struct pt_store_options *options, struct pt_store **ret_store)
{
	static const struct pt_store_options defaults;
	const struct pt_store_options *o = options ? options : &defaults;
	const char *faults = o->faults ? o->faults : getenv("PTIO_FAULTS");
	struct pt_store *s = pt_calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return pt_fail_nomem();
	s->dirfd = -1;
	s->uri = pt_strdup(uri);
	if (!s->uri)
		rc = pt_fail_nomem();
	else if (strncmp(uri, "dir:", 4) == 0)
		rc = open_dir(s, uri + 4, o);
	else if (*uri == '/' || strncmp(uri, "./", 2) == 0 || strncmp(uri, "../", 3) == 0)
		rc = open_dir(s, uri, o);
	else if (strncmp(uri, "mem:", 4) == 0)
		rc = open_memory(s, uri + 4, o);
	else if (strncmp(uri, "ptio://", 7) == 0)
		rc = open_remote(s, uri + 7, PT_REMOTE_AUTO, o);
	else if (strncmp(uri, "tcp://", 6) == 0)
		rc = open_remote(s, uri + 6, PT_REMOTE_TCP, o);
	else if (strncmp(uri, "rdma://", 7) == 0)
		rc = open_remote(s, uri + 7, PT_REMOTE_RDMA, o);
	else
		rc = pt_fail(EINVAL, "\"%s\" is not a store; write /PATH, ./PATH or dir:PATH for a directory, mem:SIZE for memory, ptio://HOST:PORT for a daemon", uri);
	if (rc == 0)
		rc = pt_fault_meta_stack(&s->meta, faults);
	if (rc == 0)
		rc = pt_fault_data_stack(&s->data, faults);
	if (rc == 0)
		rc = pt_meta_cache_on(&s->meta);
	if (rc < 0) {
		pt_store_close(s);
		return rc;
	}
	s->durable = s->meta.ops->durable && s->data.ops->durable;
	s->read_only = s->read_only || o->read_only;    /* a daemon may be so by itself */
	s->meta.read_only = s->read_only;
	s->data.read_only = s->read_only;
	*ret_store = s;
	return 0;
}

void pt_store_close(struct pt_store *s)
{
	if (!s)
		return;
	pt_data_close(&s->data);
	pt_meta_close(&s->meta);
	pt_held_give(s->dirfd);
	free(s->uri);
	free(s->dir);
	free(s);
}
