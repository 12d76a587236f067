/* store/data_memory.c - the memory data engine: blobs of one process in its memory, up to a capacity.
 *
 * A blob counts with its bytes, from the first write on (what is written furthest, then the sealed size), until it was
 * removed and its last reader is gone. Its bytes lie in an extent (extent.h).
 * What of a blob nobody wrote is zero, also in memory that another blob had: [bytes, room) of such a one is not, and is cleared where a write leaves it out.
 * Pins are counters (data_memory_pins.h). Operations complete before they return. Not durable. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "store/data.h"
#include "store/data_memory_pins.h"
#include "store/extent.h"
#include "store/refmap.h"

struct blob {
	struct pt_refmap_node node;             /* first; in sealed or staged */
	uint64_t users;                         /* the map's and readers'; under the store's lock */
	uint64_t bytes;                         /* sealed: the size; staged: the end of what was written; changed under both locks */
	pthread_mutex_t lock;                   /* memory while staged; taken before the store's */
	struct pt_extent memory;
	int64_t mtime_ns;
};

struct memory {
	uint64_t capacity;
	struct pt_extents extents;
	struct pt_pin_counts *pins;
	pthread_mutex_t lock;                   /* all below, and users of all blobs */
	uint64_t used;
	struct pt_refmap sealed, staged;
};

static void blob_free(struct memory *m, struct blob *b)
{
	pt_extent_free(&m->extents, &b->memory);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* Drops one user; the last one frees it. */
static void blob_unref(struct memory *m, struct blob *b)
{
	bool last;

	pthread_mutex_lock(&m->lock);
	last = --b->users == 0;
	if (last)
		m->used -= b->bytes;
	pthread_mutex_unlock(&m->lock);
	if (last)
		blob_free(m, b);
}

static int fail_blob(const struct pt_blob_ref *ref, int err, const char *what)
{
	char hex[PT_ID_HEX_LEN + 1];

	pt_id_hex(&ref->id, hex);
	return pt_fail(err, "object %s %s", hex, what);
}

static int fail_full(const struct memory *m)
{
	return pt_fail(ENOSPC, "the memory store is full (%llu bytes); remove something, or open it with a larger mem:SIZE",
		       (unsigned long long)m->capacity);
}

static void memory_create(void *h, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob, struct pt_done *done)
{
	struct memory *m = h;
	struct blob *b = NULL;
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	if (pt_refmap_find(&m->sealed, ref) || pt_refmap_find(&m->staged, ref))
		rc = fail_blob(ref, EEXIST, "is there already");
	else if (size_hint > m->capacity - m->used)
		rc = fail_full(m);
	else if (!(b = pt_calloc(1, sizeof(*b))))
		rc = pt_fail_nomem();
	if (rc == 0) {
		b->node.ref = *ref;
		b->users = 1;
		pthread_mutex_init(&b->lock, NULL);
		b->mtime_ns = pt_time_now_ns();
		pt_refmap_insert(&m->staged, &b->node);
	}
	pthread_mutex_unlock(&m->lock);
	/* The hint spares copies later; without memory for it the writes say so. */
	if (rc == 0) {
		if (size_hint >= PT_EXTENT_MAP_MIN)
			(void)pt_extent_grow(&m->extents, &b->memory, 0, size_hint);
		*ret_blob = b;
	}
	pt_done_call(done, rc);
}

/* Accounts for the blob reaching `end` and gives it room, of which [off, end) will be written. With the blob's lock held. */
static int reach_locked(struct memory *m, struct blob *b, uint64_t off, uint64_t end)
{
	uint64_t from = b->bytes, more = end > from ? end - from : 0;
	bool fits;
	int rc;

	if (!more)
		return 0;
	pthread_mutex_lock(&m->lock);
	fits = more <= m->capacity - m->used;
	if (fits)
		m->used += more;
	pthread_mutex_unlock(&m->lock);
	if (!fits)
		return fail_full(m);
	pt_extents_look(&m->extents);
	rc = pt_extent_grow(&m->extents, &b->memory, from, end);
	if (rc == 0 && b->memory.used && off > from)
		memset(b->memory.data + from, 0, off - from);
	pthread_mutex_lock(&m->lock);
	if (rc == 0)
		b->bytes = end;
	else
		m->used -= more;
	pthread_mutex_unlock(&m->lock);
	return rc;
}

static void memory_write(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done)
{
	struct memory *m = h;
	struct blob *b = blob;
	int rc;

	/* Growing may move the bytes, so writers of one blob take turns. */
	pthread_mutex_lock(&b->lock);
	rc = reach_locked(m, b, off, off + len);
	if (rc == 0)
		memcpy(b->memory.data + off, buf, len);
	pthread_mutex_unlock(&b->lock);
	pt_done_call(done, rc);
}

static void memory_abort(void *h, void *blob)
{
	struct memory *m = h;
	struct blob *b = blob;

	pthread_mutex_lock(&m->lock);
	pt_refmap_remove(&m->staged, &b->node);
	pthread_mutex_unlock(&m->lock);
	blob_unref(m, b);
}

static void memory_seal(void *h, void *blob, uint64_t bytes, struct pt_done *done)
{
	struct memory *m = h;
	struct blob *b = blob;
	int rc;

	pthread_mutex_lock(&b->lock);
	rc = reach_locked(m, b, bytes, bytes);
	pthread_mutex_unlock(&b->lock);
	if (rc == 0) {
		pthread_mutex_lock(&m->lock);
		m->used -= b->bytes - bytes;
		b->bytes = bytes;
		b->mtime_ns = pt_time_now_ns();
		pt_refmap_remove(&m->staged, &b->node);
		pt_refmap_insert(&m->sealed, &b->node);
		pthread_mutex_unlock(&m->lock);
	} else {
		memory_abort(m, b);
	}
	pt_done_call(done, rc);
}

/* A sealed blob with one more user. */
static int blob_use(struct memory *m, const struct pt_blob_ref *ref, struct blob **ret_blob)
{
	struct blob *b;

	pthread_mutex_lock(&m->lock);
	b = (struct blob *)pt_refmap_find(&m->sealed, ref);
	if (b)
		b->users++;
	pthread_mutex_unlock(&m->lock);
	if (!b)
		return fail_blob(ref, ENOENT, "is not there");
	*ret_blob = b;
	return 0;
}

static int check_inside(const struct blob *b, uint64_t off, uint64_t len)
{
	if (len > b->bytes || off > b->bytes - len)
		return fail_blob(&b->node.ref, EIO, "is shorter than what is read of it; run ptio verify, and write the tensor again");
	return 0;
}

static void memory_read(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done)
{
	struct memory *m = h;
	struct blob *b = NULL;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count; i++) {
		const struct pt_data_range *r = &ranges[i];

		if (b && !pt_blob_ref_equal(&b->node.ref, &r->blob)) {
			blob_unref(m, b);
			b = NULL;
		}
		if (!b)
			rc = blob_use(m, &r->blob, &b);
		if (rc == 0)
			rc = check_inside(b, r->off, r->len);
		if (rc == 0 && r->len)
			memcpy(r->buf, b->memory.data + r->off, r->len);
	}
	if (b)
		blob_unref(m, b);
	pt_done_call(done, rc);
}

