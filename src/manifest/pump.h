/* manifest/pump.h - windows of blobs that are being written go out in other threads, while their writers fill and hash the next ones.
 *
 * A stream belongs to one writer, which is used by one thread at a time; its windows go out one after the other, in order; to an engine that is away all that were put
 * are under way at once, so that nobody waits for an answer before more is sent. Streams of one repo share a few threads,
 * made when the first window comes, and PT_PUMP_WINDOWS windows under way: what exceeds either goes out in the caller's thread, so no writer waits for another. */
#ifndef PT_MANIFEST_PUMP_H
#define PT_MANIFEST_PUMP_H

#include "base/error.h"
#include "manifest/internal.h"

#define PT_PUMP_DEPTH 3                 /* windows of one stream under way */

struct pt_pump_job {
	void *window;                   /* goes back to the pool; NULL: data is the caller's */
	const void *data;
	uint64_t len, off;
	/* At an engine that is away. */
	bool begun, ended;
	struct pt_wait wait;
	void (*tell)(struct pt_done *done, int rc);     /* the wait's own end */
	struct pt_pump *pump;
};

struct pt_pump_stream {
	struct pt_repo *repo;
	void *blob;                     /* the data engine's handle */
	struct pt_pump_stream *next;    /* in the queue; this and the rest: the pump's lock */
	struct pt_pump_job job[PT_PUMP_DEPTH];
	uint32_t first, count, begun;   /* begun: of the first ones */
	bool running;                   /* queued, or a thread has it */
	int rc;                         /* the first failure */
	char sentence[PT_FAIL_SENTENCE_MAX];
};

void pt_pump_init(struct pt_pump *p);
/* No stream is in use. */
void pt_pump_done(struct pt_pump *p);
void pt_pump_stream_init(struct pt_pump_stream *s, struct pt_repo *repo, void *blob);
/* Writes data to the blob, now or later. window: as in the job, taken over also on failure; data without one must last until pt_pump_wait. 0, or the
 * first failure of this or an earlier window (its errno, and sentence). */
int pt_pump_put(struct pt_pump_stream *s, void *window, const void *data, uint64_t len, uint64_t off);
/* Writes it now, in this thread; where there is no room, once more after some has been made (pt_repo_on_full). */
int pt_pump_write(struct pt_repo *repo, void *blob, const void *data, uint64_t len, uint64_t off);
/* All that was put has been written, or the first failure. */
int pt_pump_wait(struct pt_pump_stream *s);

#endif
