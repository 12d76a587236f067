/* fs/file_int.h - what file.c, file_read.c, file_seal.c, container.c and shards.c know of an ordinary file's contents. */
#ifndef PT_FS_FILE_INT_H
#define PT_FS_FILE_INT_H

#include "fs.h"

#define PT_FS_FILE_TRIES 20             /* of a node that others change at the same time */

/* Where the contents are: the stream, else the spool, else (fresh) nowhere: `size` zero bytes, else the container, else the blob. All under the inode's lock. */
struct pt_fs_file {
	uint32_t opens, writers;        /* writers: those of opens that can write */
	bool loaded;                    /* blob, size and attributes are those of the node at the last look */
	bool changed;                   /* not by this mount, since the last open: pages that the kernel holds are of something else */
	bool gone;                      /* the node was removed */
	bool fresh;                     /* emptied and perhaps sized, nothing written yet; dirty */
	struct pt_upload *upload;       /* published under a view name */
	struct pt_container_writer *stream;     /* bytes come in order, and look like a tensor file */
	struct pt_shard_writer *shards; /* the same inside an axis directory: a rank's state dict, stored tensor by tensor as it comes */
	uint64_t shards_parent;         /* the directory it is for, */
	char *shards_dir;               /* and the axes */
	bool read_back;                 /* somebody who has it open can read */
	int spool;                      /* -1: none */
	bool dirty;
	atomic_bool sealing;            /* the lock is held to seal */
	enum pt_node_kind kind;
	struct pt_blob_ref blob;        /* zero id: empty */
	struct pt_container *container; /* of blob, once pinned */
	uint32_t held;                  /* objects of the container, for its release */
	struct pt_fs_file_pin *pin;     /* of blob; reads in progress hold it, too */
	uint64_t size;
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
	pthread_mutex_t shown_lock;     /* shown; a leaf */
	struct pt_fs_file_shown {       /* what stat tells while the inode's lock is held for long, by a seal: as it was when that began */
		bool gone;
		uint64_t size;
		uint32_t mode, uid, gid;
		int64_t mtime_ns;
	} shown;
};

struct pt_fs_file_pin {
	atomic_uint refs;
	struct pt_blob_ref blob;
};

/* ---- file.c ---- */
/* Takes what the node says now, unless this mount's spool is newer. -ESTALE: it is gone, and not open. */
int pt_fs_file_refresh_locked(struct pt_fs *fs, struct pt_fs_inode *inode);
int pt_fs_file_spool_locked(struct pt_fs *fs, struct pt_fs_file *f, bool empty);        /* contents go to the spool, whatever they were */
/* Takes what the node says now (unless dirty), and pins it. */
int pt_fs_file_reload_locked(struct pt_fs *fs, struct pt_fs_inode *inode);
void pt_fs_file_idle_locked(struct pt_fs *fs, struct pt_fs_file *f);    /* lets go of what nobody has open */
/* The node has been given this blob. */
void pt_fs_file_took_locked(struct pt_fs *fs, struct pt_fs_file *f, enum pt_node_kind kind, const struct pt_blob_ref *blob);

/* ---- file_seal.c ---- */
/* A dirty file's contents become the node's. last: nobody will write more. */
int pt_fs_file_seal_locked(struct pt_fs *fs, struct pt_fs_inode *inode, bool last);

/* ---- file_read.c ---- */
void pt_fs_file_show(struct pt_fs_file *f);                             /* locked: stat tells this from now on */
void pt_fs_file_unlock(struct pt_fs_inode *inode);                      /* the inode's lock; what has changed is shown */
/* Takes the inode's lock; false, without it: a seal has it, perhaps for long. */
bool pt_fs_file_lock_unless_sealed(struct pt_fs_inode *inode);
int pt_fs_file_pin(struct pt_fs *fs, const struct pt_blob_ref *blob, struct pt_fs_file_pin **ret_pin);
void pt_fs_file_unpin(struct pt_fs *fs, struct pt_fs_file_pin *pin);    /* one reference; NULL is fine */

/* ---- container.c; all under the inode's lock ---- */
bool pt_fs_looks_like_tensors(const void *buf, uint64_t len);           /* a file's first bytes */
/* Takes a write that begins or goes on with a stream. 1: taken, 0: it has to go to the spool. */
int pt_fs_stream_write_locked(struct pt_fs *fs, struct pt_fs_inode *inode, const void *buf, uint64_t len, uint64_t off);
/* What the stream took goes to the spool (made by the caller). */
int pt_fs_stream_spill_locked(struct pt_fs_file *f, int fd);
/* 1: the stream or the spool was a tensor file, and the node is a container now; 0: it is none. */
int pt_fs_stream_seal_locked(struct pt_fs *fs, struct pt_fs_inode *inode);
int pt_fs_spool_contain_locked(struct pt_fs *fs, struct pt_fs_inode *inode);
int pt_fs_container_copy(struct pt_container *c, int fd);

/* ---- shards.c ---- */
/* Takes a write that begins or goes on with a rank's state dict. 1: taken, 0: it has to go to the spool. */
int pt_fs_shards_write_locked(struct pt_fs *fs, struct pt_fs_inode *inode, const void *buf, uint64_t len, uint64_t off);
/* What came goes to the spool; -EINVAL: bytes of it are gone. */
int pt_fs_shards_spill_locked(struct pt_fs_file *f, int fd);
void pt_fs_shards_drop_locked(struct pt_fs_file *f);
/* Of a file inside an axis directory. 1: its tensors are stored, or (last) it has failed and is dropped; 0: an ordinary file. last: no more bytes will come. */
int pt_fs_shards_take_locked(struct pt_fs *fs, struct pt_fs_inode *inode, bool last);

#endif
