/* store/data.c - the synchronous, checked forms of the data operations.
 *
 * Every call of an engine comes through here, so engines may rely on what is checked: known kinds, ids that are not zero,
 * offset plus length below 2^63, no empty writes, no NULL buffers for bytes. */
#include "store/data.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

static int check_refs(const struct pt_blob_ref *refs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (refs[i].kind != PT_BLOB_TENSOR && refs[i].kind != PT_BLOB_PLAIN)
			return pt_fail(EINVAL, "a blob of unknown kind %d was asked for", (int)refs[i].kind);
		if (pt_id_is_zero(&refs[i].id))
			return pt_fail(EINVAL, "a blob without an id was asked for");
	}
	return 0;
}

static int check_range(const void *buf, uint64_t len, uint64_t off)
{
	uint64_t end;

	if (!pt_size_add(off, len, &end) || end > INT64_MAX)
		return pt_fail(EINVAL, "bytes %llu + %llu of a blob are beyond any file", (unsigned long long)off,
			       (unsigned long long)len);
	if (len && !buf)
		return pt_fail(EINVAL, "no buffer for %llu bytes of a blob", (unsigned long long)len);
	return 0;
}

static int check_writable(const struct pt_data *d)
{
	if (d->read_only)
		return pt_fail(EROFS, "the store was opened read-only; open it for writing to change it");
	return 0;
}

void pt_data_close(struct pt_data *d)
{
	if (!d || !d->ops)
		return;
	d->ops->close(d->h);
	d->ops = NULL;
	d->h = NULL;
}

int pt_data_create(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob)
{
	void *blob = NULL;
	struct pt_wait w;
	int rc = check_writable(d);

	if (rc == 0)
		rc = check_refs(ref, 1);
	if (rc == 0)
		rc = check_range(ref, size_hint, 0);
	if (rc < 0)
		return rc;
	pt_wait_init(&w);
	d->ops->create(d->h, ref, size_hint, &blob, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0)
		*ret_blob = blob;
	return rc;
}

void pt_data_write_begin(struct pt_data *d, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done)
{
	int rc = check_range(buf, len, off);

	if (rc < 0 || len == 0)
		pt_done_call(done, rc);
	else
		d->ops->write(d->h, blob, buf, len, off, done);
}

int pt_data_write(struct pt_data *d, void *blob, const void *buf, uint64_t len, uint64_t off)
{
	struct pt_wait w;

	pt_wait_init(&w);
	pt_data_write_begin(d, blob, buf, len, off, &w.done);
	return pt_wait_finish(&w);
}

int pt_data_seal(struct pt_data *d, void *blob, uint64_t bytes)
{
	struct pt_wait w;
	int rc = check_range(blob, bytes, 0);

	if (rc < 0) {
		pt_data_abort(d, blob);
		return rc;
	}
	pt_wait_init(&w);
	d->ops->seal(d->h, blob, bytes, &w.done);
	return pt_wait_finish(&w);
}

void pt_data_abort(struct pt_data *d, void *blob)
{
	if (blob)
		d->ops->abort(d->h, blob);
}

int pt_data_read(struct pt_data *d, const struct pt_data_range *ranges, size_t count)
{
	struct pt_wait w;

	for (size_t i = 0; i < count; i++) {
		int rc = check_refs(&ranges[i].blob, 1);

		if (rc == 0)
			rc = check_range(ranges[i].buf, ranges[i].len, ranges[i].off);
		if (rc < 0)
			return rc;
	}
	if (count == 0)
		return 0;
	pt_wait_init(&w);
	d->ops->read(d->h, ranges, count, &w.done);
	return pt_wait_finish(&w);
}

bool pt_data_direct(struct pt_data *d, const struct pt_blob_ref *ref)
{
	return d->ops->direct && check_refs(ref, 1) == 0 && d->ops->direct(d->h, ref);
}

uint64_t pt_data_stamp(struct pt_data *d, const struct pt_blob_ref *ref)
{
	uint64_t stamp = 0;

	if (!d->ops->stamp || check_refs(ref, 1) < 0 || d->ops->stamp(d->h, ref, &stamp) < 0) {
		pt_fail_clear();
		return 0;
	}
	return stamp;
}

bool pt_data_proved(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t stamp)
{
	return d->ops->proved && stamp && check_refs(ref, 1) == 0 && d->ops->proved(d->h, ref, stamp);
}

void pt_data_prove(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t stamp)
{
	if (d->ops->prove && stamp && !d->read_only && check_refs(ref, 1) == 0)
		d->ops->prove(d->h, ref, stamp);
}

void pt_data_doubt(struct pt_data *d, const struct pt_blob_ref *ref)
{
	if (d->ops->doubt && check_refs(ref, 1) == 0)
		d->ops->doubt(d->h, ref);
}

