/* tools/cmd_verify.c - ptio verify: reads every byte of every revision and of every tensor file's tensors below some names, and checks their hashes.
 *
 * Each revision is pinned while it is read; one that is superseded meanwhile is looked up again. Damage does not stop the walk: every damaged
 * object is named, and the exit status is 1. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/cli.h"
#include "tree/container.h"

struct verify {
	struct cli *cli;
	bool quiet;
	uint64_t objects, bytes, damaged;
	const char *key;
	uint64_t node;
};

static void verify_progress(void *ctx, uint64_t bytes)
{
	struct verify *v = ctx;

	v->bytes += bytes;
}

static int verify_manifest(void *ctx, struct pt_manifest *m)
{
	struct verify *v = ctx;
	struct pt_manifest *held = pt_manifest_ref(m);
	int rc;

	while ((rc = pt_manifest_pin(v->cli->repo, held)) == -ESTALE) {
		struct pt_manifest *now;

		rc = pt_manifest_get(v->cli->repo, held->node, held->scope, &now);
		pt_manifest_unref(held);
		if (rc == -ENOENT)      /* removed while we looked */
			return 0;
		if (rc < 0)
			return rc;
		held = now;
	}
	if (rc < 0)
		goto out;
	for (uint32_t i = 0; i < held->object_count; i++) {
		pt_fail_clear();
		rc = pt_object_verify(v->cli->repo, held, i, verify_progress, v);
		v->objects++;
		if (rc < 0) {
			v->damaged++;
			cli_fail(rc, "%s%s%s revision %llu", v->key, *held->scope ? "/" : "", held->scope, (unsigned long long)held->revision);
		} else if (!v->quiet) {
			printf("ok %s%s%s revision %llu, object %u of %u\n", v->key, *held->scope ? "/" : "", held->scope,
			       (unsigned long long)held->revision, i + 1, held->object_count);
		}
	}
	rc = 0;
	pt_manifest_unpin(v->cli->repo, held);
out:
	pt_manifest_unref(held);
	return rc;
}

static void verify_objects(struct verify *v, const struct pt_container *c)
{
	int rc;

	/* A bundle has none: its keys are verified where they are. */
	for (uint32_t i = 0; i < c->object_count; i++) {
		pt_fail_clear();
		rc = pt_container_verify(c, i, verify_progress, v);
		v->objects++;
		if (rc < 0) {
			v->damaged++;
			cli_fail(rc, "%s", v->key);
		} else if (!v->quiet) {
			printf("ok %s, object %u of %u\n", v->key, i + 1, c->object_count);
		}
	}
}

static int verify_container(struct verify *v, const struct pt_node *node)
{
	struct pt_container *c = NULL;
	struct pt_node now;
	int rc;

	rc = pt_node_get(v->cli->repo, node->id, &now);
	if (rc == 0) {
		rc = pt_node_pin(v->cli->repo, &now);
		if (rc == 0) {
			if (now.kind == PT_NODE_CONTAINER)
				rc = pt_container_load(v->cli->repo, &now, &c);
			if (rc == 0 && c)
				verify_objects(v, c);
			pt_container_unref(c);
			pt_node_unpin(v->cli->repo, &now);
		}
		pt_node_done(&now);
	}
	return rc;
}

static int verify_node(void *ctx, const char *key, const struct pt_node *node)
{
	struct verify *v = ctx;
	int rc;

	v->key = key;
	if (node->kind == PT_NODE_CONTAINER) {
		while ((rc = verify_container(v, node)) == -ESTALE)
			;                       /* replaced while we looked */
		if (rc == -EIO) {
			v->damaged++;
			cli_fail(rc, "%s", key);
		}
		return rc == -ENOENT || rc == -EIO ? 0 : rc;
	}
	if (node->kind != PT_NODE_DIR)
		return 0;
	return pt_manifest_list(v->cli->repo, node->id, verify_manifest, v);
}

static int verify_below(struct verify *v, const char *key, const struct pt_node *node)
{
	int rc = verify_node(v, key, node);

	return rc == 0 ? pt_node_walk(v->cli->repo, node->id, verify_node, v) : rc;
}

int cli_verify_all(struct cli *cli, uint64_t *damaged, uint64_t *bytes)
{
	struct verify v = { .cli = cli, .quiet = true };
	struct pt_node root;
	int rc = pt_node_get(cli->repo, PT_NODE_ROOT, &root);

	if (rc == 0) {
		rc = verify_below(&v, "", &root);
		pt_node_done(&root);
	}
	*damaged += v.damaged;
	*bytes += v.bytes;
	return rc;
}

int cmd_verify(struct cli *cli, int argc, char **argv)
{
	struct verify v = { .cli = cli };
	char size[32];
	int opt, status = CLI_OK, rc;

	while ((opt = getopt_long(argc, argv, "q", NULL, NULL)) != -1) {
		if (opt != 'q')
			return cli_usage("verify");
		v.quiet = true;
	}
	if (cli_open(cli, false, 0) != CLI_OK)
		return CLI_FAILED;
	for (int i = optind; i < argc || i == optind; i++) {
		const char *text = i < argc ? argv[i] : "";
		struct cli_target t;

		if (cli_target_parse(cli, text, false, &t) != CLI_OK) {
			status = CLI_FAILED;
			continue;
		}
		if (!t.found) {
			status = cli_fail(-ENOENT, "%s: no such key", text);
			continue;
		}
		rc = verify_below(&v, t.path.key, &t.node);
		if (rc < 0)
			status = cli_fail(rc, "%s", *text ? text : "/");
		cli_target_done(&t);
	}
	printf("%llu objects, %s read, %llu damaged\n", (unsigned long long)v.objects, cli_size(v.bytes, size), (unsigned long long)v.damaged);
	return v.damaged > 0 ? CLI_FAILED : status;
}
