/* cache/share.h - the windows that are read ahead, shared by all who read the same file: one that several want at about the same time is read once.
 *
 * A window is EMPTY, READING (by one of those who hold it) or READY, and lasts as long as somebody holds it. Who comes after the last has let it go reads it anew. Thread-safe. */
#ifndef PT_CACHE_SHARE_H
#define PT_CACHE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "cache/memory.h"

enum pt_share_state { PT_SHARE_EMPTY, PT_SHARE_READING, PT_SHARE_READY };

struct pt_share_window {
	void *buffer;                   /* PT_BUFFER_BYTES; NULL: not in use */
	bool is_shared;                 /* it has a key */
	struct pt_vcache_key key;
	uint64_t off, len;              /* of the file */
	uint32_t refs;
	enum pt_share_state state;
};

struct pt_share {
	struct pt_buffers *buffers;     /* not owned */
	pthread_mutex_t lock;           /* the rest */
	pthread_cond_t cond;            /* a window is no longer READING */
	uint32_t max;
	struct pt_share_window *window;
	uint64_t shared_bytes;          /* of windows that somebody else had read */
};

/* As many windows as there may be buffers. -ENOMEM. */
int pt_share_init(struct pt_share *s, struct pt_buffers *buffers);
void pt_share_done(struct pt_share *s);                                 /* all have been put back */
/* The window of these bytes of the file that key tells, at most PT_BUFFER_BYTES; key NULL: one that is nobody else's. To be put back. NULL: all buffers are in use, or no memory. */
struct pt_share_window *pt_share_get(struct pt_share *s, const struct pt_vcache_key *key, uint64_t off, uint64_t len);
void pt_share_put(struct pt_share *s, struct pt_share_window *w);       /* NULL is fine */
/* Somebody reads it at this moment: who has other work does that first. */
bool pt_share_is_reading(struct pt_share *s, struct pt_share_window *w);
/* True: the caller reads it, and says how that ended; false: it is READY. Waits while another reads it. */
bool pt_share_begin(struct pt_share *s, struct pt_share_window *w);
void pt_share_end(struct pt_share *s, struct pt_share_window *w, bool all_read);
uint64_t pt_share_bytes(struct pt_share *s);

#endif
