/* store/pins.h - pins of a file store: which blobs the processes that live are reading.
 *
 * Each store handle has one file pins/<token> (token.h), made at its first pin. It holds slots of PT_PINS_SLOT bytes: the
 * blob's id, its kind as u8, zeros; a free slot is all zeros. A pin is visible once its slot is written, counted in the
 * process, and gone when the file's owner is. Thread-safe. */
#ifndef PT_STORE_PINS_H
#define PT_STORE_PINS_H

#include "store/data.h"

#define PT_PINS_SLOT 32

struct pt_pins;

/* dirfd: of pins/; stays the caller's and open; -1: nobody can delete here (a read-only filesystem), pins do nothing. -ENOMEM. */
int pt_pins_create(int dirfd, struct pt_pins **ret_pins);
void pt_pins_free(struct pt_pins *p);
/* All or none. -ENOSPC, -EDQUOT, -EIO, -ENOMEM. */
int pt_pins_add(struct pt_pins *p, const struct pt_blob_ref *refs, size_t count);
void pt_pins_drop(struct pt_pins *p, const struct pt_blob_ref *refs, size_t count);
/* Looks at the pins of every process that lives; removes files of dead ones. */
int pt_pins_query(struct pt_pins *p, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned);

#endif
