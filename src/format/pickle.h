/* format/pickle.h - the restricted pickle machine for data.pkl of torch.save archives. Internal to format/.
 *
 * It runs the opcodes that torch writes for tensors, state dicts and plain values over tagged values of its own. Globals are
 * names from a short list that select what the machine itself does; nothing is looked up, imported or called, and a name
 * outside the list is refused. Opcodes run as soon as their bytes are there, so the pickle's end is found without
 * knowing its size. The opcode numbers are those of Python's pickletools; what torch writes is in docs/SPEC.md.
 *
 * Limits: pickle 64 MiB; values 384 MiB in all; memo indices grow with the number of stores; stack 2 Mi values; 64 dims; nesting 128;
 * joined names 64 KiB; 1 Mi tensors. Not thread-safe. */
#ifndef PT_FORMAT_PICKLE_H
#define PT_FORMAT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/parse_int.h"

#define PT_PICKLE_BYTES_MAX ((uint64_t)64 << 20)

struct pt_pickle;

int pt_pickle_create(struct pt_pickle **ret_p);         /* -ENOMEM */
void pt_pickle_free(struct pt_pickle *p);
/* The next len bytes. *ret_used says how many belong to the pickle; fewer than len only when it ended. 1 ended, 0 more is
 * needed, -EINVAL malformed or refused, -EFBIG over a limit, -EOPNOTSUPP a dtype ptio has not, -ENOMEM.
 * Not to be called after it ended or failed. */
int pt_pickle_feed(struct pt_pickle *p, const void *data, size_t len, size_t *ret_used);

/* After the end. Storages are numbered in order of first use. */
uint32_t pt_pickle_storage_count(const struct pt_pickle *p);
uint64_t pt_pickle_storage_bytes(const struct pt_pickle *p, uint32_t storage);
/* By key ("0", as in data/0); false when the pickle names no such storage. */
bool pt_pickle_storage_find(const struct pt_pickle *p, const char *key, size_t key_len, uint32_t *ret_storage);
/* The key, not NUL-terminated. */
const char *pt_pickle_storage_key(const struct pt_pickle *p, uint32_t storage, size_t *ret_len);

/* Announces every storage, then every tensor that is reachable through dicts, lists and tuples, in their order. A tensor's name
 * is its path joined with ".": str keys as they are, int keys and list positions in decimal; "" when the pickle is a
 * bare tensor. Other leaves are dropped. -EINVAL: two tensors with one name, or a tensor below a key that cannot be part of
 * a name (empty, NUL, lone surrogates, not str or int); -EFBIG a limit; or what the sink returned. No tensor at all is fine. */
int pt_pickle_announce(struct pt_pickle *p, struct pt_parse_ctx *ctx);
/* Frees all but what the storage functions need. */
void pt_pickle_trim(struct pt_pickle *p);

#endif
