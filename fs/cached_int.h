/* fs/cached_int.h - what the files that serve views share: cached.c and fill.c. */
#ifndef PT_FS_CACHED_INT_H
#define PT_FS_CACHED_INT_H

#include "fs.h"

/* ---- cached.c: readers' inodes of any kind; but for the size they are pinned ---- */
uint64_t pt_fs_reader_size(struct pt_fs_inode *i);                      /* bytes */
int64_t pt_fs_reader_read(struct pt_fs *fs, struct pt_fs_inode *i, void *buf, uint64_t len, uint64_t off);
uint64_t pt_fs_reader_align(const struct pt_fs_inode *i);               /* where the payload's chunks begin, less than PT_BUFFER_BYTES */
/* Where a read from off on, of at most max bytes, had best end: objects have chunks of their own, which are verified as wholes. */
uint64_t pt_fs_reader_cut(struct pt_fs_inode *i, uint64_t off, uint64_t max);
/* Loaders map these, and read most of them; others are as likely read once, from end to end. */
bool pt_fs_reader_maps(const struct pt_fs *fs, const struct pt_fs_inode *i);
/* Tells the store of memory that it is to read into; memory that it was not told of is only slower. ctx: the mount. */
void pt_fs_memory_add(void *ctx, void *addr, uint64_t len);
void pt_fs_memory_remove(void *ctx, void *addr);

/* ---- fill.c ---- */
/* The file that an open of a large view is to be served from, whole or being filled, held; NULL: it is streamed. i is pinned. again: it has been opened before. flags: of open(2). */
struct pt_vcache_file *pt_fs_fill_for(struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key, bool again, int flags);
/* Waits for it to be whole, as long as open_wait allows and it looks as if it will be; it is. */
bool pt_fs_fill_wait(fuse_req_t req, struct pt_fs *fs, struct pt_vcache_file *file, uint64_t size);

#endif
