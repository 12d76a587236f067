/* cache/cache_int.h - what the files of the cache share: the table (cache.c), the filling of its files (fill.c), the waiting for them (wait.c), and memory for the next (reserve.c).
 *
 * Invariants, under the lock: 1. used is the sum of `room` of all files in the table, stats.reserve that of those in the reserve, both together at most limit; 2. a file is in the table until it is evicted or
 * the last user of its source has left it failed or given up; 3. one whose source has users is held by them together; 4. a piece is filled once: EMPTY, BUSY, DONE;
 * 5. a file that is only looked through has no memory, no room, and is in the table only while it is held. */
#ifndef PT_CACHE_CACHE_INT_H
#define PT_CACHE_CACHE_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/cache.h"

#define PT_VCACHE_BUCKETS 256
#define PT_VCACHE_FILLERS 4             /* threads at most that fill one file */

enum pt_vcache_piece { PT_PIECE_EMPTY, PT_PIECE_BUSY, PT_PIECE_DONE };

struct pt_vcache_filler {
	struct pt_work work;            /* first: filling one more piece */
	struct pt_vcache_file *file;
	bool busy;                      /* queued or running: a user */
};

struct pt_vcache_file {
	struct pt_vcache_filler filler[PT_VCACHE_FILLERS];
	struct pt_vcache *cache;
	struct pt_vcache_file *hash_next;
	struct pt_vcache_file *lru_prev, *lru_next;      /* files in the table; first: used last */
	struct pt_vcache_key key;
	struct pt_vcache_source source;
	struct pt_workers *workers;     /* who fills it */
	enum pt_vcache_work work;       /* CHECK: map and fd are none; never changes */
	uint64_t size, align, room;
	uint8_t *map;
	int fd;
	uint32_t holds;
	uint32_t users;                 /* of source: fillers queued or running, readers that fill */
	uint32_t waiting;               /* readers that wait for a piece */
	uint32_t uses;                  /* opens that found it whole */
	int64_t used_ns;                /* when it was last opened or closed */
	int64_t begun_ns;               /* when its filling began */
	bool listed;                    /* in the table */
	bool kept;                      /* its filling goes on when nobody else holds it */
	uint64_t had;                   /* bytes, from its beginning, that it had memory for before it was begun; never changes */
	uint64_t unfilled;              /* of the cache's bytes of that name, this file's */
	bool replaces;                  /* an earlier one of its subject; never changes */
	bool superseded;                /* a later file of its subject has been begun: nobody will open this one any more */
	bool failed;
	bool given_up;                  /* nobody wanted the rest: fillers leave, unless somebody comes before the last one has left */
	atomic_bool whole;
	uint64_t filled;                /* bytes */
	bool any;                       /* in the reserve: for a file of whatever size */
	int64_t memory_ns, read_ns;     /* what its pieces took: to have memory for them, and to be read */
	uint64_t piece_count, next;     /* next: where the next filler looks first */
	uint32_t *back;                 /* bytes by which each piece begins before its place; NULL: none does */
	uint8_t piece[];
};

struct pt_vcache_chore {
	struct pt_work work;            /* first */
	struct pt_vcache *cache;
	bool busy;                      /* queued or running */
};

struct pt_vcache {
	pthread_mutex_t lock;           /* everything below and in files, but for map, fd, size, which never change */
	pthread_cond_t cond;            /* a piece that somebody waits for is done, a file is whole, or a filling has failed; of the monotonic clock */
	struct pt_workers *workers, *idle;
	struct pt_memory memory;
	struct pt_vcache_file *bucket[PT_VCACHE_BUCKETS];
	struct pt_vcache_file *lru_first, *lru_last;
	struct pt_vcache_file *reserve; /* chained through hash_next */
	struct pt_vcache_chore reserver; /* makes one more page ready */
	struct pt_vcache_chore expirer; /* gives back what nobody has used */
	uint64_t any_bytes;             /* are to be in the reserve for files of any size */
	int64_t keep_ns;                /* what was not used for so long leaves the reserve */
	struct pt_vcache_stats stats;
	uint64_t unfilled;              /* bytes that filling files have still to take from the memory */
	uint64_t rate[2];               /* bytes a second of late work of each kind; 0: none was seen */
	int64_t quiet_ns;               /* until then idle fillings rest */
	int64_t rest_ns;                /* but none longer than that since it was begun */
	int64_t idle_ns;                /* what was not used for so long makes room for a first open */
};

