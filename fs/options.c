/* fs/options.c - the command line and the environment of ptiofs. The table is what the manual page is checked against. */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/error.h"
#include "base/size.h"
#include "cache/cache.h"
#include "store/snapshots.h"

#include "ptio/version.h"

#define RESERVE_PART 8                  /* of cache_size */
#define RESERVE_MOST (1024 * PT_MIB)
#define REST (256 * PT_MIB)             /* what ptiofs takes besides views, at most: windows, buffers, what the index told, the heap */

const struct pt_fs_option pt_fs_option_table[] = {
	{ "ro", "PTIO_RO", "off", "mount read only" },
	{ "bare=", "PTIO_BARE", "pt", "format of views named without one: pt, safetensors, npy, bin or obj" },
	{ "list=", "PTIO_LIST", "once", "what ls shows: once (each stored payload once) or all (each format, too)" },
	{ "verify=", "PTIO_VERIFY", "touch", "hashes checked on reads: off, whole (chunks read whole) or touch (each chunk at its first use)" },
	{ "split=", "PTIO_SPLIT", "", "how a dimension that does not divide is cut when the key has no rule: balanced or chunk" },
	{ "allow_other", "PTIO_ALLOW_OTHER", "off", "let other users see the mount" },
	{ "serve=", "PTIO_SERVE", "auto", "large views: stream (each read from the store), cache (all kept in memory), or auto (kept where open_wait allows, and from the second open on)" },
	{ "cache_size=", "PTIO_CACHE_SIZE", "25%", "memory for whole views: bytes with K, M, G or T, or a percentage of what there is; 0 for none" },
	{ "reserve=", "PTIO_RESERVE", "1/8 of cache_size, up to 1G", "part of that which is made ready before it is needed, and given back when nothing was loaded for ten minutes; 0 for none" },
	{ "cache_min=", "PTIO_CACHE_MIN", "4M", "smaller views are never kept in memory or streamed, but left to the kernel's cache" },
	{ "open_wait=", "PTIO_OPEN_WAIT", "200", "milliseconds that opening a large view may wait for all of it to be in memory, where the kernel reads it by itself then; 0 for not at all" },
	{ "entry_timeout=", "PTIO_ENTRY_TIMEOUT", "60", "seconds for which the kernel finds names, and answers stat of them, without asking; 0 for never" },
	{ "uid=", "PTIO_UID", "", "show all files as owned by this user id" },
	{ "gid=", "PTIO_GID", "", "show all files as of this group id" },
	{ "umask=", "PTIO_UMASK", "0", "permission bits (octal) to take away from all that is shown" },
	{ "create", "PTIO_CREATE", "on", "make a dir: store that is not there" },
	{ "force", "PTIO_FORCE", "off", "allow a dir: store on NFS, 9p or FUSE" },
	{ "gc=", "PTIO_GC", "on", "collect superseded objects while mounted: on or off" },
	{ "snapshots=", "PTIO_SNAPSHOTS", "900", "seconds between copies of a dir: store's index, made when something was committed, for ptio fsck; 0 for none" },
	{ "secret_file=", "PTIO_SECRET_FILE", "", "file with the secret that a ptio:// store's daemon shares" },
	{ "tls", "PTIO_TLS", "off", "speak TLS with a ptio:// store's daemon" },
	{ "rdma_device=", "PTIO_RDMA_DEVICE", "", "RDMA device to reach a ptio:// store's daemon by" },
	{ "rdma_port=", "PTIO_RDMA_PORT", "", "its port, counted from 1" },
	{ "rdma_gid=", "PTIO_RDMA_GID", "", "index of the port's GID" },
	{ "timeout=", "PTIO_TIMEOUT", "30", "seconds after which what a ptio:// store's daemon does not answer is EIO" },
	{ NULL, NULL, NULL, NULL }
};

enum { KEY_HELP, KEY_VERSION, KEY_FOREGROUND, KEY_DEBUG, KEY_RO, KEY_IGNORE, KEY_CREATE, KEY_NOCREATE, KEY_FORCE, KEY_ALLOW_OTHER, KEY_TLS,
       KEY_VALUE };