static int memory_map(void *h, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, const void **ret_addr, void **ret_map)
{
	struct memory *m = h;
	struct blob *b;
	int rc = blob_use(m, ref, &b);

	if (rc < 0)
		return rc;
	rc = check_inside(b, off, len);
	if (rc < 0) {
		blob_unref(m, b);
		return rc;
	}
	*ret_addr = b->memory.data ? b->memory.data + off : (const uint8_t *)"";
	*ret_map = b;
	return 0;
}

static void memory_unmap(void *h, void *map)
{
	blob_unref(h, map);
}

static void memory_stat(void *h, const struct pt_blob_ref *ref, uint64_t *ret_bytes, struct pt_done *done)
{
	struct memory *m = h;
	struct blob *b;
	int rc = blob_use(m, ref, &b);

	if (rc == 0) {
		*ret_bytes = b->bytes;
		blob_unref(m, b);
	}
	pt_done_call(done, rc);
}

static void memory_remove(void *h, const struct pt_blob_ref *ref, struct pt_done *done)
{
	struct memory *m = h;
	struct blob *b;
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	b = (struct blob *)pt_refmap_find(&m->sealed, ref);
	if (b)
		pt_refmap_remove(&m->sealed, &b->node);
	pthread_mutex_unlock(&m->lock);
	if (b)
		blob_unref(m, b);
	else
		rc = fail_blob(ref, ENOENT, "is not there");
	pt_done_call(done, rc);
}

struct entry {
	struct pt_blob_ref ref;
	uint64_t bytes;
	int64_t mtime_ns;
	bool staged;
};

static size_t collect_locked(const struct pt_refmap *map, bool staged, struct entry *entries)
{
	size_t n = 0;

	for (size_t i = 0; i < map->bucket_count; i++)
		for (struct pt_refmap_node *node = map->buckets[i]; node; node = node->next) {
			const struct blob *b = (const struct blob *)node;

			entries[n++] = (struct entry){ node->ref, b->bytes, b->mtime_ns, staged };
		}
	return n;
}

