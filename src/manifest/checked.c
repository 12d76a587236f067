/* manifest/checked.c - the table of pinned objects. Two bits a chunk, set atomically; checksums are loaded outside the lock by whoever needs them first.
 *
 * Ranks of one node read the same objects one after the other, each its own rows of every chunk, so what one has verified need not be read whole by the next: objects that nobody
 * holds stay in the table for a while, with the stamp that their blob had before the first read. What is whole by then is told to the engine, which tells other processes. Invariant: an object is in the list of kept ones exactly when it has no holders. */
#include "manifest/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/internal.h"

#define TABLE_PLACES 4096

struct pt_checked_object {
	struct pt_checked_object *next; /* in its place; under the table's lock */
	struct pt_checked_object *newer, *older;        /* among the kept; under the table's lock */
	uint64_t holders;               /* under the table's lock */
	uint64_t stamp;                 /* of the blob when its bits began to count; 0: not known. Under the table's lock */
	bool began;                     /* by those who hold it now; atomically, after stamp and bits */
	uint64_t epoch;                 /* how often the bits were cleared; atomically, under the table's lock */
	struct pt_id id;
	uint64_t bytes, chunk_count;
	uint8_t *hashes;                /* 8 bytes a chunk, NULL until loaded; set once, atomically */
	uint64_t words;
	uint64_t bits[];                /* bit c % 64 of word c / 64, atomically: verified; then as many words: bad */
};

struct pt_checked {
	pthread_mutex_t lock;           /* all of this, and what the objects say is under it */
	struct pt_checked_object *place[TABLE_PLACES];
	struct pt_checked_object *newest, *oldest;      /* kept */
	uint64_t kept_bytes;
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

static uint64_t memory_of(const struct pt_checked_object *o)
{
	return sizeof(*o) + o->words * 2 * sizeof(o->bits[0]);
}

static void kept_remove_locked(struct pt_checked *checked, struct pt_checked_object *o)
{
	*(o->newer ? &o->newer->older : &checked->newest) = o->older;
	*(o->older ? &o->older->newer : &checked->oldest) = o->newer;
	o->newer = o->older = NULL;
	checked->kept_bytes -= memory_of(o);
}

static void kept_add_locked(struct pt_checked *checked, struct pt_checked_object *o)
{
	o->older = checked->newest;
	*(checked->newest ? &checked->newest->newer : &checked->oldest) = o;
	checked->newest = o;
	checked->kept_bytes += memory_of(o);
}

/* Nobody holds it. One that was damaged is looked at anew by the next. */
static bool worth_keeping(const struct pt_checked_object *o)
{
	uint64_t i, good = 0, bad = 0;

	if (!o->stamp)
		return false;
	for (i = 0; i < o->words; i++) {
		good |= o->bits[i];
		bad |= o->bits[o->words + i];
	}
	return good && !bad;
}

/* Out of the table, oldest first, until the rest is within bounds; the caller frees them, chained by next. */
static struct pt_checked_object *evict_locked(struct pt_checked *checked)
{
	struct pt_checked_object *o, *gone = NULL;

