/* tools/cmd_put.c - ptio put: a tensor file's bytes to a view; a rank's state dict into an axis directory; any other file to an ordinary name. */
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
#include "tree/shard_write.h"

#define PUT_WINDOW (4 * PT_MIB)

struct input {
	int fd;
	uint8_t head[PT_SNIFF_BYTES];   /* read already */
	size_t head_len;
};

/* Bytes read, 0 at the end. */
static int64_t input_read(int fd, void *buf, size_t len)
{
	ssize_t n;

	do
		n = read(fd, buf, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? pt_fail(errno, "cannot read the input: %s", strerror(errno)) : n;
}

static int input_peek(struct input *in)
{
	int64_t n = 1;

	while (n > 0 && in->head_len < sizeof(in->head)) {
		n = input_read(in->fd, in->head + in->head_len, sizeof(in->head) - in->head_len);
		if (n < 0)
			return (int)n;
		in->head_len += (size_t)n;
	}
	return 0;
}

/* Feeds the whole input to sink in pieces. */
static int pump(struct input *in, uint8_t *window, int (*sink)(void *ctx, const void *data, uint64_t len), void *ctx)
{
	int64_t n = (int64_t)in->head_len;
	int rc = 0;

	memcpy(window, in->head, in->head_len);
	if (!n)
		n = input_read(in->fd, window, PUT_WINDOW);
	while (n > 0 && rc == 0) {
		rc = sink(ctx, window, (uint64_t)n);
		if (rc == 0)
			n = input_read(in->fd, window, PUT_WINDOW);
	}
	return rc < 0 ? rc : (int)n;
}

static int feed_upload(void *ctx, const void *data, uint64_t len)
{
	return pt_upload_feed(ctx, data, len);
}

static int told(const struct pt_published *published)
{
	if (published->revision > 0)
		printf("revision %llu\n", (unsigned long long)published->revision);
	else
		printf("pending: the set waits for other parts (ptio pending)\n");
	return 0;
}

static int put_view(struct cli *cli, struct pt_place *p, struct input *in, struct pt_upload_options *uo, uint8_t *window)
{
	struct pt_published published;
	struct pt_upload *upload;
	enum pt_format format;
	struct pt_request req;
	int rc;

	rc = pt_tree_view_parse(p->dir, p->name, &req, &format);
	if (rc == 0 && p->node == PT_NODE_ROOT && !p->alias[0])
		rc = pt_fail(EINVAL, "belongs to no key: put a key before it, as in KEY/%s", p->name);
	if (rc == 0 && p->alias[0])             /* the key that hides the tensor of a file from now on */
		rc = pt_alias_key(cli->repo, p->node, p->alias, &p->node);
	if (rc == 0)
		rc = pt_models_plan_dim(cli->models, p->node, &req);
	if (rc < 0)
		return rc;
	if (format == PT_FORMAT_BIN)
		uo->format = PT_FORMAT_BIN;
	rc = pt_upload_open(cli->repo, p->node, &req, uo, &upload);
	if (rc < 0)
		return rc;
	rc = pump(in, window, feed_upload, upload);
	if (rc == 0)
		rc = pt_upload_publish(upload, &published);
	if (rc == 0)
		rc = told(&published);
	pt_upload_free(upload);
	return rc;
}

static int put_file(struct cli *cli, const struct pt_place *p, struct input *in, bool no_replace, const struct stat *st, uint8_t *window)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = st->st_mode & 0777, .uid = getuid(), .gid = getgid() };
	char key[PT_KEY_MAX + 1], component[PT_NAME_MAX + 1];
	struct cli_file *file = NULL;
	struct pt_path_name n;
	uint64_t bytes;
	int rc;

	attrs.mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
	rc = pt_path_classify(p->name, &n);
	if (rc == 0)
		rc = pt_tree_component(p->dir, n.component, component);
	if (rc == 0)
		rc = pt_node_key(cli->repo, p->node, key);
	if (rc == 0)
		rc = cli_file_create(cli, p->dir[0] ? NULL : key, &file);
	if (rc == 0)
		rc = pump(in, window, cli_file_feed, file);
	if (rc == 0)
		rc = cli_file_store(file, p->node, component, &attrs, no_replace, &bytes);
	if (rc == 0)
		printf("file, %llu bytes\n", (unsigned long long)bytes);
	cli_file_free(file);
	return rc;
}

