/* store/meta.h - the meta engine: a small ordered key-value store with compare-and-set batches.
 *
 * Keys are byte strings of 1..1536 bytes, compared by memcmp; values up to PT_META_VALUE_MAX. Each record has a version, a
 * number that every change of the record makes larger than any version seen before in this store; 0 means absent.
 * A batch is all or nothing, and durable when it completes (unless the engine is volatile, or it was committed lazily).
 * Batches touch few records (128 at most, each written once), so that an engine over etcd can keep the promise; only the
 * one that publishes all tensors of a state dict may be as large as PT_META_GROUP_MAX, and an engine that takes less says
 * so (-EFBIG).
 * Engines may be called by many threads at once. Operations complete through struct pt_done; the pt_meta_* functions
 * below are the synchronous forms, and check arguments for every engine. */
#ifndef PT_STORE_META_H
#define PT_STORE_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/done.h"

#define PT_META_KEY_MAX 1536
#define PT_META_VALUE_MAX (64u << 20)
#define PT_META_BATCH_MAX 128
#define PT_META_BEGINS_MIN 9
#define PT_META_BESIDE_MAX 3
#define PT_META_GROUP_MAX 262144
#define PT_META_OWN 1024

struct pt_meta_key {
	const void *data;
	size_t len;
};

enum pt_meta_op_kind {
	PT_META_COMPARE,                /* record's version is `version` (0: absent) */
	PT_META_PUT,
	PT_META_DELETE                  /* absent is fine */
};

struct pt_meta_op {
	enum pt_meta_op_kind kind;
	struct pt_meta_key key;
	uint64_t version;               /* COMPARE */
	const void *value;              /* PUT */
	size_t value_len;
};

/* The batch changes something; else it only compares. */
static inline bool pt_meta_writes(const struct pt_meta_op *ops, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (ops[i].kind != PT_META_COMPARE)
			return true;
	return false;
}

/* Of the checked forms, since the engine was opened. */
struct pt_meta_counters {
	uint64_t queries;               /* gets, scans and questions for the version that went to the engine */
	uint64_t hits;                  /* those that were answered from memory */
	uint64_t shared;                /* questions for the mark of an index that is away that went together with another thread's */
};

struct pt_meta_space {
	uint64_t used_bytes;
	uint64_t free_bytes;
};

/* Where an index is in its history: equal marks mean that no batch has been committed between. Opaque. */
struct pt_meta_mark {
	uint64_t word[6];
};

/* What an engine that is away tells with an answer: the mark at which it holds. In such marks word 0 and 1 name who tells them, word 2 is the highest version. */
struct pt_meta_at {
	bool marked;                    /* it could be told */
	struct pt_meta_mark mark;
};

/* Scan callback: return 0 to go on, 1 to stop, -errno to fail. Bytes are valid during the call. It may call the engine:
 * what it changes does not show in the scan that called it. */
typedef int pt_meta_scan_fn(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version);

/* Callback of get_many: of keys[at]; version 0: absent. Bytes are valid during the call, which must not use the engine. */
typedef int pt_meta_many_fn(void *ctx, size_t at, const void *value, size_t value_len, uint64_t version);

/* One look-up of many: a record, or all whose keys begin so, with at least PT_META_BEGINS_MIN bytes: many looks at much of the index are more than one request
 * may ask of a daemon. */
struct pt_meta_look {
	struct pt_meta_key key;
	bool begins;
};

