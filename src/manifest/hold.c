/* manifest/hold.c - objects on their way into a container.
 *
 * A container of many tensors cannot be published with all its objects in one batch. So objects are recorded in groups beforehand, and each group is named by a
 * garbage record in the same batch. The batch that publishes the container deletes those garbage records and puts the list of what it refers to.
 * Invariant: an object recorded here is named by exactly one of a garbage record and a published container. Its pin, held until then, is what keeps collectors off
 * (gc.c: pinned blobs with one reference stay in their garbage record). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/internal.h"

#define GROUP 30                        /* objects a batch: 3 operations each, and 2 more */
#define RECORD_BYTES ((size_t)64 << 10) /* of a garbage record; doubled with every STEP records, so that their number stays small */
#define STEP 16
#define RECORDS_MAX 55                  /* 2 operations each in the batch that publishes */

struct hold_record {
	struct pt_id id;
	uint64_t version;
};

struct pt_hold {
	struct pt_repo *repo;
	struct pt_part part[GROUP];     /* not recorded yet */
	uint32_t part_count;
	struct hold_record record[RECORDS_MAX];
	uint32_t record_count;
	struct pt_buf list;             /* what the last record names */
	struct pt_buf all;              /* every object recorded */
	struct pt_blob_ref *ref;        /* every object taken over, recorded or not */
	size_t ref_count, ref_cap;
};

int pt_hold_create(struct pt_repo *repo, struct pt_hold **ret_hold)
{
	struct pt_hold *h = pt_calloc(1, sizeof(*h));

	if (!h)
		return pt_fail_nomem();
	h->repo = repo;
	*ret_hold = h;
	return 0;
}

static int record_start(struct pt_hold *h)
{
	struct hold_record *r;
	int rc;

	if (h->record_count == RECORDS_MAX)
		return pt_fail(EFBIG, "the file holds too many tensors: save it in several files");
	r = &h->record[h->record_count];
	rc = pt_id_random(&r->id);
	if (rc < 0)
		return rc;
	r->version = 0;
	h->record_count++;
	pt_buf_reset(&h->list);
	return 0;
}

static int record_group(struct pt_hold *h)
{
	struct pt_buf blob_value[GROUP] = { 0 }, hash_value[GROUP] = { 0 };
	struct hold_record *r;
	struct pt_batch *batch = NULL;
	struct pt_rkey key;
	uint32_t i;
	int rc = 0;

	if (!h->part_count)
		return 0;
	if (!h->record_count || h->list.len >= RECORD_BYTES << (h->record_count - 1) / STEP)
		rc = record_start(h);
	if (rc < 0)
		return rc;
	batch = pt_malloc(sizeof(*batch));
	if (!batch)
		return pt_fail_nomem();
	r = &h->record[h->record_count - 1];
	pt_batch_init(batch);
	for (i = 0; i < h->part_count; i++) {
		const struct pt_object *o = &h->part[i].object;
		struct pt_blob_rec rec = { .kind = o->blob.kind, .refs = 1, .bytes = o->payload_off + o->bytes, .payload_off = o->payload_off };

		pt_record_garbage_add(&h->list, &o->blob);
		pt_record_garbage_add(&h->all, &o->blob);
		pt_record_blob_encode(&rec, &blob_value[i]);
		pt_rkey_blob(&key, &o->blob.id);
		pt_batch_compare(batch, &key, 0);
		pt_batch_put(batch, &key, &blob_value[i]);
		pt_record_hashes_encode(&h->part[i].chunk_hashes, &hash_value[i]);
		pt_rkey_hashes(&key, &o->blob.id);
		pt_batch_put(batch, &key, &hash_value[i]);
		if (blob_value[i].failed || hash_value[i].failed)
			rc = pt_fail_nomem();
	}
	if (h->list.failed || h->all.failed)
		rc = pt_fail_nomem();
	pt_rkey_garbage(&key, &r->id);
	pt_batch_compare(batch, &key, r->version);
	pt_batch_put(batch, &key, &h->list);
	if (!rc)
		rc = pt_batch_commit(h->repo, batch, &r->version);
	if (!rc)
		pt_count(&h->repo->counters.parts, h->part_count);
	for (i = 0; i < GROUP; i++) {
		pt_buf_done(&blob_value[i]);
		pt_buf_done(&hash_value[i]);
	}
	for (i = 0; !rc && i < h->part_count; i++)
		pt_part_done(&h->part[i]);
	if (!rc)
		h->part_count = 0;
	free(batch);
	return rc;
}

