/* manifest/batch.c - building meta batches, single records, and trying again after a lost race. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "base/io.h"
#include "manifest/internal.h"

#define RETRY_NS ((int64_t)30 * 1000000000)
#define RETRY_WAIT_MIN_NS ((int64_t)50 * 1000)
#define RETRY_WAIT_MAX_NS ((int64_t)10 * 1000000)

void pt_batch_init(struct pt_batch *b)
{
	b->lazy = false;
	b->count = 0;
}

static struct pt_meta_op *batch_add(struct pt_batch *b, enum pt_meta_op_kind kind, const struct pt_rkey *key)
{
	struct pt_meta_op *op = &b->op[b->count];

	assert(b->count < PT_META_BATCH_MAX);
	b->key[b->count] = *key;
	*op = (struct pt_meta_op){ .kind = kind, .key = { .data = b->key[b->count].b, .len = key->len } };
	b->count++;
	return op;
}

void pt_batch_compare(struct pt_batch *b, const struct pt_rkey *key, uint64_t version)
{
	batch_add(b, PT_META_COMPARE, key)->version = version;
}

void pt_batch_put(struct pt_batch *b, const struct pt_rkey *key, const struct pt_buf *value)
{
	struct pt_meta_op *op = batch_add(b, PT_META_PUT, key);

	op->value = value->data;
	op->value_len = value->len;
}

void pt_batch_delete(struct pt_batch *b, const struct pt_rkey *key)
{
	batch_add(b, PT_META_DELETE, key);
}

void pt_repo_changed(struct pt_repo *repo, const struct pt_meta_op *ops, size_t count)
{
	pt_repo_change_fn *fn = __atomic_load_n(&repo->change_fn, __ATOMIC_ACQUIRE);
	uint64_t node, last = 0;
	size_t i;

	for (i = 0; fn && i < count; i++) {
		if (ops[i].kind == PT_META_COMPARE)
			continue;
		if (pt_rkey_is_models(ops[i].key.data, ops[i].key.len))
			fn(repo->change_ctx, PT_REPO_CHANGE_ANY);
		node = pt_rkey_changes(ops[i].key.data, ops[i].key.len);
		if (node && node != last)
			fn(repo->change_ctx, node);
		last = node ? node : last;
	}
}

int pt_batch_commit(struct pt_repo *repo, const struct pt_batch *b, uint64_t *ret_version)
{
	uint64_t version = 0;
	size_t i;
	int rc;

	if (repo->store->read_only)
		return pt_fail(EROFS, "the store is open read-only");
	for (i = 0; i < b->count; i++)
		if (b->op[i].kind == PT_META_PUT && !b->op[i].value)
			return pt_fail_nomem();
	rc = (b->lazy ? pt_meta_commit_lazy : pt_meta_commit)(&repo->store->meta, b->op, b->count, &version);
	if (rc < 0)
		return rc;
	if (ret_version)
		*ret_version = version;
	pt_repo_changed(repo, b->op, b->count);
	return 0;
}

int pt_batch_garbage(struct pt_batch *b, const struct pt_buf *list)
{
	struct pt_rkey key;
	struct pt_id id;
	int rc;

	if (list->failed)
		return pt_fail_nomem();
	if (!list->len)
		return 0;
	rc = pt_id_random(&id);
	if (rc < 0)
		return rc;
	pt_rkey_garbage(&key, &id);
	pt_batch_put(b, &key, list);
	return 0;
}

int pt_rec_get(struct pt_repo *repo, const struct pt_rkey *key, struct pt_buf *ret_value, uint64_t *ret_version)
{
	if (ret_value)
		pt_buf_reset(ret_value);
	return pt_meta_get(&repo->store->meta, key->b, key->len, ret_value, ret_version);
}

static int any_seen(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	(void)key;
	(void)key_len;
	(void)value;
	(void)value_len;
	(void)version;
	*(bool *)ctx = true;
	return 1;
}

int pt_rec_any(struct pt_repo *repo, const struct pt_rkey *prefix)
{
	bool seen = false;
	int rc;

	rc = pt_meta_scan_prefix(&repo->store->meta, prefix->b, prefix->len, 1, any_seen, &seen);
	return rc < 0 ? rc : seen;
}

int pt_rec_blob(struct pt_repo *repo, const struct pt_id *id, struct pt_blob_rec *ret_rec, uint64_t *ret_version)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	pt_rkey_blob(&key, id);
	rc = pt_rec_get(repo, &key, &value, &version);
	if (!rc && version)
		rc = pt_record_blob_decode(value.data, value.len, ret_rec);
	if (!rc)
		*ret_version = version;
	pt_buf_done(&value);
	return rc;
}

bool pt_retry_again(struct pt_retry *r, int *rc)
{
	int64_t max, now, wait;
	uint32_t random_bits;
	struct pt_id id;

	if (*rc != -EAGAIN)
		return false;
	now = pt_time_boot_ns();
	if (!r->deadline_ns)
		r->deadline_ns = now + RETRY_NS;
	if (now > r->deadline_ns) {
		*rc = pt_fail(EBUSY, "the index is changed by others all the time: try again when there is less contention");
		return false;
	}
	max = RETRY_WAIT_MIN_NS << (r->attempt < 8 ? r->attempt : 8);
	if (max > RETRY_WAIT_MAX_NS)
		max = RETRY_WAIT_MAX_NS;
	r->attempt++;
	random_bits = pt_id_random(&id) < 0 ? (uint32_t)now : pt_get_le32(id.b);
	wait = (int64_t)((uint64_t)max * (random_bits >> 8) >> 24);
	nanosleep(&(struct timespec){ .tv_nsec = wait }, NULL);
	return true;
}