/* A copy of the list first: the callback may change the store. */
static void memory_list(void *h, pt_data_list_fn *fn, void *ctx, struct pt_done *done)
{
	struct memory *m = h;
	struct entry *entries;
	size_t n = 0;
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	entries = pt_reallocarray(NULL, m->sealed.count + m->staged.count + 1, sizeof(*entries));
	if (entries) {
		n = collect_locked(&m->sealed, false, entries);
		n += collect_locked(&m->staged, true, entries + n);
	} else {
		rc = pt_fail_nomem();
	}
	pthread_mutex_unlock(&m->lock);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = fn(ctx, &entries[i].ref, entries[i].bytes, entries[i].mtime_ns, entries[i].staged, entries[i].staged);
	free(entries);
	pt_done_call(done, rc < 0 ? rc : 0);
}

static void memory_pin(void *h, const struct pt_blob_ref *refs, size_t count, struct pt_done *done)
{
	struct memory *m = h;

	pt_done_call(done, pt_pin_counts_pin(m->pins, refs, count));
}

static void memory_unpin(void *h, const struct pt_blob_ref *refs, size_t count)
{
	struct memory *m = h;

	pt_pin_counts_unpin(m->pins, refs, count);
}

static void memory_pinned(void *h, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned, struct pt_done *done)
{
	struct memory *m = h;

	pt_pin_counts_pinned(m->pins, refs, count, ret_pinned);
	pt_done_call(done, 0);
}

static int memory_buffer_register(void *h, void *addr, uint64_t len)
{
	(void)h, (void)addr, (void)len;
	return 0;
}

static void memory_buffer_unregister(void *h, void *addr)
{
	(void)h, (void)addr;
}

static void memory_space(void *h, struct pt_data_space *ret_space, struct pt_done *done)
{
	struct memory *m = h;

	pthread_mutex_lock(&m->lock);
	ret_space->total_bytes = m->capacity;
	ret_space->used_bytes = m->used;
	ret_space->free_bytes = m->capacity - m->used;
	ret_space->free_files = (m->capacity - m->used) / 4096;
	ret_space->total_files = ret_space->free_files + m->sealed.count + m->staged.count;
	pthread_mutex_unlock(&m->lock);
	pt_done_call(done, 0);
}

static void memory_sync(void *h, struct pt_done *done)
{
	(void)h;
	pt_done_call(done, 0);
}

/* Its only process lives. */
static void memory_sweep(void *h, uint64_t *ret_count, struct pt_done *done)
{
	(void)h;
	*ret_count = 0;
	pt_done_call(done, 0);
}

static void free_blobs(struct memory *m, struct pt_refmap *map)
{
	struct pt_refmap_node *n;

	while (map->buckets && (n = pt_refmap_any(map))) {
		pt_refmap_remove(map, n);
		blob_free(m, (struct blob *)n);
	}
	pt_refmap_done(map);
}

static void memory_close(void *h)
{
	struct memory *m = h;

	pt_extents_done(&m->extents);
	free_blobs(m, &m->sealed);
	free_blobs(m, &m->staged);
	pt_pin_counts_free(m->pins);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static const struct pt_data_ops memory_ops = {
	.size = sizeof(struct pt_data_ops),
	.version = 1,
	.name = "memory",
	.durable = false,
	.close = memory_close,
	.create = memory_create,
	.write = memory_write,
	.seal = memory_seal,
	.abort = memory_abort,
	.read = memory_read,
	.map = memory_map,
	.unmap = memory_unmap,
	.stat = memory_stat,
	.remove = memory_remove,
	.list = memory_list,
	.pin = memory_pin,
	.unpin = memory_unpin,
	.pinned = memory_pinned,
	.buffer_register = memory_buffer_register,
	.buffer_unregister = memory_buffer_unregister,
	.space = memory_space,
	.sync = memory_sync,
	.sweep = memory_sweep,
};

int pt_data_memory_open(uint64_t capacity, uint64_t reserve, struct pt_data *ret_data)
{
	struct memory *m = pt_calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return pt_fail_nomem();
	m->capacity = pt_size_min(capacity, INT64_MAX);
	pthread_mutex_init(&m->lock, NULL);
	rc = pt_refmap_init(&m->sealed);
	if (rc == 0)
		rc = pt_refmap_init(&m->staged);
	if (rc == 0)
		rc = pt_pin_counts_create(&m->pins);
	if (rc == 0)
		rc = pt_extents_init(&m->extents, m->capacity, reserve);
	if (rc < 0) {
		memory_close(m);
		return rc;
	}
	ret_data->ops = &memory_ops;
	ret_data->h = m;
	ret_data->read_only = false;
	return 0;
}
