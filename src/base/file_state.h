/* base/file_state.h - what an open file is like: two looks that tell the same had the same bytes before them. */
#ifndef PT_BASE_FILE_STATE_H
#define PT_BASE_FILE_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Any change of the file's bytes after it was taken changes one of these. */
struct pt_file_state {
	uint64_t dev, ino, size;        /* bytes */
	int64_t mtime_ns, ctime_ns;
};

/* What the file is like now, such that a later change shows: the clock that files are stamped with moves in steps of some milliseconds, so this waits for the next one where
 * the file was written to in this one. -EAGAIN: it was in a future that does not come soon, or in a step of a filesystem that is longer. */
int pt_file_state_get(int fd, struct pt_file_state *ret_state);
bool pt_file_state_same(const struct pt_file_state *a, const struct pt_file_state *b);
/* XXH3-64 of the fields, little-endian, in their order; not 0. */
uint64_t pt_file_state_stamp(const struct pt_file_state *state);
/* Of a file that only this process writes to, after its last write: sets its time of modification back by so little that each later change of its bytes shows at once, and
 * pt_file_state_get need not wait. ret_mtime_ns: it still tells that as long as nobody has changed it. -errno. */
int pt_file_state_settle(int fd, int64_t *ret_mtime_ns);

#endif
