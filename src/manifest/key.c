/* manifest/key.c - building record keys. Numbers are big-endian, so that memcmp order is numeric order. */
#include "manifest/key.h"

#include <assert.h>
#include <string.h>

static void key_start(struct pt_rkey *k, char type)
{
	k->b[0] = (uint8_t)type;
	k->len = 1;
}

static void key_bytes(struct pt_rkey *k, const void *data, size_t len)
{
	assert(len <= sizeof(k->b) - k->len);
	memcpy(k->b + k->len, data, len);
	k->len += len;
}

static void key_be64(struct pt_rkey *k, uint64_t v)
{
	uint8_t b[8];
	int i;

	for (i = 7; i >= 0; i--, v >>= 8)
		b[i] = (uint8_t)v;
	key_bytes(k, b, sizeof(b));
}

void pt_rkey_entry(struct pt_rkey *ret_key, uint64_t parent, const char *name, size_t name_len)
{
	key_start(ret_key, 'd');
	key_be64(ret_key, parent);
	key_bytes(ret_key, name, name_len);
}

void pt_rkey_node(struct pt_rkey *ret_key, uint64_t node)
{
	key_start(ret_key, 'n');
	key_be64(ret_key, node);
}

void pt_rkey_times(struct pt_rkey *ret_key, uint64_t node)
{
	key_start(ret_key, 't');
	key_be64(ret_key, node);
}

void pt_rkey_models(struct pt_rkey *ret_key, uint64_t node)
{
	key_start(ret_key, 'f');
	key_be64(ret_key, node);
}

bool pt_rkey_is_models(const void *key, size_t len)
{
	return len == 9 && *(const uint8_t *)key == 'f';
}

uint64_t pt_rkey_changes(const void *key, size_t len)
{
	const uint8_t *b = key;
	uint64_t node = 0;
	int i;

	if (!(len == 9 && (b[0] == 'n' || b[0] == 't')) && !(len >= 9 && b[0] == 'm'))
		return 0;
	for (i = 1; i <= 8; i++)
		node = node << 8 | b[i];
	return node;
}

void pt_rkey_manifest(struct pt_rkey *ret_key, uint64_t node, const char *scope)
{
	key_start(ret_key, 'm');
	key_be64(ret_key, node);
	if (scope)
		key_bytes(ret_key, scope, strlen(scope));
}

void pt_rkey_pending(struct pt_rkey *ret_key, uint64_t node, const char *scope, const struct pt_hash128 *identity)
{
	key_start(ret_key, 'p');
	if (!node)
		return;
	key_be64(ret_key, node);
	if (!scope)
		return;
	key_bytes(ret_key, scope, strlen(scope) + 1);
	if (identity)
		key_bytes(ret_key, identity->b, sizeof(identity->b));
}

void pt_rkey_blob(struct pt_rkey *ret_key, const struct pt_id *id)
{
	key_start(ret_key, 'o');
	key_bytes(ret_key, id->b, sizeof(id->b));
}

void pt_rkey_hashes(struct pt_rkey *ret_key, const struct pt_id *id)
{
	key_start(ret_key, 'h');
	key_bytes(ret_key, id->b, sizeof(id->b));
}

void pt_rkey_refs(struct pt_rkey *ret_key, const struct pt_id *id)
{
	key_start(ret_key, 'r');
	key_bytes(ret_key, id->b, sizeof(id->b));
}

void pt_rkey_garbage(struct pt_rkey *ret_key, const struct pt_id *id)
{
	key_start(ret_key, 'x');
	if (id)
		key_bytes(ret_key, id->b, sizeof(id->b));
}

void pt_rkey_counter(struct pt_rkey *ret_key, const char *name)
{
	key_start(ret_key, 'c');
	key_bytes(ret_key, name, strlen(name));
}
