/* manifest/repo.h - a store seen as nodes and revisions. One per process and store; shared by all threads. */
#ifndef PT_MANIFEST_REPO_H
#define PT_MANIFEST_REPO_H

#include <stdbool.h>
#include <stdint.h>

#include "manifest/record.h"
#include "store/store.h"

enum pt_verify {
	PT_VERIFY_OFF,                  /* never hash on reads */
	PT_VERIFY_WHOLE,                /* hash chunks that a read covers whole */
	PT_VERIFY_TOUCH                 /* read and hash the whole chunk at its first touch by this process while pinned, unless the engine says that all have been (default) */
};

struct pt_repo_options {
	enum pt_verify verify;
	int64_t pending_ttl_ns;         /* pending sets idle for longer are collected; 0: 24 h */
	int64_t orphan_grace_ns;        /* sealed blobs without a record are collected when older; 0: 15 min */
};

struct pt_repo;

/* Takes over the store on success. Formats an empty store (unless read only). */
int pt_repo_open(struct pt_store *store, const struct pt_repo_options *options, struct pt_repo **ret_repo);
void pt_repo_close(struct pt_repo *repo);
struct pt_store *pt_repo_store(struct pt_repo *repo);

/* Reads ahead, in few round trips, what this thread is about to be told of many keys (nodes, revisions, pending sets); until it ends those are answered as they
 * were. End it before anything is pinned or changed, and before foreign code runs. A hint: keys may be of nothing, or no keys, or NULL. Without keys it begins empty, for
 * pt_node_prefetch and pt_repo_ahead_content. *ret is NULL where nothing is gained, or this thread has one, which the others take. -EIO, -ENOMEM. manifest/ahead.c. */
#define PT_REPO_AHEAD_KEYS 256          /* do not give more at once */
struct pt_repo_ahead;
int pt_repo_ahead_begin(struct pt_repo *repo, const char *const *keys, size_t count, struct pt_repo_ahead **ret_ahead);
/* What many nodes hold. */
int pt_repo_ahead_content(struct pt_repo_ahead *ahead, const uint64_t *nodes, size_t count);
void pt_repo_ahead_end(struct pt_repo_ahead *ahead);

/* fn is called for each node whose own record, times or manifests a batch of this process has changed, before the call that committed it returns; with PT_REPO_CHANGE_ANY where
 * model files have, of which a tp_plan.json says how views of keys beside it are cut; in any thread, maybe with the caller's locks held. One a repo. fn may read the repo, not change it. */
#define PT_REPO_CHANGE_ANY ((uint64_t)0)
typedef void pt_repo_change_fn(void *ctx, uint64_t node);
void pt_repo_on_change(struct pt_repo *repo, pt_repo_change_fn *fn, void *ctx);
/* No room is left for an object's bytes. true: some was made, and they are written once more. Set before anything is written; called by any thread that writes, by several at once, maybe with the caller's locks held. */
typedef bool pt_repo_full_fn(void *ctx);
void pt_repo_on_full(struct pt_repo *repo, pt_repo_full_fn *fn, void *ctx);

/* ---- nodes: the namespace (manifest/node.c, rename.c) ---- */
int pt_node_get(struct pt_repo *repo, uint64_t id, struct pt_node *ret_node);                   /* -ENOENT */
int pt_node_lookup(struct pt_repo *repo, uint64_t parent, const char *name, struct pt_node *ret_node);
/* Makes a node from attrs->kind, mode, uid, gid, implicit, target, blob, size, xattrs. -EEXIST, -ENOENT parent gone, -ENOTDIR. */
int pt_node_create(struct pt_repo *repo, uint64_t parent, const char *name, const struct pt_node *attrs, struct pt_node *ret_node);
/* Reads these nodes into memory at once; a hint. At most PT_NODE_PREFETCH. */
#define PT_NODE_PREFETCH 128
int pt_node_prefetch(struct pt_repo *repo, const uint64_t *ids, size_t count);
/* A number that is another one once a model file of the directory (a container, or PT_PLAN_NAME) was made, changed, renamed or removed. */
int pt_node_models_version(struct pt_repo *repo, uint64_t id, uint64_t *ret_version);
/* Names in byte order after `after` ("" from the start); the callback gets name, id and kind, and returns 0 to go on, 1 to stop. */
typedef int pt_node_list_fn(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind);
int pt_node_list(struct pt_repo *repo, uint64_t parent, const char *after, pt_node_list_fn *fn, void *ctx);
/* Writes mode, uid, gid, times, xattrs, split, implicit, kind (of files: FILE or CONTAINER), blob and size back if the record is still at node->version (-EAGAIN). A replaced blob
 * becomes garbage in the same batch; a new one (sealed, PT_BLOB_PLAIN) becomes referenced. Updates node->version. */
