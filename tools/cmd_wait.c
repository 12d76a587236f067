/* tools/cmd_wait.c - ptio wait --complete: blocks until each named tensor (in the scope that its path names) has a revision, and each named
 * model directory is complete: every tensor of the files that its ranks write, and nothing pending below it.
 *
 * Exit status 0 when all have, 1 on failure, 3 when the time ran out (what is missing is then printed). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "tools/cli.h"
#include "tree/rank_view.h"

enum { WAIT_TIMED_OUT = 3 };

#define SECOND_NS INT64_C(1000000000)

/* The scope a path means: its own axes; without any, the one complete scope a bare read would take. */
static int scope_of(struct cli *cli, const struct cli_target *t, char ret_scope[PT_LAYOUT_TEXT_MAX])
{
	struct pt_request req, full;
	struct pt_layout scope;
	int rc;

	cli_target_request(t, &req);
	rc = pt_request_complete(cli->repo, t->node.id, &req, &full);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	pt_layout_scope(rc == 0 ? &full.layout : &req.layout, &scope);
	pt_layout_format(&scope, ret_scope);
	return 0;
}

/* A directory with files of tensors, or with keys below it, is complete as a whole. *ret_whole: it is one, and it is complete. -EAGAIN: it is not complete yet. */
static int wait_model(struct cli *cli, const struct cli_target *t, bool *ret_whole)
{
	bool revision, pending, complete = false;
	struct pt_model_dir *dir;
	struct pt_models *models;
	int rc;

	*ret_whole = false;
	rc = pt_tensor_exists(cli->repo, t->node.id, &revision, &pending);
	if (rc < 0 || revision || pending || t->node.kind != PT_NODE_DIR)
		return rc < 0 ? rc : 0;
	rc = pt_models_create(cli->repo, &models);
	if (rc < 0)
		return rc;
	rc = pt_models_dir(models, t->node.id, &dir);
	if (rc == 0) {
		if (dir->file_count)
			rc = pt_model_complete(models, cli->repo, t->node.id, &complete);
		if (rc == 0 && dir->file_count) {
			*ret_whole = complete;
			rc = complete ? 0 : -EAGAIN;
		}
		pt_model_dir_unref(dir);
	}
	pt_models_free(models);
	return rc;
}

static int wait_one(struct cli *cli, const char *text, uint64_t after, int64_t deadline)
{
	for (;;) {
		int64_t left = deadline == INT64_MAX ? SECOND_NS : deadline - pt_time_boot_ns();
		char scope[PT_LAYOUT_TEXT_MAX];
		struct pt_manifest *m;
		struct cli_target t;
		bool whole;
		int rc;

		if (cli_target_parse(cli, text, false, &t) != CLI_OK)
			return CLI_FAILED;
		/* Short waits in a row: the key may be made, renamed or replaced meanwhile. */
		if (left > SECOND_NS)
			left = SECOND_NS;
		if (!t.found) {
			if (left <= 0) {
				fprintf(stderr, "ptio: %s: not there yet\n", text);
				return WAIT_TIMED_OUT;
			}
			usleep((useconds_t)(left > SECOND_NS / 20 ? 50000 : left / 1000 + 1));
			continue;
		}
		rc = wait_model(cli, &t, &whole);
		if (rc == 0 && whole) {
			cli_target_done(&t);
			printf("%s complete\n", text);
			return CLI_OK;
		}
		if (rc == -EAGAIN) {            /* a model directory, and something is missing */
			cli_target_done(&t);
			if (deadline != INT64_MAX && pt_time_boot_ns() >= deadline) {
				fprintf(stderr, "ptio: %s: not complete in time; ptio pending %s says what is missing\n", text, text);
				return WAIT_TIMED_OUT;
			}
			usleep(50000);
			continue;
		}
		if (rc == 0)
			rc = scope_of(cli, &t, scope);
		if (rc == 0)
			rc = pt_manifest_wait(cli->repo, t.node.id, scope, after, left > 0 ? left : 0, &m);
		cli_target_done(&t);
		if (rc == 0) {
			printf("%s revision %llu\n", text, (unsigned long long)m->revision);
			pt_manifest_unref(m);
			return CLI_OK;
		}
		if (rc != -ETIMEDOUT && rc != -ENOENT)
			return cli_fail(rc, "%s", text);
		if (deadline != INT64_MAX && pt_time_boot_ns() >= deadline) {
			fprintf(stderr, "ptio: %s: not complete in time; ptio pending %s says what is missing\n", text, text);
			return WAIT_TIMED_OUT;
		}
	}
}

int cmd_wait(struct cli *cli, int argc, char **argv)
{
	enum { OPT_COMPLETE = 256, OPT_AFTER, OPT_TIMEOUT };
	static const struct option options[] = {
		{ "complete", no_argument, NULL, OPT_COMPLETE },
		{ "after", required_argument, NULL, OPT_AFTER },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ NULL, 0, NULL, 0 },
	};
	int64_t deadline = INT64_MAX;
	uint64_t after = 0;
	bool complete = false;
	int opt, status = CLI_OK;
	char *end;
	double v;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case OPT_COMPLETE:
			complete = true;
			break;
		case OPT_AFTER:
			after = strtoull(optarg, &end, 10);
			if (*end || end == optarg)
				return cli_usage("wait");
			break;
		case OPT_TIMEOUT:
			v = strtod(optarg, &end);
			if (*end || end == optarg || !isfinite(v) || v < 0 || v > 1e9)
				return cli_usage("wait");
			deadline = pt_time_boot_ns() + (int64_t)(v * 1e9);
			break;
		default:
			return cli_usage("wait");
		}
	}
	if (!complete || optind >= argc)
		return cli_usage("wait");
	if (cli_open(cli, false, 0) != CLI_OK)
		return CLI_FAILED;
	for (int i = optind; i < argc && status == CLI_OK; i++)
		status = wait_one(cli, argv[i], after, deadline);
	return status;
}
