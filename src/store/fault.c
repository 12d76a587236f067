/* store/fault.c - the fault layer (fault.h): engines that pass each call on to another one, as the rules allow. */
#include "store/fault.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/fault_rules.h"

/* Stands in for the caller's completion where a rule wants to act after the operation. */
struct after {
	struct pt_done done;                    /* first */
	struct pt_done *then;
	bool crash;
	const struct pt_data_range *corrupt;    /* flip a bit of these; NULL: no */
	size_t corrupt_count;
};

static void flip_bit(const struct pt_data_range *ranges, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ranges[i].len) {
			((uint8_t *)ranges[i].buf)[ranges[i].len / 2] ^= 0x10;
			return;
		}
}

static void after_done(struct pt_done *done, int rc)
{
	struct after *a = (struct after *)done;
	struct pt_done *then = a->then;

	if (a->crash)
		pt_fault_crash();
	if (rc == 0 && a->corrupt)
		flip_bit(a->corrupt, a->corrupt_count);
	free(a);
	pt_done_call(then, rc);
}

/* The verdict on one call: true with *done the completion to pass on, or false when the call has been answered. */
static bool admit(struct pt_fault_rules *rules, const char *op, const struct pt_data_range *ranges, size_t count, struct pt_done **done)
{
	struct pt_fault_verdict v;
	struct after *a;
	int rc = pt_fault_rules_apply(rules, op, &v);

	if (rc < 0) {
		pt_done_call(*done, rc);
		return false;
	}
	if (!v.crash_after && !v.corrupt)
		return true;
	a = pt_calloc(1, sizeof(*a));
	if (!a) {
		pt_done_call(*done, pt_fail_nomem());
		return false;
	}
	a->done.fn = after_done;
	a->then = *done;
	a->crash = v.crash_after;
	a->corrupt = v.corrupt ? ranges : NULL;
	a->corrupt_count = count;
	*done = &a->done;
	return true;
}

/* For operations without a completion: errors do not apply. True: crash afterwards. */
static bool crash_after(struct pt_fault_rules *rules, const char *op)
{
	struct pt_fault_verdict v;

	(void)pt_fault_rules_apply(rules, op, &v);
	return v.crash_after;
}

struct fault_meta {
	struct pt_meta_ops ops;                 /* ours, with the name and durability of the engine below */
	struct pt_meta below;
	struct pt_fault_rules *rules;
};

static void meta_close(void *h)
{
	struct fault_meta *f = h;

	pt_meta_close(&f->below);
	pt_fault_rules_free(f->rules);
	free(f);
}

static void meta_get(void *h, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version, struct pt_done *done)
{
	struct fault_meta *f = h;

	if (admit(f->rules, "meta.get", NULL, 0, &done))
		f->below.ops->get(f->below.h, key, ret_value, ret_version, done);
}

static void meta_scan(void *h, const struct pt_meta_key *start, const struct pt_meta_key *end, uint64_t limit, pt_meta_scan_fn *fn,
		      void *ctx, struct pt_done *done)
{
	struct fault_meta *f = h;

	if (admit(f->rules, "meta.scan", NULL, 0, &done))
		f->below.ops->scan(f->below.h, start, end, limit, fn, ctx, done);
}

static void meta_commit(void *h, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version, struct pt_done *done)
{
	struct fault_meta *f = h;

	if (admit(f->rules, "meta.commit", NULL, 0, &done))
		f->below.ops->commit(f->below.h, ops, count, ret_version, done);
}

static void meta_watch(void *h, uint64_t seen, int64_t timeout_ns, uint64_t *ret_version, struct pt_done *done)
{
	struct fault_meta *f = h;

	if (admit(f->rules, "meta.watch", NULL, 0, &done))
		f->below.ops->watch(f->below.h, seen, timeout_ns, ret_version, done);
}