int pt_hold_add(struct pt_hold *h, struct pt_part *part)
{
	struct pt_blob_ref *more;
	int rc;

	if (h->ref_count == h->ref_cap) {
		more = pt_reallocarray(h->ref, h->ref_cap ? 2 * h->ref_cap : 64, sizeof(*more));
		if (!more) {
			pt_object_discard(h->repo, part);
			return pt_fail_nomem();
		}
		h->ref = more;
		h->ref_cap = h->ref_cap ? 2 * h->ref_cap : 64;
	}
	if (h->part_count == GROUP) {
		rc = record_group(h);
		if (rc < 0) {
			pt_object_discard(h->repo, part);
			return rc;
		}
	}
	h->ref[h->ref_count++] = part->object.blob;
	h->part[h->part_count++] = *part;
	memset(part, 0, sizeof(*part));
	return 0;
}

int pt_hold_record(struct pt_hold *h)
{
	return record_group(h);
}

struct extra {
	struct pt_hold *hold;
	struct pt_id blob;
};

static void add_extra(void *ctx, struct pt_batch *batch)
{
	struct extra *e = ctx;
	struct pt_hold *h = e->hold;
	struct pt_rkey key;
	uint32_t i;

	if (h->all.len) {
		pt_rkey_refs(&key, &e->blob);
		pt_batch_put(batch, &key, &h->all);
	}
	for (i = 0; i < h->record_count; i++) {
		pt_rkey_garbage(&key, &h->record[i].id);
		pt_batch_compare(batch, &key, h->record[i].version);
		pt_batch_delete(batch, &key);
	}
}

static void unpin_all(struct pt_hold *h)
{
	size_t i, n;

	for (i = 0; i < h->ref_count; i += n) {
		n = h->ref_count - i < 64 ? h->ref_count - i : 64;
		pt_data_unpin(&h->repo->store->data, h->ref + i, n);
	}
	h->ref_count = 0;
}

int pt_hold_publish(struct pt_hold *h, struct pt_node *node, uint64_t blob_bytes)
{
	struct extra e = { h, node->blob.id };
	int rc;

	rc = record_group(h);
	if (rc < 0)
		return rc;
	node->kind = PT_NODE_CONTAINER;
	rc = pt_node_update_with(h->repo, node, blob_bytes, add_extra, &e);
	if (rc < 0)
		return rc;
	unpin_all(h);
	h->record_count = 0;
	pt_buf_reset(&h->all);
	pt_buf_reset(&h->list);
	return 0;
}

void pt_blob_give_up(struct pt_repo *repo, const struct pt_blob_ref *blob, bool remove)
{
	struct pt_data *data = &repo->store->data;
	char sentence[PT_FAIL_SENTENCE_MAX];

	snprintf(sentence, sizeof(sentence), "%s", pt_fail_sentence());
	/* What is not removed now is an orphan, which the collector finds. */
	if (remove && pt_data_remove(data, blob) < 0)
		pt_fail(EIO, "%s", sentence);
	pt_data_unpin(data, blob, 1);
}

void pt_blob_discard(struct pt_repo *repo, const struct pt_blob_ref *blob, int rc)
{
	if (!pt_id_is_zero(&blob->id))
		pt_blob_give_up(repo, blob, rc != -EIO);
}

void pt_hold_free(struct pt_hold *h)
{
	uint32_t i;

	if (!h)
		return;
	/* Those not recorded go at once; the others when a collector sees that nobody pins them. */
	for (i = 0; i < h->part_count; i++) {
		pt_object_discard(h->repo, &h->part[i]);
		h->ref_count--;
	}
	unpin_all(h);
	pt_buf_done(&h->list);
	pt_buf_done(&h->all);
	free(h->ref);
	free(h);
}
