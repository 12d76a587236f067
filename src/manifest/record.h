/* manifest/record.h - what the index knows: nodes, manifests, pending sets, objects; their encoding and their keys.
 *
 * Records are little-endian, begin with a record version, and are checked as a whole by the meta engine's XXH3. Every count read
 * from a record is bounded by the bytes at hand. Keys (docs/SPEC-store.md "Index"):
 *   d | parent id be64 | component        -> node id, kind               a name
 *   n | node id be64                      -> struct pt_node              attributes
 *   t | node id be64                      -> when a directory's entries last changed (put without compare)
 *   f | node id be64                      -> when a directory's model files last changed: containers, tp_plan.json (put without compare)
 *   m | node id be64 | scope text         -> struct pt_manifest          the current revision of (key, scope)
 *   p | node id be64 | scope text | 0 | set identity hash  -> struct pt_pending
 *   o | object id                         -> reference count, size, payload offset
 *   h | object id                         -> chunk hashes (8 bytes each), also of a plain blob that is a file of tensors
 *   x | garbage id                        -> objects of a superseded revision or dropped pending set, for the collector
 *   r | blob id of a container            -> the objects that it holds a reference on each (coded as a garbage list)
 *   c | name                              -> counters and settings (next node id, store id, format version)
 * so that renaming a directory is two records, and a commit touches a handful. */
#ifndef PT_MANIFEST_RECORD_H
#define PT_MANIFEST_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/id.h"
#include "layout/axis.h"
#include "layout/box.h"
#include "store/data.h"

#define PT_NAME_MAX 255
#define PT_KEY_MAX 1024
#define PT_STEP_MAX 64
#define PT_PLAN_NAME "tp_plan.json"             /* of a directory: see tree/tp_plan.h */
#define PT_NODE_ROOT ((uint64_t)1)

/* A tensor is a directory with a manifest or a pending set: a key may at once be a tensor and a prefix of other keys. */
enum pt_node_kind { PT_NODE_DIR = 1, PT_NODE_FILE = 2, PT_NODE_SYMLINK = 3, PT_NODE_CONTAINER = 4 };

struct pt_xattr {
	char *name;
	uint8_t *value;
	uint32_t value_len;
};

struct pt_node {
	uint64_t id;
	uint64_t parent;
	char name[PT_NAME_MAX + 1];     /* decoded component; "" for the root */
	enum pt_node_kind kind;
	bool implicit;                  /* made by a write to a key below it or to itself through the API: removed when empty */
	uint32_t mode;                  /* permission bits */
	uint32_t uid, gid;
	int64_t mtime_ns, ctime_ns;
	uint64_t next_revision;         /* directories: the number that the next commit of any scope takes; starts at 1 */
	enum pt_split split;            /* recorded split rule, inherited by later revisions */
	struct pt_blob_ref blob;        /* files: contents; a zero id: empty */
	uint64_t size;                  /* files: bytes; symlinks: length of target */
	char *target;                   /* symlinks */
	struct pt_xattr *xattrs;
	uint32_t xattr_count;
	uint64_t version;               /* of the record; not encoded */
	uint64_t times_version;         /* directories: of the record that says when entries last changed, 0 for none; not encoded */
};

/* How an object came to be; decides what layout it is listed and served as. */
enum pt_written {
	PT_WRITTEN_FULL = 1,            /* whole tensor, no axes */
	PT_WRITTEN_SCOPE = 2,           /* whole tensor, scope axes only */
	PT_WRITTEN_TP_SHARD = 3,        /* the caller's own shard of a tp axis */
	PT_WRITTEN_TP_SLICE = 4,        /* cut from a full tensor by a tp rank in a scope */
	PT_WRITTEN_WRITER = 5           /* cut from a full tensor by a writer partition */
};

#define PT_OBJECT_BYTES_MAX ((uint64_t)4 << 40) /* that have checksums: 8 bytes a MiB fit one record */

