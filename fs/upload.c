/* fs/upload.c - uploads for view names: opening one for what a name means, and publishing a whole file under it. */
#include "fs.h"

#include <errno.h>

#include "base/error.h"

int pt_fs_upload_open(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, const struct pt_parse_hint *hint,
		      const struct pt_fs_source *attrs, struct pt_upload **ret_upload)
{
	struct pt_upload_options o = { .format = PT_FORMAT_COUNT };
	struct pt_request req;
	enum pt_format format;
	int rc;

	rc = pt_tree_view_parse(dir, name, &req, &format);
	if (rc < 0)
		return rc;
	if (node == PT_NODE_ROOT)
		return pt_fail(EINVAL, "%s at the top of the mount belongs to no key: make a directory for the key first (mkdir KEY)", name);
	if (format == PT_FORMAT_COUNT)
		format = fs->options->bare;
	/* What is written is told by its content, whatever the suffix; only bare payload bytes cannot be. */
	if (format == PT_FORMAT_BIN)
		o.format = PT_FORMAT_BIN;
	if (hint)
		o.hint = *hint;
	if (req.split == PT_SPLIT_UNSET)
		req.split = fs->options->split;
	rc = pt_models_plan_dim(fs->models, node, &req);
	if (rc < 0)
		return rc;
	o.mode = attrs->mode;
	o.uid = attrs->uid;
	o.gid = attrs->gid;
	o.mtime_ns = attrs->mtime_ns;
	return pt_upload_open(fs->repo, node, &req, &o, ret_upload);
}

static int feed(void *ctx, const void *data, uint64_t len)
{
	return pt_upload_feed(ctx, data, len);
}

/* Not where the name asks for bare bytes, which a file around a tensor is not; a tensor object's header has a say in where its tensor belongs. */
static bool can_be_referred_to(struct pt_fs *fs, const char *name, const struct pt_container *c)
{
	struct pt_path_name n;

	if (c->format == PT_FORMAT_OBJ || pt_path_classify(name, &n) < 0)
		return false;
	return (n.format == PT_FORMAT_COUNT ? fs->options->bare : n.format) != PT_FORMAT_BIN;
}

int pt_fs_upload_source(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, const struct pt_fs_source *source,
			struct pt_upload **ret_upload)
{
	struct pt_parse_tensor t;
	struct pt_object object;
	struct pt_upload *u;
	struct pt_published p;
	int rc;

	rc = pt_fs_upload_open(fs, node, dir, name, NULL, source, &u);
	if (rc < 0)
		return rc;
	if (source->fd < 0 && source->container && can_be_referred_to(fs, name, source->container) && pt_container_single(source->container, &t, &object))
		rc = pt_upload_refer(u, t.dtype, &t.shape, &object);
	else if (source->fd >= 0)
		rc = pt_fs_spool_each(source->fd, source->size, feed, u);
	else if (source->container)
		rc = pt_fs_container_each(source->container, feed, u);
	else
		rc = pt_fs_blob_each(fs, &source->blob, source->size, feed, u);
	if (rc == 0)
		rc = pt_upload_publish(u, &p);
	if (rc < 0) {
		pt_upload_free(u);
		return rc;
	}
	atomic_fetch_add(&fs->counters.published, 1);
	pt_fs_gc_poke(fs);
	*ret_upload = u;
	return 0;
}
