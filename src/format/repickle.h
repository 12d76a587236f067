/* format/repickle.h - a data.pkl written again with other tensors in the same places: sizes, strides and storages change, everything else stays.
 *
 * What makes a tensor is replaced by a description of its own, without memo; bytes between them are copied. Memo entries that were stored inside a description and are
 * used outside it (names of globals, strings that the pickler has seen before) are spelled out where they are used. What is made was read by the restricted machine of
 * pickle.h, so nothing that machine refuses comes through. Pure; one thread. */
#ifndef PT_FORMAT_REPICKLE_H
#define PT_FORMAT_REPICKLE_H

#include "base/buf.h"
#include "format/serve.h"

struct pt_repickle;

/* Where data.pkl begins in a torch file of which these are the first bytes: it is the first record. len: what is there from then on. -EOPNOTSUPP: nowhere. */
int pt_repickle_find(const uint8_t *file, size_t file_len, const uint8_t **ret_data, size_t *ret_len);
/* The pickle at the beginning of data; what follows it does not count. -EINVAL, -EFBIG as the parser; -EOPNOTSUPP: it cannot be written again, the sentence is a phrase
 * that says why. */
int pt_repickle_create(const void *data, size_t len, struct pt_repickle **ret_r);
void pt_repickle_free(struct pt_repickle *r);                           /* NULL is fine */
/* Bytes of data that are the pickle. */
size_t pt_repickle_length(const struct pt_repickle *r);
/* Tensor values; one value may have several names. */
uint32_t pt_repickle_tensor_count(const struct pt_repickle *r);
/* Names, in the order in which a parser announces tensors, and the value that each is of. */
uint32_t pt_repickle_name_count(const struct pt_repickle *r);
uint32_t pt_repickle_name_tensor(const struct pt_repickle *r, uint32_t name);
/* tensors: one a value; storage[i]: the storage that value i is all of. Lack of memory is remembered by the buffer. */
int pt_repickle_emit(const struct pt_repickle *r, const struct pt_serve_tensor *tensors, const uint32_t *storage, struct pt_buf *ret_pickle);

#endif