int pt_node_update(struct pt_repo *repo, struct pt_node *node);
/* unlink of files and symlinks (-EISDIR), rmdir of directories (-ENOTDIR, -ENOTEMPTY while children, manifests or pending sets exist). */
int pt_node_unlink(struct pt_repo *repo, uint64_t parent, const char *name);
/* The same if the name still leads to node id; else -ENOENT: somebody has given the name to another file meanwhile. */
int pt_node_unlink_id(struct pt_repo *repo, uint64_t parent, const char *name, uint64_t id);
int pt_node_rmdir(struct pt_repo *repo, uint64_t parent, const char *name);
/* POSIX rename; no_replace: -EEXIST. exchange swaps. A replaced empty directory or file goes with it; -EINVAL into itself, -ENOTEMPTY ... Atomic: one batch.
 * Manifests, pending sets and open uploads move along, since they hang on the node id. */
int pt_node_rename(struct pt_repo *repo, uint64_t parent, const char *name, uint64_t new_parent, const char *new_name, bool no_replace, bool exchange);
/* Key "a/b/c" to its node. create: missing components are made as implicit directories. -ENOENT, -ENOTDIR (a file is in the way). */
int pt_node_by_key(struct pt_repo *repo, const char *key, bool create, struct pt_node *ret_node);
/* The key of a node, from its parents; "" for the root. */
int pt_node_key(struct pt_repo *repo, uint64_t id, char ret_key[PT_KEY_MAX + 1]);
/* Removes implicit directories that are empty, from this node upwards. */
int pt_node_prune(struct pt_repo *repo, uint64_t id);
/* Every node below `parent`, a directory before what is in it; for remove-all (collect, then go backwards) and key listings. Keys are relative
 * to it. Callbacks run between index accesses and may use and change the repo; 0 to go on, 1 to stop, -errno to fail. */
typedef int pt_node_walk_fn(void *ctx, const char *key, const struct pt_node *node);
int pt_node_walk(struct pt_repo *repo, uint64_t parent, pt_node_walk_fn *fn, void *ctx);

/* ---- revisions (manifest/manifest.c) ---- */
/* Current revision of (node, scope text), from the cache if its record is unchanged. -ENOENT. */
int pt_manifest_get(struct pt_repo *repo, uint64_t node, const char *scope, struct pt_manifest **ret_m);
typedef int pt_manifest_list_fn(void *ctx, struct pt_manifest *m);              /* ref it to keep it */
int pt_manifest_list(struct pt_repo *repo, uint64_t node, pt_manifest_list_fn *fn, void *ctx);
typedef int pt_pending_list_fn(void *ctx, const struct pt_pending *p);
/* node 0: those of the whole store. */
int pt_pending_list(struct pt_repo *repo, uint64_t node, pt_pending_list_fn *fn, void *ctx);
/* A sealed part of a pending set as a servable one-object manifest (pending = true): shape is that of its box, set_size 1; objects[0].part says which
 * part of which set it is. -ENOENT. */
