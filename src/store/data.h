/* store/data.h - the data engine: immutable blobs, written once, read by ranges.
 *
 * A blob is created (staged: nobody else sees it), written front to back or in any order, then sealed, which makes it
 * durable (if the engine is) and immutable; or aborted. Blobs are named by random ids. Ids and kinds come from the caller's
 * records; no operation assumes a path, a descriptor or one machine.
 * Pins keep sealed blobs from being deleted by collectors of any process; they die with the process that holds them.
 * Operations complete through struct pt_done; the pt_data_* functions are the synchronous, checked forms. */
#ifndef PT_STORE_DATA_H
#define PT_STORE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "store/done.h"

enum pt_blob_kind { PT_BLOB_TENSOR = 1, PT_BLOB_PLAIN = 2 };    /* a native object (a safetensors file) | any bytes */

struct pt_blob_ref {
	struct pt_id id;
	enum pt_blob_kind kind;
};

struct pt_data_range {
	struct pt_blob_ref blob;
	uint64_t off;                   /* in the blob */
	uint64_t len;
	void *buf;                      /* len bytes; may not overlap another range's */
};

struct pt_data_space {
	uint64_t total_bytes, free_bytes, used_bytes;   /* of the filesystem below, or of the memory */
	uint64_t total_files, free_files;
};

/* Enumeration: return 0 to go on, 1 to stop. staged: not sealed; live: its writer's process still runs. */
typedef int pt_data_list_fn(void *ctx, const struct pt_blob_ref *blob, uint64_t bytes, int64_t mtime_ns, bool staged, bool live);

struct pt_data_ops {
	size_t size;
	uint32_t version;               /* 1 */
	const char *name;               /* "file", "memory" */
	bool durable;
	bool away;                      /* what is asked of it is on its way for longer than it takes to ask: ask for more before the answer */
	void (*close)(void *h);
	/* size_hint: expected bytes, 0 unknown (an engine may reserve them). *ret_blob: the staged blob's handle. */
	void (*create)(void *h, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob, struct pt_done *done);
	/* Writes do not overlap. Gaps read as zeros. */
	void (*write)(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done);
	/* Final size `bytes` (a longer tail than written is zeros). Consumes the handle, also on failure. */
	void (*seal)(void *h, void *blob, uint64_t bytes, struct pt_done *done);
	void (*abort)(void *h, void *blob);
	/* All ranges; fails as a whole. The array lives until completion. -ENOENT no such blob; -EIO beyond its end. */
	void (*read)(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done);
	/* A read-only view of bytes in place, valid until unmap; -EOPNOTSUPP where the engine cannot. */
	int (*map)(void *h, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, const void **ret_addr, void **ret_map);
	void (*unmap)(void *h, void *map);
	/* Bytes of a sealed blob. -ENOENT. */
	void (*stat)(void *h, const struct pt_blob_ref *ref, uint64_t *ret_bytes, struct pt_done *done);
	/* Absent is -ENOENT. Existing readers inside a pin are the caller's business. */
	void (*remove)(void *h, const struct pt_blob_ref *ref, struct pt_done *done);
	void (*list)(void *h, pt_data_list_fn *fn, void *ctx, struct pt_done *done);
	/* Counted: each pin wants an unpin. Visible to every collector when complete. */
	void (*pin)(void *h, const struct pt_blob_ref *refs, size_t count, struct pt_done *done);
	void (*unpin)(void *h, const struct pt_blob_ref *refs, size_t count);
	/* Which of these are pinned by anybody alive. */
	void (*pinned)(void *h, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned, struct pt_done *done);
	/* Memory that later reads will target (a memory region where there is a fabric). Engines without need return 0. */
	int (*buffer_register)(void *h, void *addr, uint64_t len);
	void (*buffer_unregister)(void *h, void *addr);
	void (*space)(void *h, struct pt_data_space *ret_space, struct pt_done *done);
	/* Everything sealed before is durable. */
	void (*sync)(void *h, struct pt_done *done);
	/* Drops staged blobs whose writer is dead (*ret_count: how many), and what this process holds of blobs that others have removed. */
	void (*sweep)(void *h, uint64_t *ret_count, struct pt_done *done);
	/* The second half of sweep alone, which changes nothing in the store; of `ref`, unless that is NULL, nothing is held on to: what has its name is read next. NULL where nothing is held. */
	void (*tidy)(void *h, const struct pt_blob_ref *ref);
	/* Whether reads of this blob now come out of memory whose every chunk was checked by whoever loaded it, by an engine that joins scattered ranges
	 * itself, by what they cost: then ask for just what is wanted. NULL: never. */
	bool (*direct)(void *h, const struct pt_blob_ref *ref);
	/* A number, not 0, that is another one once a sealed blob's bytes may have been changed behind the engine's back, or once they are another file's. -EOPNOTSUPP. NULL: never known. */
	int (*stamp)(void *h, const struct pt_blob_ref *ref, uint64_t *ret_stamp);
	/* A descriptor for reading of the file that holds a sealed blob's bytes and nothing else: the one that reads use, so that what they have verified is what it
	 * has. Good until given back. -ENOENT. NULL: blobs are no files here. */
	int (*fd_get)(void *h, const struct pt_blob_ref *ref, int *ret_fd, void **ret_lent);
	void (*fd_put)(void *h, void *lent);
	/* What has been verified whole, told and asked by all processes of this machine until it is booted again (store/ledger.h). All of these, or NULL: nobody tells.
	 * Whether that is so of this blob, with this stamp. */
	bool (*proved)(void *h, const struct pt_blob_ref *ref, uint64_t stamp);
	/* All of it has been verified since it had this stamp, and it has it still. */
	void (*prove)(void *h, const struct pt_blob_ref *ref, uint64_t stamp);
	/* Damage was found in it. */
	void (*doubt)(void *h, const struct pt_blob_ref *ref);
	/* All bytes of a staged blob were hashed as they came: once it is sealed it counts as verified. */
	void (*hashed)(void *h, void *blob);
	/* How often something was told, and could not be. */
	void (*proof_counts)(void *h, uint64_t *ret_told, uint64_t *ret_failed);
};

