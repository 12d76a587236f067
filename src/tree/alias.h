/* tree/alias.h - tensors of containers as if they were keys: `<dir>/<tensor name>` while no key of that name exists.
 *
 * Key components are separated by slashes, so a tensor called a/b in a file of D is the key D/a/b, two directories below D. A name is therefore looked for in the
 * directory that it is asked in, and then, with the directories' own names in front, in those above; the nearest file that has it counts. */
#ifndef PT_TREE_ALIAS_H
#define PT_TREE_ALIAS_H

#include "tensor/tensor.h"
#include "tree/models.h"

struct pt_alias {
	struct pt_model_dir *dir;       /* whose files have it; a reference */
	const struct pt_model_alias *tensor;    /* in dir; NULL: the beginning of longer names, a directory */
	char name[PT_KEY_MAX + 1];      /* below dir */
};

/* name: below node, components decoded. tensors_only: beginnings of names do not count. -ENOENT. */
int pt_alias_find(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *name, bool tensors_only, struct pt_alias *ret_alias);
void pt_alias_done(struct pt_alias *alias);
/* As pt_view_resolve; a dimension that the request leaves out is the plan's. -ENOENT: no such alias. */
int pt_alias_view(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *name, const struct pt_request *asked, struct pt_view **ret_view);
/* The view of a directory of the tree: of the key that node is, or of the alias below it (name not ""). The dimension of a plan beside the key counts, and a directory that
 * holds no tensor shows that of a file, if it is called so. Errors of pt_view_resolve. */
int pt_tree_view(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *name, const struct pt_request *asked, struct pt_view **ret_view);
/* What .ptio.json says of it: a JSON object and a newline. -ENOENT. */
int pt_alias_info_json(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *name, struct pt_buf *ret_json);
/* The key that it becomes by writing to it: directories below node, made as implicit ones where they are not there. -ENOTDIR. */
int pt_alias_key(struct pt_repo *repo, uint64_t node, const char *name, uint64_t *ret_node);

#endif
