/* store/sqlite_file.h - an index as a file: where it is, making it whole or not at all, what opening it takes, copies, its size. */
#ifndef PT_STORE_SQLITE_FILE_H
#define PT_STORE_SQLITE_FILE_H

#include "store/meta.h"
#include "store/sqlite_conn.h"

/* By the descriptor of the folder that it is in, which is opened once: the path to it may lead somewhere else a moment later (store/folder.h). */
struct pt_sqlite_file {
	int dirfd;                      /* its own */
	char *path;                     /* for sentences */
	const char *name;               /* in the folder: the end of path */
	char *at;                       /* for SQLite, which knows paths only: through /proc/self/fd, or, where there is none, path */
};

/* dirfd: of the folder that path is in, the caller's; -1: it is opened by the path. What open fails with. */
int pt_sqlite_file_init(struct pt_sqlite_file *f, int dirfd, const char *path);
void pt_sqlite_file_done(struct pt_sqlite_file *f);             /* also of zeros with dirfd -1 */
/* Makes the index if it is absent (also when several processes try at once) and says how to open it. An index is never
 * empty, so an empty file is damage, not a new one. -EIO, -EROFS, -EACCES, -ENOSPC; -ELOOP: it, or what SQLite keeps beside it, is a symbolic link. */
int pt_sqlite_file_prepare(const struct pt_sqlite_file *f, enum pt_sqlite_mode *ret_mode);
/* A consistent copy of what `from` holds. -EEXIST: it is there already. */
int pt_sqlite_file_copy(struct pt_sqlite_conn *from, const struct pt_sqlite_file *to);
/* Space kept beside the index, so that deleting works on a full filesystem as rm does. Made as large as the filesystem allows while some room is left
 * for pins: true, all of it is there. */
bool pt_sqlite_file_reserve(const struct pt_sqlite_file *f);
/* Gives that space back: true, there was some. */
bool pt_sqlite_file_release(const struct pt_sqlite_file *f);
/* Which file it is. */
struct pt_sqlite_file_id {
	uint64_t dev, ino;
	bool log;                       /* it has a log */
};
/* As stat fails. */
int pt_sqlite_file_identify(const struct pt_sqlite_file *f, bool log, struct pt_sqlite_file_id *ret_id);
/* That of an index that is open, and its log, still have their names in the folder: else what is committed is lost when they are closed, and another connection would be one to another index. -EIO. */
int pt_sqlite_file_same(const struct pt_sqlite_file *f, const struct pt_sqlite_file_id *id);
int pt_sqlite_file_space(const struct pt_sqlite_file *f, struct pt_meta_space *ret_space);

#endif
