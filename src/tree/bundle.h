/* tree/bundle.h - bundles: what a directory shows of state dicts that ranks have written part by part. Internal to tree/. */
#ifndef PT_TREE_BUNDLE_H
#define PT_TREE_BUNDLE_H

#include "tensor/tensor.h"
#include "tree/models.h"

/* How the file of one rank's state dict changes what its directory shows: zeroed, then the first fields filled by the caller, who keeps what they point to. One thread. */
struct pt_bundle {
	const char *file_name;
	enum pt_format format;
	const char **names;             /* of its tensors, in byte order */
	const char **in_order;          /* the same in that of the pickle */
	uint32_t count;
	const struct pt_buf *pickle;    /* whose shape the file is to have; empty: a flat one */
	const struct pt_upload_options *attrs;
	const struct pt_group_round *round;
	uint32_t rank;                  /* of its low 32 bits */
	/* As last looked at: */
	struct pt_node node;            /* the file; id 0: there is none */
	struct pt_container *old;       /* if that is a bundle */
	bool other;                     /* it is, and not empty */
	bool all;                       /* this is the last file of the round, or who has written is not known, for another file is there */
	bool full;                      /* all files of the round had come already */
	const char **joined;            /* of the round with this file, in byte order; the strings are old's and the caller's */
	uint32_t joined_count;
	uint8_t *ranks;                 /* that have written */
	uint64_t models_version;        /* of the directory, when other bundles were looked at */
	/* What was stored for it: */
	struct pt_blob_ref blob;
	uint64_t blob_bytes;
	uint64_t content;               /* hash */
	bool taken;                     /* by the last try */
};

/* Reads the file that is there. -EEXIST: a directory or symlink has the name; -EAGAIN: it has just changed. */
int pt_bundle_look(struct pt_bundle *b, struct pt_models *models, struct pt_repo *repo, uint64_t dir_node);
/* -EEXIST: another bundle of the directory has one of the tensors: it would show these, or both would be a mixture. Then nothing may be published. */
int pt_bundle_check(struct pt_bundle *b, struct pt_models *models, struct pt_repo *repo, uint64_t dir_node);
/* Makes it a bundle, or changes the one it is: what it shows stays until the round's tensors become readable (finishes), and is replaced by them then, or, in a scope,
 * joined by them. A file that is there and no bundle is left alone until then. It also takes the shape of the pickle, unless it has tensors of other ranks' files
 * that this one lacks. A file that comes when all of its round have, but they made no state dict, and it makes none of them
 * either, begins the round again. As struct pt_group_calls wants it. */
int pt_bundle_make(struct pt_bundle *b, struct pt_repo *repo, bool finishes, struct pt_group_file *ret_file, bool *ret_writes);
/* rc: of the publication; what was stored and not taken is discarded. */
void pt_bundle_done(struct pt_bundle *b, struct pt_repo *repo, int rc);

#endif
