/* tools/cmd_warm.c - ptio warm: reads files of a mount through, so that what can be kept in memory is there for those who come next.
 *
 * Works on the mount, not on the store. A file is opened twice: a mount keeps a view in memory to the end from its second open on (docs/PERFORMANCE.md). Whoever opens
 * it while it is read shares what is there. Directories are walked; what they list is read. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "tools/cli.h"

#define STEP ((size_t)1 << 20)
#define SHOW_EVERY_NS INT64_C(100000000)
#define BAR 30

static struct {
	char *buf;
	bool bar, quiet;
	int64_t shown_ns;
	uint64_t files, bytes;
	int status;
} w;                                    /* for nftw(), which has no argument of the caller's */

static void show(const char *path, uint64_t done, uint64_t size, int64_t begun_ns, bool last)
{
	int64_t now = pt_time_boot_ns();
	int full = size ? (int)(done * BAR / size) : BAR;
	char text[32], rate[32];
	double seconds = (double)(now - begun_ns) / 1e9;

	if (!w.bar || (!last && now - w.shown_ns < SHOW_EVERY_NS))
		return;
	w.shown_ns = now;
	fprintf(stderr, "\r\033[K[%.*s%*s] %3d%% %s, %s/s  %s%s", full, "##############################", BAR - full, "",
		size ? (int)(done * 100 / size) : 100, cli_size(size, text), cli_size(seconds > 0 ? (uint64_t)((double)done / seconds) : 0, rate), path,
		last ? "\n" : "");
}

/* "filled/size": all of it is in memory. */
static bool whole(const char *path)
{
	uint64_t filled, size;
	char text[64];
	ssize_t n = getxattr(path, "user.ptio.cached", text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = '\0';
	return sscanf(text, "%" SCNu64 "/%" SCNu64, &filled, &size) == 2 && filled == size;
}

static int warm_file(const char *path, uint64_t size)
{
	int64_t begun = pt_time_boot_ns();
	int first, fd, rc = 0;
	uint64_t done = 0;
	ssize_t n = 1;

	first = open(path, O_RDONLY | O_CLOEXEC);
	fd = first < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		rc = -errno;
	if (rc == 0 && whole(path)) {
		done = size;
		n = 0;
	}
	while (rc == 0 && n > 0) {
		n = read(fd, w.buf, STEP);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			rc = -errno;
		else
			done += (uint64_t)n;
		show(path, done, size, begun, false);
	}
	if (rc == 0) {
		show(path, done, size, begun, true);
		w.files++;
		w.bytes += done;
	}
	if (fd >= 0)
		close(fd);
	if (first >= 0)
		close(first);
	return rc;
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	int rc;

	if (type == FTW_D && ftw->level > 0 && strcmp(path + ftw->base, ".ptio") == 0)
		return FTW_SKIP_SUBTREE;
	if (type == FTW_D || type == FTW_SL)
		return FTW_CONTINUE;
	if (type != FTW_F) {
		w.status = cli_fail(-EACCES, "%s: cannot look at it", path);
		return FTW_CONTINUE;
	}
	rc = S_ISREG(st->st_mode) ? warm_file(path, (uint64_t)st->st_size) : 0;
	if (rc < 0)
		w.status = cli_fail(rc, "%s", path);
	return FTW_CONTINUE;
}

int cmd_warm(struct cli *cli, int argc, char **argv)
{
	char text[32];
	int opt;

	(void)cli;
	while ((opt = getopt_long(argc, argv, "q", NULL, NULL)) != -1) {
		if (opt != 'q')
			return cli_usage("warm");
		w.quiet = true;
	}
	if (optind >= argc)
		return cli_usage("warm");
	w.buf = pt_malloc(STEP);
	if (!w.buf)
		return cli_fail(pt_fail_nomem(), "warm");
	w.bar = !w.quiet && isatty(STDERR_FILENO);
	for (int i = optind; i < argc; i++) {
		struct stat st;

		/* A symlink that is named is followed, those below a directory are not. */
		if (stat(argv[i], &st) < 0)
			w.status = cli_fail(-errno, "%s: warm wants paths in a mount", argv[i]);
		else if (S_ISDIR(st.st_mode) ? nftw(argv[i], visit, 32, FTW_PHYS | FTW_ACTIONRETVAL) < 0 : false)
			w.status = cli_fail(-errno, "%s", argv[i]);
		else if (S_ISREG(st.st_mode)) {
			int rc = warm_file(argv[i], (uint64_t)st.st_size);

			if (rc < 0)
				w.status = cli_fail(rc, "%s", argv[i]);
		}
	}
	free(w.buf);
	if (!w.quiet)
		printf("%" PRIu64 " files, %s\n", w.files, cli_size(w.bytes, text));
	return w.status;
}