struct pt_data {
	const struct pt_data_ops *ops;
	void *h;
	bool read_only;                 /* the checked forms refuse changes (-EROFS); reading and pinning go on */
};

/* dir: made if absent (objects/, staging/, pins/ below it). */
int pt_data_file_open(const char *dir, struct pt_data *ret_data);
/* In a folder that the caller has open; the descriptor stays the caller's. dir: its path, for sentences. -ELOOP: one of those below it is a symbolic link. */
int pt_data_file_open_at(int dirfd, const char *dir, struct pt_data *ret_data);
/* capacity: bytes of payload it may hold; -ENOSPC beyond. reserve: memory that a thread has ready for blobs, of the capacity; 0: none, and no thread. */
int pt_data_memory_open(uint64_t capacity, uint64_t reserve, struct pt_data *ret_data);

void pt_data_close(struct pt_data *d);
int pt_data_create(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob);
int pt_data_write(struct pt_data *d, void *blob, const void *buf, uint64_t len, uint64_t off);
/* The same, begun: done tells the end. buf lasts until then. */
void pt_data_write_begin(struct pt_data *d, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done);
int pt_data_seal(struct pt_data *d, void *blob, uint64_t bytes);
void pt_data_abort(struct pt_data *d, void *blob);                      /* NULL is fine */
int pt_data_read(struct pt_data *d, const struct pt_data_range *ranges, size_t count);
bool pt_data_direct(struct pt_data *d, const struct pt_blob_ref *ref);
/* 0: the engine cannot tell. */
uint64_t pt_data_stamp(struct pt_data *d, const struct pt_blob_ref *ref);
/* stamp 0 is never proved. In a read-only store nothing is told but doubt, so that who only looks (ptio fsck --verify) is heard as well. */
bool pt_data_proved(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t stamp);
void pt_data_prove(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t stamp);
void pt_data_doubt(struct pt_data *d, const struct pt_blob_ref *ref);
void pt_data_hashed(struct pt_data *d, void *blob);
void pt_data_proof_counts(struct pt_data *d, uint64_t *ret_told, uint64_t *ret_failed);
int pt_data_map(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, const void **ret_addr, void **ret_map);
void pt_data_unmap(struct pt_data *d, void *map);
/* -EOPNOTSUPP, which is no failure: blobs are no files here. */
int pt_data_fd_get(struct pt_data *d, const struct pt_blob_ref *ref, int *ret_fd, void **ret_lent);
void pt_data_fd_put(struct pt_data *d, void *lent);                     /* NULL is fine */
int pt_data_stat(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t *ret_bytes);
int pt_data_remove(struct pt_data *d, const struct pt_blob_ref *ref);
int pt_data_list(struct pt_data *d, pt_data_list_fn *fn, void *ctx);
int pt_data_pin(struct pt_data *d, const struct pt_blob_ref *refs, size_t count);
/* The same; *ret_at is left alone, or tells at which mark the index of the same store was by then (store/meta.h). */
int pt_data_pin_at(struct pt_data *d, const struct pt_blob_ref *refs, size_t count, struct pt_meta_at *ret_at);
void pt_data_unpin(struct pt_data *d, const struct pt_blob_ref *refs, size_t count);
int pt_data_pinned(struct pt_data *d, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned);
int pt_data_buffer_register(struct pt_data *d, void *addr, uint64_t len);
void pt_data_buffer_unregister(struct pt_data *d, void *addr);
int pt_data_space(struct pt_data *d, struct pt_data_space *ret_space);
int pt_data_sync(struct pt_data *d);
int pt_data_sweep(struct pt_data *d, uint64_t *ret_count);
void pt_data_tidy(struct pt_data *d, const struct pt_blob_ref *ref);    /* of read-only stores, too */

#endif