/* ---- cache.c ---- */
struct pt_vcache_file *pt_vcache_find_locked(struct pt_vcache *c, const struct pt_vcache_key *key);
void pt_vcache_list_locked(struct pt_vcache *c, struct pt_vcache_file *f);
void pt_vcache_unlist_locked(struct pt_vcache *c, struct pt_vcache_file *f);
/* Makes room for `room` more bytes, of which the file itself has `ready` in memory already; what is evicted is chained through hash_next, to be freed after unlocking. */
bool pt_vcache_room_locked(struct pt_vcache *c, uint64_t room, uint64_t ready, enum pt_vcache_want want, struct pt_vcache_file **evicted);
/* A file of this subject is about to be begun: others of it are dropped, now or when nobody holds them any more; chained as above. 0: of none. There were others. */
bool pt_vcache_supersede_locked(struct pt_vcache *c, uint64_t subject, struct pt_vcache_file **evicted);
/* Maps of other processes keep the memory until they are gone. */
void pt_vcache_file_free(struct pt_vcache_file *f);
void pt_vcache_files_free(struct pt_vcache_file *f);                    /* those chained through hash_next */

/* ---- reserve.c ---- */
void pt_vcache_reserve_init(struct pt_vcache *c);
void pt_vcache_reserve_done(struct pt_vcache *c);
/* Another one of this size, of a file in the table, is to be made ready. */
void pt_vcache_reserve_locked(struct pt_vcache *c, const struct pt_vcache_file *like);
/* There is something to do, and nobody at it: the caller adds reserver.work to the idle threads after unlocking. */
bool pt_vcache_reserve_wanted_locked(struct pt_vcache *c);
uint64_t pt_vcache_reserve_ready_locked(const struct pt_vcache *c);      /* bytes */
/* Who filled a file has read it: memory for files of any size is made ready again. */
void pt_vcache_reserve_any_locked(struct pt_vcache *c);
/* Memory for a file of this size, out of the reserve, for its fd and map: one that is ready and has this very size, or else, with any, what is for any size and suits best, of which `filled` bytes are ready. NULL: there is none. */
struct pt_vcache_file *pt_vcache_reserve_take_locked(struct pt_vcache *c, uint64_t size, bool any);
/* Less, where otherwise there were not `room` bytes in the account or `need` in the memory, which has `have` free, or where nobody has used it for long; chained as above. Bytes that come back. */
uint64_t pt_vcache_reserve_shrink_locked(struct pt_vcache *c, uint64_t room, uint64_t need, uint64_t have, struct pt_vcache_file **evicted);

/* ---- fill.c ---- */
/* Those that fill it and rest go on at once, by the threads that it now has: somebody waits for it, or there is nothing left to do but to let its source go. */
void pt_vcache_wake_locked(struct pt_vcache *c, struct pt_vcache_file *f);
/* Bytes [off, off+len), of a file that is not whole, are there when it returns 0; -EAGAIN: filling has failed. */
int pt_vcache_fill_range(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t off, uint64_t len);

/* ---- wait.c ---- */
/* Work of this kind took so long for so many bytes. */
void pt_vcache_rate_seen_locked(struct pt_vcache *c, enum pt_vcache_work work, uint64_t bytes, int64_t ns);
/* Memory for it takes longer than its bytes do, and nobody but who opened it first would miss it. */
bool pt_vcache_is_dear_locked(const struct pt_vcache_file *f);

#endif
