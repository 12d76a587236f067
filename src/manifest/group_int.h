/* manifest/group_int.h - what the parts of a group share: group.c (its members, publishing), group_look.c (what is there, what is to be) and group_batch.c (the records
 * of that).
 *
 * All of it is one thread's. A turn looks, makes the batch, commits it and forgets both; what is "as last looked at" is of the turn under way. */
#ifndef PT_MANIFEST_GROUP_INT_H
#define PT_MANIFEST_GROUP_INT_H

#include "manifest/internal.h"

struct pt_group_member {
	char *name;
	uint64_t made;                  /* id of the key's node, should it have to be made; 0: none taken */
	bool has_part;
	struct pt_part part;
	/* As last looked at: */
	bool born;                      /* node is in the index */
	struct pt_node node;
	struct pt_pending *set;         /* with the part; followed: what has waited, or NULL */
	struct pt_rkey set_key;
	uint64_t set_version;
	struct pt_manifest *old;        /* current revision */
	struct pt_manifest *next;       /* what it becomes, or NULL: it waits */
	bool replaces;
	struct pt_blob_ref replaced;
};

struct pt_group_op {
	enum pt_meta_op_kind kind;
	size_t key, key_len, value, value_len;  /* in bytes */
	uint64_t version;
};

struct pt_group {
	struct pt_repo *repo;
	uint64_t dir_node;
	char scope[PT_LAYOUT_TEXT_MAX], step[PT_STEP_MAX + 1];  /* of the first part: what is followed waits there */
	bool any;                       /* there was one */
	struct pt_part attrs;           /* mode and so on, when there is no part */
	uint64_t round;
	bool all;                       /* as begin says */
	struct pt_group_member *members;
	size_t count, cap;
	struct pt_node dir;             /* as last looked at */
	bool finishes;
	/* the batch */
	struct pt_buf bytes;            /* keys and values */
	struct pt_buf garbage;
	struct pt_group_op *ops;
	size_t op_count, op_cap;
	bool failed;                    /* no memory for it */
};

/* group_look.c: reads what is there, and decides which sets become revisions (finishes, and next of each member). -errno with the name of the member in question. */
int pt_group_look(struct pt_group *g);

/* group_batch.c: what has been looked at as one batch, with the file (NULL: none). -EAGAIN: something else is there by now. */
int pt_group_batch_make(struct pt_group *g, struct pt_group_file *file);
int pt_group_batch_commit(struct pt_group *g, uint64_t *ret_version);

#endif
