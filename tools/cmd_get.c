/* tools/cmd_get.c - ptio get: the bytes that a mount shows under a path: a view in a format, a file, a rank's file, .all and .ptio.json. */
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
#include "tree/alias.h"

#define GET_WINDOW (4 * PT_MIB)

static int write_all(int fd, const uint8_t *data, uint64_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return pt_fail(errno, "cannot write the output: %s", strerror(errno));
		data += n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* The tensor's name in safetensors: the last component of its key. */
static int tensor_name(struct cli *cli, const struct pt_place *p, char ret_name[PT_NAME_MAX + 1])
{
	const char *slash = strrchr(p->alias, '/');
	struct pt_node node;
	int rc;

	if (p->alias[0]) {
		snprintf(ret_name, PT_NAME_MAX + 1, "%.*s", PT_NAME_MAX, slash ? slash + 1 : p->alias);
		return 0;
	}
	rc = pt_node_get(cli->repo, p->node, &node);
	if (rc < 0)
		return rc;
	snprintf(ret_name, PT_NAME_MAX + 1, "%s", node.name);
	pt_node_done(&node);
	return 0;
}

static int get_view(struct cli *cli, const struct pt_place *p, int fd, uint8_t *window)
{
	struct pt_view *view = NULL;
	struct pt_vfile *file = NULL;
	struct pt_request req;
	char name[PT_NAME_MAX + 1];
	enum pt_format format;
	int rc;

	rc = pt_tree_view_parse(p->dir, p->name, &req, &format);
	if (rc == 0)
		rc = tensor_name(cli, p, name);
	if (rc < 0)
		return rc;
	/* A writer may commit between the look-up and the pin: look again. */
	do {
		pt_view_unref(view);
		view = NULL;
		rc = pt_tree_view(cli->models, cli->repo, p->node, p->alias, &req, &view);
		if (rc < 0)
			return rc;
		rc = pt_view_pin(view);
	} while (rc == -ESTALE);
	if (rc < 0)
		goto unref;
	rc = pt_vfile_create(view, format == PT_FORMAT_COUNT ? PT_FORMAT_PT : format, name, &file);
	if (rc < 0)
		goto unpin;
	for (uint64_t off = 0; rc == 0 && off < pt_vfile_size(file);) {
		int64_t n = pt_vfile_read(file, window, GET_WINDOW, off);

		if (n <= 0) {
			rc = n < 0 ? (int)n : pt_fail(EIO, "the view ended before its size");
			break;
		}
		rc = write_all(fd, window, (uint64_t)n);
		off += (uint64_t)n;
	}
	pt_vfile_free(file);
unpin:
	pt_view_unpin(view);
unref:
	pt_view_unref(view);
	return rc;
}

static int get_info(struct cli *cli, const struct pt_place *p, int fd)
{
	struct pt_buf text = PT_BUF_INIT;
	int rc;

	rc = pt_tree_info_json(cli->models, cli->repo, p->node, p->alias, p->dir, &text);
	if (rc == 0)
		rc = write_all(fd, text.data, text.len);
	pt_buf_done(&text);
	return rc;
}

static int write_out(void *ctx, const void *data, uint64_t len)
{
	return write_all(*(int *)ctx, data, len);
}

/* Where the bytes go. */
struct output {
	int fd;                         /* -1: not open */
	char *path;                     /* links followed; NULL: renamed to nothing at the end */
	char *temp;                     /* beside it: a half-written file never has its name */
};

static void output_free(struct output *o)
{
	free(o->path);
	free(o->temp);
}

/* "-", a device or a pipe: written to as it is. A file is replaced. */
static int output_open(const char *name, struct output *ret_o)
{
	struct output o = { .fd = STDOUT_FILENO };
	struct stat st;

	if (strcmp(name, "-") != 0) {
		if (stat(name, &st) < 0) {
			st.st_mode = S_IFREG;
			o.path = pt_strdup(name);
		} else if (S_ISDIR(st.st_mode)) {
			return -EISDIR;
		} else if (S_ISREG(st.st_mode)) {
			o.path = realpath(name, NULL);
		}
		if (S_ISREG(st.st_mode))
			o.temp = o.path ? pt_asprintf("%s.ptio-%d", o.path, (int)getpid()) : NULL;
		if (!S_ISREG(st.st_mode))
			o.fd = open(name, O_WRONLY | O_CLOEXEC);
		else
			o.fd = o.temp ? open(o.temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
		if (o.fd < 0) {
			int err = errno;

			output_free(&o);
			return -err;
		}
	}
	*ret_o = o;
	return 0;
}

/* rc: what came of writing. */
static int output_close(struct output *o, int rc)
{
	if (o->fd != STDOUT_FILENO && close(o->fd) < 0 && rc == 0)
		rc = pt_fail(errno, "cannot close the output: %s", strerror(errno));
	if (o->temp && rc == 0 && rename(o->temp, o->path) < 0)
		rc = pt_fail(errno, "cannot rename onto %s: %s", o->path, strerror(errno));
	if (o->temp && rc < 0)
		unlink(o->temp);
	output_free(o);
	return rc;
}

int cmd_get(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = { { "output", required_argument, NULL, 'o' }, { NULL, 0, NULL, 0 } };
	const char *output = "-";
	struct output out;
	uint8_t *window = NULL;
	struct pt_place p;
	int opt, rc, status = CLI_FAILED;

	while ((opt = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (opt != 'o')
			return cli_usage("get");
		output = optarg;
	}
	if (optind + 1 != argc)
		return cli_usage("get");
	if (cli_open(cli, false, 0) != CLI_OK || cli_place_find(cli, argv[optind], false, &p) != CLI_OK)
		return CLI_FAILED;
	if (p.kind == PT_PLACE_NOTHING) {
		cli_fail(pt_fail(ENOENT, "no such key or file"), "%s", argv[optind]);
		goto done;
	}
	if (p.kind == PT_PLACE_DIR) {
		cli_fail(pt_fail(EISDIR, "is a directory; name a view in it, such as full.npy"), "%s", argv[optind]);
		goto done;
	}
	window = pt_malloc(GET_WINDOW);
	if (!window) {
		cli_fail(-ENOMEM, "get");
		goto done;
	}
	rc = output_open(output, &out);
	if (rc < 0) {
		pt_fail_clear();
		cli_fail(rc, "%s", output);
		goto done;
	}
	pt_fail_clear();
	if (p.kind == PT_PLACE_VIEW)
		rc = get_view(cli, &p, out.fd, window);
	else if (p.kind == PT_PLACE_INFO)
		rc = get_info(cli, &p, out.fd);
	else if (p.kind == PT_PLACE_FILE && p.file.kind == PT_NODE_SYMLINK)
		rc = pt_fail(EINVAL, "is a symbolic link to %s", p.file.target ? p.file.target : "");
	else
		rc = cli_file_get(cli, &p, write_out, &out.fd);
	rc = output_close(&out, rc);
	status = rc < 0 ? cli_fail(rc, "%s", argv[optind]) : CLI_OK;
done:
	free(window);
	pt_place_done(&p);
	return status;
}