static const struct fuse_opt specs[] = {
	FUSE_OPT_KEY("-h", KEY_HELP),
	FUSE_OPT_KEY("--help", KEY_HELP),
	FUSE_OPT_KEY("-V", KEY_VERSION),
	FUSE_OPT_KEY("--version", KEY_VERSION),
	FUSE_OPT_KEY("-f", KEY_FOREGROUND),
	FUSE_OPT_KEY("-d", KEY_DEBUG),
	FUSE_OPT_KEY("debug", KEY_DEBUG),
	FUSE_OPT_KEY("ro", KEY_RO),
	FUSE_OPT_KEY("create", KEY_CREATE),
	FUSE_OPT_KEY("nocreate", KEY_NOCREATE),
	FUSE_OPT_KEY("force", KEY_FORCE),
	FUSE_OPT_KEY("allow_other", KEY_ALLOW_OTHER),
	FUSE_OPT_KEY("tls", KEY_TLS),
	FUSE_OPT_KEY("rdma_device=", KEY_VALUE), FUSE_OPT_KEY("rdma_port=", KEY_VALUE), FUSE_OPT_KEY("rdma_gid=", KEY_VALUE),
	FUSE_OPT_KEY("secret_file=", KEY_VALUE), FUSE_OPT_KEY("timeout=", KEY_VALUE),
	FUSE_OPT_KEY("bare=", KEY_VALUE), FUSE_OPT_KEY("list=", KEY_VALUE), FUSE_OPT_KEY("verify=", KEY_VALUE),
	FUSE_OPT_KEY("split=", KEY_VALUE), FUSE_OPT_KEY("uid=", KEY_VALUE), FUSE_OPT_KEY("gid=", KEY_VALUE),
	FUSE_OPT_KEY("umask=", KEY_VALUE), FUSE_OPT_KEY("serve=", KEY_VALUE), FUSE_OPT_KEY("cache_size=", KEY_VALUE), FUSE_OPT_KEY("reserve=", KEY_VALUE), FUSE_OPT_KEY("cache_min=", KEY_VALUE), FUSE_OPT_KEY("open_wait=", KEY_VALUE), FUSE_OPT_KEY("entry_timeout=", KEY_VALUE), FUSE_OPT_KEY("gc=", KEY_VALUE), FUSE_OPT_KEY("snapshots=", KEY_VALUE),
	/* what mount(8) and fstab add for its own use */
	FUSE_OPT_KEY("defaults", KEY_IGNORE), FUSE_OPT_KEY("auto", KEY_IGNORE), FUSE_OPT_KEY("noauto", KEY_IGNORE),
	FUSE_OPT_KEY("user", KEY_IGNORE), FUSE_OPT_KEY("nouser", KEY_IGNORE), FUSE_OPT_KEY("users", KEY_IGNORE),
	FUSE_OPT_KEY("_netdev", KEY_IGNORE), FUSE_OPT_KEY("nofail", KEY_IGNORE),
	FUSE_OPT_END
};

static int on_off(const char *name, const char *value, bool *ret)
{
	if (strcmp(value, "on") == 0 || strcmp(value, "1") == 0 || strcmp(value, "yes") == 0)
		*ret = true;
	else if (strcmp(value, "off") == 0 || strcmp(value, "0") == 0 || strcmp(value, "no") == 0)
		*ret = false;
	else
		return pt_fail(EINVAL, "%s%s: use on or off", name, value);
	return 0;
}

static int number(const char *name, const char *value, int base, uint32_t max, uint32_t *ret)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(value, &end, base);
	if (errno || end == value || *end || value[0] == '-' || v > max)
		return base == 8 ? pt_fail(EINVAL, "%s%s: not an octal number up to %o", name, value, max) :
				   pt_fail(EINVAL, "%s%s: not a number up to %u", name, value, max);
	*ret = (uint32_t)v;
	return 0;
}

static int seconds_set(const char *name, const char *value, double *ret)
{
	const char *at = value;
	double v = 0, unit = 1;

	for (; *at >= '0' && *at <= '9' && v <= 3600; at++)
		v = v * 10 + (*at - '0');
	if (*at == '.' && at > value)
		for (at++; *at >= '0' && *at <= '9'; at++)
			v += (*at - '0') * (unit /= 10);
	if (*at || at == value || v > 3600)
		return pt_fail(EINVAL, "%s%s: give seconds from 0 to 3600, as in 0.5", name, value);
	*ret = v;
	return 0;
}

