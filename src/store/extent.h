/* store/extent.h - the memory that the blobs of a memory engine lie in: each in an extent that grows, and what all of them take.
 *
 * Large extents are maps of their own, on huge pages where the system gives them, and out of a reserve that has its pages already, as far as that goes (reserve.h), and go back there.
 * What the reserve holds fits into the capacity beside the extents. Different extents may be used by different threads at once; calls for one extent are the caller's to order. */
#ifndef PT_STORE_EXTENT_H
#define PT_STORE_EXTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/size.h"

#define PT_EXTENT_MAP_MIN (PT_MIB / 4)          /* bytes: from here on an extent is a map */

struct pt_reserve;

struct pt_extent {
	uint8_t *data;
	uint64_t room;                  /* of data, bytes */
	bool used;                      /* data was another's before, so what nobody has written since is not zero */
};

struct pt_extents {
	uint64_t capacity;
	struct pt_reserve *reserve;     /* NULL: there is none */
	uint64_t reserve_bytes;
	_Atomic uint64_t rooms;         /* of all extents */
};

/* A reserve of up to `reserve` bytes for extents of up to `capacity` bytes in all, which is not enforced here. *e stays where it is until pt_extents_done.
 * -ENOMEM, or that of pthread_create; then there is nothing to undo. */
int pt_extents_init(struct pt_extents *e, uint64_t capacity, uint64_t reserve);
/* Ends the reserve. Extents may be freed afterwards, too. */
void pt_extents_done(struct pt_extents *e);
/* To be called where extents take more or less: close to the capacity the reserve then holds what is left beside them. */
void pt_extents_look(struct pt_extents *e);

/* Grows *x, all zero at first, to hold `need` bytes. The first `kept` bytes stay; new ones are zero, unless x->used says otherwise. -ENOMEM: *x is as it was. */
int pt_extent_grow(struct pt_extents *e, struct pt_extent *x, uint64_t kept, uint64_t need);
void pt_extent_free(struct pt_extents *e, struct pt_extent *x);

#endif
