/* tools/cmd_stat.c - ptio stat: what is known of a tensor, or of a file, as JSON. */
#include <errno.h>

#include <jansson.h>

#include "base/error.h"
#include "tools/cli.h"

static int stat_file(const char *text, const struct pt_node *node)
{
	char when[32];
	json_t *j = json_pack("{s:s, s:s, s:I, s:s}", "key", text, "kind",
			      node->kind == PT_NODE_SYMLINK ? "symlink" : node->kind == PT_NODE_CONTAINER ? "tensor file" : "file", "size",
			      (json_int_t)node->size, "modified", cli_time(node->mtime_ns, when));
	int rc = j && json_dumpf(j, stdout, JSON_PRESERVE_ORDER) == 0 ? 0 : pt_fail_nomem();

	json_decref(j);
	if (rc == 0)
		putchar('\n');
	return rc;
}

int cmd_stat(struct cli *cli, int argc, char **argv)
{
	int status = CLI_OK;

	if (getopt_long(argc, argv, "", NULL, NULL) != -1 || optind >= argc)
		return cli_usage("stat");
	if (cli_open(cli, false, 0) != CLI_OK)
		return CLI_FAILED;
	for (int i = optind; i < argc; i++) {
		struct pt_buf json = PT_BUF_INIT;
		struct cli_target t;
		struct pt_request req;
		int rc;

		if (cli_target_parse(cli, argv[i], false, &t) != CLI_OK) {
			status = CLI_FAILED;
			continue;
		}
		if (!t.found) {
			status = cli_fail(-ENOENT, "%s: no such key", argv[i]);
			continue;
		}
		if (t.node.kind == PT_NODE_DIR) {
			cli_target_request(&t, &req);
			rc = pt_tensor_info_json(cli->repo, t.node.id, t.path.has_layout ? &req : NULL, &json);
			if (rc < 0)
				status = cli_fail(rc, "%s", argv[i]);
			else
				fwrite(json.data, 1, json.len, stdout);
		} else {
			rc = stat_file(argv[i], &t.node);
			if (rc < 0)
				status = cli_fail(rc, "%s", argv[i]);
		}
		pt_buf_done(&json);
		cli_target_done(&t);
	}
	return status;
}