/* Absolute, since the driver leaves the working directory when it goes to the background. */
static int secret_file(struct pt_fs_options *o, const char *value)
{
	char *path = realpath(value, NULL);

	if (!path)
		return pt_fail(errno, "secret_file=%s: %s", value, strerror(errno));
	free(o->secret_file);
	o->secret_file = path;
	return 0;
}

static uint64_t memory_bytes(void)
{
	struct pt_budget budget;

	pt_budget_find(&budget, "");
	return pt_budget_total(&budget);
}

/* What was asked for, or less where our control group would not leave the rest of the process what it may take. */
static uint64_t cache_bytes(uint64_t asked)
{
	struct pt_budget budget;
	uint64_t limit;

	pt_budget_find(&budget, "");
	limit = pt_budget_group_limit(&budget);
	if (limit == UINT64_MAX)
		return asked;
	return pt_size_min(asked, pt_size_max(limit / 4, limit - pt_size_min(limit, REST)));
}

static int bytes_set(const char *name, const char *value, uint64_t *ret)
{
	static const char units[] = "KMGT";
	const char *unit;
	uint64_t v, factor = 1;
	char *end;

	errno = 0;
	v = strtoull(value, &end, 10);
	if (*end == '%' && !end[1] && end != value && v <= 90) {
		*ret = memory_bytes() / 100 * v;
		return 0;
	}
	unit = *end ? strchr(units, *end) : NULL;
	if (unit)
		factor = (uint64_t)1 << (10 * (unit - units + 1));
	if (errno || end == value || value[0] == '-' || (*end && (!unit || end[1])) || !pt_size_mul(v, factor, &v))
		return pt_fail(EINVAL, "%s%s: use bytes with K, M, G or T, or a percentage of memory up to 90%%", name, value);
	*ret = v;
	return 0;
}

static int milliseconds_set(const char *name, const char *value, int64_t *ret_ns)
{
	uint32_t ms;
	int rc = number(name, value, 10, 60000, &ms);

	if (rc == 0)
		*ret_ns = (int64_t)ms * 1000000;
	return rc;
}

/* What is wrong with it is said when the store is opened. */
static int keep_text(char **to, const char *value)
{
	char *copy = pt_strdup(value);

	if (!copy)
		return pt_fail_nomem();
	free(*to);
	*to = copy;
	return 0;
}

