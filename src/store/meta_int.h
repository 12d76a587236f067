/* store/meta_int.h - what meta.c, meta_scan.c and meta_commit.c share. */
#ifndef PT_STORE_META_INT_H
#define PT_STORE_META_INT_H

#include <stdbool.h>
#include <stddef.h>

#include "store/meta.h"

/* -EINVAL: no key has that many bytes. */
int pt_meta_check_key(size_t len);
/* -EROFS: opened read-only. */
int pt_meta_check_writable(const struct pt_meta *m);
/* One more, of m->counters. */
static inline void pt_meta_count(uint64_t *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* Of an engine that is here and has its records kept in memory; false: there is none, or none that could be told now. */
bool pt_meta_mark_here(struct pt_meta *m, struct pt_meta_mark *ret_mark);
/* Nothing was committed since the mark was taken. Of an engine that is here. */
bool pt_meta_mark_holds(struct pt_meta *m, const struct pt_meta_mark *mark);

#endif
