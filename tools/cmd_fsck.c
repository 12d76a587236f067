/* tools/cmd_fsck.c - ptio fsck: whether the store in a directory is sound, and another index where its own is not. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tools/fsck.h"

static void line(struct fsck *f, const char *fmt, va_list ap)
{
	fsck_progress(f, NULL, 0);
	vprintf(fmt, ap);
	putchar('\n');
	fflush(stdout);
}

void fsck_say(struct fsck *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line(f, fmt, ap);
	va_end(ap);
}

void fsck_problem(struct fsck *f, const char *fmt, ...)
{
	va_list ap;

	f->problems++;
	va_start(ap, fmt);
	line(f, fmt, ap);
	va_end(ap);
}

int fsck_failed(int rc)
{
	cli_fail(rc, "fsck");
	return FSCK_ERROR;
}

void fsck_progress(struct fsck *f, const char *what, uint64_t done)
{
	if (what && isatty(STDERR_FILENO)) {
		fprintf(stderr, "\r%llu %s ...\033[K", (unsigned long long)done, what);
		f->progress = true;
	} else if (!what && f->progress) {
		fputs("\r\033[K", stderr);
		f->progress = false;
	}
}

static int usage(void)
{
	cli_usage("fsck");
	return FSCK_USAGE;
}

int cmd_fsck(struct cli *cli, int argc, char **argv)
{
	enum { OPT_VERIFY = 256, OPT_REBUILD, OPT_DRY };
	static const struct option options[] = {
		{ "verify", no_argument, NULL, OPT_VERIFY },
		{ "rebuild", no_argument, NULL, OPT_REBUILD },
		{ "dry-run", no_argument, NULL, OPT_DRY },
		{ NULL, 0, NULL, 0 },
	};
	struct fsck f = { .cli = cli };
	const char *dir;
	int opt, status;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == OPT_VERIFY)
			f.verify = true;
		else if (opt == OPT_REBUILD)
			f.rebuild = true;
		else if (opt == OPT_DRY)
			f.dry_run = true;
		else
			return usage();
	}
	if (argc - optind > 1 || (f.dry_run && !f.rebuild) || (f.rebuild && f.verify))
		return usage();
	if (optind < argc)
		cli->store = argv[optind];
	if (!cli->store) {
		fputs("ptio: no store: give ptio fsck DIRECTORY, -s STORE or set PTIO_STORE\n", stderr);
		return FSCK_USAGE;
	}
	dir = strncmp(cli->store, "dir:", 4) == 0 ? cli->store + 4 : cli->store;
	if (strchr(dir, ':') && *dir != '/' && *dir != '.') {
		fprintf(stderr, "ptio: fsck: %s is no directory; run it where the store's directory is, beside its ptiod\n", cli->store);
		return FSCK_USAGE;
	}
	f.uri = pt_asprintf("dir:%s", dir);
	if (!f.uri)
		return fsck_failed(pt_fail_nomem());
	f.dir = f.uri + 4;
	status = f.rebuild ? fsck_rebuild(&f) : fsck_check(&f);
	fsck_progress(&f, NULL, 0);
	free(f.uri);
	return status;
}
