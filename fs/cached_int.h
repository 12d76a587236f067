/* fs/cached_int.h - what the files that serve views share: reader.c, cached.c, fill.c, pages.c and stored.c. */
#ifndef PT_FS_CACHED_INT_H
#define PT_FS_CACHED_INT_H

#include "fs.h"

/* ---- reader.c: readers' inodes of any kind; but for the size they are pinned ---- */
uint64_t pt_fs_reader_size(struct pt_fs_inode *i);                      /* bytes */
int64_t pt_fs_reader_read(struct pt_fs *fs, struct pt_fs_inode *i, void *buf, uint64_t len, uint64_t off);
uint64_t pt_fs_reader_align(const struct pt_fs_inode *i);               /* where the payload's chunks begin, less than PT_BUFFER_BYTES */
/* Where a read from off on, of at most max bytes, had best end: objects have chunks of their own, which are verified as wholes. */
uint64_t pt_fs_reader_cut(struct pt_fs_inode *i, uint64_t off, uint64_t max);
/* Loaders map these, and read most of them; others are as likely read once, from end to end. */
bool pt_fs_reader_maps(const struct pt_fs *fs, const struct pt_fs_inode *i);
/* Every spelling of one view shares its file in memory; the stamp tells revision, box and axes. */
void pt_fs_reader_key(const struct pt_fs *fs, const struct pt_fs_inode *i, struct pt_vcache_key *ret_key);
/* Worth more than the kernel's own cache. */
bool pt_fs_reader_large(const struct pt_fs *fs, struct pt_fs_inode *i);

/* ---- cached.c ---- */
/* Tells the store of memory that it is to read into; memory that it was not told of is only slower. ctx: the mount. */
void pt_fs_memory_add(void *ctx, void *addr, uint64_t len);
void pt_fs_memory_remove(void *ctx, void *addr);

/* ---- fill.c ---- */
/* The file that an open of a large view is to be served from, whole or being filled, held; NULL: it is streamed. i is pinned. again: it has been opened before. flags: of open(2). */
struct pt_vcache_file *pt_fs_fill_for(struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key, bool again, int flags);
/* Waits for it, the file of i, to be whole, as long as open_wait allows and it looks as if it will be and memory for it is not dear; it is. */
bool pt_fs_fill_wait(fuse_req_t req, struct pt_fs *fs, struct pt_vcache_file *file, struct pt_fs_inode *i);
/* A copy of what the kernel reads where the store has it, made when nobody else wants the processor, where it costs nobody any memory. i is pinned. */
void pt_fs_fill_copy(struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key);

/* ---- pages.c ---- */
/* An open of a small i, pinned, is about to be answered like this, which no other was before (first); the kernel gets its bytes with it where that saves a READ. */
void pt_fs_pages_give(struct pt_fs *fs, struct pt_fs_inode *i, bool first, const struct fuse_file_info *fi);

/* ---- stored.c: files that the store has as they read ---- */
struct pt_fs_lent {                     /* the store's file, open for reading */
	int fd;
	void *held;
	struct pt_file_state state;
};

/* i, pinned, is one that the kernel may be given as the store has it. */
bool pt_fs_stored_is(struct pt_fs *fs, struct pt_fs_inode *i);
/* An open of i, pinned: it is found right, and to be opened by its whole node. Else *ret_looking is what the open is to hold, or NULL: it is still being looked through. */
bool pt_fs_stored_open(fuse_req_t req, struct pt_fs *fs, struct pt_fs_inode *i, const struct pt_vcache_key *key, struct pt_vcache_file **ret_looking);
/* A sealed i, which need not be pinned, was found right when last looked at. */
bool pt_fs_stored_found(struct pt_fs *fs, const struct pt_fs_inode *i);
/* The file of i, pinned, which was found right and is as it was then. -ESTALE: it is not. */
int pt_fs_stored_get(struct pt_fs *fs, struct pt_fs_inode *i, struct pt_fs_lent *ret_lent);
/* What the store's file of i, pinned, is like. -ESTALE: i has none, or it cannot be had. */
int pt_fs_stored_state(struct pt_fs *fs, struct pt_fs_inode *i, struct pt_file_state *ret_state);
void pt_fs_stored_put(struct pt_fs *fs, struct pt_fs_lent *lent);
/* The kernel does not take this store's files. */
void pt_fs_stored_refuse(struct pt_fs *fs);

#endif
