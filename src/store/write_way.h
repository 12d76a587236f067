/* store/write_way.h - which way bytes go to a disk: through the kernel's cache, or around it. Pure; each object has a lock, so it is thread-safe.
 *
 * Through it is the rule: who reads what was just written finds it in memory. But where the machine is a virtual one that gives memory back to its host, pages that
 * have not been used for a while cost several times what copying into them costs; and where memory is full, others have to be given up first. Both show as processor
 * time of the call. Bytes then go around the cache for a while, unless the disk takes longer for them than the pages did. */
#ifndef PT_STORE_WRITE_WAY_H
#define PT_STORE_WRITE_WAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/size.h"

#define PT_WRITE_WAY_MIN ((uint64_t)256 << 10)          /* shorter writes go through, and tell nothing */
/* ns for a MiB through the cache that are too many: twice what it took at best, within these bounds (2 and 1 GB/s). */
#define PT_WRITE_WAY_DEAR_MIN ((uint64_t)1 << 19)
#define PT_WRITE_WAY_DEAR_MAX ((uint64_t)1 << 20)
#define PT_WRITE_WAY_AROUND (64 * PT_MIB)               /* bytes that go around before the cache is tried again */
#define PT_WRITE_WAY_JUDGED (8 * PT_MIB)                /* bytes that went around by which the disk is judged */
#define PT_WRITE_WAY_THROUGH (64 * PT_MIB)              /* bytes through the cache after which what is known of the disk is old */

struct pt_write_way {
	pthread_mutex_t lock;           /* all below */
	uint64_t around;                /* bytes that are still to go around */
	uint64_t best_ns;               /* of a MiB through the cache, at best so far; 0: none went */
	uint64_t page_ns;               /* of the MiB through the cache for which it was left */
	uint64_t disk_ns;               /* of a MiB around it when that was found slower; 0: not known */
	uint64_t through;               /* bytes until that is old */
	uint64_t bytes, ns;             /* that went around and were not judged yet */
};

void pt_write_way_init(struct pt_write_way *w);
void pt_write_way_done(struct pt_write_way *w);
/* The next len bytes should go around the cache. */
bool pt_write_way_around(struct pt_write_way *w, uint64_t len);
/* What came of it. ns: of the processor in this thread for bytes through the cache, of the clock for bytes around it. */
void pt_write_way_went_through(struct pt_write_way *w, uint64_t len, uint64_t ns);
void pt_write_way_went_around(struct pt_write_way *w, uint64_t len, uint64_t ns);

#endif
