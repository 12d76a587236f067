/* tools/cmd_gc.c - ptio gc: one pass of the collector; safe beside mounts and writers. */
#include <errno.h>
#include <stdlib.h>

#include "tools/cli.h"

static bool seconds(const char *text, int64_t *ret_ns)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || v < 0 || v > INT64_MAX / 1000000000)
		return false;
	/* 0 means "the default" to the collector: the shortest time that is not the default is one nanosecond */
	*ret_ns = v == 0 ? 1 : v * 1000000000;
	return true;
}

int cmd_gc(struct cli *cli, int argc, char **argv)
{
	enum { OPT_PENDING = 256, OPT_ORPHANS };
	static const struct option options[] = {
		{ "pending-older-than", required_argument, NULL, OPT_PENDING },
		{ "orphans-older-than", required_argument, NULL, OPT_ORPHANS },
		{ NULL, 0, NULL, 0 },
	};
	int64_t pending = 0, orphans = 0;
	struct pt_gc_stats stats;
	char size[32];
	int opt, rc;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == OPT_PENDING && seconds(optarg, &pending))
			continue;
		if (opt == OPT_ORPHANS && seconds(optarg, &orphans))
			continue;
		return cli_usage("gc");
	}
	if (optind < argc)
		return cli_usage("gc");
	cli->pending_ttl_ns = pending;
	if (cli_open(cli, false, orphans) != CLI_OK)
		return CLI_FAILED;
	rc = pt_gc_run(cli->repo, &stats);
	if (rc < 0)
		return cli_fail(rc, "gc");
	printf("removed %llu objects (%s), %llu expired sets, %llu orphans, %llu unfinished uploads; kept %llu that readers hold\n",
	       (unsigned long long)stats.objects_removed, cli_size(stats.bytes_removed, size), (unsigned long long)stats.pending_expired,
	       (unsigned long long)stats.orphans_removed, (unsigned long long)stats.staged_removed, (unsigned long long)stats.kept_pinned);
	return CLI_OK;
}