void pt_data_hashed(struct pt_data *d, void *blob)
{
	if (d->ops->hashed)
		d->ops->hashed(d->h, blob);
}

void pt_data_proof_counts(struct pt_data *d, uint64_t *ret_told, uint64_t *ret_failed)
{
	*ret_told = *ret_failed = 0;
	if (d->ops->proof_counts)
		d->ops->proof_counts(d->h, ret_told, ret_failed);
}

int pt_data_map(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, const void **ret_addr, void **ret_map)
{
	int rc = check_refs(ref, 1);

	if (rc == 0)
		rc = check_range(ref, len, off);
	if (rc < 0)
		return rc;
	return d->ops->map(d->h, ref, off, len, ret_addr, ret_map);
}

void pt_data_unmap(struct pt_data *d, void *map)
{
	if (map)
		d->ops->unmap(d->h, map);
}

int pt_data_fd_get(struct pt_data *d, const struct pt_blob_ref *ref, int *ret_fd, void **ret_lent)
{
	int rc = check_refs(ref, 1);

	if (rc < 0)
		return rc;
	return d->ops->fd_get ? d->ops->fd_get(d->h, ref, ret_fd, ret_lent) : -EOPNOTSUPP;
}

void pt_data_fd_put(struct pt_data *d, void *lent)
{
	if (lent)
		d->ops->fd_put(d->h, lent);
}

int pt_data_stat(struct pt_data *d, const struct pt_blob_ref *ref, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	struct pt_wait w;
	int rc = check_refs(ref, 1);

	if (rc < 0)
		return rc;
	pt_wait_init(&w);
	d->ops->stat(d->h, ref, &bytes, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0 && ret_bytes)
		*ret_bytes = bytes;
	return rc;
}

int pt_data_remove(struct pt_data *d, const struct pt_blob_ref *ref)
{
	struct pt_wait w;
	int rc = check_writable(d);

	if (rc == 0)
		rc = check_refs(ref, 1);
	if (rc < 0)
		return rc;
	pt_wait_init(&w);
	d->ops->remove(d->h, ref, &w.done);
	return pt_wait_finish(&w);
}

int pt_data_list(struct pt_data *d, pt_data_list_fn *fn, void *ctx)
{
	struct pt_wait w;

	pt_wait_init(&w);
	d->ops->list(d->h, fn, ctx, &w.done);
	return pt_wait_finish(&w);
}

int pt_data_pin_at(struct pt_data *d, const struct pt_blob_ref *refs, size_t count, struct pt_meta_at *ret_at)
{
	struct pt_wait w;
	int rc = check_refs(refs, count);

	if (rc < 0 || count == 0)
		return rc;
	pt_wait_init(&w);
	w.done.at = ret_at;
	d->ops->pin(d->h, refs, count, &w.done);
	return pt_wait_finish(&w);
}

int pt_data_pin(struct pt_data *d, const struct pt_blob_ref *refs, size_t count)
{
	return pt_data_pin_at(d, refs, count, NULL);
}

void pt_data_unpin(struct pt_data *d, const struct pt_blob_ref *refs, size_t count)
{
	if (count)
		d->ops->unpin(d->h, refs, count);
}

int pt_data_pinned(struct pt_data *d, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned)
{
	struct pt_wait w;
	int rc = check_refs(refs, count);

	if (rc < 0 || count == 0)
		return rc;
	pt_wait_init(&w);
	d->ops->pinned(d->h, refs, count, ret_pinned, &w.done);
	return pt_wait_finish(&w);
}

int pt_data_buffer_register(struct pt_data *d, void *addr, uint64_t len)
{
	return d->ops->buffer_register(d->h, addr, len);
}

void pt_data_buffer_unregister(struct pt_data *d, void *addr)
{
	d->ops->buffer_unregister(d->h, addr);
}

int pt_data_space(struct pt_data *d, struct pt_data_space *ret_space)
{
	struct pt_data_space space = { 0 };
	struct pt_wait w;
	int rc;

	pt_wait_init(&w);
	d->ops->space(d->h, &space, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0)
		*ret_space = space;
	return rc;
}

int pt_data_sync(struct pt_data *d)
{
	struct pt_wait w;

	pt_wait_init(&w);
	d->ops->sync(d->h, &w.done);
	return pt_wait_finish(&w);
}

int pt_data_sweep(struct pt_data *d, uint64_t *ret_count)
{
	uint64_t count = 0;
	struct pt_wait w;
	int rc = check_writable(d);

	if (rc < 0)
		return rc;
	pt_wait_init(&w);
	d->ops->sweep(d->h, &count, &w.done);
	rc = pt_wait_finish(&w);
	if (rc == 0 && ret_count)
		*ret_count = count;
	return rc;
}

void pt_data_tidy(struct pt_data *d, const struct pt_blob_ref *ref)
{
	if (d->ops->tidy)
		d->ops->tidy(d->h, ref);
}
