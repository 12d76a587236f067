/* tensor/tensor.h - tensors above revisions: resolving a read target, reading it as a file, writing one from a file's bytes.
 *
 * The FUSE driver, the command line and the public C API (include/ptio/) are all built on these calls. */
#ifndef PT_TENSOR_TENSOR_H
#define PT_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "format/format.h"
#include "format/parse.h"
#include "layout/axis.h"
#include "manifest/repo.h"

enum pt_target { PT_TARGET_FULL, PT_TARGET_SHARD, PT_TARGET_AS_STORED };

/* What a path or an API call asks for. From paths, sizes (0), dims (-1), ids (has_id false) may be missing: they are completed from what is stored or
 * pending, else -EINVAL with a sentence that names the missing part. */
struct pt_request {
	enum pt_target target;
	struct pt_layout layout;
	bool has_partition;             /* writer=; never with a layout */
	struct pt_partition partition;
	enum pt_split split;            /* UNSET: the key's rule, else balanced */
	bool has_plan_dim;              /* a plan names the tp dimension: counts where the path and what is stored do not */
	int32_t plan_dim;
	char step[PT_STEP_MAX + 1];
	uint32_t axis_count;            /* the caller's order of axes, for obj headers; 0: canonical order */
	struct pt_axis axis[PT_AXIS_KINDS];
};

/* ---- reading: a view is one read target of one revision; immutable, reference-counted ---- */
struct pt_view;

struct pt_view_info {
	bool complete;                  /* false: a pending set answers; shape may be unknown (shape_known) */
	bool readable;                  /* complete, or a sealed part of a pending set that is served while nothing is committed.
					 * false: pt_view_pin is -ENODATA */
	bool shape_known;
	enum pt_dtype dtype;
	struct pt_shape shape;          /* of what is read */
	struct pt_shape global_shape;
	struct pt_box box;              /* of what is read, in the global tensor */
	uint64_t bytes;                 /* payload */
	uint64_t revision;
	struct pt_id set_id;
	char scope[PT_LAYOUT_TEXT_MAX]; /* the scope it came from */
	uint32_t axis_count;            /* axes it is served with, in order: the stored ones for an exact hit, else the request's; 0: FULL */
	struct pt_axis axis[PT_AXIS_KINDS];
	bool exact;                     /* one stored object, byte for byte */
	uint32_t object;                /* if exact: its index in the manifest */
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
	uint64_t stored_bytes;          /* for st_blocks: stored payload bytes of the source (exact: the object's) */
	const char *source;             /* "stored", "planned from tp=4 on dim 0", ...: one phrase, owned by the view */
};

/* docs/PATHS.md "Reading". Errors: -ENOENT nothing such is stored (the sentence says what is), -EINVAL nonsense or ambiguous,
 * -EIO. An incomplete set is not an error: complete is false. */
int pt_view_resolve(struct pt_repo *repo, uint64_t node, const struct pt_request *req, struct pt_view **ret_view);
struct pt_view *pt_view_ref(struct pt_view *v);
void pt_view_unref(struct pt_view *v);
const struct pt_view_info *pt_view_info(const struct pt_view *v);
struct pt_manifest *pt_view_manifest(const struct pt_view *v);          /* NULL when not readable */
/* Pins its revision for reading. -ENODATA: not readable (sentence says what is missing); -ESTALE: superseded meanwhile, resolve again. Counted. */
int pt_view_pin(struct pt_view *v);
void pt_view_unpin(struct pt_view *v);
/* Payload bytes [off, off+len) of a pinned view; 0 or -errno. Thread-safe. Memory bounded whatever len. */
int pt_view_read(struct pt_view *v, void *buf, uint64_t len, uint64_t off);
/* Where a read that begins at off had best end: after off, at most max bytes later, and not in the middle of a chunk that has a checksum, for that would be read twice. Pinned. */
uint64_t pt_view_cut(struct pt_view *v, uint64_t off, uint64_t max);
/* Completes the parts a path left out, as for a read; used to give every spelling one identity. */
int pt_request_complete(struct pt_repo *repo, uint64_t node, const struct pt_request *req, struct pt_request *ret_req);

/* ---- tensors that are no keys: those of containers (derived.c) ---- */
/* m: a manifest made by hand, not in the index (container set), whose shape and dtype are the tensor's. lies: NULL when its objects are row-major boxes; else m has
 * one object of raw bytes, in which the tensor lies strided as told (name and obj are not kept). Both take their own reference to m. */
int pt_view_of_manifest(struct pt_repo *repo, struct pt_manifest *m, const struct pt_parse_tensor *lies, const struct pt_request *req, struct pt_view **ret_view);
/* Any box of it (NULL: the whole); any manifest will do. */
int pt_view_of_box(struct pt_repo *repo, struct pt_manifest *m, const struct pt_parse_tensor *lies, const struct pt_box *box, struct pt_view **ret_view);
/* What reading needs besides a pin: for callers whose objects are safe by other means (a pinned container). pt_view_pin does it, too; unprepare undoes one. */
int pt_view_prepare(struct pt_view *v);
void pt_view_unprepare(struct pt_view *v);

