/* tree/bundle.c - making and extending bundles. */
#include "tree/bundle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"

#define TRIES 50

int pt_bundle_complete(struct pt_repo *repo, uint64_t dir_node, const char *const *names, uint32_t count, bool *ret_complete)
{
	bool revision = true, pending;
	struct pt_node n;
	uint32_t i;
	int rc;

	for (i = 0; i < count && revision; i++) {
		rc = pt_node_lookup(repo, dir_node, names[i], &n);
		if (rc == -ENOENT) {
			revision = false;
			break;
		}
		if (rc < 0)
			return rc;
		rc = pt_tensor_exists(repo, n.id, &revision, &pending);
		pt_node_done(&n);
		if (rc < 0)
			return rc;
	}
	pt_fail_clear();
	*ret_complete = revision;
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* names and what c has: sorted, each once; the strings stay theirs. */
static int join(const char *const *names, uint32_t count, const struct pt_container *c, const char ***ret_all, uint32_t *ret_count)
{
	const char **all;
	uint32_t i, n = 0, total;

	if (count > UINT32_MAX - (c ? c->tensor_count : 0))
		return pt_fail(EFBIG, "too many tensors for one file");
	total = count + (c ? c->tensor_count : 0);
	all = pt_reallocarray(NULL, total ? total : 1, sizeof(*all));
	if (!all)
		return pt_fail_nomem();
	for (i = 0; i < count; i++)
		all[i] = names[i];
	for (i = 0; c && i < c->tensor_count; i++)
		all[count + i] = c->names + c->tensors[i].name;
	qsort(all, total, sizeof(*all), compare);
	for (i = 0; i < total; i++)
		if (!n || strcmp(all[n - 1], all[i]) != 0)
			all[n++] = all[i];
	*ret_all = all;
	*ret_count = n;
	return 0;
}

static int store(struct pt_repo *repo, struct pt_node *n, enum pt_format format, const char *const *names, uint32_t count, const struct pt_upload_options *attrs)
{
	struct pt_buf bytes = PT_BUF_INIT;
	struct pt_object_writer *out;
	struct pt_hold *hold = NULL;
	struct pt_blob_ref blob = { 0 };
	uint64_t len = 0;
	int rc;

	rc = pt_bundle_encode(format, names, count, &bytes);
	if (!rc)
		rc = pt_plain_writer_create(repo, &out);
	if (!rc) {
		rc = pt_object_writer_append(out, bytes.data, bytes.len);
		if (!rc)
			rc = pt_plain_writer_seal(out, &blob, &len);
		else
			pt_object_writer_abort(out);
	}
	if (!rc)
		rc = pt_hold_create(repo, &hold);
	if (!rc) {
		n->blob = blob;
		n->size = 0;
		n->mtime_ns = attrs->mtime_ns ? attrs->mtime_ns : pt_time_now_ns();
		rc = pt_hold_publish(hold, n, len);
	}
	if (rc < 0)
		pt_blob_discard(repo, &blob, rc);
	pt_hold_free(hold);
	pt_buf_done(&bytes);
	return rc;
}

static int put_once(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const char *file_name, enum pt_format format, const char *const *names,
		    uint32_t count, const struct pt_upload_options *attrs)
{
	struct pt_node made = { .kind = PT_NODE_FILE, .mode = attrs->mode ? attrs->mode : 0644, .uid = attrs->uid, .gid = attrs->gid }, n;
	struct pt_container *c = NULL;
	const char **all = NULL;
	bool fresh = false, complete;
	uint32_t total;
	int rc;

	rc = pt_node_lookup(repo, dir_node, file_name, &n);
	if (rc == -ENOENT) {
		rc = pt_node_create(repo, dir_node, file_name, &made, &n);
		fresh = true;
	}
	if (rc < 0)
		return rc == -EEXIST ? -EAGAIN : rc;
	if (n.kind == PT_NODE_DIR || n.kind == PT_NODE_SYMLINK) {
		rc = pt_fail(EEXIST, "%s is in the way: the tensors are stored, but the directory cannot show them under that name", file_name);
		goto out;
	}
	if (n.kind == PT_NODE_CONTAINER) {
		rc = pt_models_container(models, &n, &c);
		if (rc < 0) {
			rc = rc == -ESTALE || rc == -ENOENT ? -EAGAIN : rc;
			goto out;
		}
	}
	if (c && c->bundle) {
		rc = join(names, count, c, &all, &total);
		if (!rc && total == c->tensor_count && format == c->format)
			goto out;
	} else {
		/* An empty file is the name that another rank is just making. */
		if (!fresh && (c || n.size)) {
			rc = pt_bundle_complete(repo, dir_node, names, count, &complete);
			if (rc < 0 || !complete)
				goto out;
		}
		rc = join(names, count, NULL, &all, &total);
	}
	if (!rc)
		rc = store(repo, &n, format, all, total, attrs);
out:
	free(all);
	pt_container_unref(c);
	pt_node_done(&n);
	return rc;
}

int pt_bundle_put(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const char *file_name, enum pt_format format, const char *const *names,
		  uint32_t count, const struct pt_upload_options *attrs)
{
	int rc, try;

	for (try = 0; try < TRIES; try++) {
		rc = put_once(models, repo, dir_node, file_name, format, names, count, attrs);
		if (rc != -EAGAIN)
			break;
	}
	if (rc == -EAGAIN)
		rc = pt_fail(EBUSY, "%s is changed by others all the time: write it again when there is less contention", file_name);
	else if (!rc)
		pt_fail_clear();
	return rc;
}
