/* manifest/gc.c - collecting garbage. Any number of collectors may run beside readers and writers.
 *
 * Order, and why a crash between any two steps leaves only what the next pass collects, and never a manifest that names missing bytes:
 * 1. Blobs leave their manifest or set, and enter a garbage record, in one batch. Until then nothing here touches them.
 * 2. One durable batch takes a blob out of the garbage record and its reference away, and deletes its records if that was the last one. The batch compares all
 *    that it was decided upon, so of two collectors one wins, and somebody who takes a new reference meanwhile makes it fail.
 * 3. Only then the blob is removed. A crash before leaves a sealed blob without a record: an orphan (step 5). The other order would leave, for a moment, an
 *    object record, which a new manifest might take a reference on, without its bytes.
 *    A container's objects enter a garbage record of their own in the batch that drops the container's last reference.
 * Pins: step 2 asks for pins after it has read the garbage record; pin.c says why that suffices. Pinned blobs wait in their garbage record.
 * 4. Staged blobs of writers that have died are dropped by the engine, which knows who lives.
 * 5. Orphans: sealed blobs that are older than a grace, not pinned, and have no record. Pins are asked for first and records looked up second: a writer pins before
 *    it seals and unpins after its commit, so an unpinned blob is either committed, which the record shows, or given up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "manifest/internal.h"

#define GROUP 16                        /* blobs a batch: at most 7 operations each, and 3 more */
#define CLOCK_STEP_NS (INT64_C(10) * 1000000000)        /* more than a clock is made to run faster by between two passes */
#define ROUNDS_MAX 4                    /* containers' objects become garbage of the next round */

/* ---- keys of garbage records ---- */
struct ids {
	struct pt_buf bytes;            /* 16 each */
};

static int collect_id(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct ids *ids = ctx;

	(void)value;
	(void)value_len;
	(void)version;
	if (key_len != 1 + sizeof(struct pt_id))
		return pt_record_bad("garbage");
	pt_buf_append(&ids->bytes, (const uint8_t *)key + 1, sizeof(struct pt_id));
	return ids->bytes.failed ? pt_fail_nomem() : 0;
}

/* ---- one garbage record ---- */
struct pass {
	struct pt_repo *repo;
	struct pt_gc_stats *stats;
	bool again;                     /* a container went, and left garbage of its own */
};

struct group {
	struct pt_blob_ref ref[GROUP];
	uint64_t bytes[GROUP];
	size_t count;                   /* blobs to remove once the batch holds */
	struct pt_buf value[GROUP];     /* of records put */
	size_t value_count;
};

/* Whether the blob is named earlier in the list: then its turn comes with the next batch. */
static bool seen_before(const struct pt_blob_ref *refs, size_t index)
{
	size_t i;

	for (i = 0; i < index; i++)
		if (!pt_id_compare(&refs[i].id, &refs[index].id))
			return true;
	return false;
}

/* What a container refers to becomes garbage with it. 1: it referred to something. */
static int release_refs(struct pass *pass, struct pt_batch *batch, struct group *group, const struct pt_id *id)
{
	struct pt_buf *value = &group->value[group->value_count];
	struct pt_rkey key;
	struct pt_id garbage;
	uint64_t version;
	int rc;

	pt_rkey_refs(&key, id);
	pt_buf_reset(value);
	rc = pt_rec_get(pass->repo, &key, value, &version);
	if (rc < 0 || !version)
		return rc;
	rc = pt_id_random(&garbage);
	if (rc < 0)
		return rc;
	pt_batch_compare(batch, &key, version);
	pt_batch_delete(batch, &key);
	pt_rkey_garbage(&key, &garbage);
	pt_batch_put(batch, &key, value);
	group->value_count++;
	return 1;
}

/* Adds what becomes of one blob. 1: it leaves the garbage record, 0: it stays there. */
static int decide(struct pass *pass, struct pt_batch *batch, struct group *group, const struct pt_blob_ref *ref, bool pinned)
{
	struct pt_blob_rec rec;
	struct pt_buf *value;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	rc = pt_rec_blob(pass->repo, &ref->id, &rec, &version);
	if (rc < 0)
		return rc;
	pt_rkey_blob(&key, &ref->id);
	if (!version)
		return 1;
	if (rec.refs == 1 && pinned)
		return 0;
	pt_batch_compare(batch, &key, version);
	if (rec.refs > 1) {
		rec.refs--;
		value = &group->value[group->value_count++];
		pt_buf_reset(value);
		pt_record_blob_encode(&rec, value);
		pt_batch_put(batch, &key, value);
		return 1;
	}
	pt_batch_delete(batch, &key);
	pt_rkey_hashes(&key, &ref->id);
	pt_batch_delete(batch, &key);
	rc = rec.kind == PT_BLOB_PLAIN ? release_refs(pass, batch, group, &ref->id) : 0;
	if (rc < 0)
		return rc;
	pass->again = pass->again || rc;
	group->ref[group->count] = *ref;
	group->bytes[group->count] = rec.bytes;
	group->count++;
	return 1;
}

