/* store/sqlite_vfs.h - a VFS for SQLite that keeps a checksum in every page of an index file.
 *
 * SQLite's own checks find a page whose structure is impossible, not one that is wrong: a flipped bit in a child pointer
 * or a cell count makes records vanish. So each page of PT_SQLITE_PAGE bytes ends in PT_SQLITE_RESERVE bytes that SQLite
 * leaves alone (header byte 20 of its file format) and that hold, little-endian, XXH3-64(XXH3-64(the bytes before) as u64le,
 * file offset of the page as u64le). They are filled when a page is written to the index file, checkpoints included, and
 * checked on each read from it. The write-ahead log has checksums of its own and passes untouched. */
#ifndef PT_STORE_SQLITE_VFS_H
#define PT_STORE_SQLITE_VFS_H

#include <sqlite3.h>

#define PT_SQLITE_PAGE 4096
#define PT_SQLITE_RESERVE 8
#define PT_SQLITE_VFS "ptio"

/* Registers the VFS under PT_SQLITE_VFS, once a process; any thread. -ENOMEM, -ENOTSUP (SQLite without threads). */
int pt_sqlite_vfs_register(void);

/* The log's shared memory of an open index, where its header is; NULL when there is none (yet). Valid until this connection is closed. */
const void volatile *pt_sqlite_vfs_shm(sqlite3 *db);

#endif