/* ---- a view in a format: a file ---- */
struct pt_vfile;

/* name: the tensor's name in safetensors (the key's last component). -EOPNOTSUPP the format has no such dtype. Takes its own reference to v. */
int pt_vfile_create(struct pt_view *v, enum pt_format format, const char *name, struct pt_vfile **ret_f);
void pt_vfile_free(struct pt_vfile *f);
uint64_t pt_vfile_size(const struct pt_vfile *f);
/* Where in the file the payload begins; the size when it has none. */
uint64_t pt_vfile_payload_off(const struct pt_vfile *f);
struct pt_view *pt_vfile_view(const struct pt_vfile *f);
/* As pt_view_cut, of file offsets. */
uint64_t pt_vfile_cut(struct pt_vfile *f, uint64_t off, uint64_t max);
/* File bytes; the view is pinned by the caller. Bytes read (short only at the end) or -errno. Thread-safe. */
int64_t pt_vfile_read(struct pt_vfile *f, void *buf, uint64_t len, uint64_t off);

/* ---- writing: a file's bytes go in, in order; the owned slice is stored ---- */
struct pt_upload;

struct pt_upload_options {
	enum pt_format format;          /* PT_FORMAT_COUNT: recognised by content. A view named .npy accepts any format's content, too */
	struct pt_parse_hint hint;      /* for bin: dtype and shape; completed from the key's current revision when missing */
	bool put;                       /* -EEXIST when (key, scope) has a revision */
	uint32_t mode, uid, gid;
	int64_t mtime_ns;               /* 0: time of publication */
	const char *new_key;            /* not NULL: the key is not there yet, node counts for nothing, and the part is taken (pt_upload_take) */
};

/* One thread at a time uses an upload.
 * docs/PATHS.md "Writing". -EACCES as_stored; -EINVAL `shard` without axes, partition together with axes, ...; a missing dim defaults to 0
 * on the first write, else to what is stored. Nothing is visible before pt_upload_publish. */
int pt_upload_open(struct pt_repo *repo, uint64_t node, const struct pt_request *req, const struct pt_upload_options *options, struct pt_upload **ret_u);
/* A better hint, as long as no byte has been fed (-EBUSY): dtype and shape that were set on the open file. */
int pt_upload_set_hint(struct pt_upload *u, const struct pt_parse_hint *hint);
/* File bytes; NULL: zeros. The feed that completes the file seals the object (verdict). Errors stay: every later call returns the same. A file
 * with several tensors is -EINVAL, naming how many. */
int pt_upload_feed(struct pt_upload *u, const void *data, uint64_t len);
/* Or a tensor without a file around it: dtype and shape, then its row-major bytes. */
int pt_upload_begin_tensor(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape);
int pt_upload_feed_tensor(struct pt_upload *u, const void *data, uint64_t len);
/* Or no bytes at all: the tensor is the whole payload of an object that the index refers to and the caller pins. Publication refers to it, too. -EXDEV: only a slice
 * of it is stored here, so it has to be copied. */
int pt_upload_refer(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape, const struct pt_object *object);
uint64_t pt_upload_fed(const struct pt_upload *u);
bool pt_upload_complete(const struct pt_upload *u);
/* Publishes once complete; later calls return the same. Incomplete: -EIO, the sentence says what is missing. */
int pt_upload_publish(struct pt_upload *u, struct pt_published *ret_published);
/* Or gives the sealed part away, to be published in a group. -EIO: incomplete. */
int pt_upload_take(struct pt_upload *u, struct pt_part *ret_part);
/* Attributes for a publication still to come, or of the one just made while it is current (rsync's utimens after the last write). */
int pt_upload_set_attrs(struct pt_upload *u, uint32_t mode, uint32_t uid, uint32_t gid, int64_t mtime_ns);
void pt_upload_free(struct pt_upload *u);                               /* drops what was not published; NULL is fine */

/* ---- telling ---- */
/* What is known of a key, as JSON text (`.ptio.json`): dtype, shape, revision, scopes, stored layouts, split rule, pending sets and what they miss. scope_or_layout: restrict to it; NULL: all. */
int pt_tensor_info_json(struct pt_repo *repo, uint64_t node, const struct pt_request *restrict_to, struct pt_buf *ret_json);
struct json_t;                          /* of jansson */

/* The text of a JSON value, which it takes over (NULL: there was no memory for it), with a newline. -ENOMEM. */
int pt_json_append(struct json_t *root, struct pt_buf *out);
/* A pending set as that JSON has it (see tensor/info.c); NULL: no memory. The caller's. */
struct json_t *pt_pending_json(const struct pt_pending *p);
/* "full", "scope", "tp shard", "tp slice", "writer". */
const char *pt_written_name(enum pt_written written);
/* Is there anything of a tensor at this node? */
int pt_tensor_exists(struct pt_repo *repo, uint64_t node, bool *ret_revision, bool *ret_pending);

#endif
