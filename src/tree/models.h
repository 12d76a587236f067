/* tree/models.h - directories with model files in them: loaded containers, and for each directory which tensor names lead to which tensor.
 *
 * An index of a directory is rebuilt when one of its containers, or its tp_plan.json, is another than before; a record of the directory tells cheaply that none
 * can have changed (pt_node_models_version), however much else is written in it. Everything handed out is immutable and referenced. Thread-safe. */
#ifndef PT_TREE_MODELS_H
#define PT_TREE_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"
#include "tree/container.h"
#include "tree/tp_plan.h"

struct pt_models;

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

int pt_models_create(struct pt_repo *repo, struct pt_models **ret_models);
void pt_models_free(struct pt_models *models);
/* The container of a node as read. -ESTALE: it has been replaced. */
int pt_models_container(struct pt_models *models, const struct pt_node *node, struct pt_container **ret_c);
/* The same, but 1: its record is damaged or missing, as the sentence says. */
int pt_models_container_try(struct pt_models *models, const struct pt_node *node, struct pt_container **ret_c);
/* The index of a directory; one without containers has none of everything. -EIO: also when the record of one of its files is damaged. */
int pt_models_dir(struct pt_models *models, uint64_t node, struct pt_model_dir **ret_dir);
/* The same, but files whose record is damaged are left out: what they do not concern goes on. */
int pt_models_dir_sound(struct pt_models *models, uint64_t node, struct pt_model_dir **ret_dir);
/* The tp dimension that the tp_plan.json beside a key's directory names for it, for requests that leave it out: fills has_plan_dim. Nothing without such a plan.
 * -EINVAL: the plan cannot be read. */
int pt_models_plan_dim(struct pt_models *models, uint64_t key_node, struct pt_request *req);
void pt_model_dir_unref(struct pt_model_dir *dir);                      /* NULL is fine */
/* The first alias whose name does not come before this one: index in aliases, or their count. */
uint32_t pt_model_dir_from(const struct pt_model_dir *dir, const char *name);
/* NULL: no tensor of that name, or (withheld) none that resolves. */
const struct pt_model_alias *pt_model_dir_find(const struct pt_model_dir *dir, const char *name);
/* Does the name of a tensor that resolves go on after this one and a slash? */
bool pt_model_dir_leads(const struct pt_model_dir *dir, const char *name);

#endif