	while (checked->kept_bytes > PT_CHECKED_KEPT_BYTES && (o = checked->oldest)) {
		kept_remove_locked(checked, o);
		*place_of(checked, &o->id) = o->next;
		o->next = gone;
		gone = o;
	}
	return gone;
}

int pt_checked_get(struct pt_checked *checked, const struct pt_object *object, struct pt_checked_object **ret_object)
{
	uint64_t bytes = pt_object_hashed(object), chunks = bytes / PT_HASH_CHUNK + (bytes % PT_HASH_CHUNK != 0), words = (chunks + 63) / 64;
	struct pt_checked_object **at, *o;
	int rc = 0;

	if (bytes > PT_OBJECT_BYTES_MAX)        /* a record that nobody has written; its bits might be all of the memory */
		return pt_record_bad("revision");
	pthread_mutex_lock(&checked->lock);
	at = place_of(checked, &object->blob.id);
	o = *at;
	if (o && !o->holders && o->bytes != bytes) {            /* nobody's now: the record may be another one */
		kept_remove_locked(checked, o);
		*at = o->next;
		object_free(o);
		o = NULL;
	}
	/* Two records that give one object two sizes: the bits of one are too few for the other. */
	if (o && o->chunk_count != chunks) {
		pthread_mutex_unlock(&checked->lock);
		return pt_record_bad("revision");
	}
	if (!o) {
		o = pt_calloc(1, sizeof(*o) + words * 2 * sizeof(o->bits[0]));
		if (o) {
			o->id = object->blob.id;
			o->bytes = bytes;
			o->chunk_count = chunks;
			o->words = words;
			*at = o;
		}
	}
	if (o) {
		if (o->holders++ == 0 && o->stamp)
			kept_remove_locked(checked, o);
		*ret_object = o;
	} else {
		rc = pt_fail_nomem();
	}
	pthread_mutex_unlock(&checked->lock);
	return rc;
}

void pt_checked_drop(struct pt_checked *checked, const struct pt_id *id)
{
	struct pt_checked_object **at, *o, *gone = NULL;

	pthread_mutex_lock(&checked->lock);
	at = place_of(checked, id);
	o = *at;
	if (o && --o->holders == 0) {
		if (worth_keeping(o)) {
			o->began = false;
			free(o->hashes);
			o->hashes = NULL;
			kept_add_locked(checked, o);
			gone = evict_locked(checked);
		} else {
			*at = o->next;
			o->next = NULL;
			gone = o;
		}
	}
	pthread_mutex_unlock(&checked->lock);
	while ((o = gone)) {
		gone = o->next;
		object_free(o);
	}
}

void pt_checked_put(struct pt_checked *checked, struct pt_checked_object *object)
{
	struct pt_id id = object->id;

	pt_checked_drop(checked, &id);
}

/* Of a word of bits: those that are chunks. */
static uint64_t word_mask(const struct pt_checked_object *o, uint64_t word)
{
	uint64_t left = o->chunk_count - word * 64;

	return left < 64 ? ((uint64_t)1 << left) - 1 : UINT64_MAX;
}

static bool all_set(const struct pt_checked_object *o)
{
	uint64_t i;

	for (i = 0; i < o->words; i++)
		if (__atomic_load_n(&o->bits[i], __ATOMIC_SEQ_CST) != word_mask(o, i))
			return false;
	return o->words != 0;
}

static void clear_locked(struct pt_checked_object *o)
{
	uint64_t i;

	/* First, so that nobody who read before it sets a bit that stays. */
	__atomic_add_fetch(&o->epoch, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < o->words; i++)
		__atomic_store_n(&o->bits[i], 0, __ATOMIC_SEQ_CST);
}

/* Somebody has verified all of it, when it had the stamp that it has. */
static void take_proof(struct pt_repo *repo, struct pt_checked_object *o, const struct pt_blob_ref *blob, uint64_t stamp)
{
	uint64_t i, *bad;

	if (repo->options.verify != PT_VERIFY_TOUCH || o->bytes < PT_CHECKED_KEPT_MIN || all_set(o) || !pt_data_proved(&repo->store->data, blob, stamp))
		return;
	pthread_mutex_lock(&repo->checked->lock);
	for (i = 0; stamp == o->stamp && i < o->words; i++) {
		bad = &o->bits[o->words + i];
		__atomic_fetch_or(&o->bits[i], word_mask(o, i) & ~__atomic_load_n(bad, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
		/* Those that somebody has just found bad: he marks them before he clears the bit. */
		__atomic_fetch_and(&o->bits[i], ~__atomic_load_n(bad, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&repo->checked->lock);
	pt_count(&repo->counters.objects_proved, 1);
}

static uint64_t look_at_stamp(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob, bool anew)
{
	uint64_t stamp = object->bytes < PT_CHECKED_KEPT_MIN && !anew ? 0 : pt_data_stamp(&repo->store->data, blob), begun;
	bool look;

	pthread_mutex_lock(&repo->checked->lock);
	look = !__atomic_load_n(&object->began, __ATOMIC_ACQUIRE) || anew;
	if (look) {
		if (stamp != object->stamp)
			clear_locked(object);
		object->stamp = stamp;
	}
	begun = object->epoch;
	pthread_mutex_unlock(&repo->checked->lock);
	if (look) {
		take_proof(repo, object, blob, stamp);
		__atomic_store_n(&object->began, true, __ATOMIC_RELEASE);
	}
	return begun;
}

uint64_t pt_checked_begin(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob)
{
	if (__atomic_load_n(&object->began, __ATOMIC_ACQUIRE))
		return __atomic_load_n(&object->epoch, __ATOMIC_SEQ_CST);
	return look_at_stamp(repo, object, blob, false);
}

uint64_t pt_checked_renew(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob)
{
	return look_at_stamp(repo, object, blob, true);
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
		rc = pt_fail(EIO, "object %s has no checksums: write the tensor again, or restore a copy of the index", hex);
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

bool pt_checked_whole(struct pt_checked *checked, struct pt_checked_object *object, uint64_t stamp)
{
	bool whole;

	pthread_mutex_lock(&checked->lock);
	whole = stamp && object->stamp == stamp && all_set(object);
	pthread_mutex_unlock(&checked->lock);
	return whole;
}

/* Only if nobody has changed it since the stamp that the first chunk was read under: then no chunk was read before a change. */
void pt_checked_tell(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob, uint64_t begun)
{
	uint64_t stamp;

	pthread_mutex_lock(&repo->checked->lock);
	stamp = object->epoch == begun ? object->stamp : 0;
	pthread_mutex_unlock(&repo->checked->lock);
	if (stamp && object->bytes >= PT_CHECKED_KEPT_MIN && all_set(object) && pt_data_stamp(&repo->store->data, blob) == stamp)
		pt_data_prove(&repo->store->data, blob, stamp);
}

void pt_checked_set(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob, uint64_t chunk, uint64_t begun)
{
	uint64_t *word = &object->bits[chunk / 64], bit = (uint64_t)1 << (chunk % 64), old;

	if (__atomic_load_n(&object->epoch, __ATOMIC_SEQ_CST) != begun)
		return;
	old = __atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&object->epoch, __ATOMIC_SEQ_CST) != begun)
		__atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST);
	else if (!(old & bit) && (old | bit) == word_mask(object, chunk / 64))
		pt_checked_tell(repo, object, blob, begun);
}

bool pt_checked_is_bad(const struct pt_checked_object *object, uint64_t chunk)
{
	return bit_test(object->bits + object->words, chunk);
}

void pt_checked_set_bad(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob, uint64_t chunk)
{
	uint64_t bit = (uint64_t)1 << (chunk % 64);

	__atomic_fetch_or(&object->bits[object->words + chunk / 64], bit, __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&object->bits[chunk / 64], ~bit, __ATOMIC_SEQ_CST);
	if (object->bytes >= PT_CHECKED_KEPT_MIN)
		pt_data_doubt(&repo->store->data, blob);
}

void pt_checked_set_good(struct pt_checked_object *object, uint64_t chunk)
{
	__atomic_fetch_and(&object->bits[object->words + chunk / 64], ~((uint64_t)1 << (chunk % 64)), __ATOMIC_SEQ_CST);
}
