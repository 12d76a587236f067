/* cache/cache.h - materialised views: whole files in memory, filled once from their source, shared by all who read them.
 *
 * A file is filled piece by piece by a few threads, and by readers that come first; whoever opens it may wait for all of it. When whole, its descriptor can be handed to the kernel; its size
 * is exactly that of the view. Files nobody holds are evicted by closing them, the least recently used first, or as soon as there is a later revision: their bytes are never changed, cut
 * or used again, for a map may outlive all that this process knows of it, and pages that were spliced into a pipe or a socket (sendfile) all that the kernel tells of it. A file that the kernel is to read where it lies is not read into memory but looked through, in the
 * same way; it is in the table as long as somebody holds it. Thread-safe. */
#ifndef PT_CACHE_CACHE_H
#define PT_CACHE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/memory.h"
#include "cache/work.h"

struct pt_vcache;
struct pt_vcache_file;

#define PT_VCACHE_PIECE ((uint64_t)4 << 20)
#define PT_VCACHE_FILE_MIN ((uint64_t)4 << 20)   /* smaller views are not worth a descriptor and a huge page */

struct pt_vcache_key {
	uint64_t word[4];               /* what the bytes are a function of */
};

/* Where a file's bytes come from; calls from several threads. */
struct pt_vcache_source {
	int64_t (*read)(void *ctx, void *buf, uint64_t len, uint64_t off);      /* bytes read: all of len, or -errno */
	int (*check)(void *ctx, uint64_t len, uint64_t off);    /* in place of read: looks through bytes that stay where they are, also concurrently. 0 or -errno */
	int (*finish)(void *ctx);       /* once, when all has been read, before the file counts as whole: -errno if it is not good after all; NULL: it is */
	uint64_t (*cut)(void *ctx, uint64_t off, uint64_t max);         /* where a read from off on, of at most max bytes, had best end; NULL: anywhere */
	void (*release)(void *ctx);     /* once, when nothing will be read any more, in any thread; no lock of the cache is held */
	void *ctx;
	uint64_t subject;               /* what its bytes are the present state of: a later file of the same subject takes its place; 0: of nothing */
};

struct pt_vcache_stats {
	uint64_t limit, used;           /* bytes; used: of live files, rounded to huge pages */
	uint64_t files, filling;
	uint64_t hits, misses, fills, fills_failed, given_up, evictions, refused, dear; /* counts since the start. refused: no room */
	uint64_t rests;                 /* how often an idle filling left the machine to who loads a file */
	uint64_t reserve;               /* bytes of files that are, or will be, ready to be filled; used leaves them out */
	uint64_t reserve_ready;         /* of these: that are */
	uint64_t reserve_filled_bytes;  /* of filled_bytes: into memory that was ready */
	uint64_t superseded;            /* dropped since there was a later one of the same subject */
	uint64_t filled_bytes;
	uint64_t checks, checks_failed, checked_bytes;  /* of files that are not in memory, which all other members leave out */
};

/* limit 0: nothing is ever cached. Workers are the caller's, and stopped before pt_vcache_free. -ENOMEM. */
int pt_vcache_create(uint64_t limit, struct pt_workers *workers, struct pt_vcache **ret_cache);
void pt_vcache_free(struct pt_vcache *c);                                 /* all files have been put back; NULL is fine */
/* Fillings with PT_VCACHE_IDLE are for these threads; before the first one, and stopped like the others. Without them they are for all. */
void pt_vcache_idle(struct pt_vcache *c, struct pt_workers *workers);
/* From now on these threads make so many bytes of memory ready for files of whatever size, again when a file has taken some and has been read, and give back what nobody has used for ten minutes. Half of it is one
 * file's, a quarter another one's, and so on. Counts as stats.reserve; what is beyond half of the limit is left out, and what would leave less than a quarter of the machine's memory, and fillings with PT_VCACHE_IDLE take none of it. 0: no more, and what is ready goes. After pt_vcache_idle. */
void pt_vcache_ready(struct pt_vcache *c, uint64_t bytes);
const char *pt_vcache_memory(const struct pt_vcache *c);
uint64_t pt_vcache_limit(const struct pt_vcache *c);                     /* bytes */
bool pt_vcache_enabled(const struct pt_vcache *c);

