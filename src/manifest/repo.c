/* manifest/repo.c - opening a store as a repository: formatting, node ids, counters. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "manifest/cache.h"
#include "manifest/checked.h"
#include "manifest/internal.h"
#include "manifest/pump.h"
#include "manifest/window.h"
#include "store/remote.h"

#define NODE_ID_BLOCK 64
#define PENDING_TTL_NS ((int64_t)24 * 3600 * 1000000000)
#define ORPHAN_GRACE_NS ((int64_t)15 * 60 * 1000000000)

/* A new store: its format record, the root and the counter of node ids, in one batch. -EAGAIN: another process was first. */
static int repo_format(struct pt_repo *repo)
{
	struct pt_node root = { .id = PT_NODE_ROOT, .kind = PT_NODE_DIR, .mode = 0755, .uid = geteuid(), .gid = getegid(), .next_revision = 1 };
	struct pt_buf format = PT_BUF_INIT, node = PT_BUF_INIT, counter = PT_BUF_INIT;
	struct pt_format_rec rec = { .version = PT_FORMAT_VERSION };
	struct pt_batch batch;
	struct pt_rkey key;
	int rc;

	rc = pt_id_random(&rec.store_id);
	if (rc < 0)
		return rc;
	rec.created_ns = pt_time_now_ns();
	root.mtime_ns = root.ctime_ns = rec.created_ns;
	pt_record_format_encode(&rec, &format);
	pt_record_counter_encode(PT_NODE_ROOT + 1, &counter);
	rc = pt_record_node_encode(&root, &node);
	if (!rc && (format.failed || counter.failed))
		rc = pt_fail_nomem();
	if (rc < 0)
		goto out;
	pt_batch_init(&batch);
	pt_rkey_counter(&key, "format");
	pt_batch_compare(&batch, &key, 0);
	pt_batch_put(&batch, &key, &format);
	pt_rkey_counter(&key, "node");
	pt_batch_put(&batch, &key, &counter);
	pt_rkey_node(&key, PT_NODE_ROOT);
	pt_batch_put(&batch, &key, &node);
	rc = pt_batch_commit(repo, &batch, NULL);
out:
	pt_buf_done(&format);
	pt_buf_done(&node);
	pt_buf_done(&counter);
	return rc;
}

static int repo_check_once(struct pt_repo *repo)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_format_rec rec;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	pt_rkey_counter(&key, "format");
	rc = pt_rec_get(repo, &key, &value, &version);
	if (rc < 0)
		goto out;
	if (!version) {
		if (repo->store->read_only)
			rc = pt_fail(ENOENT, "%s is empty: open it once for writing to make it a store", repo->store->uri);
		else
			rc = repo_format(repo);
		if (!rc)
			rc = -EAGAIN;
		goto out;
	}
	rc = pt_record_format_decode(value.data, value.len, &rec);
	if (rc < 0)
		goto out;
	if (rec.version != PT_FORMAT_VERSION)
		rc = pt_fail(ENOTSUP, "%s has format version %" PRIu32 ", this ptio knows %d: use a newer one", repo->store->uri, rec.version,
			     PT_FORMAT_VERSION);
	repo->store_id = rec.store_id;
	pt_remote_known(&repo->store->data, &rec.store_id);
out:
	pt_buf_done(&value);
	return rc;
}

int pt_repo_open(struct pt_store *store, const struct pt_repo_options *options, struct pt_repo **ret_repo)
{
	struct pt_retry retry = { 0 };
	struct pt_repo *repo;
	int rc;

	repo = pt_calloc(1, sizeof(*repo));
	if (!repo)
		return pt_fail_nomem();
	repo->store = store;
	if (options)
		repo->options = *options;
	else
		repo->options.verify = PT_VERIFY_TOUCH;
	if (!repo->options.pending_ttl_ns)
		repo->options.pending_ttl_ns = PENDING_TTL_NS;
	if (!repo->options.orphan_grace_ns)
		repo->options.orphan_grace_ns = ORPHAN_GRACE_NS;
	repo->clock_ahead_ns = pt_time_now_ns() - pt_time_boot_ns();
	pthread_mutex_init(&repo->id_lock, NULL);
	pthread_mutex_init(&repo->group_lock, NULL);
	pt_window_pool_init(&repo->windows, &store->data);
	pt_pump_init(&repo->pump);
	rc = pt_cache_create(&repo->cache);
	if (!rc)
		rc = pt_checked_create(&repo->checked);
	if (rc < 0)
		goto fail;
	do
		rc = repo_check_once(repo);
	while (pt_retry_again(&retry, &rc));
	if (rc < 0)
		goto fail;
	*ret_repo = repo;
	return 0;
fail:
	repo->store = NULL;
	pt_repo_close(repo);
	return rc;
}

