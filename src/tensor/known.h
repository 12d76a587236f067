/* tensor/known.h - one snapshot of what a node holds: current revisions by scope, pending sets, newest first. Internal to tensor/.
 *
 * Owned by one thread; manifests in it are referenced, pending sets are copies. */
#ifndef PT_TENSOR_KNOWN_H
#define PT_TENSOR_KNOWN_H

#include <stdbool.h>
#include <stddef.h>

#include "manifest/repo.h"
#include "tensor/tensor.h"

struct pt_known {
	struct pt_manifest **manifests;         /* in scope order */
	size_t manifest_count;
	struct pt_pending **pendings;           /* latest update first */
	size_t pending_count;
};

/* What writes and reads ask of it: everything of the node, or (scope not NULL) only the revision of one scope. -ENOENT for the latter. */
int pt_known_load(struct pt_repo *repo, uint64_t node, struct pt_known *ret_known);
int pt_known_load_scope(struct pt_repo *repo, uint64_t node, const char *scope, struct pt_known *ret_known);
void pt_known_done(struct pt_known *k);

/* The revision of a scope, or NULL; the pending sets of a scope are found by walking. */
struct pt_manifest *pt_known_manifest(const struct pt_known *k, const char *scope);
const struct pt_pending *pt_known_pending(const struct pt_known *k, const char *scope);        /* the latest, or NULL */

/* "full, dp=0of2/tp 4 on dim 1, writer 4 on dim 0 (pending)": what there is, for sentences. */
void pt_known_describe(const struct pt_known *k, char *buf, size_t len);
/* "tp 4 on dim 1", "the full tensor" ...: how a set was cut. */
void pt_written_describe(enum pt_written written, int32_t size, int32_t dim, char *buf, size_t len);
bool pt_written_is_tp(enum pt_written written);

/* Did a tp axis that names its dimension make these objects? A dimension that was defaulted is written as -1 in the axis. */
bool pt_objects_define_dim(const struct pt_object *objects, uint32_t count);
/* Is there a set in this scope whose tp axis names this dimension? (request.c) */
bool pt_known_defines_dim(const struct pt_known *k, const char *scope, int32_t dim);

/* request.c: completes `req` against k. for_write: rules of writes (a missing dim becomes what is stored, else 0). */
int pt_request_complete_known(const struct pt_known *k, const struct pt_request *req, bool for_write, struct pt_request *ret_req);
/* -EINVAL: a partition together with axes, `shard` without either, a partition whose rank is outside its size. */
int pt_request_check(const struct pt_request *req);

#endif