/* name as in the table. */
static int option_set(struct pt_fs_options *o, const char *name, const char *value)
{
	if (strcmp(name, "ro") == 0)
		return on_off("ro=", value, &o->read_only);
	if (strcmp(name, "allow_other") == 0)
		return on_off("allow_other=", value, &o->allow_other);
	if (strcmp(name, "create") == 0)
		return on_off("create=", value, &o->create);
	if (strcmp(name, "force") == 0)
		return on_off("force=", value, &o->force);
	if (strcmp(name, "gc=") == 0)
		return on_off(name, value, &o->gc);
	if (strcmp(name, "bare=") == 0) {
		o->bare = pt_format_by_name(value, strlen(value));
		return o->bare == PT_FORMAT_COUNT ? pt_fail(EINVAL, "bare=%s: use pt, safetensors, npy, bin or obj", value) : 0;
	}
	if (strcmp(name, "list=") == 0) {
		if (strcmp(value, "all") != 0 && strcmp(value, "once") != 0)
			return pt_fail(EINVAL, "list=%s: use once or all", value);
		o->list_all = strcmp(value, "all") == 0;
		return 0;
	}
	if (strcmp(name, "verify=") == 0) {
		if (strcmp(value, "off") == 0)
			o->verify = PT_VERIFY_OFF;
		else if (strcmp(value, "whole") == 0)
			o->verify = PT_VERIFY_WHOLE;
		else if (strcmp(value, "touch") == 0)
			o->verify = PT_VERIFY_TOUCH;
		else
			return pt_fail(EINVAL, "verify=%s: use off, whole or touch", value);
		return 0;
	}
	if (strcmp(name, "split=") == 0) {
		if (strcmp(value, "balanced") == 0)
			o->split = PT_SPLIT_BALANCED;
		else if (strcmp(value, "chunk") == 0)
			o->split = PT_SPLIT_CHUNK;
		else if (value[0])
			return pt_fail(EINVAL, "split=%s: use balanced or chunk", value);
		return 0;
	}
	if (strcmp(name, "tls") == 0)
		return on_off("tls=", value, &o->tls);
	if (strcmp(name, "serve=") == 0) {
		if (strcmp(value, "auto") == 0)
			o->serve = PT_SERVE_AUTO;
		else if (strcmp(value, "stream") == 0)
			o->serve = PT_SERVE_STREAM;
		else if (strcmp(value, "cache") == 0)
			o->serve = PT_SERVE_CACHE;
		else
			return pt_fail(EINVAL, "serve=%s: use auto, stream or cache", value);
		return 0;
	}
	if (strcmp(name, "cache_size=") == 0)
		return bytes_set(name, value, &o->cache_size);
	if (strcmp(name, "reserve=") == 0)
		return bytes_set(name, value, &o->reserve);
	if (strcmp(name, "cache_min=") == 0)
		return bytes_set(name, value, &o->cache_min);
	if (strcmp(name, "open_wait=") == 0)
		return milliseconds_set(name, value, &o->open_wait_ns);
	if (!value[0])
		return 0;
	if (strcmp(name, "secret_file=") == 0)
		return secret_file(o, value);
	if (strcmp(name, "rdma_device=") == 0)
		return keep_text(&o->rdma_device, value);
	if (strcmp(name, "rdma_port=") == 0)
		return keep_text(&o->rdma_port, value);
	if (strcmp(name, "rdma_gid=") == 0)
		return keep_text(&o->rdma_gid, value);
	if (strcmp(name, "snapshots=") == 0)
		return number(name, value, 10, 604800, &o->snapshots_s) < 0 ? pt_fail(EINVAL, "snapshots=%s: give seconds, up to 604800; 0 for none", value) : 0;
	if (strcmp(name, "entry_timeout=") == 0)
		return seconds_set(name, value, &o->entry_timeout);
	if (strcmp(name, "timeout=") == 0) {
		if (number(name, value, 10, 86400, &o->timeout_s) < 0 || o->timeout_s == 0)
			return pt_fail(EINVAL, "timeout=%s: give seconds, from 1 to 86400", value);
		return 0;
	}
	if (strcmp(name, "uid=") == 0) {
		o->set_uid = true;
		return number(name, value, 10, UINT32_MAX - 1, &o->uid);
	}
	if (strcmp(name, "gid=") == 0) {
		o->set_gid = true;
		return number(name, value, 10, UINT32_MAX - 1, &o->gid);
	}
	return number(name, value, 8, 0777, &o->umask);
}

static void usage(void)
{
	const struct pt_fs_option *t;

	printf("usage: ptiofs STORE MOUNTPOINT [-f] [-d] [-o option,...]\n\n"
	       "Shows the tensors of a store as files. STORE is a directory (/path, ./path or dir:path), mem:SIZE,\n"
	       "or a ptiod (ptio://HOST:PORT[,HOST:PORT]).\n\n"
	       "    -f               stay in the foreground\n"
	       "    -d               log every request (implies -f)\n"
	       "    -h, -V           this text, the version\n\n"
	       "options (-o), and the environment variables that set them:\n");
	for (t = pt_fs_option_table; t->name; t++)
		printf("    %-13s %-17s %s%s%s%s\n", t->name, t->env, t->help, t->value[0] ? " (default: " : "", t->value, t->value[0] ? ")" : "");
	printf("\nUnmount with: fusermount3 -u MOUNTPOINT\n");
}

struct parse {
	struct pt_fs_options *o;
	int rc;                         /* what option_set said; 1: nothing more to do */
};

static int value_set(struct parse *p, const char *arg)
{
	size_t len = strcspn(arg, "=") + 1;
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)len, arg);
	p->rc = option_set(p->o, name, arg + len);
	return p->rc < 0 ? -1 : 0;
}

