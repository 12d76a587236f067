/* tree/bundle.h - bundles: what a directory shows of state dicts that ranks have written part by part. */
#ifndef PT_TREE_BUNDLE_H
#define PT_TREE_BUNDLE_H

#include "tensor/tensor.h"
#include "tree/models.h"

/* Makes file_name a bundle of these keys of the directory, or adds them to the one it is. A file that is there and no bundle is replaced once all keys have a
 * revision, and left alone until then. */
int pt_bundle_put(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const char *file_name, enum pt_format format, const char *const *names,
		  uint32_t count, const struct pt_upload_options *attrs);
/* Has every key a revision? */
int pt_bundle_complete(struct pt_repo *repo, uint64_t dir_node, const char *const *names, uint32_t count, bool *ret_complete);

#endif
