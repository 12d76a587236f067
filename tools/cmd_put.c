/* tools/cmd_put.c - ptio put: a tensor file's bytes to a view; any other file to an ordinary name. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/cli.h"

#define PUT_WINDOW (4 * PT_MIB)

/* Feeds the whole of fd to sink in pieces. */
static int pump(int fd, uint8_t *window, int (*sink)(void *ctx, const void *data, uint64_t len), void *ctx)
{
	for (;;) {
		ssize_t n = read(fd, window, PUT_WINDOW);
		int rc;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return pt_fail(errno, "cannot read the input: %s", strerror(errno));
		if (n == 0)
			return 0;
		rc = sink(ctx, window, (uint64_t)n);
		if (rc < 0)
			return rc;
	}
}

static int feed_upload(void *ctx, const void *data, uint64_t len)
{
	return pt_upload_feed(ctx, data, len);
}

static int put_view(struct cli *cli, const struct cli_target *t, int fd, const struct pt_upload_options *uo, uint8_t *window)
{
	struct pt_published published;
	struct pt_upload *upload;
	struct pt_request req;
	int rc;

	cli_target_request(t, &req);
	rc = pt_upload_open(cli->repo, t->node.id, &req, uo, &upload);
	if (rc < 0)
		return rc;
	rc = pump(fd, window, feed_upload, upload);
	if (rc == 0)
		rc = pt_upload_publish(upload, &published);
	if (rc == 0 && published.revision > 0)
		printf("revision %llu\n", (unsigned long long)published.revision);
	else if (rc == 0)
		printf("pending: the set waits for other parts (ptio pending)\n");
	pt_upload_free(upload);
	return rc;
}

static int put_file(struct cli *cli, const char *key, int fd, bool no_replace, const struct stat *st, uint8_t *window)
{
	struct pt_node parent, attrs = { .kind = PT_NODE_FILE, .mode = st->st_mode & 0777, .uid = getuid(), .gid = getgid() };
	const char *slash = strrchr(key, '/');
	char *dir = pt_asprintf("%.*s", slash ? (int)(slash - key) : 0, key);
	struct cli_file *file = NULL;
	uint64_t bytes;
	int rc;

	if (!dir)
		return pt_fail_nomem();
	attrs.mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
	rc = pt_node_by_key(cli->repo, dir, true, &parent);
	if (rc < 0)
		goto out;
	rc = cli_file_create(cli, dir, &file);
	if (rc == 0)
		rc = pump(fd, window, cli_file_feed, file);
	if (rc == 0)
		rc = cli_file_store(file, parent.id, slash ? slash + 1 : key, &attrs, no_replace, &bytes);
	if (rc == 0)
		printf("file, %llu bytes\n", (unsigned long long)bytes);
	cli_file_free(file);
	pt_node_done(&parent);
out:
	free(dir);
	return rc;
}

int cmd_put(struct cli *cli, int argc, char **argv)
{
	enum { OPT_DTYPE = 256, OPT_SHAPE };
	static const struct option options[] = {
		{ "no-replace", no_argument, NULL, 'n' },
		{ "dtype", required_argument, NULL, OPT_DTYPE },
		{ "shape", required_argument, NULL, OPT_SHAPE },
		{ NULL, 0, NULL, 0 },
	};
	struct pt_upload_options uo = { .format = PT_FORMAT_COUNT, .mode = 0644, .uid = getuid(), .gid = getgid() };
	struct cli_target t = { .found = false };
	struct pt_path path;
	struct stat st;
	uint8_t *window = NULL;
	const char *text;
	int opt, fd = STDIN_FILENO, rc, status = CLI_FAILED;

	pt_fail_clear();
	while ((opt = getopt_long(argc, argv, "n", options, NULL)) != -1) {
		switch (opt) {
		case 'n':
			uo.put = true;
			break;
		case OPT_DTYPE:
			uo.hint.dtype = pt_dtype_by_name(optarg);
			if (uo.hint.dtype == PT_DTYPE_INVALID) {
				fprintf(stderr, "ptio: --dtype=%s: not a dtype; give one of", optarg);
				for (int d = 0; d < PT_DTYPE_COUNT; d++)
					if (pt_dtype_info((enum pt_dtype)d))
						fprintf(stderr, " %s", pt_dtype_info((enum pt_dtype)d)->name);
				fputc('\n', stderr);
				return CLI_USAGE;
			}
			break;
		case OPT_SHAPE:
			rc = pt_shape_parse(optarg, &uo.hint.shape);
			if (rc < 0) {
				cli_fail(rc, "--shape=%s", optarg);
				return CLI_USAGE;
			}
			uo.hint.has_shape = true;
			break;
		default:
			return cli_usage("put");
		}
	}
	if (optind + 2 != argc)
		return cli_usage("put");
	text = argv[optind + 1];
	while (*text == '/')
		text++;
	rc = pt_path_parse(text, &path);
	if (rc < 0)
		return cli_fail(rc, "%s", text);
	if (strcmp(argv[optind], "-") != 0) {
		fd = open(argv[optind], O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return cli_fail(-errno, "%s", argv[optind]);
	}
	window = pt_malloc(PUT_WINDOW);
	if (!window || fstat(fd, &st) < 0) {
		cli_fail(-errno, "%s", argv[optind]);
		goto done;
	}
	if (cli_open(cli, true, 0) != CLI_OK)
		goto done;
	if (path.has_view) {
		if (cli_target_parse(cli, text, true, &t) != CLI_OK)
			goto done;
		if (path.format == PT_FORMAT_BIN)
			uo.format = PT_FORMAT_BIN;
		rc = put_view(cli, &t, fd, &uo, window);
		if (rc < 0) {
			status = cli_fail(rc, "%s", text);
			pt_node_prune(cli->repo, t.node.id);    /* what the look-up made, if it is empty */
			goto done;
		}
	} else if (path.has_layout || path.key[0] == '\0') {
		rc = pt_fail(EISDIR, "is a directory; name a view in it, such as %s/full", text);
	} else {
		rc = put_file(cli, path.key, fd, uo.put, &st, window);
	}
	status = rc < 0 ? cli_fail(rc, "%s", text) : CLI_OK;
done:
	free(window);
	if (fd != STDIN_FILENO)
		close(fd);
	cli_target_done(&t);
	return status;
}