struct shards {
	struct pt_shard_writer *writer;
	uint64_t bytes;
};

static int feed_shards(void *ctx, const void *data, uint64_t len)
{
	struct shards *s = ctx;

	s->bytes += len;
	return pt_shard_writer_feed(s->writer, data, len);
}

/* A tensor file inside an axis directory: a rank's state dict, of which each tensor becomes a part of its set. */
static int put_shards(struct cli *cli, const struct pt_place *p, struct input *in, bool no_replace, const struct stat *st, uint8_t *window)
{
	struct pt_upload_options attrs = { .put = no_replace, .mode = st->st_mode & 0777, .uid = getuid(), .gid = getgid(),
					   .mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec };
	struct shards s = { .bytes = 0 };
	struct pt_request base;
	struct pt_path_name n;
	int rc;

	rc = pt_path_classify(p->name, &n);
	if (rc == 0)
		rc = pt_tree_dir_parse(p->dir, &base);
	if (rc == 0)
		rc = pt_shard_writer_create(cli->models, cli->repo, p->node, &base, n.component, &attrs, &s.writer);
	if (rc < 0)
		return rc;
	rc = pump(in, window, feed_shards, &s);
	if (rc == 0)
		rc = pt_shard_writer_end(s.writer);
	if (rc == 0)
		rc = pt_shard_writer_publish(s.writer);
	pt_shard_writer_free(s.writer);
	if (rc == 0)
		printf("parts of %llu bytes (ptio wait --complete tells when all ranks are here)\n", (unsigned long long)s.bytes);
	return rc;
}

/* Does the input begin as a tensor file does? What has been read of it is read again by pump. */
static int is_tensors(struct input *in, bool *ret_is)
{
	int rc = input_peek(in);

	if (rc < 0)
		return rc;
	switch (pt_format_sniff(in->head, in->head_len, 0)) {
	case PT_SNIFF_PT:
	case PT_SNIFF_SAFETENSORS:
	case PT_SNIFF_NPY:
	case PT_SNIFF_OBJ:
		*ret_is = true;
		return 0;
	default:
		*ret_is = false;
		return 0;
	}
}

static int put(struct cli *cli, struct pt_place *p, struct input *in, struct pt_upload_options *uo, const struct stat *st, uint8_t *window)
{
	bool tensors = false;
	int rc;

	if (p->kind == PT_PLACE_DIR)
		return pt_fail(EISDIR, "is a directory; name a view in it, such as full");
	if (p->kind == PT_PLACE_INFO || (p->kind == PT_PLACE_MANY && strncmp(p->name, ".all.", 5) == 0))
		return pt_fail(EACCES, "is made by ptio and read only");
	if (p->kind == PT_PLACE_VIEW)
		return put_view(cli, p, in, uo, window);
	if (p->kind == PT_PLACE_MANY && !p->dir[0])
		return pt_fail(EACCES, "shows the tensors that ranks have written: remove it, or write them again as they were written");
	if (p->dir[0]) {
		rc = is_tensors(in, &tensors);
		if (rc < 0)
			return rc;
	}
	return tensors ? put_shards(cli, p, in, uo->put, st, window) : put_file(cli, p, in, uo->put, st, window);
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
	struct input in = { .fd = STDIN_FILENO };
	struct pt_place p;
	struct stat st;
	uint8_t *window = NULL;
	const char *text;
	int opt, rc, status = CLI_FAILED;

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
	if (strcmp(argv[optind], "-") != 0) {
		in.fd = open(argv[optind], O_RDONLY | O_CLOEXEC);
		if (in.fd < 0)
			return cli_fail(-errno, "%s", argv[optind]);
	}
	window = pt_malloc(PUT_WINDOW);
	if (!window || fstat(in.fd, &st) < 0) {
		cli_fail(-errno, "%s", argv[optind]);
		goto done;
	}
	if (cli_open(cli, true, 0) != CLI_OK || cli_place_find(cli, text, true, &p) != CLI_OK)
		goto done;
	rc = put(cli, &p, &in, &uo, &st, window);
	status = rc < 0 ? cli_fail(rc, "%s", text) : CLI_OK;
	if (rc < 0)
		pt_node_prune(cli->repo, p.node);       /* what the look-up made, if it is empty */
	pt_place_done(&p);
done:
	free(window);
	if (in.fd != STDIN_FILENO)
		close(in.fd);
	return status;
}
