/* tree/tp_plan.h - on which dimension a tensor is split, told by its name: a directory's tp_plan.json, else the built-in plan. Pure.
 *
 * tp_plan.json is an object of glob -> term, in the order in which they are tried:
 *   {"model.layers.*.self_attn.q_proj": "colwise", "model.layers.*.mlp.down_proj": "rowwise", "*.norm.weight": "replicate"}
 * A glob names tensors, or modules (a tensor's name without its last component), as in the tp plans of Hugging Face, whose terms are understood. colwise and rowwise
 * are those of a torch.nn.Linear: colwise cuts dimension 0 of weight and bias, rowwise dimension 1 of the weight and leaves the bias whole. "dim=1" names a dimension.
 * {"plan": {...}} around it is fine. */
#ifndef PT_TREE_TP_PLAN_H
#define PT_TREE_TP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout/axis.h"

#define PT_TP_DIM_REPLICATE (-1)
#define PT_TP_DIM_UNKNOWN (-2)          /* no plan says: replicated, and told so */
#define PT_TP_DIM_SCALE (-3)            /* follows the weight named in follows */

struct pt_tp_plan;

struct pt_tp_rule {
	int32_t dim;                    /* of the tensor, or PT_TP_DIM_* */
	const char *why;                /* one phrase; static or of the plan */
	char follows[1025];             /* PT_TP_DIM_SCALE: the weight's name */
};

/* -EINVAL with a sentence that names the glob or the term. */
int pt_tp_plan_parse(const char *json, size_t len, struct pt_tp_plan **ret_plan);
void pt_tp_plan_free(struct pt_tp_plan *plan);                          /* NULL is fine */
/* plan: NULL for the built-in one alone. name, shape: of the tensor. Always answers; a dim beyond the shape is the caller's to report. */
void pt_tp_plan_rule(const struct pt_tp_plan *plan, const char *name, const struct pt_shape *shape, struct pt_tp_rule *ret_rule);
/* The dimension that the plan itself names for it. -1: it names none, has the tensor replicated, or the name is that of a scale. */
int32_t pt_tp_plan_dim(const struct pt_tp_plan *plan, const char *name);

/* The part of a scale that belongs to a part [off, off+ext) of its weight's dimension `dim`: on block boundaries. Scales of one element, or one along this dimension,
 * are whole. -EINVAL with a sentence: the cut is inside a block, or the shapes have nothing to do with each other. */
int pt_tp_scale_box(const struct pt_shape *weight, int32_t dim, uint64_t off, uint64_t ext, const struct pt_shape *scale, struct pt_box *ret_box);

#endif
