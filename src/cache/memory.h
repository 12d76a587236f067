/* cache/memory.h - where materialised views and reply buffers live: files in memory, with huge pages where the kernel gives them.
 *
 * A private tmpfs (a mount that is attached nowhere) of the cache's size, with huge=always; without the right to mount, memfds; in both a file's memory
 * comes back when its last descriptor and map are gone. */
#ifndef PT_CACHE_MEMORY_H
#define PT_CACHE_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"

enum pt_memory_kind { PT_MEMORY_NONE, PT_MEMORY_MEMFD, PT_MEMORY_TMPFS };

struct pt_memory {
	enum pt_memory_kind kind;
	bool huge;
	int mount;                      /* TMPFS: the mount's descriptor; else -1 */
	struct pt_budget budget;
};

#define PT_MEMORY_HUGE ((uint64_t)2 << 20)

/* limit: bytes of all files. Never fails: kind says what there is. */
void pt_memory_open(struct pt_memory *m, uint64_t limit);
void pt_memory_close(struct pt_memory *m);
/* An empty file of `bytes` bytes: a descriptor, already unlinked. -ENOSPC, -EMFILE, -EOPNOTSUPP (kind NONE). */
int pt_memory_file(struct pt_memory *m, uint64_t bytes);
/* Takes memory for bytes [off, off + len) of such a file, all of which is mapped at `map`, and maps it for good: what is written there is neither a page fault nor, where there is
 * no memory, a signal or the end of the process. Several threads may do so at once, also where the parts share a page. `fresh` of the bytes have no memory yet: a control group that
 * has no room is in the way of those only. -ENOSPC, -ENOMEM. */
int pt_memory_take(const struct pt_memory *m, int fd, void *map, uint64_t off, uint64_t len, uint64_t fresh);
/* `len` bytes more are too many for our control group. Cheap where there is no limit. */
bool pt_memory_short(const struct pt_memory *m, uint64_t len);
/* Such a file, and a map of all of it, both the caller's. As pt_memory_file; -ENOMEM. */
int pt_memory_map(struct pt_memory *m, uint64_t bytes, int *ret_fd, uint8_t **ret_map);
/* Another size for a file that is mapped as one of `from` bytes: what memory it has stays its own, as far as it is within the new size. -ENOSPC, -ENOMEM: the map is as it was, and its file to be closed. */
int pt_memory_resize(int fd, uint8_t **map, uint64_t from, uint64_t to);
/* Bytes that new files could take: of the tmpfs, of the machine without swapping, and of what this process may have; UINT64_MAX where only the caller's own account bounds it. */
uint64_t pt_memory_free(const struct pt_memory *m);
const char *pt_memory_name(const struct pt_memory *m);                  /* "tmpfs with huge pages", ... */

/* ---- reply buffers, page-aligned, from huge pages, kept for use again, the one that was put back last first: it is in the processor's cache. Each has PT_BUFFER_BYTES, wherever
 * in its first PT_BUFFER_PAD bytes they begin, so that a file's bytes can lie in pages as they do in the file: a reply is then copied page by page and not in two pieces a page ---- */
#define PT_BUFFER_BYTES ((uint64_t)1 << 20)
#define PT_BUFFER_PAD ((uint64_t)4096)
#define PT_BUFFER_SLAB (3 * PT_MEMORY_HUGE)
#define PT_BUFFERS_A_SLAB ((uint32_t)(PT_BUFFER_SLAB / (PT_BUFFER_BYTES + PT_BUFFER_PAD)))

/* What is told of their memory, as it comes and before it goes: a store may read into it faster then. */
struct pt_buffers_watch {
	void (*add)(void *ctx, void *addr, uint64_t len);
	void (*remove)(void *ctx, void *addr);
	void *ctx;
};

struct pt_buffers {
	struct pt_buffers_watch watch;  /* set before the first get; add NULL: nobody */
	pthread_mutex_t lock;           /* the rest */
	uint32_t made, max, free_count, slab_count;
	void **free;
	void **slab;
};

/* max: rounded down to whole slabs, and at least one. -ENOMEM. */
int pt_buffers_init(struct pt_buffers *b, uint32_t max);
void pt_buffers_done(struct pt_buffers *b);                             /* all have been put back */
void *pt_buffers_get(struct pt_buffers *b);                             /* NULL: all in use, or no memory */
void pt_buffers_put(struct pt_buffers *b, void *buffer);

#endif
