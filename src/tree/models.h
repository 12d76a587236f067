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
#include "tree/model_dir.h"

struct pt_models;

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

#endif
