/* tools/cmd_pending.c - ptio pending: sets that wait for parts; who is there, who is missing, since when; and dropping one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/io.h"
#include "tensor/tensor.h"
#include "tools/cli.h"

#define RANKS_MAX 64            /* printed of a set */

struct pending {
	struct cli *cli;
	json_t *list;
	const char *drop;               /* hex id of a set, or NULL */
	uint64_t dropped;
	uint64_t count;
};

static int add_json(struct pending *ctx, const struct pt_pending *p, const char *key)
{
	json_t *set = pt_pending_json(p);

	if (set && json_object_set_new(set, "key", json_string(key)) < 0) {
		json_decref(set);
		set = NULL;
	}
	return set && json_array_append_new(ctx->list, set) == 0 ? 0 : pt_fail_nomem();
}

static void print_ranks(const struct pt_pending *p, bool here)
{
	uint32_t next = 0, printed = 0, count = here ? p->object_count : (uint32_t)p->set_size - p->object_count;

	for (int32_t rank = 0; rank < p->set_size && printed < RANKS_MAX; rank++) {
		bool found = next < p->object_count && p->objects[next].part.rank == rank;

		if (found == here)
			printf("%s%d", printed++ ? "," : "", (int)rank);
		next += found;
	}
	if (count > printed)
		printf(" and %lu more", (unsigned long)(count - printed));
}

/* The global shape; ? for an extent that is known once all shards are here. */
static void print_shape(const struct pt_pending *p)
{
	putchar('[');
	for (uint32_t i = 0; i < p->shape.ndim; i++)
		if (p->shape_known || (int32_t)i != p->set_dim)
			printf("%s%llu", i ? "," : "", (unsigned long long)p->shape.dim[i]);
		else
			printf("%s?", i ? "," : "");
	putchar(']');
}

static int one(void *arg, const struct pt_pending *p)
{
	struct pending *ctx = arg;
	char key[PT_KEY_MAX + 1], hex[PT_ID_HEX_LEN + 1], when[32];
	int rc;

	pt_id_hex(&p->set_id, hex);
	if (ctx->drop) {
		if (strcmp(hex, ctx->drop) != 0)
			return 0;
		rc = pt_pending_remove(ctx->cli->repo, p);
		ctx->dropped += rc == 0;
		return rc;
	}
	rc = pt_node_key(ctx->cli->repo, p->node, key);
	if (rc == -ENOENT)              /* removed meanwhile */
		return 0;
	if (rc < 0)
		return rc;
	ctx->count++;
	if (ctx->list)
		return add_json(ctx, p, key);
	printf("%s %s%s%s %s of %d", hex, key, *p->scope ? "/" : "", p->scope, pt_written_name(p->written), (int)p->set_size);
	if (p->set_dim >= 0)
		printf(" on dim %d", (int)p->set_dim);
	if (*p->step)
		printf(" step %s", p->step);
	printf(", %s ", pt_dtype_info(p->dtype) ? pt_dtype_info(p->dtype)->name : "?");
	print_shape(p);
	fputs(", here ", stdout);
	print_ranks(p, true);
	if (p->object_count < (uint32_t)p->set_size) {
		fputs(", missing ", stdout);
		print_ranks(p, false);
	} else {
		fputs(", waits for other tensors of its file", stdout);
	}
	printf(", last part %s\n", cli_time(p->updated_ns, when));
	return 0;
}

int cmd_pending(struct cli *cli, int argc, char **argv)
{
	enum { OPT_JSON = 256, OPT_DROP };
	static const struct option options[] = {
		{ "json", no_argument, NULL, OPT_JSON },
		{ "drop", required_argument, NULL, OPT_DROP },
		{ NULL, 0, NULL, 0 },
	};
	struct pending ctx = { .cli = cli };
	struct cli_target t = { .found = false };
	uint64_t node = 0;
	int opt, rc, status = CLI_FAILED;
	bool json = false;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == OPT_JSON)
			json = true;
		else if (opt == OPT_DROP)
			ctx.drop = optarg;
		else
			return cli_usage("pending");
	}
	if (argc - optind > 1)
		return cli_usage("pending");
	if (cli_open(cli, false, 0) != CLI_OK)
		return CLI_FAILED;
	if (optind < argc) {
		if (cli_target_parse(cli, argv[optind], false, &t) != CLI_OK)
			return CLI_FAILED;
		if (!t.found)
			return cli_fail(-ENOENT, "%s: no such key", argv[optind]);
		node = t.node.id;
	}
	if (json && !(ctx.list = json_array()))
		goto out;
	rc = pt_pending_list(cli->repo, node, one, &ctx);
	if (rc < 0) {
		cli_fail(rc, "pending sets");
		goto out;
	}
	if (ctx.drop && ctx.dropped == 0) {
		fprintf(stderr, "ptio: no pending set has the id %s; ptio pending lists them\n", ctx.drop);
		goto out;
	}
	if (ctx.list) {
		json_dumpf(ctx.list, stdout, JSON_INDENT(2));
		putchar('\n');
	} else if (!ctx.drop && ctx.count == 0) {
		puts("nothing is pending");
	}
	status = CLI_OK;
out:
	json_decref(ctx.list);
	cli_target_done(&t);
	return status;
}
