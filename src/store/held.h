/* store/held.h - who has a dir: store open: a lock on its directory, shared by all who use it, and taken alone to put another index in its place.
 *
 * It is flock() on a descriptor of the directory, so it ends however the process does. */
#ifndef PT_STORE_HELD_H
#define PT_STORE_HELD_H

#include <stdbool.h>

/* -EBUSY: alone, and somebody has it open (the sentence says who); or somebody has it alone. Where the filesystem has no locks, *ret_fd is locked all the same to its owner's mind. */
int pt_held_take(const char *dir, bool alone, int *ret_fd);
void pt_held_give(int fd);              /* -1 is fine */

#endif
