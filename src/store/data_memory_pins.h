/* store/data_memory_pins.h - which blobs of a memory engine are pinned, and how often. Thread-safe. */
#ifndef PT_STORE_DATA_MEMORY_PINS_H
#define PT_STORE_DATA_MEMORY_PINS_H

#include "store/data.h"

struct pt_pin_counts;

int pt_pin_counts_create(struct pt_pin_counts **ret_pins);      /* -ENOMEM */
void pt_pin_counts_free(struct pt_pin_counts *p);               /* pins that nobody took back go with it; NULL is a no-op */
/* One pin more of each; a blob need not be there. -ENOMEM: of none. */
int pt_pin_counts_pin(struct pt_pin_counts *p, const struct pt_blob_ref *refs, size_t count);
/* One pin less of each that has one. */
void pt_pin_counts_unpin(struct pt_pin_counts *p, const struct pt_blob_ref *refs, size_t count);
/* Sets ret_pinned[i] for refs[i]. */
void pt_pin_counts_pinned(struct pt_pin_counts *p, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned);

#endif
