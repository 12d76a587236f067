/* store/reserve.h - memory that is there before somebody asks for it: a thread of its own faults it in, in huge pages where there are some.
 *
 * What it costs to get memory from the system the first time (pages to clear, and in a virtual machine to get from its host) is then not paid by uploads, as long as
 * they do not come faster than the thread fetches it. It begins again when half is used. What is not needed any more can be given to it, and is taken again first, as it is.
 * Thread-safe. */
#ifndef PT_STORE_RESERVE_H
#define PT_STORE_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/size.h"

#define PT_RESERVE_UNIT (2 * PT_MIB)    /* what is asked for is a multiple of it; a huge page */

struct pt_reserve;

/* How much memory the reserve may hold at most, just now. Called by its thread, without its lock. */
typedef uint64_t pt_reserve_room_fn(void *ctx);

/* Of up to `bytes`. Nothing is ready when it returns. -ENOMEM, or that of pthread_create. */
int pt_reserve_create(uint64_t bytes, pt_reserve_room_fn *room, void *ctx, struct pt_reserve **ret_reserve);
/* Waits for its thread, which is at most one huge page away. */
void pt_reserve_free(struct pt_reserve *r);
/* len bytes at a multiple of PT_RESERVE_UNIT, the caller's to munmap, as a whole or in parts. They are zeros, or, with ret_used, what some taker left there.
 * NULL: so much is not ready in one piece. */
void *pt_reserve_take(struct pt_reserve *r, uint64_t len, bool *ret_used);
/* A map of private memory, which is the reserve's from now on: kept as far as there is room, else unmapped. Whoever takes it next sees what is in it. */
void pt_reserve_give(struct pt_reserve *r, void *memory, uint64_t len);
/* The room may have become less. */
void pt_reserve_look(struct pt_reserve *r);
/* Bytes that can be taken, and those held, whether they are ready or not. */
uint64_t pt_reserve_ready(struct pt_reserve *r, uint64_t *ret_held);

#endif
