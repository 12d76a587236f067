/* tools/fsck.h - what the parts of ptio fsck share. */
#ifndef PT_TOOLS_FSCK_H
#define PT_TOOLS_FSCK_H

#include "tools/cli.h"

/* As fsck(8) has them. */
enum { FSCK_CLEAN = 0, FSCK_MENDED = 1, FSCK_LEFT = 4, FSCK_ERROR = 8, FSCK_USAGE = 16 };

struct fsck {
	struct cli *cli;
	char *uri;                      /* dir:PATH */
	const char *dir;                /* the path in it */
	bool verify, rebuild, dry_run;
	uint64_t problems;
	bool progress;                  /* standard error is a terminal, and a line is there */
};

/* One line on standard output, in place of what progress wrote. */
void fsck_say(struct fsck *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A problem: the same, and counted. */
void fsck_problem(struct fsck *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "ptio: fsck: sentence" on standard error; FSCK_ERROR. */
int fsck_failed(int rc);
/* On a terminal: how far it has come. what NULL: takes the line away. */
void fsck_progress(struct fsck *f, const char *what, uint64_t done);

#define FSCK_LOST "lost+found"

/* fsck_check.c: the index file alone, in the directory of the store that is open: it is sound, and not older than its snapshots. -EIO with a sentence: it is not. */
int fsck_check_index(struct fsck *f, int dirfd);
/* fsck_check.c: looks at the whole store. Exit status. */
int fsck_check(struct fsck *f);

/* fsck_rebuild.c: another index in place of one that is not sound. Exit status. */
int fsck_rebuild(struct fsck *f);

struct fsck_rescue {
	uint64_t tensors, files, parts, bytes;
};
/* fsck_rescue.c: in the repository that is open, names for blobs that have none. now: for a directory below lost+found/ where there is one already. */
int fsck_rescue(struct fsck *f, const char *now, struct fsck_rescue *ret_got);

#endif
