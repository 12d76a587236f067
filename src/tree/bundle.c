/* tree/bundle.c - making and extending bundles. Their blobs are stored before the batch that publishes them; the last one stored is used again when that batch loses a
 * race and the file is to be the same. */
#include "tree/bundle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"

static void forget(struct pt_bundle *b)
{
	pt_node_done(&b->node);
	memset(&b->node, 0, sizeof(b->node));
	pt_container_unref(b->old);
	b->old = NULL;
}

int pt_bundle_look(struct pt_bundle *b, struct pt_models *models, struct pt_repo *repo, uint64_t dir_node)
{
	int rc;

	forget(b);
	rc = pt_node_lookup(repo, dir_node, b->file_name, &b->node);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (b->node.kind == PT_NODE_DIR || b->node.kind == PT_NODE_SYMLINK)
		return pt_fail(EEXIST, "%s is in the way: remove what has that name in the directory", b->file_name);
	if (b->node.kind != PT_NODE_CONTAINER)
		return 0;
	rc = pt_models_container(models, &b->node, &b->old);
	if (rc < 0)
		return rc == -ESTALE || rc == -ENOENT ? -EAGAIN : rc;
	if (!b->old->bundle) {
		pt_container_unref(b->old);
		b->old = NULL;
	}
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int pt_bundle_check(struct pt_bundle *b, struct pt_models *models, struct pt_repo *repo, uint64_t dir_node)
{
	struct pt_model_dir *dir;
	const char *name;
	uint32_t f, i;
	int rc;

	rc = pt_node_models_version(repo, dir_node, &b->models_version);
	if (!rc)
		rc = pt_models_dir(models, dir_node, &dir);
	if (rc < 0)
		return rc;
	for (f = 0; f < dir->file_count && !rc; f++) {
		const struct pt_container *c = dir->files[f].c;

		if (!c->bundle || strcmp(dir->files[f].name, b->file_name) == 0)
			continue;
		for (i = 0; i < c->tensor_count && !rc; i++) {
			name = c->names + c->tensors[i].name;
			if (bsearch(&name, b->names, b->count, sizeof(*b->names), by_text))
				rc = pt_fail(EEXIST, "%.200s: the ranks' file '%.200s' in this directory has a tensor of that name: write this file in a directory of its own, or remove the other",
					     name, dir->files[f].name);
		}
	}
	pt_model_dir_unref(dir);
	return rc;
}

/* The names and what is there already: sorted, each once; the strings stay theirs. */
static int join(const struct pt_bundle *b, const char ***ret_all, uint32_t *ret_count)
{
	const struct pt_container *c = b->old;
	uint32_t i, n = 0, total;
	const char **all;

	if (b->count > UINT32_MAX - (c ? c->tensor_count : 0))
		return pt_fail(EFBIG, "too many tensors for one file");
	total = b->count + (c ? c->tensor_count : 0);
	all = pt_reallocarray(NULL, total ? total : 1, sizeof(*all));
	if (!all)
		return pt_fail_nomem();
	for (i = 0; i < b->count; i++)
		all[i] = b->names[i];
	for (i = 0; c && i < c->tensor_count; i++)
		all[b->count + i] = c->names + c->tensors[i].name;
	qsort(all, total, sizeof(*all), by_text);
	for (i = 0; i < total; i++)
		if (!n || strcmp(all[n - 1], all[i]) != 0)
			all[n++] = all[i];
	*ret_all = all;
	*ret_count = n;
	return 0;
}

static int store(struct pt_bundle *b, struct pt_repo *repo, const struct pt_buf *bytes)
{
	uint64_t content = pt_hash64(bytes->data, bytes->len);
	struct pt_object_writer *out;
	int rc;

	if (!pt_id_is_zero(&b->blob.id) && b->content == content)
		return 0;
	pt_blob_discard(repo, &b->blob, 0);
	memset(&b->blob, 0, sizeof(b->blob));
	rc = pt_plain_writer_create(repo, &out);
	if (rc < 0)
		return rc;
	rc = pt_object_writer_append(out, bytes->data, bytes->len);
	if (rc < 0) {
		pt_object_writer_abort(out);
		return rc;
	}
	b->content = content;
	return pt_plain_writer_seal(out, &b->blob, &b->blob_bytes);
}

static bool same_shape(const struct pt_bundle *b, bool shaped)
{
	if (!shaped)
		return !b->old->literal_bytes;
	return b->old->literal_bytes == b->pickle->len && memcmp(b->old->literals, b->pickle->data, b->pickle->len) == 0;
}

int pt_bundle_make(struct pt_bundle *b, struct pt_repo *repo, bool finishes, struct pt_group_file *ret_file, bool *ret_writes)
{
	const struct pt_buf flat = PT_BUF_INIT;
	struct pt_buf bytes = PT_BUF_INIT;
	const char **all = NULL;
	uint32_t total;
	bool shaped;
	int rc;

	*ret_writes = b->taken = false;
	/* An empty file is a name that somebody is just making. */
	if (b->node.id && !b->old && b->node.size && !finishes)
		return 0;
	rc = join(b, &all, &total);
	if (rc < 0)
		goto out;
	shaped = finishes && total == b->count && b->pickle->len;
	if (b->old && total == b->old->tensor_count && b->format == b->old->format && (!finishes || same_shape(b, shaped)))
		goto out;
	rc = shaped ? pt_bundle_encode(b->format, b->in_order, total, b->pickle, &bytes) : pt_bundle_encode(b->format, all, total, &flat, &bytes);
	if (!rc)
		rc = store(b, repo, &bytes);
	if (rc < 0)
		goto out;
	if (!b->node.id) {
		b->node = (struct pt_node){ .kind = PT_NODE_FILE, .mode = b->attrs->mode ? b->attrs->mode : 0644, .uid = b->attrs->uid, .gid = b->attrs->gid };
		strcpy(b->node.name, b->file_name);
	}
	ret_file->node = b->node;       /* goes over to the caller */
	memset(&b->node, 0, sizeof(b->node));
	ret_file->blob = b->blob;
	ret_file->blob_bytes = b->blob_bytes;
	ret_file->models_version = b->models_version;
	ret_file->mtime_ns = b->attrs->mtime_ns;
	*ret_writes = b->taken = true;
out:
	free(all);
	pt_buf_done(&bytes);
	return rc;
}

void pt_bundle_done(struct pt_bundle *b, struct pt_repo *repo, int rc)
{
	forget(b);
	if (rc < 0 || !b->taken)
		pt_blob_discard(repo, &b->blob, rc);
	memset(&b->blob, 0, sizeof(b->blob));
}
