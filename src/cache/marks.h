/* cache/marks.h - which files of the store have been found right, and what they were like then: as long as one is like that, it need not be looked through again.
 *
 * A bounded table without descriptors, for a descriptor that is kept keeps a removed file's space. What is not in it any more is only looked through once more. Thread-safe. */
#ifndef PT_CACHE_MARKS_H
#define PT_CACHE_MARKS_H

#include "cache/cache.h"

struct pt_marks;

/* Of an open file: any change of its bytes changes one of these. */
struct pt_file_state {
	uint64_t dev, ino, size;        /* bytes */
	int64_t mtime_ns, ctime_ns;
};

/* -ENOMEM. */
int pt_marks_create(struct pt_marks **ret_marks);
void pt_marks_free(struct pt_marks *m);                                 /* NULL is fine */
/* What the file is like now, such that a later change shows: the clock that files are stamped with moves in steps of some milliseconds, so this waits for the next one where
 * the file was changed in this one. -EAGAIN: it was changed in a future that does not come soon. */
int pt_file_state_get(int fd, struct pt_file_state *ret_state);
bool pt_file_state_same(const struct pt_file_state *a, const struct pt_file_state *b);
void pt_marks_put(struct pt_marks *m, const struct pt_vcache_key *key, const struct pt_file_state *state);
bool pt_marks_has(struct pt_marks *m, const struct pt_vcache_key *key);
/* It has one, and the file was like this. One that tells something else is dropped. */
bool pt_marks_match(struct pt_marks *m, const struct pt_vcache_key *key, const struct pt_file_state *state);

#endif
