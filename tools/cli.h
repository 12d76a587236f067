/* tools/cli.h - what the subcommands of ptio share: options, the open store, paths, printing.
 *
 * A subcommand is a function of (cli, argc, argv) in a file of its own; argv[0] is its name. It returns the exit status: 0 done, 1 failed
 * (with one line on standard error), 2 usage, and what its help says beyond. */
#ifndef PT_TOOLS_CLI_H
#define PT_TOOLS_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "manifest/repo.h"
#include "path/path.h"
#include "tensor/tensor.h"
#include "tree/place.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli {
	const char *store;              /* URI, from -s or PTIO_STORE */
	const char *verify;             /* off, whole, touch */
	bool force;                     /* network filesystems */
	const char *secret_file;        /* of ptio:// stores, or NULL */
	bool tls;
	int64_t pending_ttl_ns;         /* gc: 0 the default */
	struct pt_repo *repo;           /* once cli_open() was called */
	struct pt_models *models;       /* and this */
};

struct cli_command {
	const char *name;
	const char *args;               /* for the usage line */
	const char *help;               /* one line */
	int (*run)(struct cli *cli, int argc, char **argv);
};

extern const struct cli_command cli_commands[];         /* ends with a NULL name */

int cmd_ls(struct cli *cli, int argc, char **argv);
int cmd_stat(struct cli *cli, int argc, char **argv);
int cmd_get(struct cli *cli, int argc, char **argv);
int cmd_put(struct cli *cli, int argc, char **argv);
int cmd_rm(struct cli *cli, int argc, char **argv);
int cmd_verify(struct cli *cli, int argc, char **argv);
int cmd_pending(struct cli *cli, int argc, char **argv);
int cmd_wait(struct cli *cli, int argc, char **argv);
int cmd_warm(struct cli *cli, int argc, char **argv);
int cmd_gc(struct cli *cli, int argc, char **argv);
int cmd_fsck(struct cli *cli, int argc, char **argv);

/* Opens cli->store: for_write makes a directory store that is not there. orphan_grace_ns: see struct pt_repo_options. Returns CLI_OK or CLI_FAILED (reported). */
int cli_open(struct cli *cli, bool for_write, int64_t orphan_grace_ns);
/* Prints "ptio: what: sentence" for a failure rc (-errno) and returns CLI_FAILED. */
int cli_fail(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a usage line of the command and returns CLI_USAGE. */
int cli_usage(const char *command);

/* A path of the tree, without the mountpoint: "llama/wq/tp=1of4,dim=0/shard.npy". */
struct cli_target {
	struct pt_path path;
	struct pt_node node;            /* the key's directory, or an ordinary file or symlink. Freed by cli_target_done */
	bool found;
};

/* text with the symlinks on its way followed, one that it ends in left alone; owned by the caller. -EXDEV: an absolute link; -ELOOP. */
int cli_links_follow(struct cli *cli, const char *text, char **ret_path);
/* Parses and looks up, through symlinks on the way. create: makes the key's directories. A key that is not there is CLI_OK with found false. */
int cli_target_parse(struct cli *cli, const char *text, bool create, struct cli_target *ret_target);
void cli_target_done(struct cli_target *t);
/* Whatever a mount shows under a path, through symlinks on the way; done with by pt_place_done. create: as pt_place_find. Reported: CLI_FAILED. */
int cli_place_find(struct cli *cli, const char *text, bool create, struct pt_place *ret_place);
/* ---- ordinary files (files.c) ---- */
typedef int cli_bytes_fn(void *ctx, const void *data, uint64_t len);
/* The bytes of a file, or of one that is made of many tensors, in order. It is looked up again if it is replaced meanwhile. */
int cli_file_get(struct cli *cli, struct pt_place *place, cli_bytes_fn *out, void *ctx);
struct cli_file;
/* dir_key: of the directory that it will be in; NULL: it is no tensor file there, whatever its bytes are (inside axis directories). */
int cli_file_create(struct cli *cli, const char *dir_key, struct cli_file **ret_file);
cli_bytes_fn cli_file_feed;                             /* ctx: the file */
/* All bytes are in. attrs: of a file that is not there yet. -EEXIST: no_replace, and it is there. */
int cli_file_store(struct cli_file *file, uint64_t parent, const char *name, const struct pt_node *attrs, bool no_replace, uint64_t *ret_bytes);
void cli_file_free(struct cli_file *file);              /* drops what was not stored; NULL is fine */
/* As ptio verify -q of the whole store: damage is reported and added to *damaged, what was read to *bytes. (cmd_verify.c) */
int cli_verify_all(struct cli *cli, uint64_t *damaged, uint64_t *bytes);
/* The request of a view path. */
void cli_target_request(const struct cli_target *t, struct pt_request *ret_req);

/* "1.5 MiB" into buf; returns buf. */
const char *cli_size(uint64_t bytes, char buf[32]);
/* "2026-03-01 10:00:00" local time. */
const char *cli_time(int64_t ns, char buf[32]);

#endif
