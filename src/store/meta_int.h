/* store/meta_int.h - what meta.c and meta_commit.c share. */
#ifndef PT_STORE_META_INT_H
#define PT_STORE_META_INT_H

#include <stdbool.h>
#include <stddef.h>

#include "store/meta.h"

/* -EINVAL: no key has that many bytes. */
int pt_meta_check_key(size_t len);
/* -EROFS: opened read-only. */
int pt_meta_check_writable(const struct pt_meta *m);
/* Nothing was committed since the mark was taken. Of an engine that is here. */
bool pt_meta_mark_holds(struct pt_meta *m, const struct pt_meta_mark *mark);

#endif
