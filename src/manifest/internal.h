/* manifest/internal.h - what the files of this layer share: the repo, batches, retries. */
#ifndef PT_MANIFEST_INTERNAL_H
#define PT_MANIFEST_INTERNAL_H

#include <pthread.h>

#include "manifest/key.h"
#include "manifest/record_small.h"
#include "manifest/repo.h"

struct pt_cache;                        /* cache.h: decoded manifests */
struct pt_checked;                      /* checked.h: which chunks of pinned objects have been verified */

#define PT_WINDOW_BYTES PT_HASH_CHUNK

/* Windows of PT_WINDOW_BYTES, aligned to 4096, kept for reuse (window.c). */
#define PT_WINDOW_KEPT 16
struct pt_window_pool {
	struct pt_data *data;
	pthread_mutex_t lock;           /* free, free_count */
	void *free[PT_WINDOW_KEPT];
	uint32_t free_count;
};

/* Threads that write windows out (pump.h). */
#define PT_PUMP_THREADS 4
#define PT_PUMP_WINDOWS 32              /* under way, of all streams */
struct pt_pump_stream;
struct pt_pump {
	pthread_mutex_t lock;           /* the rest, and the streams */
	pthread_cond_t work, done;
	pthread_cond_t away;            /* something was put, or ended, at an engine that is away */
	struct pt_pump_stream *first, **last;   /* streams with windows to write */
	pthread_t thread[PT_PUMP_THREADS];
	uint32_t threads, idle, under_way;
	pid_t pid;                      /* whose threads they are; 0: none yet */
	bool stop;
};

struct pt_repo {
	struct pt_store *store;
	struct pt_repo_options options;
	struct pt_id store_id;
	pthread_mutex_t id_lock;        /* id_next, id_end; held over the index access that fetches more */
	uint64_t id_next, id_end;       /* node ids handed to this process and not used yet */
	int64_t clock_ahead_ns;         /* atomic: of the time since the boot, when a collector, or who opened the store, last looked */
	int64_t clock_set_ns;           /* atomic: when it had been set forward, since the boot; 0: never */
	pthread_mutex_t group_lock;     /* no field: held while a group is published; before id_lock */
	struct pt_cache *cache;
	struct pt_checked *checked;
	struct pt_window_pool windows;
	struct pt_pump pump;
	struct pt_repo_counters counters;       /* each field by pt_count() */
	pt_repo_change_fn *change_fn;           /* atomic; after change_ctx */
	void *change_ctx;
	pt_repo_full_fn *full_fn;               /* both: before the first who writes */
	void *full_ctx;
};

static inline void pt_count(uint64_t *counter, uint64_t n)
{
	__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

/* ---- batches (batch.c) ---- */
struct pt_batch {
	bool lazy;                      /* durable with the next batch that is not (pt_meta_commit_lazy) */
	size_t count;
	struct pt_meta_op op[PT_META_BATCH_MAX];
	struct pt_rkey key[PT_META_BATCH_MAX];
};

/* Values stay the caller's until the commit. More than PT_META_BATCH_MAX is a bug of ours. */
void pt_batch_init(struct pt_batch *b);
void pt_batch_compare(struct pt_batch *b, const struct pt_rkey *key, uint64_t version);
void pt_batch_put(struct pt_batch *b, const struct pt_rkey *key, const struct pt_buf *value);
void pt_batch_delete(struct pt_batch *b, const struct pt_rkey *key);
/* After rc, which may be that no room is left: some was made, and it is to be done once more (pt_repo_on_full). Else the sentence stays. */
bool pt_repo_room_made(struct pt_repo *repo, int rc);
/* -EAGAIN: a compare did not hold. -EROFS. ret_version may be NULL. */
int pt_batch_commit(struct pt_repo *repo, const struct pt_batch *b, uint64_t *ret_version);
/* After every commit: tells of nodes (pt_repo_on_change). */
void pt_repo_changed(struct pt_repo *repo, const struct pt_meta_op *ops, size_t count);
/* Puts a garbage record for the blobs of `list`; nothing when it is empty. */
int pt_batch_garbage(struct pt_batch *b, const struct pt_buf *list);

/* ret_value NULL: only the version is wanted. */
int pt_rec_get(struct pt_repo *repo, const struct pt_rkey *key, struct pt_buf *ret_value, uint64_t *ret_version);
/* 1: there is a key with this prefix, 0: none. */
int pt_rec_any(struct pt_repo *repo, const struct pt_rkey *prefix);
int pt_rec_blob(struct pt_repo *repo, const struct pt_id *id, struct pt_blob_rec *ret_rec, uint64_t *ret_version);      /* version 0: absent */

/* A race lost to another process or thread is tried again after a short random wait; after half a minute it is -EBUSY. */
struct pt_retry {
	int64_t deadline_ns;
	uint32_t attempt;
};

/* True: try again. False: *rc is the verdict. Starts from a zeroed struct. */
bool pt_retry_again(struct pt_retry *r, int *rc);

/* Gives up a sealed blob: removes it (unless a record may have taken it), and lets its pin go. The thread's sentence stays what it was. (contain.c) */
void pt_blob_give_up(struct pt_repo *repo, const struct pt_blob_ref *blob, bool remove);

/* The set that a part belongs to, as the index has it (with its key and version) or new (version 0). single: sets of one part, which wait only in groups, are looked
 * up as well. (commit.c) */
int pt_set_load(struct pt_repo *repo, uint64_t node, const struct pt_part *part, bool single, struct pt_pending **ret_set, struct pt_rkey *ret_key,
		uint64_t *ret_version);

/* ---- nodes (node.c) ---- */
int pt_node_id_new(struct pt_repo *repo, uint64_t *ret_id);
int pt_name_check(const char *name);
/* Entry of a name with the version of its record. -ENOENT. */
int pt_entry_get(struct pt_repo *repo, uint64_t parent, const char *name, struct pt_entry *ret_entry, uint64_t *ret_version);
/* Puts the time of the last change of a directory's entries, without compare; value is the caller's buffer. */
void pt_node_changed(struct pt_batch *b, uint64_t node, struct pt_buf *value);
/* A file that a directory's index of tensors is made from (tree/models.h). */
bool pt_node_is_model(enum pt_node_kind kind, const char *name);
/* Puts the record of model files of a directory, without compare; value as above, shared with it. */
void pt_node_models_changed(struct pt_batch *b, uint64_t node, struct pt_buf *value);
/* Takes a reference on a blob in the batch. *ret_new: nobody referred to it before, so its writer's pin can go once the batch holds. */
int pt_node_blob_take(struct pt_repo *repo, struct pt_batch *b, const struct pt_blob_ref *ref, uint64_t bytes, struct pt_buf *value, bool *ret_new);
/* pt_node_update with a blob of blob_bytes, and what extra adds to the batch (118 operations at most). */
typedef void pt_node_extra_fn(void *ctx, struct pt_batch *batch);
int pt_node_update_with(struct pt_repo *repo, struct pt_node *node, uint64_t blob_bytes, pt_node_extra_fn *extra, void *ctx);
/* -ENOTEMPTY while the directory has children, revisions or pending sets. */
int pt_node_check_empty(struct pt_repo *repo, uint64_t node);
/* Adds the removal of a node's own records (checked to be as read); its blob goes to the garbage list. */
void pt_node_drop(struct pt_batch *b, const struct pt_node *node, struct pt_buf *garbage);

#endif