/* A whole file of this key, held; NULL: none. Counts as a hit only with `use`. */
struct pt_vcache_file *pt_vcache_find(struct pt_vcache *c, const struct pt_vcache_key *key, bool use);
/* An open is served from the file, or, NULL, from none, for it was evicted just before: counted so. */
void pt_vcache_use(struct pt_vcache *c, struct pt_vcache_file *f);
enum pt_vcache_want {
	PT_VCACHE_TRY,                  /* only as long as somebody holds it, and at nobody's cost: what makes room was read but once, or not used for a minute */
	PT_VCACHE_KEEP,                 /* to the end; what makes room is anything that nobody holds */
	PT_VCACHE_IDLE                  /* to the end, by threads that nobody waits for; at nobody's cost */
};

/* The file of this key, held, whole or being filled; if there is none, one is made and its filling begins. 0: *source was taken (its release comes later, perhaps before this
 * returns); 1: it was there, *source was not taken. -ENOSPC: there is no room now. -EOPNOTSUPP: there is no cache.
 * align: where in the file the payload's chunks begin, less than a piece: pieces are cut there. */
int pt_vcache_fill(struct pt_vcache *c, const struct pt_vcache_key *key, uint64_t size, uint64_t align, enum pt_vcache_want want,
		   const struct pt_vcache_source *source, struct pt_vcache_file **ret_file);
/* Somebody opens a file and will be busy with it for some ns: fillings with PT_VCACHE_IDLE, but those that are older than 5 s, begin no piece before that is over. */
void pt_vcache_hush(struct pt_vcache *c, int64_t ns);
/* So many bytes can be filled, or looked through, within ns, by what was seen lately; where nothing was, by what a machine can do at best. */
enum pt_vcache_work { PT_VCACHE_FILL, PT_VCACHE_CHECK };
bool pt_vcache_soon(struct pt_vcache *c, enum pt_vcache_work work, uint64_t bytes, int64_t ns);
enum pt_vcache_work pt_vcache_file_work(const struct pt_vcache_file *f);
/* Waits until it is whole, but at most ns. 1: it is; 0: not yet; -EAGAIN: filling has failed. */
int pt_vcache_file_wait(struct pt_vcache *c, struct pt_vcache_file *f, int64_t ns);
/* The same, but -ENOBUFS as soon as it had better not be waited for: pt_vcache_file_dear. */
int pt_vcache_file_wait_cheap(struct pt_vcache *c, struct pt_vcache_file *f, int64_t ns);
/* Whoever waited saw only so much of it come in ns, and waits no longer. */
void pt_vcache_file_slow(struct pt_vcache *c, enum pt_vcache_work work, uint64_t bytes, int64_t ns);
/* It was not whole in time since memory comes more slowly than the source is read (a virtual machine that has given memory back to its host), and only the caller holds it, for a
 * first open: it had better be put, which gives up the filling, and the source be read. Counted. */
bool pt_vcache_file_dear(struct pt_vcache *c, struct pt_vcache_file *f);
void pt_vcache_put(struct pt_vcache *c, struct pt_vcache_file *f);         /* NULL is fine */
/* Bytes that are there of this key; 0: none. */
uint64_t pt_vcache_progress(struct pt_vcache *c, const struct pt_vcache_key *key);
bool pt_vcache_file_whole(const struct pt_vcache_file *f);
int pt_vcache_file_fd(const struct pt_vcache_file *f);                    /* of a whole file in memory; the cache's */
uint64_t pt_vcache_file_filled(struct pt_vcache *c, const struct pt_vcache_file *f);   /* bytes */
/* Bytes [off, off+len) in place, valid while the file is held; pieces that are missing are filled first. 0; -EINVAL beyond the end; -EAGAIN: filling has failed, or it is not in memory: read the source. */
int pt_vcache_file_get(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t off, uint64_t len, const void **ret_data);
void pt_vcache_stats(struct pt_vcache *c, struct pt_vcache_stats *ret_stats);

#endif
