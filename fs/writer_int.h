/* fs/writer_int.h - what writer.c and writer_attr.c share. */
#ifndef PT_FS_WRITER_INT_H
#define PT_FS_WRITER_INT_H

#include "fs.h"

struct pt_fs_writer {
	struct pt_fs_inode *inode;
	struct pt_fs_writer *next;      /* fs->writers while opens > 0; writers_lock */
	uint32_t opens;                 /* writers_lock */
	bool hidden;                    /* its name was unlinked; writers_lock */
	struct pt_upload *upload;       /* the fields below: inode->lock */
	uint64_t pos;                   /* next byte of the stream */
	uint64_t truncated;             /* size set by TRUNCATE; 0: none */
	bool truncated_last;            /* no write came after it */
	uint64_t told_pos;              /* where a flush has said that the file is incomplete */
	pid_t last_tid;                 /* who wrote last */
	int verdict;                    /* first failure; repeated at FLUSH */
	bool started;                   /* was opened; upload is NULL again after a failure */
	atomic_bool published;
	bool abandoned;                 /* unlinked: what is still written goes nowhere */
	struct pt_parse_hint hint;
	struct pt_fs_source attrs;      /* mode, uid, gid, mtime_ns */
	bool touches;                   /* opened without O_TRUNC: before any byte it stands for the present revision */
	int spool;                      /* -1: a stream */
	bool dirty;                     /* spool: changed since it was parsed */
};

/* A new stream, in place of what there was of one. Under inode->lock. */
int pt_fs_writer_start(struct pt_fs *fs, struct pt_fs_writer *w);
/* Bytes. Under inode->lock. */
static inline uint64_t pt_fs_writer_size_locked(const struct pt_fs_writer *w)
{
	return w->pos > w->truncated ? w->pos : w->truncated;
}

#endif