static void meta_space(void *h, struct pt_meta_space *ret_space, struct pt_done *done)
{
	struct fault_meta *f = h;

	if (admit(f->rules, "meta.space", NULL, 0, &done))
		f->below.ops->space(f->below.h, ret_space, done);
}

static void meta_sync(void *h, struct pt_done *done)
{
	struct fault_meta *f = h;

	if (admit(f->rules, "meta.sync", NULL, 0, &done))
		f->below.ops->sync(f->below.h, done);
}

static void meta_snapshot(void *h, int dirfd, const char *path, struct pt_done *done)
{
	struct fault_meta *f = h;

	if (admit(f->rules, "meta.snapshot", NULL, 0, &done))
		f->below.ops->snapshot(f->below.h, dirfd, path, done);
}

static const struct pt_meta_ops fault_meta_ops = {
	.size = sizeof(struct pt_meta_ops),
	.version = 1,
	.close = meta_close,
	.get = meta_get,
	.scan = meta_scan,
	.commit = meta_commit,
	.watch = meta_watch,
	.space = meta_space,
	.sync = meta_sync,
	.snapshot = meta_snapshot,
};

int pt_fault_meta_stack(struct pt_meta *m, const char *spec)
{
	struct fault_meta *f;
	int rc;

	if (!spec || !*spec)
		return 0;
	f = pt_calloc(1, sizeof(*f));
	if (!f)
		return pt_fail_nomem();
	rc = pt_fault_rules_parse(spec, &f->rules);
	if (rc < 0) {
		free(f);
		return rc;
	}
	f->below = *m;
	f->ops = fault_meta_ops;
	f->ops.name = m->ops->name;
	f->ops.durable = m->ops->durable;
	m->ops = &f->ops;
	m->h = f;
	return 0;
}

struct fault_data {
	struct pt_data_ops ops;
	struct pt_data below;
	struct pt_fault_rules *rules;
};

static void data_close(void *h)
{
	struct fault_data *f = h;

	pt_data_close(&f->below);
	pt_fault_rules_free(f->rules);
	free(f);
}

static void data_create(void *h, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.create", NULL, 0, &done))
		f->below.ops->create(f->below.h, ref, size_hint, ret_blob, done);
}

static void data_write(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.write", NULL, 0, &done))
		f->below.ops->write(f->below.h, blob, buf, len, off, done);
}

/* Keeps the promise that a failed seal has consumed the handle. */
struct seal_failed {
	struct pt_done done;                    /* first */
	struct pt_done *then;
	struct fault_data *f;
	void *blob;
};

static void seal_failed(struct pt_done *done, int rc)
{
	struct seal_failed *s = (struct seal_failed *)done;

	s->f->below.ops->abort(s->f->below.h, s->blob);
	pt_done_call(s->then, rc);
}

static void data_seal(void *h, void *blob, uint64_t bytes, struct pt_done *done)
{
	struct fault_data *f = h;
	struct seal_failed s = { { .fn = seal_failed }, done, f, blob };
	struct pt_done *d = &s.done;

	if (!admit(f->rules, "data.seal", NULL, 0, &d))
		return;
	/* Admitted: the completion is the caller's again, or ours in front of it. */
	if (d == &s.done)
		d = done;
	else
		((struct after *)d)->then = done;
	f->below.ops->seal(f->below.h, blob, bytes, d);
}

static void data_abort(void *h, void *blob)
{
	struct fault_data *f = h;
	bool crash = crash_after(f->rules, "data.abort");

	f->below.ops->abort(f->below.h, blob);
	if (crash)
		pt_fault_crash();
}

static void data_read(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.read", ranges, count, &done))
		f->below.ops->read(f->below.h, ranges, count, done);
}

static int data_map(void *h, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, const void **ret_addr, void **ret_map)
{
	struct pt_fault_verdict v;
	struct fault_data *f = h;
	int rc = pt_fault_rules_apply(f->rules, "data.map", &v);

	if (rc < 0)
		return rc;
	rc = f->below.ops->map(f->below.h, ref, off, len, ret_addr, ret_map);
	if (v.crash_after)
		pt_fault_crash();
	return rc;
}

