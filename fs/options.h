/* fs/options.h - the options of ptiofs: one table of name, environment variable, default and help. */
#ifndef PT_FS_OPTIONS_H
#define PT_FS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/format.h"
#include "layout/axis.h"
#include "manifest/repo.h"

struct pt_fs_option {
	const char *name;               /* "bare=" takes a value, "gc" is a switch */
	const char *env;
	const char *value;              /* default */
	const char *help;
};

/* How large views are served: docs/PERFORMANCE.md. */
enum pt_serve_way { PT_SERVE_AUTO, PT_SERVE_STREAM, PT_SERVE_CACHE };

struct pt_fs_options {
	char *store;                    /* URI */
	char *mountpoint;
	enum pt_format bare;            /* format of names without a suffix */
	bool list_all;
	enum pt_verify verify;
	enum pt_split split;
	enum pt_serve_way serve;
	uint64_t cache_size;            /* bytes */
	uint64_t cache_min;             /* bytes */
	uint64_t reserve;               /* bytes */
	int64_t open_wait_ns;
	bool read_only, allow_other, force, create, gc;
	double entry_timeout;           /* seconds; < 0: the default */
	bool set_uid, set_gid;
	uint32_t uid, gid;
	uint32_t umask;
	char *secret_file;              /* absolute, or NULL */
	char *rdma_device, *rdma_port, *rdma_gid;       /* NULL: not named */
	bool tls;
	uint32_t timeout_s;             /* 0: the default */
	uint32_t snapshots_s;           /* between copies of the index; 0: none */
	bool foreground, debug;
};

extern const struct pt_fs_option pt_fs_option_table[];         /* ends with a NULL name */

struct fuse_args;
/* Environment first, then the command line (it wins). What libfuse and the kernel are to see is left in args. 0; 1: help or version was printed,
 * exit with 0; -EINVAL: a sentence says what is wrong. */
int pt_fs_options_parse(struct fuse_args *args, struct pt_fs_options *ret_options);
void pt_fs_options_done(struct pt_fs_options *options);

#endif