void pt_repo_close(struct pt_repo *repo)
{
	if (!repo)
		return;
	pt_checked_free(repo->checked);
	pt_cache_free(repo->cache);
	pt_pump_done(&repo->pump);
	pt_window_pool_done(&repo->windows);
	pthread_mutex_destroy(&repo->id_lock);
	pthread_mutex_destroy(&repo->group_lock);
	if (repo->store)
		pt_store_close(repo->store);
	free(repo);
}

struct pt_store *pt_repo_store(struct pt_repo *repo)
{
	return repo->store;
}

void pt_repo_on_change(struct pt_repo *repo, pt_repo_change_fn *fn, void *ctx)
{
	repo->change_ctx = ctx;
	__atomic_store_n(&repo->change_fn, fn, __ATOMIC_RELEASE);
}

void pt_repo_on_full(struct pt_repo *repo, pt_repo_full_fn *fn, void *ctx)
{
	repo->full_ctx = ctx;
	repo->full_fn = fn;
}

bool pt_repo_room_made(struct pt_repo *repo, int rc)
{
	char sentence[PT_FAIL_SENTENCE_MAX];

	if ((rc != -ENOSPC && rc != -EDQUOT) || !repo->full_fn)
		return false;
	snprintf(sentence, sizeof(sentence), "%s", pt_fail_sentence());
	if (!repo->full_fn(repo->full_ctx)) {
		pt_fail(-rc, "%s", sentence);
		return false;
	}
	pt_fail_clear();
	return true;
}

static int id_block_once(struct pt_repo *repo)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_batch batch;
	struct pt_rkey key;
	uint64_t version, next;
	int rc;

	pt_rkey_counter(&key, "node");
	rc = pt_rec_get(repo, &key, &value, &version);
	if (!rc)
		rc = pt_record_counter_decode(value.data, value.len, &next);
	if (!rc && next > UINT64_MAX / 2)
		rc = pt_record_bad("counter");
	if (rc < 0)
		goto out;
	pt_buf_reset(&value);
	pt_record_counter_encode(next + NODE_ID_BLOCK, &value);
	pt_batch_init(&batch);
	pt_batch_compare(&batch, &key, version);
	pt_batch_put(&batch, &key, &value);
	rc = pt_batch_commit(repo, &batch, NULL);
	if (rc < 0)
		goto out;
	repo->id_next = next;
	repo->id_end = next + NODE_ID_BLOCK;
out:
	pt_buf_done(&value);
	return rc;
}

/* Ids come in blocks, each taken by one process through compare-and-set, so no id is used twice; a process that ends wastes the rest of its block. */
int pt_node_id_new(struct pt_repo *repo, uint64_t *ret_id)
{
	struct pt_retry retry = { 0 };
	int rc = 0;

	pthread_mutex_lock(&repo->id_lock);
	if (repo->id_next == repo->id_end)
		do
			rc = id_block_once(repo);
		while (pt_retry_again(&retry, &rc));
	if (!rc)
		*ret_id = repo->id_next++;
	pthread_mutex_unlock(&repo->id_lock);
	return rc;
}

void pt_repo_counters(struct pt_repo *repo, struct pt_repo_counters *ret_counters)
{
	const struct pt_repo_counters *c = &repo->counters;

	*ret_counters = (struct pt_repo_counters){
		.reads = __atomic_load_n(&c->reads, __ATOMIC_RELAXED),
		.read_bytes_asked = __atomic_load_n(&c->read_bytes_asked, __ATOMIC_RELAXED),
		.read_bytes_moved = __atomic_load_n(&c->read_bytes_moved, __ATOMIC_RELAXED),
		.ranges = __atomic_load_n(&c->ranges, __ATOMIC_RELAXED),
		.chunks_verified = __atomic_load_n(&c->chunks_verified, __ATOMIC_RELAXED),
		.verify_failures = __atomic_load_n(&c->verify_failures, __ATOMIC_RELAXED),
		.objects_proved = __atomic_load_n(&c->objects_proved, __ATOMIC_RELAXED),
		.commits = __atomic_load_n(&c->commits, __ATOMIC_RELAXED),
		.parts = __atomic_load_n(&c->parts, __ATOMIC_RELAXED),
		.bytes_stored = __atomic_load_n(&c->bytes_stored, __ATOMIC_RELAXED),
	};
}