struct pt_meta_ops {
	size_t size;                    /* of this struct: fields are only ever appended */
	uint32_t version;               /* 1 */
	const char *name;               /* "sqlite" */
	bool durable;                   /* survives the process and power loss */
	void (*close)(void *h);
	/* *ret_version 0 and rc 0 when absent; else the value replaces what ret_value held (NULL: only the version is wanted). */
	void (*get)(void *h, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version, struct pt_done *done);
	/* Keys in [start, end), in order, at most `limit` (0: no limit); end.len 0: to the last key. One consistent snapshot. */
	void (*scan)(void *h, const struct pt_meta_key *start, const struct pt_meta_key *end, uint64_t limit, pt_meta_scan_fn *fn, void *ctx,
		     struct pt_done *done);
	/* -EAGAIN: a compare did not hold, nothing was changed. -EFBIG: more operations or bytes than it takes in one batch. *ret_version: that of the records put. */
	void (*commit)(void *h, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version, struct pt_done *done);
	/* Completes when the store's highest version exceeds `seen` or after timeout_ns (rc 0 both ways); *ret_version: the highest now.
	 * Must have ended before close. */
	void (*watch)(void *h, uint64_t seen, int64_t timeout_ns, uint64_t *ret_version, struct pt_done *done);
	void (*space)(void *h, struct pt_meta_space *ret_space, struct pt_done *done);
	/* All batches completed before are durable. */
	void (*sync)(void *h, struct pt_done *done);
	/* A consistent copy of the whole index to a new file (SQLite's online backup); -EOPNOTSUPP where there is none. */
	/* dirfd: of the folder that path is in; -1: by the path alone. */
	void (*snapshot)(void *h, int dirfd, const char *path, struct pt_done *done);
	/* The mark now, whoever has committed, without waiting and without a system call; false: not to be had at this moment. A batch changes it before its
	 * commit completes. NULL: the engine has none. */
	bool (*mark)(void *h, struct pt_meta_mark *ret_mark);
	/* All in one snapshot, in any order. NULL: the engine gains nothing by it. */
	void (*get_many)(void *h, const struct pt_meta_key *keys, size_t count, pt_meta_many_fn *fn, void *ctx, struct pt_done *done);
	/* What there is of each in turn, in one round trip for up to `looks_max` of them: one after the other, no snapshot. limit: see pt_meta_look_first. NULL, or looks_max gives 0: the
	 * engine is not away, and gains nothing by it. */
	void (*look)(void *h, const struct pt_meta_look *looks, size_t count, uint64_t limit, pt_meta_scan_fn *fn, void *ctx, struct pt_done *done);
	size_t (*looks_max)(void *h);
	/* As commit, but it need not be durable before the next commit or sync is; all batches become durable in their order. NULL: the engine has only commit. */
	void (*commit_lazy)(void *h, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version, struct pt_done *done);
	/* Of engines that are away, in place of `mark`: whether there are marks (at the moment), and a round trip that tells done->at the mark of a moment after it was
	 * called. Their gets, scans, looks and commits tell the mark at which they hold as well, and so do the pins of the data engine beside them. */
	bool (*marks)(void *h);
	void (*ask_mark)(void *h, struct pt_done *done);
	/* Of engines that are away, beside `watch`: whether it can be had, and completes when the highest version exceeds `seen`, or after timeout_ns; done->at tells the
	 * mark then. Nothing is repeated: -EIO as soon as the connection is lost, when there is none, or when the answer is late by more than a moment. news_stop ends
	 * it, and those that come later. */
	bool (*has_news)(void *h);
	void (*news)(void *h, uint64_t seen, int64_t timeout_ns, struct pt_done *done);
	void (*news_stop)(void *h);
};

struct pt_meta_cache;
struct pt_meta_asks;

struct pt_meta {
	const struct pt_meta_ops *ops;
	void *h;
	bool read_only;                 /* the checked forms refuse changes: -EROFS */
	struct pt_meta_cache *cache;    /* of gets and scans of a prefix, or NULL (pt_meta_cache_on) */
	struct pt_meta_asks *asks;      /* of an index that is away with a cache (meta_away.c) */
	struct pt_meta_counters counters;       /* each field by an atomic add */
	uint32_t committing;            /* batches of this process under way; atomically */
	uint64_t own[PT_META_OWN];      /* versions of this process's last batches, by their remainder; atomically */
};

/* Engines. */
/* path: the index file, made if absent; NULL: in memory. Records carry an XXH3; one that does not match is -EIO with a sentence
 * ("index record ... is damaged; ..."). */
int pt_meta_sqlite_open(const char *path, struct pt_meta *ret_meta);
/* In a folder that the caller has open; the descriptor stays the caller's. path: of the index in it, for sentences, and whose end is its name. */
int pt_meta_sqlite_open_at(int dirfd, const char *path, struct pt_meta *ret_meta);
/* Reads all of an index that is there: every page, SQLite's structure, every record. alone: nobody else can have it open, and there is no log beside it (a snapshot). -EIO with a
 * sentence: it is damaged. dirfd: of the folder that it is in; -1: it is opened by the path. */
int pt_meta_sqlite_check(int dirfd, const char *path, bool alone, uint64_t *ret_version, uint64_t *ret_records);

/* Synchronous, checked forms. */
void pt_meta_close(struct pt_meta *m);
int pt_meta_get(struct pt_meta *m, const void *key, size_t key_len, struct pt_buf *ret_value, uint64_t *ret_version);
/* Of a record that cannot change as long as the caller can rely on its being there: what is in memory will do, whatever was committed since. Never the absence of one. */
int pt_meta_get_lasting(struct pt_meta *m, const void *key, size_t key_len, struct pt_buf *ret_value, uint64_t *ret_version);
int pt_meta_scan(struct pt_meta *m, const void *start, size_t start_len, const void *end, size_t end_len, uint64_t limit,
		 pt_meta_scan_fn *fn, void *ctx);
