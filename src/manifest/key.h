/* manifest/key.h - the keys of index records, as record.h lists them. Pure. */
#ifndef PT_MANIFEST_KEY_H
#define PT_MANIFEST_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/id.h"
#include "layout/axis.h"
#include "manifest/record.h"

/* The longest: type, node, scope text, 0, identity hash. */
#define PT_RKEY_MAX (1 + 8 + PT_LAYOUT_TEXT_MAX + 1 + 16)

struct pt_rkey {
	size_t len;
	uint8_t b[PT_RKEY_MAX];
};

/* name_len 0 gives the prefix of all entries of `parent`. name_len <= PT_NAME_MAX. */
void pt_rkey_entry(struct pt_rkey *ret_key, uint64_t parent, const char *name, size_t name_len);
void pt_rkey_node(struct pt_rkey *ret_key, uint64_t node);
/* When a directory's entries last changed. */
void pt_rkey_times(struct pt_rkey *ret_key, uint64_t node);
/* When a directory's model files last changed. */
void pt_rkey_models(struct pt_rkey *ret_key, uint64_t node);
bool pt_rkey_is_models(const void *key, size_t len);
/* The node whose record, time of the last change of entries, or manifest a key is that of; 0: another key. */
uint64_t pt_rkey_changes(const void *key, size_t len);
/* scope NULL: the prefix of all scopes of the node. */
void pt_rkey_manifest(struct pt_rkey *ret_key, uint64_t node, const char *scope);
/* identity NULL: the prefix of the scope's sets; scope NULL too: of the node's; node 0: of all. */
void pt_rkey_pending(struct pt_rkey *ret_key, uint64_t node, const char *scope, const struct pt_hash128 *identity);
void pt_rkey_blob(struct pt_rkey *ret_key, const struct pt_id *id);
void pt_rkey_hashes(struct pt_rkey *ret_key, const struct pt_id *id);
/* What a container's blob refers to. */
void pt_rkey_refs(struct pt_rkey *ret_key, const struct pt_id *id);
/* id NULL: the prefix of all. */
void pt_rkey_garbage(struct pt_rkey *ret_key, const struct pt_id *id);
void pt_rkey_counter(struct pt_rkey *ret_key, const char *name);

#endif
