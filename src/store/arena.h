/* store/arena.h - an allocator over one span of addresses, which it never touches: the memory may be registered with a device, or another's.
 *
 * Best fit, the lowest address among equals, with coalescing; sizes are rounded up to PT_ARENA_ALIGN. With pieces of up to a thousandth of the span
 * the largest free piece stays above half of what is free at 80 % full; with larger ones the user evicts neighbours. Not thread-safe. */
#ifndef PT_STORE_ARENA_H
#define PT_STORE_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#define PT_ARENA_ALIGN ((uint64_t)4096)

struct pt_arena;
struct pt_arena_piece;

/* bytes: rounded down to PT_ARENA_ALIGN; at least one. -ENOMEM, -EINVAL. */
int pt_arena_create(uint64_t bytes, struct pt_arena **ret_arena);
void pt_arena_free(struct pt_arena *arena);
/* -ENOSPC: no free piece is as large; -ENOMEM. len > 0. */
int pt_arena_alloc(struct pt_arena *arena, uint64_t len, struct pt_arena_piece **ret_piece);
void pt_arena_release(struct pt_arena *arena, struct pt_arena_piece *piece);
uint64_t pt_arena_off(const struct pt_arena_piece *piece);
uint64_t pt_arena_len(const struct pt_arena_piece *piece);     /* as rounded */
uint64_t pt_arena_bytes_free(const struct pt_arena *arena);
uint64_t pt_arena_bytes_largest(const struct pt_arena *arena);
/* Aborts when an invariant of arena.c does not hold; for tests. */
void pt_arena_check(const struct pt_arena *arena);

#endif
