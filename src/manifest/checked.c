/* manifest/checked.c - the table of pinned objects. Two bits a chunk, set atomically; checksums are loaded outside the lock by whoever needs them first. */
#include "manifest/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/internal.h"

#define TABLE_PLACES 1024

struct pt_checked_object {
	struct pt_checked_object *next; /* in its place; under the table's lock */
	uint64_t holders;               /* under the table's lock */
	struct pt_id id;
	uint64_t chunk_count;
	uint8_t *hashes;                /* 8 bytes a chunk, NULL until loaded; set once, atomically */
	uint64_t words;
	uint64_t bits[];                /* bit c % 64 of word c / 64, atomically: verified; then as many words: bad */
};

struct pt_checked {
	pthread_mutex_t lock;           /* place[], and next and holders of the objects */
	struct pt_checked_object *place[TABLE_PLACES];
};

int pt_checked_create(struct pt_checked **ret_checked)
{
	struct pt_checked *checked = pt_calloc(1, sizeof(*checked));

	if (!checked)
		return pt_fail_nomem();
	pthread_mutex_init(&checked->lock, NULL);
	*ret_checked = checked;
	return 0;
}

static void object_free(struct pt_checked_object *o)
{
	free(o->hashes);
	free(o);
}

void pt_checked_free(struct pt_checked *checked)
{
	struct pt_checked_object *o;
	uint32_t i;

	if (!checked)
		return;
	for (i = 0; i < TABLE_PLACES; i++) {
		while ((o = checked->place[i])) {
			checked->place[i] = o->next;
			object_free(o);
		}
	}
	pthread_mutex_destroy(&checked->lock);
	free(checked);
}

static struct pt_checked_object **place_of(struct pt_checked *checked, const struct pt_id *id)
{
	struct pt_checked_object **at = &checked->place[pt_get_le32(id->b) % TABLE_PLACES];

	while (*at && pt_id_compare(&(*at)->id, id))
		at = &(*at)->next;
	return at;
}

int pt_checked_get(struct pt_checked *checked, const struct pt_object *object, struct pt_checked_object **ret_object)
{
	uint64_t chunks = object->bytes / PT_HASH_CHUNK + (object->bytes % PT_HASH_CHUNK != 0), words = (chunks + 63) / 64;
	struct pt_checked_object **at, *o;
	int rc = 0;

	pthread_mutex_lock(&checked->lock);
	at = place_of(checked, &object->blob.id);
	o = *at;
	/* Two records that give one object two sizes: the bits of one are too few for the other. */
	if (o && o->chunk_count != chunks) {
		pthread_mutex_unlock(&checked->lock);
		return pt_record_bad("revision");
	}
	if (!o) {
		o = pt_calloc(1, sizeof(*o) + words * 2 * sizeof(o->bits[0]));
		if (o) {
			o->id = object->blob.id;
			o->chunk_count = chunks;
			o->words = words;
			*at = o;
		}
	}
	if (o) {
		o->holders++;
		*ret_object = o;
	} else {
		rc = pt_fail_nomem();
	}
	pthread_mutex_unlock(&checked->lock);
	return rc;
}

void pt_checked_drop(struct pt_checked *checked, const struct pt_id *id)
{
	struct pt_checked_object **at, *o;

	pthread_mutex_lock(&checked->lock);
	at = place_of(checked, id);
	o = *at;
	if (o && --o->holders)
		o = NULL;
	else if (o)
		*at = o->next;
	pthread_mutex_unlock(&checked->lock);
	if (o)
		object_free(o);
}

void pt_checked_put(struct pt_checked *checked, struct pt_checked_object *object)
{
	struct pt_id id = object->id;

	pt_checked_drop(checked, &id);
}

static int hashes_load(struct pt_repo *repo, struct pt_checked_object *o, uint8_t **ret_hashes)
{
	struct pt_buf value = PT_BUF_INIT;
	char hex[PT_ID_HEX_LEN + 1];
	uint8_t *mine = NULL, *theirs = NULL;
	const uint8_t *hashes;
	uint64_t count, version;
	struct pt_rkey key;
	int rc;

	pt_rkey_hashes(&key, &o->id);
	rc = pt_meta_get_lasting(&repo->store->meta, key.b, key.len, &value, &version);
	if (!rc && !version) {
		pt_id_hex(&o->id, hex);
		rc = pt_fail(EIO, "object %s has no checksums: run ptio fsck on the store", hex);
	}
	if (!rc)
		rc = pt_record_hashes_decode(value.data, value.len, &hashes, &count);
	if (!rc && count != o->chunk_count)
		rc = pt_record_bad("checksum");
	if (!rc) {
		mine = pt_memdup(hashes, count * 8);
		if (!mine)
			rc = pt_fail_nomem();
	}
	pt_buf_done(&value);
	if (rc < 0)
		return rc;
	if (__atomic_compare_exchange_n(&o->hashes, &theirs, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		*ret_hashes = mine;
	} else {
		free(mine);
		*ret_hashes = theirs;
	}
	return 0;
}

int pt_checked_hash(struct pt_repo *repo, struct pt_checked_object *object, uint64_t chunk, uint64_t *ret_hash)
{
	uint8_t *hashes = __atomic_load_n(&object->hashes, __ATOMIC_ACQUIRE);
	int rc;

	if (chunk >= object->chunk_count)
		return pt_fail(EINVAL, "chunk %llu is beyond the object", (unsigned long long)chunk);
	if (!hashes) {
		rc = hashes_load(repo, object, &hashes);
		if (rc < 0)
			return rc;
	}
	*ret_hash = pt_get_le64(hashes + chunk * 8);
	return 0;
}

static bool bit_test(const uint64_t *bits, uint64_t chunk)
{
	return __atomic_load_n(&bits[chunk / 64], __ATOMIC_ACQUIRE) >> (chunk % 64) & 1;
}

bool pt_checked_test(const struct pt_checked_object *object, uint64_t chunk)
{
	return bit_test(object->bits, chunk);
}

void pt_checked_set(struct pt_checked_object *object, uint64_t chunk)
{
	__atomic_fetch_or(&object->bits[chunk / 64], (uint64_t)1 << (chunk % 64), __ATOMIC_RELEASE);
}

bool pt_checked_is_bad(const struct pt_checked_object *object, uint64_t chunk)
{
	return bit_test(object->bits + object->words, chunk);
}

void pt_checked_set_bad(struct pt_checked_object *object, uint64_t chunk, bool bad)
{
	uint64_t *word = &object->bits[object->words + chunk / 64], bit = (uint64_t)1 << (chunk % 64);

	if (bad)
		__atomic_fetch_or(word, bit, __ATOMIC_RELEASE);
	else
		__atomic_fetch_and(word, ~bit, __ATOMIC_RELEASE);
}
