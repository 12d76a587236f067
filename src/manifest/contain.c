/* manifest/contain.c - a file becomes a container, and what to do with sealed blobs that no record took.
 *
 * The container's blob and its objects are sealed and pinned; one batch makes their records and the list of what the container refers to, and the node lead to it.
 * Before the batch a crash leaves blobs without records, which the collector takes for what they are; after it everything is there. */
#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "manifest/internal.h"

struct contents {
	struct pt_part *parts;
	uint32_t count;
	struct pt_id container;
	struct pt_buf list;             /* of what the container refers to */
	struct pt_buf blob[PT_CONTAINER_PARTS], hashes[PT_CONTAINER_PARTS];     /* records of the objects */
};

static int contents_encode(struct contents *c)
{
	bool failed = false;
	uint32_t i;

	for (i = 0; i < c->count; i++) {
		const struct pt_object *o = &c->parts[i].object;
		struct pt_blob_rec rec = { .kind = o->blob.kind, .refs = 1, .bytes = o->payload_off + o->bytes, .payload_off = o->payload_off };

		pt_record_garbage_add(&c->list, &o->blob);
		pt_record_blob_encode(&rec, &c->blob[i]);
		pt_record_hashes_encode(&c->parts[i].chunk_hashes, &c->hashes[i]);
		failed = failed || c->blob[i].failed || c->hashes[i].failed;
	}
	return failed || c->list.failed ? pt_fail_nomem() : 0;
}

static void contents_done(struct contents *c)
{
	uint32_t i;

	pt_buf_done(&c->list);
	for (i = 0; i < c->count; i++) {
		pt_buf_done(&c->blob[i]);
		pt_buf_done(&c->hashes[i]);
	}
}

static void contents_add(void *ctx, struct pt_batch *batch)
{
	struct contents *c = ctx;
	struct pt_rkey key;
	uint32_t i;

	for (i = 0; i < c->count; i++) {
		pt_rkey_blob(&key, &c->parts[i].object.blob.id);
		pt_batch_compare(batch, &key, 0);
		pt_batch_put(batch, &key, &c->blob[i]);
		pt_rkey_hashes(&key, &c->parts[i].object.blob.id);
		pt_batch_put(batch, &key, &c->hashes[i]);
	}
	if (c->count) {
		pt_rkey_refs(&key, &c->container);
		pt_batch_put(batch, &key, &c->list);
	}
}

int pt_container_publish(struct pt_repo *repo, const struct pt_container_sealed *sealed, struct pt_node *node)
{
	struct pt_data *data = &repo->store->data;
	struct contents c = { .parts = sealed->parts, .count = sealed->part_count, .container = sealed->blob.id };
	uint32_t i;
	int rc = 0;

	if (c.count > PT_CONTAINER_PARTS)
		return pt_fail(EINVAL, "a container of %u objects cannot be published", (unsigned)c.count);
	if (!pt_id_compare(&node->blob.id, &sealed->blob.id)) {
		/* Done by a call that could not tell. */
		pt_data_unpin(data, &sealed->blob, 1);
	} else {
		node->kind = PT_NODE_CONTAINER;
		node->blob = sealed->blob;
		node->size = sealed->size;
		rc = contents_encode(&c);
		if (!rc)
			rc = pt_node_update_with(repo, node, sealed->blob_bytes, contents_add, &c);
		contents_done(&c);
	}
	if (rc < 0)
		return rc;
	pt_count(&repo->counters.parts, c.count);
	for (i = 0; i < c.count; i++) {
		pt_data_unpin(data, &c.parts[i].object.blob, 1);
		pt_part_done(&c.parts[i]);
	}
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

int pt_blob_is_referred(struct pt_repo *repo, const struct pt_blob_ref *blob, bool *ret_referred)
{
	struct pt_blob_rec rec;
	uint64_t version;
	int rc = pt_rec_blob(repo, &blob->id, &rec, &version);

	if (!rc)
		*ret_referred = version != 0;
	return rc;
}

int pt_container_refs(struct pt_repo *repo, const struct pt_blob_ref *blob, struct pt_blob_ref **ret_refs, size_t *ret_count)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	*ret_refs = NULL;
	*ret_count = 0;
	pt_rkey_refs(&key, &blob->id);
	rc = pt_rec_get(repo, &key, &value, &version);
	if (!rc && version)
		rc = pt_record_garbage_decode(value.data, value.len, ret_refs, ret_count);
	pt_buf_done(&value);
	return rc;
}