struct pt_object {
	struct pt_blob_ref blob;
	uint64_t payload_off;           /* in the blob, a multiple of 4096 unless it is a window */
	uint64_t bytes;                 /* of payload */
	struct pt_hash128 hash;         /* of payload; of a window, of all that the checksums are of */
	uint32_t crc32;                 /* of payload, zip polynomial; of a window 0 where nobody knows it */
	struct pt_box box;              /* of the logical tensor; pending shards: off[split dim] is not known yet (0) */
	struct pt_partition part;       /* rank, size, dim among the set; 0, 1, -1 for a whole tensor */
	uint32_t axis_count;            /* the axes it was written with, in the caller's order (none for FULL and WRITER) */
	struct pt_axis axis[PT_AXIS_KINDS];
	bool hidden;                    /* unlinked in the tree; still part of the revision */
	/* Of a window, a tensor of a file that is one blob: the checksums are of `hashed` bytes, and the payload begins `lead` bytes into these, at any byte. Never in
	 * the index. 0, 0: they are of the payload. */
	uint64_t lead, hashed;
};

/* How many bytes have the chunks' checksums, and where in the blob these begin. */
static inline uint64_t pt_object_hashed(const struct pt_object *o)
{
	return o->hashed ? o->hashed : o->bytes;
}

static inline uint64_t pt_object_hashed_off(const struct pt_object *o)
{
	return o->payload_off - o->lead;
}

/* An immutable, reference-counted, complete revision. */
struct pt_manifest {
	int refs;                       /* atomic */
	uint64_t version;               /* of its record */
	uint64_t node;
	char scope[PT_LAYOUT_TEXT_MAX]; /* canonical text of the scope axes, "" for none */
	struct pt_layout scope_axes;
	uint64_t revision;
	struct pt_id set_id;
	enum pt_dtype dtype;
	struct pt_shape shape;          /* global */
	enum pt_written written;
	int32_t set_size, set_dim;      /* 1, -1 for a single object */
	enum pt_split split;
	char step[PT_STEP_MAX + 1];
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
	uint32_t object_count;
	struct pt_object *objects;      /* by rank; boxes cover the shape exactly, without overlap */
	struct pt_id container;         /* not zero: no revision, but a tensor of this container's blob (node: the container's); never in the index */
	bool pending;                   /* a sealed part of a set not committed yet, dressed up as a revision of its own box (served by
					 * as_stored and the exact shard while nothing is committed); never in the index as a manifest */
};

struct pt_pending {
	uint64_t version;
	uint64_t node;
	char scope[PT_LAYOUT_TEXT_MAX];
	struct pt_layout scope_axes;
	struct pt_id set_id;
	enum pt_dtype dtype;
	bool shape_known;               /* false for shard writes: the split extent is the sum over ranks once all are here */
	struct pt_shape shape;          /* global; its split dim is 0 while !shape_known */
	enum pt_written written;
	int32_t set_size, set_dim;
	enum pt_split split;
	char step[PT_STEP_MAX + 1];
	uint64_t round;                 /* of whole tensors: of the other sets that they wait for (pt_group_round); 0: none */
	int64_t created_ns, updated_ns;
	uint32_t object_count;          /* parts here so far, by rank */
	struct pt_object *objects;
};

int pt_record_node_encode(const struct pt_node *n, struct pt_buf *out);
int pt_record_node_decode(const void *data, size_t len, struct pt_node *ret_node);          /* -EIO with a sentence */
void pt_node_done(struct pt_node *n);                                                       /* frees what the struct owns */
int pt_record_manifest_encode(const struct pt_manifest *m, struct pt_buf *out);
int pt_record_manifest_decode(const void *data, size_t len, struct pt_manifest **ret_m);    /* refs 1 */
int pt_record_pending_encode(const struct pt_pending *p, struct pt_buf *out);
int pt_record_pending_decode(const void *data, size_t len, struct pt_pending **ret_p);
void pt_pending_free(struct pt_pending *p);
struct pt_manifest *pt_manifest_ref(struct pt_manifest *m);
void pt_manifest_unref(struct pt_manifest *m);                                              /* NULL is fine */

#endif
