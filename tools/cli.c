/* tools/cli.c - what the subcommands share. */
#include "tools/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"

int cli_fail(int rc, const char *fmt, ...)
{
	const char *sentence = pt_fail_sentence();
	va_list ap;

	fflush(stdout);
	fputs("ptio: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (*sentence)
		fprintf(stderr, ": %s\n", sentence);
	else
		fprintf(stderr, ": %s\n", strerror(-rc));
	return CLI_FAILED;
}

int cli_open(struct cli *cli, bool for_write, int64_t orphan_grace_ns)
{
	struct pt_store_options so = { .create = for_write, .force = cli->force, .secret_file = cli->secret_file, .tls = cli->tls };
	struct pt_repo_options ro = { .verify = PT_VERIFY_TOUCH, .pending_ttl_ns = cli->pending_ttl_ns,
				      .orphan_grace_ns = orphan_grace_ns };
	struct pt_store *store;
	int rc;

	if (!cli->store) {
		fputs("ptio: no store: give -s STORE or set PTIO_STORE\n", stderr);
		return CLI_FAILED;
	}
	if (strncmp(cli->store, "mem:", 4) == 0) {
		fprintf(stderr, "ptio: store %s: memory is one mount's own and goes with it; mount it with ptiofs, or give a directory\n", cli->store);
		return CLI_FAILED;
	}
	if (cli->verify && strcmp(cli->verify, "off") == 0) {
		ro.verify = PT_VERIFY_OFF;
	} else if (cli->verify && strcmp(cli->verify, "whole") == 0) {
		ro.verify = PT_VERIFY_WHOLE;
	} else if (cli->verify && strcmp(cli->verify, "touch") != 0) {
		fprintf(stderr, "ptio: --verify=%s: give off, whole or touch\n", cli->verify);
		return CLI_FAILED;
	}
	pt_fail_clear();
	rc = pt_store_open(cli->store, &so, &store);
	if (rc < 0)
		return cli_fail(rc, "store %s", cli->store);
	rc = pt_repo_open(store, &ro, &cli->repo);
	if (rc < 0) {
		pt_store_close(store);
		return cli_fail(rc, "store %s", cli->store);
	}
	rc = pt_models_create(cli->repo, &cli->models);
	return rc < 0 ? cli_fail(rc, "store %s", cli->store) : CLI_OK;
}

static int look_up(struct cli *cli, const char *text, bool create, struct cli_target *t)
{
	int rc = pt_path_parse(text, &t->path);

	if (rc < 0)
		return rc;
	if (t->path.key[0] == '\0')
		return pt_node_get(cli->repo, PT_NODE_ROOT, &t->node);
	rc = pt_node_by_key(cli->repo, t->path.key, create, &t->node);
	if (rc == 0 && t->node.kind == PT_NODE_SYMLINK && (t->path.has_layout || t->path.has_view)) {
		pt_node_done(&t->node);
		return pt_fail(ENOTDIR, "is below a symbolic link");
	}
	return rc;
}

int cli_target_parse(struct cli *cli, const char *text, bool create, struct cli_target *ret_target)
{
	const char *below = text;
	struct cli_target t;
	char *path;
	int rc;

	memset(&t, 0, sizeof(t));
	pt_fail_clear();
	while (*below == '/')
		below++;
	rc = look_up(cli, below, create, &t);
	if (rc == -ENOTDIR) {                   /* a symlink on the way? */
		rc = cli_links_follow(cli, below, &path);
		if (rc == 0) {
			rc = look_up(cli, path, create, &t);
			free(path);
		}
	}
	if (rc < 0 && rc != -ENOENT)
		return cli_fail(rc, "%s", text);
	if (rc == -ENOENT && *text == '/')
		pt_fail(ENOENT, "a PATH is written without the mountpoint, as in llama/wq/full");
	t.found = rc == 0;
	*ret_target = t;
	return CLI_OK;
}

int cli_place_find(struct cli *cli, const char *text, bool create, struct pt_place *ret_place)
{
	const char *below = text + strspn(text, "/");
	char *path;
	int rc;

	pt_fail_clear();
	rc = pt_place_find(cli->models, cli->repo, below, create, ret_place);
	if (rc == -ENOTDIR && cli_links_follow(cli, below, &path) == 0) {
		if (strcmp(path, below) != 0)
			rc = pt_place_find(cli->models, cli->repo, path, create, ret_place);
		free(path);
	}
	if (rc == -ENOENT && *text == '/')
		pt_fail(ENOENT, "a PATH is written without the mountpoint, as in llama/wq/full");
	else if (rc == -ENOENT && !pt_fail_sentence()[0])
		pt_fail(ENOENT, "no such key or file");
	return rc < 0 ? cli_fail(rc, "%s", text) : CLI_OK;
}

void cli_target_done(struct cli_target *t)
{
	if (t->found)
		pt_node_done(&t->node);
	t->found = false;
}

const char *cli_size(uint64_t bytes, char buf[32])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double v = (double)bytes;
	size_t i = 0;

	while (v >= 1024 && i + 1 < sizeof(unit) / sizeof(unit[0])) {
		v /= 1024;
		i++;
	}
	snprintf(buf, 32, i == 0 ? "%.0f %s" : "%.1f %s", v, unit[i]);
	return buf;
}

const char *cli_time(int64_t ns, char buf[32])
{
	time_t t = (time_t)(ns / 1000000000);
	struct tm tm;

	if (!localtime_r(&t, &tm) || strftime(buf, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		strcpy(buf, "-");
	return buf;
}

void cli_target_request(const struct cli_target *t, struct pt_request *ret_req)
{
	static const enum pt_target targets[] = {
		[PT_PATH_FULL] = PT_TARGET_FULL,
		[PT_PATH_SHARD] = PT_TARGET_SHARD,
		[PT_PATH_AS_STORED] = PT_TARGET_AS_STORED,
	};
	struct pt_request req;

	memset(&req, 0, sizeof(req));
	req.target = targets[t->path.view];
	req.layout = t->path.layout;
	req.has_partition = t->path.has_partition;
	req.partition = t->path.partition;
	req.split = t->path.split;
	strcpy(req.step, t->path.step);
	req.axis_count = t->path.axis_count;
	memcpy(req.axis, t->path.axis, sizeof(req.axis));
	*ret_req = req;
}
