/* tree/named.h - names that stand for files made of many tensors: containers as a rank sees them, bundles, .all files. */
#ifndef PT_TREE_NAMED_H
#define PT_TREE_NAMED_H

#include "tree/rank_view.h"
#include "tree/tree.h"

struct pt_named {
	enum pt_format all;             /* of a .all file; PT_FORMAT_COUNT: a container */
	struct pt_node node;            /* the container's, or the directory's */
	struct pt_container *c;         /* NULL: a .all file */
	struct pt_request base;         /* of the spelled directory */
};

/* -ENOENT: the name is none of these (a file that is shown as it is, something else, or nothing). */
int pt_named_find(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *dir, const char *name, struct pt_named *ret_named);
void pt_named_done(struct pt_named *named);
/* split: where nothing else says it. Errors of pt_rank_view and pt_all_view. */
int pt_named_make(struct pt_models *models, struct pt_repo *repo, uint64_t node, const struct pt_named *named, enum pt_split split, struct pt_many **ret_many);

#endif
