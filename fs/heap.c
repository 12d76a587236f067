/* fs/heap.c - memory for what the kernel gets to know, which is many small things that stay.
 *
 * The heap grows by some 128 KiB at a time, and each of its pages would be had by a page fault of its own, at the first touch. Most of what a fault costs is the way into the kernel
 * and back, so they are had together. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23          /* kernel 5.14 */
#endif

#define GROWTH_MAX ((uintptr_t)256 << 10)       /* more than that is one large piece, which may not be used whole */
#define PAGE ((uintptr_t)4096)
#define ROOM_MAX ((size_t)96 << 10)             /* what is larger may not come from the heap */

static atomic_uintptr_t heap_end;       /* as far as its pages are there, or have been given up */
static atomic_bool refused;             /* by a kernel that cannot */

void pt_fs_heap_ready(void)
{
	uintptr_t end = (uintptr_t)sbrk(0), from = atomic_load_explicit(&heap_end, memory_order_relaxed);

	if (end == from || atomic_load_explicit(&refused, memory_order_relaxed) || !atomic_compare_exchange_strong(&heap_end, &from, end))
		return;
	from = (from + PAGE - 1) & ~(PAGE - 1);
	if (end > from && end - from <= GROWTH_MAX && madvise((void *)from, end - from, MADV_POPULATE_WRITE) < 0 && errno == EINVAL)
		atomic_store(&refused, true);   /* other failures are of the moment: a thread that gave the end of the heap back, say */
}

void pt_fs_heap_room(size_t bytes)
{
	free(pt_malloc(bytes < ROOM_MAX ? bytes : ROOM_MAX));
	pt_fs_heap_ready();
}
