/* store/sqlite_file.h - an index as a file: making it whole or not at all, what opening it takes, copies, its size. */
#ifndef PT_STORE_SQLITE_FILE_H
#define PT_STORE_SQLITE_FILE_H

#include "store/meta.h"
#include "store/sqlite_conn.h"

/* Makes the index if it is absent (also when several processes try at once) and says how to open it. An index is never
 * empty, so an empty file is damage, not a new one. -EIO, -EROFS, -EACCES, -ENOSPC. */
int pt_sqlite_file_prepare(const char *path, enum pt_sqlite_mode *ret_mode);
/* A consistent copy of what `from` holds. -EEXIST: `path` is there already. */
int pt_sqlite_file_copy(struct pt_sqlite_conn *from, const char *path);
/* Space kept beside the index, so that deleting works on a full filesystem as rm does. Made as large as the filesystem allows while some room is left
 * for pins: true, all of it is there. */
bool pt_sqlite_file_reserve(const char *path);
/* Gives that space back: true, there was some. */
bool pt_sqlite_file_release(const char *path);
int pt_sqlite_file_space(const char *path, struct pt_meta_space *ret_space);

#endif
