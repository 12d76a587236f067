/* tree/rank_view.h - a directory as one rank of a layout sees it: which part of each tensor, whole files, .all files, and what is told about them. */
#ifndef PT_TREE_RANK_VIEW_H
#define PT_TREE_RANK_VIEW_H

#include "tensor/tensor.h"
#include "tree/many.h"
#include "tree/models.h"

/* How a rank sees one tensor of a directory. stored_dim: of the layout that it is stored with, else -1. shape, dtype: of the whole tensor. why: static, or of dir's plan.
 * -EINVAL with a sentence that names the tensor: the plan cannot hold. *ret_known (or NULL): a plan or the stored layout said so. */
int pt_rank_cut(const struct pt_model_dir *dir, const char *name, enum pt_dtype dtype, const struct pt_shape *shape, int32_t stored_dim,
		const struct pt_partition *rank, enum pt_split split, struct pt_many_cut *ret_cut, const char **ret_why, bool *ret_known);
/* What a spelled directory asks of the files in it: its tp axis as a rank (size 1: whole files). -EINVAL: it names a dimension, which here the plan does. */
int pt_rank_of(const struct pt_request *base, struct pt_partition *ret_rank);

/* A container of the directory as a rank sees it; base: the request of the spelled directory. Bundles too: -ENODATA while a key is not complete. */
int pt_rank_view(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, struct pt_container *c, const struct pt_request *base, struct pt_many **ret_many);
/* Every tensor below the directory, keys and aliases once each; names relative to it, by `/`. */
int pt_all_view(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const struct pt_request *base, enum pt_format format, struct pt_many **ret_many);
/* A key's complete revision in the scope of base. name: for the sentence of -ENODATA. *ret_dim: that its stored layout defines, else -1. */
int pt_rank_revision(struct pt_repo *repo, uint64_t key_node, const char *name, const struct pt_request *base, struct pt_manifest **ret_m, int32_t *ret_dim);

/* What .ptio.json of a directory says beside what it says of a key: "files", "tensors" and how each is split, "complete", "pending". *ret_any: there is
 * something to say. base: the spelled directory; its tp size is what splits are tried with, 2 without one. Appends members of an object. */
int pt_model_info_json(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const struct pt_request *base, struct pt_buf *ret_json, bool *ret_any);
/* All of .ptio.json in a directory of the tree; alias: "", or the name of a tensor of a file below node (tree/alias.h). */
int pt_tree_info_json(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *alias, const char *dir, struct pt_buf *ret_json);
/* Nothing below is pending, and every tensor of the bundles is there. */
int pt_model_complete(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, bool *ret_complete);

#endif
