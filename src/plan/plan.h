/* plan/plan.h - which bytes of which sources make up any window of a target box.
 *
 * A target is a box of a logical tensor, its payload row-major over the box. Each source is a box of the same tensor with a
 * row-major payload of its own. A plan is immutable once made and may be shared by threads; cursors are private to one.
 * Ranges come in rising target offset, without gaps, neighbours that are contiguous in both target and source merged.
 * Making a plan costs O(sources x dims) memory and little more time; seeking costs O(log sources) where balanced planes
 * separate the sources (every regular split), a search of the neighbourhood where they do not; nothing is ever
 * materialised for the whole target. Pure: no I/O. */
#ifndef PT_PLAN_PLAN_H
#define PT_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "layout/box.h"

struct pt_plan;

struct pt_range {
	uint32_t source;                /* index into the sources given to pt_plan_create */
	uint64_t src_off;               /* bytes into that source's payload */
	uint64_t dst_off;               /* bytes into the target's payload */
	uint64_t len;                   /* bytes, > 0 */
};

struct pt_plan_cursor {
	const struct pt_plan *plan;
	uint64_t pos;                   /* target bytes */
	uint64_t end;
	uint64_t opaque[4];
};

/* target and sources are boxes in units of `unit` bytes (pt_box_pack gives both). Sources may overlap the target partly or
 * not at all; those that do must cover it exactly once.
 * -ENODATA: part of the target is in no source; -EINVAL: sources overlap inside the target, or ndim differs;
 * -EOVERFLOW: more bytes than PT_TENSOR_BYTES_MAX; -ENOMEM. */
int pt_plan_create(const struct pt_box *target, uint64_t unit, const struct pt_box *sources, size_t source_count,
		   struct pt_plan **ret_plan);
void pt_plan_free(struct pt_plan *plan);
uint64_t pt_plan_bytes(const struct pt_plan *plan);                     /* the target's payload bytes */
/* Which sources the target needs at all: true when source i overlaps it. */
int pt_plan_uses(const struct pt_plan *plan, size_t source);

/* Window [off, off+len) of the target, clipped to its size. */
void pt_plan_seek(const struct pt_plan *plan, uint64_t off, uint64_t len, struct pt_plan_cursor *ret_cursor);
/* Up to max next ranges (the last one cut at the window's end); 0 when the window is done. */
size_t pt_plan_next(struct pt_plan_cursor *cursor, struct pt_range *ret_ranges, size_t max);

#endif
