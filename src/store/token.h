/* store/token.h - marks that die with the process that set them: entries of a directory, locked by their owner.
 *
 * A token is a file, or a directory, with a random name, on which its owner holds flock() through an open descriptor; the
 * kernel drops the lock however the process ends. Whoever can take the lock has found a dead token, and may remove it.
 * The owner looks after locking whether the name is still there, since it can be swept between its making and its locking. */
#ifndef PT_STORE_TOKEN_H
#define PT_STORE_TOKEN_H

#include <stdbool.h>

#include "base/id.h"

struct pt_token {
	int fd;                                 /* locked; -1: none */
	char name[PT_ID_HEX_LEN + 1];
};

/* Makes one in dirfd, which is that folder's owner's (folder.h). -errno of open, mkdir. */
int pt_token_create(int dirfd, bool directory, struct pt_token *ret_token);
/* Unlocks; removes it by name (a directory has to be empty for that). */
void pt_token_remove(int dirfd, bool directory, struct pt_token *token);
bool pt_token_name_is(const char *name);
/* 1: a dead token, now locked through *ret_fd (close it after removing it); 0: its owner lives or it is gone; -errno. */
int pt_token_claim_dead(int dirfd, const char *name, bool directory, int *ret_fd);
/* Whether its owner lives. */
bool pt_token_is_live(int dirfd, const char *name, bool directory);

#endif
