/* tools/cmd_ls.c - ptio ls: what a mount's ls would show, with dtype, shape and revision in the long form. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tools/cli.h"
#include "tree/alias.h"
#include "tree/tree.h"

struct ls {
	struct cli *cli;
	bool longer, recursive, formats;
	const char *prefix;             /* shown before each name, "" or "dir/" */
	uint64_t node;
	const char *dir;                /* axis components below the node, "" or "dp=0of2/tp=0of4,dim=1" */
	const char *alias;              /* "", or the name of a tensor of a file below the node */
	bool first;
};

static int list_dir(struct ls *parent, const char *shown, uint64_t node, const char *dir);

static void print_long_view(const struct ls *ls, const char *name)
{
	struct pt_request req;
	enum pt_format format;
	struct pt_view *view;
	char shape[PT_LAYOUT_TEXT_MAX], when[32];
	const struct pt_view_info *info;

	if (pt_tree_view_parse(ls->dir, name, &req, &format) < 0 || pt_tree_view(ls->cli->models, ls->cli->repo, ls->node, ls->alias, &req, &view) < 0) {
		printf("view  %-18s %-20s %14s %6s %-19s ", "?", "?", "-", "-", "-");
		return;
	}
	info = pt_view_info(view);
	pt_shape_format(&info->shape, shape, sizeof(shape));
	printf("view  %-18s %-20s %14llu r%-5llu %-19s ", pt_dtype_info(info->dtype) ? pt_dtype_info(info->dtype)->name : "?",
	       info->shape_known ? shape : "?", (unsigned long long)info->bytes, (unsigned long long)info->revision, cli_time(info->mtime_ns, when));
	pt_view_unref(view);
}

static void print_long_node(const struct ls *ls, uint64_t id, enum pt_node_kind kind)
{
	struct pt_node node;
	char when[32];

	if (id == 0 || pt_node_get(ls->cli->repo, id, &node) < 0) {
		printf("%-5s %-18s %-20s %14s %6s %-19s ", kind == PT_NODE_DIR ? "dir" : "file", "-", "-", "-", "-", "-");
		return;
	}
	printf("%-5s %-18s %-20s ", kind == PT_NODE_DIR ? "dir" : kind == PT_NODE_SYMLINK ? "link" : "file", "-", "-");
	if (kind == PT_NODE_DIR)
		printf("%14s %6s ", "-", "-");
	else
		printf("%14llu %6s ", (unsigned long long)node.size, "-");
	printf("%-19s ", cli_time(node.mtime_ns, when));
	pt_node_done(&node);
}

static int one_name(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	struct ls *ls = ctx;
	struct pt_node node;
	char *shown, *dir;
	int rc = 0;

	if (ls->longer) {
		if (kind == PT_NODE_FILE && id == 0)
			print_long_view(ls, name);
		else
			print_long_node(ls, id, kind);
	}
	printf("%s%s%s", ls->prefix, name, kind == PT_NODE_DIR ? "/" : "");
	if (kind == PT_NODE_SYMLINK && pt_node_get(ls->cli->repo, id, &node) == 0) {
		printf(" -> %s", node.target ? node.target : "");
		pt_node_done(&node);
	}
	putchar('\n');
	if (!ls->recursive || kind != PT_NODE_DIR)
		return 0;
	shown = pt_asprintf("%s%s/", ls->prefix, name);
	dir = id == 0 ? pt_asprintf("%s%s%s", ls->dir, *ls->dir ? "/" : "", name) : pt_strdup("");
	if (!shown || !dir)
		rc = pt_fail_nomem();
	else
		rc = list_dir(ls, shown, id ? id : ls->node, dir);
	free(shown);
	free(dir);
	return rc;
}

static int list_dir(struct ls *parent, const char *shown, uint64_t node, const char *dir)
{
	struct ls ls = *parent;
	int rc;

	ls.prefix = shown;
	ls.node = node;
	ls.dir = dir;
	ls.alias = "";
	rc = pt_tree_list(ls.cli->repo, node, dir, ls.formats, one_name, &ls);
	return rc == 0 && dir[0] ? pt_tree_rank_list(ls.cli->repo, node, dir, one_name, &ls) : rc;
}

int cmd_ls(struct cli *cli, int argc, char **argv)
{
	struct ls ls = { .cli = cli };
	const char *text = "";
	struct pt_place p;
	int opt, rc = 0;

	while ((opt = getopt_long(argc, argv, "lRf", NULL, NULL)) != -1) {
		if (opt == 'l')
			ls.longer = true;
		else if (opt == 'R')
			ls.recursive = true;
		else if (opt == 'f')
			ls.formats = true;
		else
			return cli_usage("ls");
	}
	if (argc - optind > 1)
		return cli_usage("ls");
	if (optind < argc)
		text = argv[optind];
	if (cli_open(cli, false, 0) != CLI_OK || cli_place_find(cli, text, false, &p) != CLI_OK)
		return CLI_FAILED;
	if (p.kind == PT_PLACE_NOTHING)
		return cli_fail(pt_fail(ENOENT, "no such key or file"), "%s", text);
	ls.node = p.node;
	ls.dir = p.dir;
	ls.alias = p.alias;
	ls.prefix = "";
	pt_fail_clear();
	if (p.kind == PT_PLACE_DIR && !p.alias[0]) {
		rc = list_dir(&ls, "", p.node, p.dir);
	} else if (p.kind == PT_PLACE_DIR) {            /* a tensor of a file: not listed, but for what it can be read as */
		rc = p.dir[0] ? 0 : one_name(&ls, "full", 0, PT_NODE_FILE);
	} else {
		if (ls.longer && p.kind == PT_PLACE_VIEW)
			print_long_view(&ls, p.name);
		else if (ls.longer)
			print_long_node(&ls, p.kind == PT_PLACE_FILE ? p.file.id : 0, p.kind == PT_PLACE_FILE ? p.file.kind : PT_NODE_FILE);
		puts(text);
	}
	pt_place_done(&p);
	return rc < 0 ? cli_fail(rc, "%s", *text ? text : "/") : CLI_OK;
}
