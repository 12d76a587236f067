/* manifest/audit_int.h - what one look at the index has gathered, for the comparison with the blobs. Internal to audit*.c.
 *
 * Arrays in buffers, one struct after the other; those of blobs begin with the id, by which they are sorted. */
#ifndef PT_MANIFEST_AUDIT_INT_H
#define PT_MANIFEST_AUDIT_INT_H

#include "manifest/audit.h"
#include "manifest/internal.h"

struct seen_record {                    /* o */
	struct pt_id id;
	struct pt_blob_rec rec;
};

struct seen_use {                       /* a place that names a blob */
	struct pt_id id;
	enum pt_blob_kind kind;
	char from;                      /* the type of the record: n, m, p, x, r */
	bool first;                     /* of a revision or set: described by the next fields */
	uint64_t node;
	uint64_t payload_off, bytes, described;         /* m and p: payload, and pt_audit_description */
};

struct seen_hashes {                    /* h */
	struct pt_id id;
	uint64_t chunks;
};

struct seen_file {                      /* a sealed blob */
	struct pt_id id;
	enum pt_blob_kind kind;
	uint64_t bytes;
};

struct seen_node {                      /* n, or d: the entry that leads to it */
	uint64_t id, parent, name;      /* hash of the name */
	enum pt_node_kind kind;
};

struct audit {
	struct pt_repo *repo;
	pt_audit_problem_fn *problem;
	pt_audit_progress_fn *progress;
	void *ctx;
	struct pt_audit *stats;
	struct pt_buf records, uses, hashes, files, nodes, entries;
	struct pt_buf sets_of;          /* u64 each: nodes that revisions and sets are of */
};

void pt_audit_say(struct audit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "KEY", or what stands for it. */
const char *pt_audit_key(struct audit *a, uint64_t node, char ret_key[PT_KEY_MAX + 1]);
/* A number for dtype and extents. */
uint64_t pt_audit_description(enum pt_dtype dtype, uint32_t ndim, const uint64_t *ext);
/* audit_blobs.c */
int pt_audit_blobs(struct audit *a);

#endif
