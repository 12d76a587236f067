/* tools/files.c - ordinary files from the command line, as a mount keeps them: a tensor file as a container, anything else as it came. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/cli.h"
#include "tree/container.h"

#define WINDOW (4 * PT_MIB)
#define TRIES 100

/* ---- reading ---- */

/* What is made of many tensors is made of what they are now. */
static int many_open(struct cli *cli, const struct pt_place *p, struct pt_many **ret_many)
{
	struct pt_named named;
	int rc = 0, try;

	for (try = 0; rc == 0 && try < TRIES; try++) {
		rc = pt_named_find(cli->models, cli->repo, p->node, p->dir, p->name, &named);
		if (rc < 0)
			return rc;
		rc = pt_named_make(cli->models, cli->repo, p->node, &named, PT_SPLIT_UNSET, ret_many);
		pt_named_done(&named);
		if (rc < 0)
			return rc;
		rc = pt_many_pin(*ret_many);
		if (rc == 0)
			return 0;
		pt_many_free(*ret_many);
		if (rc == -ESTALE)
			rc = 0;
	}
	return rc < 0 ? rc : pt_fail(EAGAIN, "its tensors are replaced faster than they can be read");
}

static int copy(struct pt_data *data, const struct pt_node *node, struct pt_container *c, struct pt_many *many, cli_bytes_fn *out, void *ctx)
{
	uint64_t off, size = many ? pt_many_size(many) : node->size;
	uint8_t *window = pt_malloc(WINDOW);
	int64_t n;
	int rc = 0;

	if (!window)
		return pt_fail_nomem();
	for (off = 0; rc == 0 && off < size; off += (uint64_t)n) {
		n = (int64_t)pt_size_min(WINDOW, size - off);
		if (many) {
			n = pt_many_read(many, window, (uint64_t)n, off);
		} else if (c) {
			n = pt_container_read(c, window, (uint64_t)n, off);
		} else {
			struct pt_data_range range = { .blob = node->blob, .off = off, .len = (uint64_t)n, .buf = window };

			rc = pt_data_read(data, &range, 1);
		}
		if (rc == 0 && n <= 0)
			rc = n < 0 ? (int)n : pt_fail(EIO, "the file ended before its size");
		if (rc == 0)
			rc = out(ctx, window, (uint64_t)n);
	}
	free(window);
	return rc;
}

static int get_many(struct cli *cli, const struct pt_place *p, cli_bytes_fn *out, void *ctx)
{
	struct pt_many *many;
	int rc;

	rc = many_open(cli, p, &many);
	if (rc < 0)
		return rc;
	rc = copy(&pt_repo_store(cli->repo)->data, NULL, NULL, many, out, ctx);
	pt_many_unpin(many);
	pt_many_free(many);
	return rc;
}

int cli_file_get(struct cli *cli, struct pt_place *p, cli_bytes_fn *out, void *ctx)
{
	struct pt_container *c = NULL;
	struct pt_node now;
	int rc;

	if (p->kind == PT_PLACE_MANY)
		return get_many(cli, p, out, ctx);
	/* Somebody may replace it between the look-up and the pin: look again. */
	while ((rc = pt_node_pin(cli->repo, &p->file)) == -ESTALE) {
		rc = pt_node_get(cli->repo, p->file.id, &now);
		if (rc < 0)
			return rc;
		pt_node_done(&p->file);
		p->file = now;
	}
	if (rc < 0)
		return rc;
	if (p->file.kind == PT_NODE_CONTAINER)
		rc = pt_container_load(cli->repo, &p->file, &c);
	if (rc == 0)
		rc = copy(&pt_repo_store(cli->repo)->data, &p->file, c, NULL, out, ctx);
	pt_container_unref(c);
	pt_node_unpin(cli->repo, &p->file);
	return rc;
}

/* ---- writing ---- */

struct cli_file {
	struct pt_repo *repo;
	struct pt_container_writer *stream;     /* NULL: it is no tensor file */
	struct pt_object_writer *out;           /* then */
	struct pt_blob_ref blob;                /* sealed; zero: none */
	uint64_t bytes;
};