int pt_pending_part(const struct pt_pending *p, int32_t rank, struct pt_manifest **ret_m);
/* Makes the objects safe from collection while pinned, if m is still current (or still pending): -ESTALE when it is not; look again. Counted. */
int pt_manifest_pin(struct pt_repo *repo, struct pt_manifest *m);
void pt_manifest_unpin(struct pt_repo *repo, struct pt_manifest *m);
/* Keeps what is known of an object's chunks (which have been verified) between reads. Counted; of objects that something else pins. */
int pt_object_hold(struct pt_repo *repo, const struct pt_object *object);
/* A blob that somebody has changed since its chunks were verified is verified again, also while it is held. Of nothing else, and where that cannot be told: nothing. */
void pt_object_renew(struct pt_repo *repo, const struct pt_object *object);
/* All chunks of one that is held have been verified, when its file had this stamp (base/file_state.h). */
bool pt_object_whole(struct pt_repo *repo, const struct pt_object *object, uint64_t stamp);
void pt_object_release(struct pt_repo *repo, const struct pt_object *object);
/* Pins the contents of a file. -ESTALE, -ENOENT. Keep the node, or a copy of its blob, for the unpin. */
int pt_node_pin(struct pt_repo *repo, const struct pt_node *node);
void pt_node_unpin(struct pt_repo *repo, const struct pt_node *node);
/* Writes mode, uid, gid, mtime_ns of the current revision (touch, chmod). -ESTALE when superseded. */
int pt_manifest_touch(struct pt_repo *repo, const struct pt_manifest *m, uint32_t mode, uint32_t uid, uint32_t gid, int64_t mtime_ns);
/* Hides object `index` from listings; hiding the last visible one removes the revision. */
int pt_manifest_hide(struct pt_repo *repo, const struct pt_manifest *m, uint32_t index);
/* Removes the current revision; its objects become garbage. -ENOENT. */
int pt_manifest_remove(struct pt_repo *repo, uint64_t node, const char *scope);
/* Drops a pending set. */
int pt_pending_remove(struct pt_repo *repo, const struct pt_pending *p);
/* The same, but -ENOENT when a part has come since p was read: it is not idle then. */
int pt_pending_expire(struct pt_repo *repo, const struct pt_pending *p);

/* ---- commit (manifest/commit.c) ---- */
struct pt_part {                        /* one sealed upload, ready to be published */
	struct pt_object object;        /* box complete unless TP_SHARD */
	struct pt_buf chunk_hashes;     /* owned */
	enum pt_dtype dtype;
	struct pt_shape shape;          /* global; TP_SHARD: the shard's own shape */
	enum pt_written written;
	enum pt_split split;
	char step[PT_STEP_MAX + 1];
	char scope[PT_LAYOUT_TEXT_MAX];
	struct pt_layout scope_axes;
	uint32_t mode, uid, gid;
	int64_t mtime_ns;               /* 0: now */
	uint64_t round;                 /* pt_group_round; 0: none. Set by the group, of whole tensors */
	bool shared;                    /* something in the index refers to the object already, and goes on doing so; chunk_hashes is empty */
};

struct pt_published {
	uint64_t revision;              /* 0: the set is still pending */
	struct pt_id set_id;
};

void pt_part_done(struct pt_part *part);
/* Adds the part to its pending set, or commits the revision that it completes, in one durable batch; retried by itself on races.
 * Set identity: (node, scope, written, size, dim, dtype, step, split, global shape - without the split extent for TP_SHARD). A part of a rank already pending
 * replaces it. Sets of one commit at once. put: -EEXIST when (node, scope) has a revision already (pending siblings never matter).
 * TP shards whose other dims, or whose dtypes, disagree never mix: they are different sets. An unset split counts as balanced; for TP shards the
 * rule that their extents follow is found out. On success *part is emptied. A shared object gets one more
 * reference, and nothing of it is written. -EINVAL: the part makes no sense, or the set cannot be one tensor;
 * -ENOENT, -ENOTDIR: the node; -EBUSY: races without end. -EIO: nobody can tell whether it was done; *part is emptied then, too: only the collector, which looks,
 * may remove its blob. */
int pt_commit_part(struct pt_repo *repo, uint64_t node, struct pt_part *part, bool put, struct pt_published *ret_published);

