/* tree/model_dir.h - the index of one directory with model files in it: its containers, and for each name of a tensor where that is.
 *
 * Made by models.h; immutable from then on, but for `seen`, and referenced. */
#ifndef PT_TREE_MODEL_DIR_H
#define PT_TREE_MODEL_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "tree/container.h"
#include "tree/tp_plan.h"

struct pt_model_file {
	uint64_t node;
	char *name;                     /* decoded */
	struct pt_container *c;
};

struct pt_model_alias {
	const char *name;               /* of the key that it stands for, below the directory */
	uint32_t file, tensor;
	const char *withheld;           /* why it does not resolve, or NULL */
};

struct pt_model_dir {
	int refs;                       /* atomic */
	uint64_t node;
	uint64_t signature;             /* of files and plan */
	uint64_t seen;                  /* pt_node_models_version when this was found right; models' lock */
	uint32_t file_count, alias_count;
	struct pt_model_file *files;    /* in byte order of names */
	struct pt_model_alias *aliases; /* in byte order of names */
	char **stems;                   /* names made for bare tensors, one a file or NULL */
	struct pt_tp_plan *plan;        /* of tp_plan.json, or NULL */
	char *plan_error;               /* it cannot be read: why */
	char *damaged;                  /* name of a file whose record cannot be read, which is not among the files; or NULL */
};

void pt_model_dir_unref(struct pt_model_dir *dir);                      /* NULL is fine */
/* Makes aliases and stems out of the files, which are in order. -EFBIG, -ENOMEM: what was made stays the index's. */
int pt_model_dir_name_tensors(struct pt_model_dir *dir);
/* The first alias whose name does not come before this one: index in aliases, or their count. */
uint32_t pt_model_dir_from(const struct pt_model_dir *dir, const char *name);
/* NULL: no tensor of that name, or (withheld) none that resolves. */
const struct pt_model_alias *pt_model_dir_find(const struct pt_model_dir *dir, const char *name);
/* Does the name of a tensor that resolves go on after this one and a slash? */
bool pt_model_dir_leads(const struct pt_model_dir *dir, const char *name);

#endif