static int keep_word(struct parse *p, const char *arg)
{
	char **to = !p->o->store ? &p->o->store : !p->o->mountpoint ? &p->o->mountpoint : NULL;

	if (!to) {
		p->rc = pt_fail(EINVAL, "%s: too many arguments; usage: ptiofs STORE MOUNTPOINT [-o option,...]", arg);
		return -1;
	}
	*to = pt_strdup(arg);
	if (!*to) {
		p->rc = pt_fail_nomem();
		return -1;
	}
	return 0;
}

static int process(void *data, const char *arg, int key, struct fuse_args *out)
{
	struct parse *p = data;
	struct pt_fs_options *o = p->o;

	(void)out;
	switch (key) {
	case FUSE_OPT_KEY_NONOPT:
		return keep_word(p, arg);
	case KEY_HELP:
		usage();
		p->rc = 1;
		return -1;
	case KEY_VERSION:
		printf("ptiofs %s (libfuse %s)\n", ptio_version(), fuse_pkgversion());
		p->rc = 1;
		return -1;
	case KEY_FOREGROUND:
		o->foreground = true;
		return 0;
	case KEY_DEBUG:
		o->foreground = o->debug = true;
		return 0;
	case KEY_RO:
		o->read_only = true;
		return 0;
	case KEY_CREATE:
	case KEY_NOCREATE:
		o->create = key == KEY_CREATE;
		return 0;
	case KEY_FORCE:
		o->force = true;
		return 0;
	case KEY_ALLOW_OTHER:
		o->allow_other = true;
		return 0;
	case KEY_TLS:
		o->tls = true;
		return 0;
	case KEY_VALUE:
		return value_set(p, arg);
	case KEY_IGNORE:
		return 0;
	default:                        /* rw, dev, nosuid, max_read=, ...: for libfuse and the kernel */
		if (strncmp(arg, "x-", 2) == 0)
			return 0;
		return 1;
	}
}

static int from_environment(struct pt_fs_options *o)
{
	const struct pt_fs_option *t;
	const char *value;
	int rc;

	for (t = pt_fs_option_table; t->name; t++) {
		value = getenv(t->env);
		if (!value)
			continue;
		rc = option_set(o, t->name, value);
		if (rc < 0)
			return pt_fail_context(rc, "environment variable %s", t->env);
	}
	return 0;
}

int pt_fs_options_parse(struct fuse_args *args, struct pt_fs_options *ret_options)
{
	struct pt_fs_options o = { .bare = PT_FORMAT_PT, .verify = PT_VERIFY_TOUCH, .create = true, .gc = true, .snapshots_s = PT_SNAPSHOTS_EVERY_S, .cache_size = memory_bytes() / 4, .cache_min = PT_VCACHE_FILE_MIN, .reserve = UINT64_MAX,
				   .open_wait_ns = 200 * INT64_C(1000000), .entry_timeout = -1 };
	struct parse p = { &o, 0 };
	int rc;

	rc = from_environment(&o);
	if (rc == 0 && fuse_opt_parse(args, &p, specs, process) < 0)
		rc = p.rc ? p.rc : pt_fail(EINVAL, "the command line is not understood; ptiofs -h shows the options");
	if (rc == 0 && !o.mountpoint)
		rc = pt_fail(EINVAL, "%s; usage: ptiofs STORE MOUNTPOINT [-o option,...] (ptiofs -h says more)",
			     o.store ? "where is it to be mounted?" : "which store, and where?");
	if (rc) {
		pt_fs_options_done(&o);
		return rc;
	}
	o.cache_size = cache_bytes(o.cache_size);
	if (o.reserve == UINT64_MAX)
		o.reserve = pt_size_min(o.cache_size / RESERVE_PART, RESERVE_MOST);
	*ret_options = o;
	return 0;
}

void pt_fs_options_done(struct pt_fs_options *options)
{
	free(options->store);
	free(options->mountpoint);
	free(options->secret_file);
	free(options->rdma_device);
	free(options->rdma_port);
	free(options->rdma_gid);
	options->store = options->mountpoint = options->secret_file = options->rdma_device = options->rdma_port = options->rdma_gid = NULL;
}
