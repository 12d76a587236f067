/* format/namemap.h - a map from 64-bit hashes of names to small numbers, for spotting names that come twice.
 *
 * Equal hashes count as equal names: callers that cannot accept that compare the names as well. Internal to format/. */
#ifndef PT_FORMAT_NAMEMAP_H
#define PT_FORMAT_NAMEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PT_NAMEMAP_MAX ((size_t)4 << 20)                /* entries */

struct pt_namemap {
	struct pt_namemap_slot *slots;
	size_t cap;                     /* a power of two, or 0 */
	size_t count;
};

void pt_namemap_done(struct pt_namemap *m);             /* frees; leaves an empty map */
/* 0 added; 1 the hash was there, *ret_old (if not NULL) is its value and nothing changed.
 * -ENOMEM; -EFBIG over PT_NAMEMAP_MAX. */
int pt_namemap_put(struct pt_namemap *m, uint64_t hash, uint32_t value, uint32_t *ret_old);
bool pt_namemap_find(const struct pt_namemap *m, uint64_t hash, uint32_t *ret_value);

#endif
