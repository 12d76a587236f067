/* path/internal.h - what the files of this layer share. */
#ifndef PT_PATH_INTERNAL_H
#define PT_PATH_INTERNAL_H

#include "path/path.h"

/* Does the name begin like an axis or a partition, in any case? */
bool pt_path_axis_like(const char *name);
/* "full.npy" to its parts; false when it is no view. */
bool pt_path_view_split(const char *name, enum pt_path_view *ret_view, enum pt_format *ret_format);

#endif
