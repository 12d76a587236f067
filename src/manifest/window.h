/* manifest/window.h - pooled buffers of PT_WINDOW_BYTES, registered with the data engine. Thread-safe. */
#ifndef PT_MANIFEST_WINDOW_H
#define PT_MANIFEST_WINDOW_H

#include "manifest/internal.h"

/* data outlives the pool. */
void pt_window_pool_init(struct pt_window_pool *pool, struct pt_data *data);
void pt_window_pool_done(struct pt_window_pool *pool);
/* NULL without memory. Contents are arbitrary. */
void *pt_window_get(struct pt_window_pool *pool);
void pt_window_put(struct pt_window_pool *pool, void *window);          /* NULL is fine */

#endif