/* All keys with this prefix. */
int pt_meta_scan_prefix(struct pt_meta *m, const void *prefix, size_t prefix_len, uint64_t limit, pt_meta_scan_fn *fn, void *ctx);
int pt_meta_commit(struct pt_meta *m, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version);
/* For changes that nobody has been promised to find after a power loss: names made and removed, attributes. Whatever is committed later is never durable without them. */
int pt_meta_commit_lazy(struct pt_meta *m, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version);
/* What was committed lazily by this process becomes durable; costs nothing when nothing was. */
int pt_meta_settle(struct pt_meta *m);
/* As pt_meta_get; where it has to ask the engine, what is told of `beside` as well is read in the same transaction, and kept. */
int pt_meta_get_beside(struct pt_meta *m, const struct pt_meta_key *key, const struct pt_meta_key *beside, size_t count, struct pt_buf *ret_value, uint64_t *ret_version);
/* From now on answers are kept in memory where the engine has marks; nothing else changes. Before other threads use it. -ENOMEM. */
int pt_meta_cache_on(struct pt_meta *m);
void pt_meta_counters(struct pt_meta *m, struct pt_meta_counters *ret_counters);
/* Reads what is not in memory yet of these records, at once and more cheaply than one by one, where the engine can; a hint. */
int pt_meta_prefetch(struct pt_meta *m, const struct pt_meta_key *keys, size_t count);
/* What there is of each in turn; fn returns 0, or -errno to fail. In few round trips where the engine is away. */
int pt_meta_look(struct pt_meta *m, const struct pt_meta_look *looks, size_t count, pt_meta_scan_fn *fn, void *ctx);
/* The same, of each that begins so the first `limit` records; of a daemon of an older release more may come. */
int pt_meta_look_first(struct pt_meta *m, const struct pt_meta_look *looks, size_t count, uint64_t limit, pt_meta_scan_fn *fn, void *ctx);
/* Of one pt_meta_look that is one round trip; 0: the engine is here, and one look-up after the other does as well. */
size_t pt_meta_looks_max(struct pt_meta *m);
/* False: nobody can tell at the moment, or ever (pt_meta_cache_on did nothing). Of an index that is away it is a round trip, or that of the thread's moment. */
bool pt_meta_mark(struct pt_meta *m, struct pt_meta_mark *ret_mark);
/* From here to the end, what this thread asks may rest on one moment of an index that is away, not before the beginning: many look-ups are then as little as one round trip. What the thread
 * commits, pins or watches renews the moment, and so does every commit of this process: what is asked afterwards is told as it is then. Nests; nothing for other indexes. For calls
 * that wait for nobody else in other ways. */
void pt_meta_moment_begin(struct pt_meta *m);
void pt_meta_moment_end(struct pt_meta *m);
void pt_meta_moment_renew(struct pt_meta *m);
/* pt_data_pin of the data engine beside it: what is asked afterwards is told as it is when the pins are visible. */
struct pt_data;
struct pt_blob_ref;
int pt_meta_pin(struct pt_meta *m, struct pt_data *d, const struct pt_blob_ref *refs, size_t count);
/* The highest version at this moment; 0: it is not known without asking the index, or there are no marks. */
uint64_t pt_meta_version_known(struct pt_meta *m);
/* All versions above `after` up to `upto` are of batches that this process has committed by this engine: each batch that changes something is one version. False too for those that
 * have not returned yet, and where there are many. */
bool pt_meta_own(struct pt_meta *m, uint64_t after, uint64_t upto);
/* The highest version now. */
int pt_meta_version(struct pt_meta *m, uint64_t *ret_version);
int pt_meta_watch(struct pt_meta *m, uint64_t seen, int64_t timeout_ns, uint64_t *ret_version);
/* Of an index that is away, where it tells by itself that somebody has committed: waits until it is beyond `seen` (a mark's version), at most timeout_ns; its mark then. -EIO: nobody can tell whether there is
 * news, since the connection was lost or nothing was heard of the daemon. After pt_meta_news_stop always, and at once. */
bool pt_meta_has_news(struct pt_meta *m);
int pt_meta_news(struct pt_meta *m, uint64_t seen, int64_t timeout_ns, struct pt_meta_mark *ret_mark);
void pt_meta_news_stop(struct pt_meta *m);
/* A batch of this process is under way, so that what pt_meta_own says of its version may change. */
bool pt_meta_committing(struct pt_meta *m);
int pt_meta_space(struct pt_meta *m, struct pt_meta_space *ret_space);
int pt_meta_sync(struct pt_meta *m);
int pt_meta_snapshot(struct pt_meta *m, int dirfd, const char *path);

#endif