/* One batch over the record's next blobs. *offset: how many at the front stay. 1: there is more to do, 0: done with this record. */
static int garbage_step(struct pass *pass, const struct pt_rkey *key, size_t *offset, struct group *group)
{
	struct pt_buf value = PT_BUF_INIT, rest = PT_BUF_INIT;
	struct pt_blob_ref *refs = NULL;
	bool pinned[GROUP], more;
	struct pt_batch batch;
	size_t count = 0, n, i, kept = 0;
	uint64_t version;
	int rc;

	group->count = group->value_count = 0;
	rc = pt_rec_get(pass->repo, key, &value, &version);
	if (rc < 0 || !version)
		goto out;
	rc = pt_record_garbage_decode(value.data, value.len, &refs, &count);
	if (rc < 0)
		goto out;
	if (*offset > count)
		*offset = count;
	n = count - *offset < GROUP ? count - *offset : GROUP;
	rc = n ? pt_data_pinned(&pass->repo->store->data, refs + *offset, n, pinned) : 0;
	pt_batch_init(&batch);
	pt_batch_compare(&batch, key, version);
	for (i = 0; i < *offset && !rc; i++)
		pt_record_garbage_add(&rest, &refs[i]);
	for (i = 0; i < n && rc >= 0; i++) {
		if (seen_before(refs + *offset, i))
			break;
		rc = decide(pass, &batch, group, &refs[*offset + i], pinned[i]);
		if (!rc) {
			pt_record_garbage_add(&rest, &refs[*offset + i]);
			kept++;
		}
	}
	if (rc < 0)
		goto out;
	n = i;
	for (i = *offset + n; i < count; i++)
		pt_record_garbage_add(&rest, &refs[i]);
	more = *offset + n < count;
	rc = rest.failed ? pt_fail_nomem() : 0;
	if (rc < 0)
		goto out;
	if (kept < n || !count) {
		if (rest.len)
			pt_batch_put(&batch, key, &rest);
		else
			pt_batch_delete(&batch, key);
		rc = pt_batch_commit(pass->repo, &batch, NULL);
	}
	if (rc < 0)
		goto out;
	*offset += kept;
	pass->stats->kept_pinned += kept;
	rc = more;
out:
	free(refs);
	pt_buf_done(&value);
	pt_buf_done(&rest);
	return rc;
}

static int remove_blobs(struct pass *pass, const struct group *group)
{
	size_t i;
	int rc;

	for (i = 0; i < group->count; i++) {
		rc = pt_data_remove(&pass->repo->store->data, &group->ref[i]);
		if (rc < 0 && rc != -ENOENT)
			return rc;
		pass->stats->objects_removed++;
		pass->stats->bytes_removed += group->bytes[i];
	}
	return 0;
}

static int collect_record(struct pass *pass, const struct pt_id *id, struct group *group)
{
	struct pt_retry retry = { 0 };
	struct pt_rkey key;
	size_t offset = 0;
	int rc, removed;

	pt_rkey_garbage(&key, id);
	do {
		rc = garbage_step(pass, &key, &offset, group);
		removed = rc < 0 ? 0 : remove_blobs(pass, group);
		if (removed < 0)
			return removed;
		if (rc == -EAGAIN)
			offset = 0;
	} while (rc == 1 || pt_retry_again(&retry, &rc));
	return rc;
}

static int collect_garbage(struct pass *pass)
{
	struct ids ids = { .bytes = PT_BUF_INIT };
	struct group *group;
	struct pt_rkey key;
	struct pt_id id;
	size_t at;
	int rc;

	group = pt_calloc(1, sizeof(*group));
	if (!group)
		return pt_fail_nomem();
	pt_rkey_garbage(&key, NULL);
	rc = pt_meta_scan_prefix(&pass->repo->store->meta, key.b, key.len, 0, collect_id, &ids);
	for (at = 0; at < ids.bytes.len && rc >= 0; at += sizeof(id)) {
		memcpy(id.b, ids.bytes.data + at, sizeof(id));
		rc = collect_record(pass, &id, group);
	}
	for (at = 0; at < GROUP; at++)
		pt_buf_done(&group->value[at]);
	free(group);
	pt_buf_done(&ids.bytes);
	return rc < 0 ? rc : 0;
}

/* ---- pending sets ---- */

