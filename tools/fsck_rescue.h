/* tools/fsck_rescue.h - what the parts of fsck_rescue.c share. */
#ifndef PT_TOOLS_FSCK_RESCUE_H
#define PT_TOOLS_FSCK_RESCUE_H

#include "manifest/repo.h"
#include "store/store.h"
#include "tools/fsck.h"

#define FSCK_PIECE PT_HASH_CHUNK

struct orphan {
	struct pt_blob_ref ref;
	uint64_t bytes;
	int64_t mtime_ns, unit_ns;      /* its own; the last one of its set */
	uint64_t group;                 /* a number for the set that it could be of */
	int32_t rank, size;
	bool alone;                     /* of a set that is not whole: a tensor of its own */
	enum { TENSOR, PART, BLOB, DESCRIPTION, DONE } is;
};

struct rescuer {
	struct fsck *f;
	struct pt_repo *repo;
	struct fsck_rescue *got;
	char top[64];                   /* lost+found, or lost+found/TIME where that is taken */
	struct pt_buf found;
	struct orphan *orphans;
	size_t count;
	uint8_t *piece;                 /* FSCK_PIECE */
};

/* fsck_rescue.c */
const char *fsck_short_id(const struct pt_id *id, char hex[PT_ID_HEX_LEN + 1]);
struct pt_data *fsck_data(struct rescuer *r);
int fsck_read_blob(struct rescuer *r, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, void *buf);
/* Among those that are sorted by id; NULL. */
struct orphan *fsck_find(struct rescuer *r, const struct pt_id *id);
/* Checksums of what is there: nobody knows what they were. */
int fsck_hash_payload(struct rescuer *r, struct pt_part *part);
/* What cannot be published is named, and no reason to stop: 0, or rc where it is one. */
int fsck_trouble(struct rescuer *r, const char *key, int rc);
/* What cannot be given a name would be collected: it is kept outside the store's objects, in lost+found/ of the folder. */
void fsck_put_aside(struct rescuer *r, const struct orphan *o);

/* fsck_tensors.c: objects and sets of them, in the order in which they were written; leaves the orphans in another order. */
int fsck_rescue_tensors(struct rescuer *r);
/* fsck_files.c: tensor files and ordinary ones; before the tensors. */
int fsck_rescue_files(struct rescuer *r);

#endif
