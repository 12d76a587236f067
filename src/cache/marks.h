/* cache/marks.h - which files of the store have been found right, and what they were like then: as long as one is like that, it need not be looked through again.
 *
 * A bounded table without descriptors, for a descriptor that is kept keeps a removed file's space. What is not in it any more is only looked through once more. Thread-safe. */
#ifndef PT_CACHE_MARKS_H
#define PT_CACHE_MARKS_H

#include "base/file_state.h"
#include "cache/cache.h"

struct pt_marks;

/* -ENOMEM. */
int pt_marks_create(struct pt_marks **ret_marks);
void pt_marks_free(struct pt_marks *m);                                 /* NULL is fine */
void pt_marks_put(struct pt_marks *m, const struct pt_vcache_key *key, const struct pt_file_state *state);
bool pt_marks_has(struct pt_marks *m, const struct pt_vcache_key *key);
/* It has one, and the file was like this. One that tells something else is dropped. */
bool pt_marks_match(struct pt_marks *m, const struct pt_vcache_key *key, const struct pt_file_state *state);

#endif
