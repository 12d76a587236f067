/* tools/cmd_rm.c - ptio rm: a tensor's revisions (or one scope's), a file, a symlink; with -r everything below a name.
 *
 * Objects become garbage at once and are deleted when no reader holds them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tools/cli.h"

struct collected {
	char **keys;
	size_t count, cap;
};

static int collect(void *ctx, const char *key, const struct pt_node *node)
{
	struct collected *c = ctx;

	(void)node;
	if (c->count == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		char **keys = pt_reallocarray(c->keys, cap, sizeof(*keys));

		if (!keys)
			return pt_fail_nomem();
		c->keys = keys;
		c->cap = cap;
	}
	c->keys[c->count] = pt_strdup(key);
	if (!c->keys[c->count])
		return pt_fail_nomem();
	c->count++;
	return 0;
}

static int remove_manifest(void *ctx, struct pt_manifest *m)
{
	struct cli *cli = ctx;
	int rc = pt_manifest_remove(cli->repo, m->node, m->scope);

	return rc == -ENOENT ? 0 : rc;
}

static int remove_pending(void *ctx, const struct pt_pending *p)
{
	struct cli *cli = ctx;
	int rc = pt_pending_remove(cli->repo, p);

	return rc == -ENOENT ? 0 : rc;
}

/* Everything of a tensor at this node, in all scopes. */
static int remove_tensor(struct cli *cli, uint64_t node)
{
	int rc = pt_manifest_list(cli->repo, node, remove_manifest, cli);

	return rc < 0 ? rc : pt_pending_list(cli->repo, node, remove_pending, cli);
}

static int remove_node(struct cli *cli, const struct pt_node *node)
{
	int rc;

	if (node->kind != PT_NODE_DIR)
		return pt_node_unlink(cli->repo, node->parent, node->name);
	rc = remove_tensor(cli, node->id);
	if (rc == 0 && node->id != PT_NODE_ROOT)
		rc = pt_node_rmdir(cli->repo, node->parent, node->name);
	return rc;
}

static int remove_tree(struct cli *cli, const struct cli_target *t)
{
	struct collected c = { NULL, 0, 0 };
	int rc = pt_node_walk(cli->repo, t->node.id, collect, &c);

	/* Depth first, so from the end: children before their directory. */
	for (size_t i = c.count; rc == 0 && i-- > 0;) {
		char *key = t->path.key[0] ? pt_asprintf("%s/%s", t->path.key, c.keys[i]) : pt_strdup(c.keys[i]);
		struct pt_node node;

		if (!key) {
			rc = pt_fail_nomem();
			break;
		}
		rc = pt_node_by_key(cli->repo, key, false, &node);
		free(key);
		if (rc == -ENOENT) {
			rc = 0;
			continue;
		}
		if (rc == 0) {
			rc = remove_node(cli, &node);
			pt_node_done(&node);
		}
	}
	for (size_t i = 0; i < c.count; i++)
		free(c.keys[i]);
	free(c.keys);
	return rc < 0 ? rc : remove_node(cli, &t->node);
}

static int remove_one(struct cli *cli, const struct cli_target *t, bool recursive)
{
	struct pt_layout scope;
	char text[PT_LAYOUT_TEXT_MAX];
	bool revision, pending;
	int rc;

	if (recursive && !t->path.has_view && !t->path.has_layout)
		return remove_tree(cli, t);
	if (t->node.kind != PT_NODE_DIR)
		return pt_node_unlink(cli->repo, t->node.parent, t->node.name);
	if (t->path.has_partition || pt_layout_find(&t->path.layout, PT_AXIS_TP))
		return pt_fail(EINVAL, "names one part, and a set is removed whole: ptio rm KEY/full removes it (rm in a mount hides one view of it)");
	if (t->path.has_layout || t->path.has_view) {
		/* One scope: the axes that do not split name it. */
		pt_layout_scope(&t->path.layout, &scope);
		for (uint32_t i = 0; i < scope.axis_count; i++)
			if (scope.axis[i].size == 0)
				return pt_fail(EINVAL, "give the size of %s, as ptio ls shows it", pt_axis_kind_name(scope.axis[i].kind));
		pt_layout_format(&scope, text);
		return pt_manifest_remove(cli->repo, t->node.id, text);
	}
	rc = pt_tensor_exists(cli->repo, t->node.id, &revision, &pending);
	if (rc < 0)
		return rc;
	if (!revision && !pending)
		return pt_fail(EISDIR, "is a directory and no tensor; -r removes it and all below it");
	rc = remove_tensor(cli, t->node.id);
	return rc < 0 ? rc : pt_node_prune(cli->repo, t->node.id);
}

int cmd_rm(struct cli *cli, int argc, char **argv)
{
	bool recursive = false, force = false;
	int opt, status = CLI_OK;

	while ((opt = getopt_long(argc, argv, "rf", NULL, NULL)) != -1) {
		if (opt == 'r')
			recursive = true;
		else if (opt == 'f')
			force = true;
		else
			return cli_usage("rm");
	}
	if (optind >= argc)
		return cli_usage("rm");
	if (cli_open(cli, false, 0) != CLI_OK)
		return CLI_FAILED;
	for (int i = optind; i < argc; i++) {
		struct cli_target t;
		int rc;

		if (cli_target_parse(cli, argv[i], false, &t) != CLI_OK) {
			status = CLI_FAILED;
			continue;
		}
		pt_fail_clear();
		if (!t.found)
			rc = pt_fail(ENOENT, "no such key");
		else if (t.node.id == PT_NODE_ROOT)
			rc = pt_fail(EBUSY, "the root of the store stays; name what is in it");
		else
			rc = remove_one(cli, &t, recursive);
		if (rc < 0 && !(force && rc == -ENOENT))
			status = cli_fail(rc, "%s", argv[i]);
		cli_target_done(&t);
	}
	return status;
}