static void data_unmap(void *h, void *map)
{
	struct fault_data *f = h;

	f->below.ops->unmap(f->below.h, map);
}

static void data_stat(void *h, const struct pt_blob_ref *ref, uint64_t *ret_bytes, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.stat", NULL, 0, &done))
		f->below.ops->stat(f->below.h, ref, ret_bytes, done);
}

static void data_remove(void *h, const struct pt_blob_ref *ref, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.remove", NULL, 0, &done))
		f->below.ops->remove(f->below.h, ref, done);
}

static void data_list(void *h, pt_data_list_fn *fn, void *ctx, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.list", NULL, 0, &done))
		f->below.ops->list(f->below.h, fn, ctx, done);
}

static void data_pin(void *h, const struct pt_blob_ref *refs, size_t count, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.pin", NULL, 0, &done))
		f->below.ops->pin(f->below.h, refs, count, done);
}

static void data_unpin(void *h, const struct pt_blob_ref *refs, size_t count)
{
	struct fault_data *f = h;
	bool crash = crash_after(f->rules, "data.unpin");

	f->below.ops->unpin(f->below.h, refs, count);
	if (crash)
		pt_fault_crash();
}

static void data_pinned(void *h, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.pinned", NULL, 0, &done))
		f->below.ops->pinned(f->below.h, refs, count, ret_pinned, done);
}

static int data_buffer_register(void *h, void *addr, uint64_t len)
{
	struct fault_data *f = h;

	return f->below.ops->buffer_register(f->below.h, addr, len);
}

static void data_buffer_unregister(void *h, void *addr)
{
	struct fault_data *f = h;

	f->below.ops->buffer_unregister(f->below.h, addr);
}

static void data_space(void *h, struct pt_data_space *ret_space, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.space", NULL, 0, &done))
		f->below.ops->space(f->below.h, ret_space, done);
}

static void data_sync(void *h, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.sync", NULL, 0, &done))
		f->below.ops->sync(f->below.h, done);
}

static void data_sweep(void *h, uint64_t *ret_count, struct pt_done *done)
{
	struct fault_data *f = h;

	if (admit(f->rules, "data.sweep", NULL, 0, &done))
		f->below.ops->sweep(f->below.h, ret_count, done);
}

static void data_tidy(void *h, const struct pt_blob_ref *ref)
{
	struct fault_data *f = h;

	pt_data_tidy(&f->below, ref);
}

static const struct pt_data_ops fault_data_ops = {
	.size = sizeof(struct pt_data_ops),
	.version = 1,
	.close = data_close,
	.create = data_create,
	.write = data_write,
	.seal = data_seal,
	.abort = data_abort,
	.read = data_read,
	.map = data_map,
	.unmap = data_unmap,
	.stat = data_stat,
	.remove = data_remove,
	.list = data_list,
	.pin = data_pin,
	.unpin = data_unpin,
	.pinned = data_pinned,
	.buffer_register = data_buffer_register,
	.buffer_unregister = data_buffer_unregister,
	.space = data_space,
	.sync = data_sync,
	.sweep = data_sweep,
	.tidy = data_tidy,
};

int pt_fault_data_stack(struct pt_data *d, const char *spec)
{
	struct fault_data *f;
	int rc;

	if (!spec || !*spec)
		return 0;
	f = pt_calloc(1, sizeof(*f));
	if (!f)
		return pt_fail_nomem();
	rc = pt_fault_rules_parse(spec, &f->rules);
	if (rc < 0) {
		free(f);
		return rc;
	}
	f->below = *d;
	f->ops = fault_data_ops;
	f->ops.name = d->ops->name;
	f->ops.durable = d->ops->durable;
	f->ops.away = d->ops->away;
	d->ops = &f->ops;
	d->h = f;
	return 0;
}
