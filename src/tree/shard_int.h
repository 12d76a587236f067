/* tree/shard_int.h - what the parts of a shard writer share: shard_write.c (feeding, publishing), shard_sink.c (what the parser finds in the file) and shard_tensor.c
 * (what each tensor becomes). */
#ifndef PT_TREE_SHARD_INT_H
#define PT_TREE_SHARD_INT_H

#include "base/buf.h"
#include "base/error.h"
#include "tensor/spool.h"
#include "tree/bundle.h"
#include "tree/shard_write.h"

struct pt_shard_tensor {
	char *name;
	struct pt_parse_tensor t;       /* name not kept */
	uint64_t bytes;
	uint64_t fed;
	char *key;                      /* of a key that is not there yet, while upload is open */
	struct pt_upload *upload;       /* NULL: not begun, done, or another rank's to store */
	uint64_t node;                  /* of the key; 0: not there */
	bool skip;                      /* another rank's to store */
};

struct pt_shard_writer {
	struct pt_models *models;
	struct pt_repo *repo;
	uint64_t dir_node;
	struct pt_request base;
	char *stem, *file_name;
	struct pt_upload_options attrs;
	struct pt_model_dir *dir;
	char dir_key[PT_KEY_MAX + 1];
	struct pt_group *group;
	struct pt_group_round round;
	char scope[PT_LAYOUT_TEXT_MAX];
	struct pt_bundle bundle;
	struct pt_parser *parser;
	int error;
	char sentence[PT_FAIL_SENTENCE_MAX];
	bool header_done, ended;
	bool holed;                     /* failed: no header has such a hole */
	uint64_t fed;
	struct pt_buf head;             /* what has been fed, until the header is done */
	struct pt_buf pickle;           /* of a torch file that can keep its shape */
	uint64_t *storage_bytes;
	uint32_t storage_count;
	struct pt_shard_tensor *tensors;
	uint32_t tensor_count, tensor_cap;
	uint32_t *order;                /* tensors by storage */
	uint32_t open_storage;          /* the one coming in; UINT32_MAX: none */
	uint32_t open_first, open_end;  /* its tensors, in order */
	struct pt_spool spool;          /* of that storage, when a tensor in it is strided */
};

/* shard_tensor.c: which part of the tensor this rank stores, and its upload, or skip. */
int pt_shard_tensor_begin(struct pt_shard_writer *w, struct pt_shard_tensor *t);
/* All of the tensor is in: its part waits in the group, or, stored by another rank, for what that rank has left there. */
int pt_shard_tensor_end(struct pt_shard_writer *w, struct pt_shard_tensor *t);

/* shard_sink.c: what w's parser feeds. */
void pt_shard_sink(struct pt_shard_writer *w, struct pt_parse_sink *ret_sink);

#endif