int cli_file_create(struct cli *cli, const char *dir_key, struct cli_file **ret_file)
{
	struct cli_file *f = pt_calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return pt_fail_nomem();
	f->repo = cli->repo;
	rc = dir_key ? pt_container_writer_create(cli->repo, dir_key, &f->stream) : pt_plain_writer_create(cli->repo, &f->out);
	if (rc < 0) {
		free(f);
		return rc;
	}
	*ret_file = f;
	return 0;
}

static int append(void *ctx, const void *data, uint64_t len)
{
	return pt_object_writer_append(ctx, data, len);
}

/* What came so far goes on as ordinary contents. */
static int fall_back(struct cli_file *f)
{
	int rc;

	pt_fail_clear();
	rc = pt_plain_writer_create(f->repo, &f->out);
	if (rc == 0 && pt_container_writer_fed(f->stream))
		rc = pt_container_writer_replay(f->stream, append, f->out);
	pt_container_writer_free(f->stream);
	f->stream = NULL;
	return rc;
}

int cli_file_feed(void *file, const void *data, uint64_t len)
{
	struct cli_file *f = file;
	int rc;

	f->bytes += len;
	if (!f->stream)
		return pt_object_writer_append(f->out, data, len);
	rc = pt_container_writer_feed(f->stream, data, len);
	return rc < 0 && pt_container_error_is_content(rc) ? fall_back(f) : rc;
}

static int seal(struct cli_file *f)
{
	struct pt_object_writer *out;
	uint64_t bytes;
	int rc = 0;

	if (f->stream) {
		rc = f->bytes ? pt_container_writer_seal(f->stream) : -EINVAL;
		if (rc < 0 && pt_container_error_is_content(rc))
			rc = fall_back(f);
	}
	if (rc < 0 || f->stream)
		return rc;
	out = f->out;
	f->out = NULL;
	if (!f->bytes) {
		pt_object_writer_abort(out);
		return 0;
	}
	return pt_plain_writer_seal(out, &f->blob, &bytes);
}

/* No record took what was sealed, or one did. */
static void settle(struct cli_file *f, int rc)
{
	if (rc < 0)
		pt_blob_discard(f->repo, &f->blob, rc);
	memset(&f->blob, 0, sizeof(f->blob));
}

/* Into a file as read. -EAGAIN: read it again. */
static int replace(struct cli_file *f, struct pt_node *node, const struct pt_node *attrs)
{
	int rc;

	if (node->kind != PT_NODE_FILE && node->kind != PT_NODE_CONTAINER)
		return pt_fail(EISDIR, "is a directory or a symbolic link");
	node->mtime_ns = attrs->mtime_ns;
	if (f->stream)
		return pt_container_writer_publish(f->stream, node);
	node->kind = PT_NODE_FILE;
	node->blob = f->blob;
	node->size = f->bytes;
	rc = pt_node_update(f->repo, node);
	if (rc != -EAGAIN)
		settle(f, rc);
	return rc;
}

int cli_file_store(struct cli_file *f, uint64_t parent, const char *name, const struct pt_node *attrs, bool no_replace, uint64_t *ret_bytes)
{
	struct pt_node made = *attrs, node;
	bool is_made = false;
	int rc, try;

	rc = seal(f);
	if (rc < 0)
		return rc;
	/* A container is published in a file that is there. */
	made.blob = f->blob;
	made.size = f->stream ? 0 : f->bytes;
	rc = -EAGAIN;
	for (try = 0; rc == -EAGAIN && try < TRIES; try++) {
		rc = is_made ? -EEXIST : pt_node_create(f->repo, parent, name, &made, &node);
		if (rc == 0 && !f->stream) {
			settle(f, 0);
			pt_node_done(&node);
			break;
		}
		is_made = is_made || rc == 0;
		if (rc == -EEXIST && (is_made || !no_replace)) {
			rc = pt_node_lookup(f->repo, parent, name, &node);
			if (rc == -ENOENT)
				rc = is_made ? rc : -EAGAIN;    /* removed meanwhile */
		}
		if (rc < 0)
			continue;
		rc = replace(f, &node, attrs);
		pt_node_done(&node);
	}
	if (rc == 0)
		*ret_bytes = f->bytes;
	return rc;
}

void cli_file_free(struct cli_file *f)
{
	if (!f)
		return;
	pt_container_writer_free(f->stream);
	pt_object_writer_abort(f->out);
	pt_blob_discard(f->repo, &f->blob, 0);
	free(f);
}