/* ---- many parts at once (manifest/group.c) ---- */
/* Parts of different keys of one directory, and the file of the directory that shows them: one batch, all or nothing. One thread. */
struct pt_group;
struct pt_group_file {
	struct pt_node node;            /* as read; id 0: it is made, with this name, mode, uid, gid */
	struct pt_blob_ref blob;        /* sealed, new: what it becomes a container of */
	uint64_t blob_bytes;
	bool shows;                     /* another content: its time changes */
	uint64_t models_version;        /* pt_node_models_version of the directory, which is still to be so */
	int64_t mtime_ns;               /* 0: now */
};
/* Called for every try. Errors end the publication; -EAGAIN is one more try. */
struct pt_group_calls {
	int (*begin)(void *ctx, bool *ret_all);         /* may follow more names. ret_all: no other group of the round is still to come */
	/* What the file becomes if this is published. finishes: every set of the group becomes a revision by it. *ret_writes: ret_file counts, else it stays as it
	 * is. Blobs of tries that failed stay the caller's. */
	int (*file)(void *ctx, bool finishes, struct pt_group_file *ret_file, bool *ret_writes);
};

int pt_group_create(struct pt_repo *repo, uint64_t dir_node, struct pt_group **ret_group);
/* What its parts belong to, before any of them: sets wait for those of the same round, scope and step only. Strings are copied. */
struct pt_group_round {
	uint64_t round;                 /* how many groups it has; above the low 32 bits: how they write (1 slices, 2 tp shards, 3 one group with everything) */
	const char *scope, *step;
	uint32_t mode, uid, gid;        /* of revisions, in a group without parts */
	int64_t mtime_ns;
};
void pt_group_round(struct pt_group *g, const struct pt_group_round *round);
/* Takes over a sealed part of the key `name`, which is made if it is not there; *part is emptied, also on failure. Each name once. */
int pt_group_add(struct pt_group *g, const char *name, struct pt_part *part);
/* The key's tensor is stored by other groups: if it waits for the sets of this one, they become revisions together; of a round, none does before it is all there. */
int pt_group_follow(struct pt_group *g, const char *name);
/* The sets become revisions when all of them have all their parts, and no group is still to come. -ENOTDIR, -EEXIST, -EINVAL (the sentence begins with the key's name),
 * -EFBIG: more than one batch takes; nothing has changed then. -EBUSY: races without end. -EIO: nobody can tell. */
int pt_group_publish(struct pt_group *g, const struct pt_group_calls *calls, void *ctx);
void pt_group_free(struct pt_group *g);                                 /* discards what was not published; NULL is fine */

/* Waits until (node, scope) has a revision > after or timeout. -ETIMEDOUT. */
int pt_manifest_wait(struct pt_repo *repo, uint64_t node, const char *scope, uint64_t after, int64_t timeout_ns, struct pt_manifest **ret_m);

/* ---- objects (manifest/object_write.c, object_read.c) ---- */
struct pt_object_writer;
struct pt_object_spec {
	const char *key;                /* at writing time, for the object's metadata */
	enum pt_dtype dtype;
	struct pt_shape local;          /* the payload's shape */
	const struct pt_shape *global;  /* NULL: not known (TP_SHARD) */
	const struct pt_box *box;       /* NULL: not known */
	enum pt_written written;
	struct pt_partition part;
	uint32_t axis_count;
	const struct pt_axis *axes;
	const char *step;
};

/* A native object: header as docs/SPEC-store.md "Objects" says, payload in order through a window of a few MiB, hashed (XXH3, CRC-32) on the way. */
int pt_object_writer_create(struct pt_repo *repo, const struct pt_object_spec *spec, struct pt_object_writer **ret_w);
/* Next len payload bytes; data NULL: zeros. They are hashed while they are written, so nobody may change them before it returns. -EINVAL beyond the payload's size. */
int pt_object_writer_append(struct pt_object_writer *w, const void *data, uint64_t len);
/* Complete: durable and immutable. Fills object (blob, payload_off, bytes, hash, crc32, part, axes, box if known) and chunk_hashes of the part.
 * -EINVAL when bytes are missing. The blob stays pinned by this process until pt_commit_part or pt_object_discard. Consumes w, also on failure. */
