/* store/extent.c - extents on the heap while they are small, then in maps: made larger by the system, or moved into others. */
#include "store/extent.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "store/reserve.h"

#define HUGE_MIN PT_RESERVE_UNIT

/* What the extents leave. By the memory that they take, so that what comes back to the reserve fits where it was taken from. */
static uint64_t room_left(void *ctx)
{
	struct pt_extents *e = ctx;
	uint64_t rooms = atomic_load(&e->rooms);

	return e->capacity > rooms ? e->capacity - rooms : 0;
}

int pt_extents_init(struct pt_extents *e, uint64_t capacity, uint64_t reserve)
{
	*e = (struct pt_extents){ .capacity = capacity, .reserve_bytes = pt_size_min(reserve, capacity) };
	if (e->reserve_bytes < PT_RESERVE_UNIT)
		return 0;
	return pt_reserve_create(e->reserve_bytes, room_left, e, &e->reserve);
}

void pt_extents_done(struct pt_extents *e)
{
	pt_reserve_free(e->reserve);
	e->reserve = NULL;
}

void pt_extents_look(struct pt_extents *e)
{
	if (e->reserve && room_left(e) / 2 < e->reserve_bytes)
		pt_reserve_look(e->reserve);
}

static void data_free(struct pt_extents *e, uint8_t *data, uint64_t room)
{
	if (e->reserve && room >= HUGE_MIN)
		pt_reserve_give(e->reserve, data, room);
	else if (room >= PT_EXTENT_MAP_MIN)
		munmap(data, room);
	else
		free(data);
}

/* A new map, of zeros unless ret_used says that another had it. NULL: there is no memory. */
static uint8_t *data_map(struct pt_extents *e, uint64_t room, bool *ret_used)
{
	uint8_t *data = e->reserve && room >= HUGE_MIN ? pt_reserve_take(e->reserve, room, ret_used) : NULL;

	if (data)
		return data;
	data = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return data == MAP_FAILED ? NULL : data;
}

/* The extent has other memory from now on, or more. */
static void data_set(struct pt_extents *e, struct pt_extent *x, uint8_t *data, uint64_t room)
{
	atomic_fetch_add(&e->rooms, room - x->room);
	x->data = data;
	x->room = room;
}

/* Into another map. The system itself makes only one map larger, and memory out of the reserve may be several, side by side. */
static int data_move(struct pt_extents *e, struct pt_extent *x, uint64_t kept, uint64_t room)
{
	struct pt_extent old = *x;
	uint8_t *data;
	bool used = false;

	data = data_map(e, room, &used);
	if (!data)
		return pt_fail_nomem();
	if (kept)
		memcpy(data, old.data, kept);
	if (room >= HUGE_MIN)
		madvise(data, room, MADV_HUGEPAGE);     /* a wish */
	x->used = used;
	data_set(e, x, data, room);
	data_free(e, old.data, old.room);
	return 0;
}

int pt_extent_grow(struct pt_extents *e, struct pt_extent *x, uint64_t kept, uint64_t need)
{
	uint64_t room = pt_size_max(need, x->room < INT64_MAX / 2 ? x->room + x->room / 2 : need);
	uint8_t *data;

	if (need <= x->room)
		return 0;
	if (room < PT_EXTENT_MAP_MIN) {
		data = pt_realloc(x->data, room);
		if (!data)
			return pt_fail_nomem();
		memset(data + x->room, 0, room - x->room);
		data_set(e, x, data, room);
		return 0;
	}
	if (!pt_size_align(room, room >= HUGE_MIN ? HUGE_MIN : 4096, &room))
		return pt_fail_nomem();
	data = x->room >= PT_EXTENT_MAP_MIN ? mremap(x->data, x->room, room, MREMAP_MAYMOVE) : MAP_FAILED;
	if (data == MAP_FAILED)
		return data_move(e, x, kept, room);
	if (room >= HUGE_MIN)
		madvise(data, room, MADV_HUGEPAGE);     /* a wish */
	data_set(e, x, data, room);
	return 0;
}

void pt_extent_free(struct pt_extents *e, struct pt_extent *x)
{
	atomic_fetch_sub(&e->rooms, x->room);
	data_free(e, x->data, x->room);
	pt_extents_look(e);
	*x = (struct pt_extent){ 0 };
}
