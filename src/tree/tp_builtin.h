/* tree/tp_builtin.h - the built-in plan for the usual names of decoders and encoders. Internal to tp_plan.c. Pure. */
#ifndef PT_TREE_TP_BUILTIN_H
#define PT_TREE_TP_BUILTIN_H

#include "tree/tp_plan.h"

/* module: the name without its last component. shape may be NULL. */
void pt_tp_builtin(const char *name, const char *module, bool bias, const struct pt_shape *shape, struct pt_tp_rule *ret_rule);
/* fnmatch without flags: stars and brackets take any byte, also '/'. */
bool pt_tp_glob(const char *glob, const char *name);

#endif