/* Other processes, on other machines perhaps, wrote when they were changed last, so it is the clock that tells their age. When that has been set forward, all of them seem old, also those whose ranks are
 * writing: none expires until so much time has passed since. */
static bool ages_hold(struct pt_repo *repo)
{
	int64_t boot = pt_time_boot_ns(), ahead = pt_time_now_ns() - boot, set;

	if (ahead - __atomic_exchange_n(&repo->clock_ahead_ns, ahead, __ATOMIC_SEQ_CST) > CLOCK_STEP_NS)
		__atomic_store_n(&repo->clock_set_ns, boot, __ATOMIC_SEQ_CST);
	set = __atomic_load_n(&repo->clock_set_ns, __ATOMIC_SEQ_CST);
	return !set || boot - set > repo->options.pending_ttl_ns;
}

static int expire_one(void *ctx, const struct pt_pending *p)
{
	struct pass *pass = ctx;
	int64_t age = pt_time_now_ns() - p->updated_ns;
	int rc;

	if (age <= pass->repo->options.pending_ttl_ns)
		return 0;
	rc = pt_pending_expire(pass->repo, p);
	if (!rc)
		pass->stats->pending_expired++;
	return rc == -ENOENT ? 0 : rc;
}

/* ---- orphans ---- */
struct orphans {
	struct pt_blob_ref *ref;
	uint64_t *bytes;
	size_t count, capacity;
	int64_t before_ns;
	bool nomem;
};

static int orphan_seen(void *ctx, const struct pt_blob_ref *blob, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	struct orphans *o = ctx;
	struct pt_blob_ref *refs;
	uint64_t *sizes;
	size_t capacity;

	(void)live;
	if (staged || mtime_ns > o->before_ns)
		return 0;
	if (o->count == o->capacity) {
		capacity = o->capacity ? o->capacity * 2 : 256;
		refs = pt_reallocarray(o->ref, capacity, sizeof(*refs));
		if (refs)
			o->ref = refs;
		sizes = pt_reallocarray(o->bytes, capacity, sizeof(*sizes));
		if (sizes)
			o->bytes = sizes;
		if (!refs || !sizes) {
			o->nomem = true;
			return 1;
		}
		o->capacity = capacity;
	}
	o->ref[o->count] = *blob;
	o->bytes[o->count++] = bytes;
	return 0;
}

static int sweep_group(struct pass *pass, const struct orphans *o, size_t from, size_t count)
{
	struct pt_data *data = &pass->repo->store->data;
	struct pt_blob_rec rec;
	bool pinned[GROUP];
	uint64_t version;
	size_t i;
	int rc;

	rc = pt_data_pinned(data, o->ref + from, count, pinned);
	for (i = 0; i < count && rc >= 0; i++) {
		if (pinned[i])
			continue;
		rc = pt_rec_blob(pass->repo, &o->ref[from + i].id, &rec, &version);
		if (rc < 0 || version)
			continue;
		rc = pt_data_remove(data, &o->ref[from + i]);
		if (!rc) {
			pass->stats->orphans_removed++;
			pass->stats->bytes_removed += o->bytes[from + i];
		} else if (rc == -ENOENT) {
			rc = 0;
		}
	}
	return rc;
}

static int sweep_orphans(struct pass *pass)
{
	struct orphans o = { .before_ns = pt_time_now_ns() - pass->repo->options.orphan_grace_ns };
	size_t at, n;
	int rc;

	rc = pt_data_list(&pass->repo->store->data, orphan_seen, &o);
	if (rc >= 0 && o.nomem)
		rc = pt_fail_nomem();
	for (at = 0; at < o.count && rc >= 0; at += n) {
		n = o.count - at < GROUP ? o.count - at : GROUP;
		rc = sweep_group(pass, &o, at, n);
	}
	free(o.ref);
	free(o.bytes);
	return rc < 0 ? rc : 0;
}

int pt_gc_run(struct pt_repo *repo, struct pt_gc_stats *ret_stats)
{
	struct pt_gc_stats stats = { 0 };
	struct pass pass = { .repo = repo, .stats = &stats };
	int rc, round = 0;

	if (repo->store->read_only)
		return pt_fail(EROFS, "the store is open read-only");
	rc = ages_hold(repo) ? pt_pending_list(repo, 0, expire_one, &pass) : 0;
	do {
		pass.again = false;
		if (!rc)
			rc = collect_garbage(&pass);
	} while (!rc && pass.again && ++round < ROUNDS_MAX);
	if (!rc)
		rc = pt_data_sweep(&repo->store->data, &stats.staged_removed);
	if (!rc)
		rc = sweep_orphans(&pass);
	if (!rc)
		*ret_stats = stats;
	return rc;
}
