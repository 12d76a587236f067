/* tree/many.h - many tensors as one file: what rank views, bundles and .all files are made of.
 *
 * Each tensor is cut in one dimension at most. The header is synthesised once; views of single tensors are made while they are read. Immutable once finished, but for
 * pins; reads are thread-safe. */
#ifndef PT_TREE_MANY_H
#define PT_TREE_MANY_H

#include <stdbool.h>
#include <stdint.h>

#include "tree/container.h"

struct pt_many;
struct pt_repickle;

struct pt_many_cut {
	int32_t dim;                    /* -1: whole */
	uint64_t off, ext;              /* along dim */
};

int pt_many_create(struct pt_repo *repo, enum pt_format format, struct pt_many **ret_many);
/* One of the two; both copy the name and take a reference. The cut is inside the shape. */
int pt_many_add_tensor(struct pt_many *many, const char *name, struct pt_container *c, uint32_t tensor, const struct pt_many_cut *cut);
int pt_many_add_revision(struct pt_many *many, const char *name, struct pt_manifest *m, const struct pt_many_cut *cut);
/* A container that the file is made after: it is pinned with the rest, so that the file is made again when it has been replaced. Takes a reference. */
int pt_many_add_container(struct pt_many *many, struct pt_container *c);
bool pt_many_has(const struct pt_many *many, const char *name);         /* walks: for few names, or before they are many */
uint32_t pt_many_count(const struct pt_many *many);
/* Makes the header. bare: a pt file of one tensor, not of a dict. tp: of obj files, the axis that cut (or NULL). -EOPNOTSUPP, -EFBIG as pt_serve. */
int pt_many_finish(struct pt_many *many, bool bare, const struct pt_axis *tp);
/* The same for a pt file that keeps the shape of the pickle r, with what is no tensor in it: name i of r (pt_repickle_name_tensor) is tensor i of this. Those that are the
 * same part of the same bytes share one storage. *ret_why: a phrase why that cannot be (nothing has changed then), or NULL. */
int pt_many_finish_like(struct pt_many *many, const struct pt_repickle *r, const char **ret_why);
/* What pt_many_flat_set said of it: why the file is a flat dict of its tensors though another was wanted. NULL: it is what it should be. */
const char *pt_many_flat(const struct pt_many *many);
int pt_many_flat_set(struct pt_many *many, const char *why);
void pt_many_free(struct pt_many *many);                                /* NULL is fine */
uint64_t pt_many_size(const struct pt_many *many);
/* Of all sources and cuts: two files of the same stamp have the same bytes. */
uint64_t pt_many_stamp(const struct pt_many *many);
/* Everything that the file is made of stays. -ESTALE: something has been replaced, make it again. Counted by the caller. */
int pt_many_pin(struct pt_many *many);
void pt_many_unpin(struct pt_many *many);
/* Pinned. Where a read that begins at off had best end, as pt_view_cut. */
uint64_t pt_many_read_end(struct pt_many *many, uint64_t off, uint64_t max);
/* Pinned. Bytes read (short only at the end), or -errno. */
int64_t pt_many_read(struct pt_many *many, void *buf, uint64_t len, uint64_t off);

#endif
