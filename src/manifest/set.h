/* manifest/set.h - what makes parts one set, and when a set is a revision. Pure: no index, no blobs. */
#ifndef PT_MANIFEST_SET_H
#define PT_MANIFEST_SET_H

#include "manifest/record.h"
#include "manifest/repo.h"

/* Everything of a part that its set must agree on is sound, and its box, bytes and hashes agree with each other. Completes the box of a
 * TP_SHARD (offset 0) and the partition of a whole tensor. -EINVAL with a sentence. */
int pt_set_check_part(struct pt_part *part);
/* A set like the part's, without parts. -ENOMEM. */
int pt_set_create(uint64_t node, const struct pt_part *part, struct pt_pending **ret_set);
/* Hash of what parts of one set have in common; node and scope are in the key beside it. -ENOMEM. */
int pt_set_identity(const struct pt_pending *set, struct pt_hash128 *ret_identity);
/* Inserts by rank. *ret_replaced: whether a part of that rank was there; ret_old: its blob. */
int pt_set_add(struct pt_pending *set, const struct pt_object *object, bool *ret_replaced, struct pt_blob_ref *ret_old);
/* A set with all its parts as a revision (number and owner left 0). -EINVAL: the parts cannot be one tensor. */
int pt_set_finish(const struct pt_pending *set, struct pt_manifest **ret_m);
/* NULL, or what is wrong with a manifest: objects by rank, boxes covering the shape exactly and without overlap, bytes as the boxes say. */
const char *pt_set_problem(const struct pt_manifest *m);

#endif
