/* tree/shard_write.h - a rank's state dict goes in, and each tensor is stored as one part of its set.
 *
 * Below writer=RofN the file holds whole tensors, of which this rank's slice is stored; below tp=RofN it holds this rank's shards; below other axes whole tensors of
 * that scope. Dimensions come from the stored layout, tp_plan.json, the built-in plan. Below tp=, what a plan says is replicated is stored by rank 0 alone, and a
 * name that no plan knows is refused: nobody could tell a shard from a copy. Below writer= such tensors are cut on dimension 0. */
#ifndef PT_TREE_SHARD_WRITE_H
#define PT_TREE_SHARD_WRITE_H

#include "tensor/tensor.h"
#include "tree/models.h"

struct pt_shard_writer;

/* base: the spelled directory. file_name: for a bare tensor's key. attrs: mode, uid, gid, mtime of what is published. */
int pt_shard_writer_create(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const struct pt_request *base, const char *file_name,
			   const struct pt_upload_options *attrs, struct pt_shard_writer **ret_w);
/* The file's bytes in order; NULL: zeros. Errors name the tensor, and stay. */
int pt_shard_writer_feed(struct pt_shard_writer *w, const void *data, uint64_t len);
uint64_t pt_shard_writer_fed(const struct pt_shard_writer *w);
/* All that was fed, as long as the file's header is not complete and nothing of it is stored; NULL: bytes have been dropped, and it can only go on. */
const struct pt_buf *pt_shard_writer_head(const struct pt_shard_writer *w);
/* The file is called otherwise by now. */
int pt_shard_writer_rename(struct pt_shard_writer *w, const char *file_name);
/* After a failure, or at the end: was it a tensor file at all? */
bool pt_shard_writer_is_tensors(const struct pt_shard_writer *w);
/* Everything of the file has been fed and stored. -EIO with what is missing. */
int pt_shard_writer_end(struct pt_shard_writer *w);
/* Publishes each part, then the bundle `file_name` in the directory: at once if there is no such file, else when all of its tensors are complete. */
int pt_shard_writer_publish(struct pt_shard_writer *w);
void pt_shard_writer_free(struct pt_shard_writer *w);                   /* drops what was not published; NULL is fine */

#endif