int pt_object_writer_seal(struct pt_object_writer *w, struct pt_part *part);
void pt_object_writer_abort(struct pt_object_writer *w);                /* NULL is fine */
/* Gives up a sealed, unpublished object (for plain contents: a part whose object.blob is set). Nothing to do for a part that was published. */
void pt_object_discard(struct pt_repo *repo, struct pt_part *part);
/* A file of tensors as it is, a PT_BLOB_PLAIN whose payload is all of it; sealed by pt_object_writer_seal, with hashes. Same rules. -EFBIG beyond 4 TiB. */
int pt_file_writer_create(struct pt_repo *repo, struct pt_object_writer **ret_w);
/* CRC-32 of the payload so far; not of ordinary contents. */
uint32_t pt_object_writer_crc(const struct pt_object_writer *w);
/* Ordinary contents: any bytes, as a PT_BLOB_PLAIN. Same rules (the blob is pinned until pt_node_update or pt_node_create takes it, or discard). */
int pt_plain_writer_create(struct pt_repo *repo, struct pt_object_writer **ret_w);
int pt_plain_writer_seal(struct pt_object_writer *w, struct pt_blob_ref *ret_blob, uint64_t *ret_bytes);

struct pt_object_range {
	uint32_t object;                /* index into the manifest's objects */
	uint64_t off;                   /* payload bytes */
	uint64_t len;
	void *buf;
};
/* Verifies the chunks of one object of a pinned manifest that payload bytes [off, off+len) are in, also those that were before, and where the options verify nothing: so it
 * tells what they are now. -EIO with a sentence that names object, key and chunk. */
int pt_object_check(struct pt_repo *repo, struct pt_manifest *m, uint32_t object, uint64_t off, uint64_t len);
/* Reads ranges of a pinned manifest's objects, verified as the repo's options say. -EIO with a sentence that names object, key and chunk. */
int pt_object_read(struct pt_repo *repo, struct pt_manifest *m, const struct pt_object_range *ranges, size_t count);
/* Reads every byte of one object through a window and checks chunk and object hashes; of a window, the chunks that it lies in. progress may be NULL. */
int pt_object_verify(struct pt_repo *repo, struct pt_manifest *m, uint32_t object, void (*progress)(void *ctx, uint64_t bytes), void *ctx);

/* ---- containers (manifest/contain.c) ---- */
#define PT_CONTAINER_PARTS 32           /* objects of one that is written; those of stores of before have more */
struct pt_container_sealed {
	struct pt_blob_ref blob;        /* sealed, PT_BLOB_PLAIN */
	uint64_t blob_bytes;
	uint64_t size;                  /* of the file that it is */
	struct pt_part *parts;          /* sealed; what it refers to */
	uint32_t part_count;
};
/* The node, a file as read, becomes this container, in one durable batch; else as pt_node_update. The parts are emptied then, else they stay the caller's. -EAGAIN: read
 * the node again. After -EIO nobody can tell: repeated with the node read again, it succeeds if it was done. */
int pt_container_publish(struct pt_repo *repo, const struct pt_container_sealed *sealed, struct pt_node *node);
/* What a container's blob refers to, also where that itself is lost; *ret_refs is allocated, the caller's. None: it is no container's. */
int pt_container_refs(struct pt_repo *repo, const struct pt_blob_ref *blob, struct pt_blob_ref **ret_refs, size_t *ret_count);
/* Whether a record of the index is of this blob. */
int pt_blob_is_referred(struct pt_repo *repo, const struct pt_blob_ref *blob, bool *ret_referred);
/* A sealed blob that no record took. rc: what the call said that should have taken it, or 0. After -EIO nobody can tell whether it did, so the blob is left to the
 * collector. */
void pt_blob_discard(struct pt_repo *repo, const struct pt_blob_ref *blob, int rc);

/* ---- garbage (manifest/gc.c) ---- */
struct pt_gc_stats {
	uint64_t objects_removed, bytes_removed, pending_expired, orphans_removed, staged_removed, kept_pinned;
};
/* One pass; safe beside readers and writers of any process, and after a crash at any point. */
int pt_gc_run(struct pt_repo *repo, struct pt_gc_stats *ret_stats);

/* counters for .ptio/metrics and tests; monotone since open */
struct pt_repo_counters {
	uint64_t reads, read_bytes_asked, read_bytes_moved, ranges, chunks_verified, verify_failures, objects_proved, commits, parts, bytes_stored;
};
void pt_repo_counters(struct pt_repo *repo, struct pt_repo_counters *ret_counters);

#endif
