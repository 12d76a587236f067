/* manifest/object_read.c - reading ranges of a revision's objects, verified chunk by chunk.
 *
 * Chunks, and the offsets of pieces, are those of the bytes that have checksums: the payload, or, of a window, what the payload is a part of.
 * Ranges are taken object by object, in the caller's order within one, and cut at chunk bounds; neighbours in one chunk form a group.
 * - A chunk that must be verified (TOUCH: not seen since it was pinned; WHOLE: covered whole, or known to be damaged) is read straight into the
 *   caller's memory when one piece covers it, else into a window, verified there and copied out.
 * - Other pieces are read straight, joined where they are neighbours on both sides. A group of scattered pieces is read as one span into a window instead if that is
 *   cheaper: a separate range costs about as much as SEPARATE_COST more bytes, copying a byte half as much as moving it, so when span < bytes / 2 + pieces * SEPARATE_COST.
 * - Scattered pieces are left to an engine that reads memory which was verified when it was loaded (pt_data_direct), also of chunks that were not seen before.
 * A chunk that does not match is read once more before it is an error. Memory: one window a call, and a few KiB; no lock is held during I/O. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "manifest/checked.h"
#include "manifest/internal.h"
#include "manifest/window.h"

#define SEPARATE_COST ((uint64_t)8 << 10)
#define IO_MAX 256                      /* ranges of one engine call */
#define IO_CHECK_BYTES ((uint64_t)8 << 20)      /* bytes to verify that are let gather: they should still be in the cache then */
#define STACK_OBJECTS 32
#define STACK_RANGES 128
#define NONE UINT32_MAX

/* The ranges of one object, chained through `next`, and its entry in the table of pinned objects. */
struct lane {
	uint32_t first, last;
	struct pt_checked_object *checked;
	uint64_t begun;                 /* of pt_checked_begin */
	enum { ASK, DIRECT, PLAIN } engine;     /* pt_data_direct(), asked when it first matters */
};

struct io_check {
	struct pt_checked_object *checked;      /* NULL: nothing to verify */
	uint32_t object;
	uint64_t chunk, begun;
};

struct reader {
	struct pt_repo *repo;
	const struct pt_manifest *m;
	const struct pt_object_range *ranges;
	struct lane *lanes;             /* one an object */
	uint32_t *next;                 /* one a range */
	uint8_t *window;                /* taken when first needed */
	bool records;                   /* the index's checksums are to be right, too, where they could be done without */
	size_t io_count;
	uint64_t io_check_bytes;
	struct pt_data_range io[IO_MAX];        /* io_count of them; 18 KiB, which reader_init leaves alone */
	struct io_check check[IO_MAX];
};

/* Where a walk over the pieces of a lane stands. */
struct cursor {
	uint32_t range;                 /* NONE at the end */
	uint64_t at;                    /* bytes of it that are behind */
};

struct piece {
	uint64_t off;                   /* in what has the checksums */
	uint64_t len;
	uint8_t *buf;
};

static uint64_t chunk_bytes(const struct pt_object *o, uint64_t chunk)
{
	return pt_size_min(PT_HASH_CHUNK, pt_object_hashed(o) - chunk * PT_HASH_CHUNK);
}

static bool cursor_piece(const struct reader *r, struct cursor *c, struct piece *ret_piece)
{
	const struct pt_object_range *range;
	uint64_t off;

	while (c->range != NONE && c->at == r->ranges[c->range].len) {
		c->range = r->next[c->range];
		c->at = 0;
	}
	if (c->range == NONE)
		return false;
	range = &r->ranges[c->range];
	off = r->m->objects[range->object].lead + range->off + c->at;
	ret_piece->off = off;
	ret_piece->len = pt_size_min(range->len - c->at, PT_HASH_CHUNK - off % PT_HASH_CHUNK);
	ret_piece->buf = (uint8_t *)range->buf + c->at;
	return true;
}

static int mismatch(const struct reader *r, uint32_t object, uint64_t chunk)
{
	char key[PT_KEY_MAX + 1], hex[PT_ID_HEX_LEN + 1];

	pt_count(&r->repo->counters.verify_failures, 1);
	if (pt_node_key(r->repo, r->m->node, key) < 0)
		strcpy(key, "(removed)");
	pt_id_hex(&r->m->objects[object].blob.id, hex);
	return pt_fail(EIO, "'%s': chunk %" PRIu64 " of object %s does not match its checksum: the store's disk or memory is damaged; restore this tensor",
		       key, chunk, hex);
}

/* A pinned revision's blob that is not there is damage, not something that the caller may look up again. */
static int missing(const struct reader *r)
{
	char key[PT_KEY_MAX + 1];

	if (pt_node_key(r->repo, r->m->node, key) < 0)
		strcpy(key, "(removed)");
	return pt_fail(EIO, "'%s': an object of revision %" PRIu64 " is missing from the store: restore this tensor", key, r->m->revision);
}

static int engine_read(const struct reader *r, const struct pt_data_range *io, size_t count)
{
	uint64_t bytes = 0;
	size_t i;
	int rc;

	rc = pt_data_read(&r->repo->store->data, io, count);
	if (rc == -ENOENT)
		rc = missing(r);
	for (i = 0; i < count; i++)
		bytes += io[i].len;
	pt_count(&r->repo->counters.read_bytes_moved, bytes);
	pt_count(&r->repo->counters.ranges, count);
	return rc;
}

/* 1: the chunk's bytes match its checksum; 0: they do not. An object that is one chunk is told by its own hash, which came with the revision: a small tensor's checksums
 * need not be looked up. */
static int matches(const struct reader *r, const struct io_check *check, const struct pt_data_range *io)
{
	const struct pt_object *o = &r->m->objects[check->object];
	struct pt_hash128 whole;
	uint64_t want;
	int rc;

	if (pt_object_hashed(o) <= PT_HASH_CHUNK && !r->records) {
		whole = pt_hash128(io->buf, io->len);
		return memcmp(whole.b, o->hash.b, sizeof(whole.b)) == 0;
	}
	rc = pt_checked_hash(r->repo, check->checked, check->chunk, &want);
	return rc < 0 ? rc : pt_hash64(io->buf, io->len) == want;
}

/* The chunk's bytes, just read by `io`, against its checksum; read once more if they differ. */
static int verify(const struct reader *r, const struct io_check *check, const struct pt_data_range *io)
{
	const struct pt_blob_ref *blob = &r->m->objects[check->object].blob;
	uint64_t begun = check->begun;
	int rc = 0, attempt;

	for (attempt = 0; !rc; attempt++) {
		rc = matches(r, check, io);
		if (rc > 0) {
			if (pt_checked_is_bad(check->checked, check->chunk))
				pt_checked_set_good(check->checked, check->chunk);
			pt_checked_set(r->repo, check->checked, blob, check->chunk, begun);
			pt_count(&r->repo->counters.chunks_verified, 1);
			return 0;
		}
		if (rc < 0)
			break;
		if (attempt) {
			pt_checked_set_bad(r->repo, check->checked, blob, check->chunk);
			rc = mismatch(r, check->object, check->chunk);
		} else {
			/* A good file may have taken the place of one that is still open; what was verified of that one is not of this. */
			pt_data_tidy(&r->repo->store->data, blob);
			begun = pt_checked_renew(r->repo, check->checked, blob);
			rc = engine_read(r, io, 1);
		}
	}
	return rc;
}

static int flush(struct reader *r)
{
	size_t i;
	int rc;

	if (!r->io_count)
		return 0;
	rc = engine_read(r, r->io, r->io_count);
	for (i = 0; i < r->io_count && !rc; i++)
		if (r->check[i].checked)
			rc = verify(r, &r->check[i], &r->io[i]);
	r->io_count = 0;
	r->io_check_bytes = 0;
	return rc;
}

static int add_io(struct reader *r, uint32_t object, const struct piece *p, struct pt_checked_object *checked)
{
	const struct pt_object *o = &r->m->objects[object];
	uint64_t off = pt_object_hashed_off(o) + p->off;
	struct pt_data_range *last;
	int rc;

	if (r->io_count && !checked && !r->check[r->io_count - 1].checked) {
		last = &r->io[r->io_count - 1];
		if (!pt_id_compare(&last->blob.id, &o->blob.id) && last->off + last->len == off && (uint8_t *)last->buf + last->len == p->buf) {
			last->len += p->len;
			return 0;
		}
	}
	if (r->io_count == IO_MAX || (checked && r->io_check_bytes >= IO_CHECK_BYTES)) {
		rc = flush(r);
		if (rc < 0)
			return rc;
	}
	r->io[r->io_count] = (struct pt_data_range){ .blob = o->blob, .off = off, .len = p->len, .buf = p->buf };
	r->check[r->io_count] = (struct io_check){ .checked = checked, .object = object, .chunk = p->off / PT_HASH_CHUNK, .begun = r->lanes[object].begun };
	r->io_count++;
	if (checked)
		r->io_check_bytes += p->len;
	return 0;
}

/* Reads [off, off + len), inside one chunk, into the window; verifies it when it is the whole chunk and checked is given, begun by then. */
static int window_read(struct reader *r, uint32_t object, uint64_t off, uint64_t len, struct pt_checked_object *checked, uint64_t begun)
{
	const struct pt_object *o = &r->m->objects[object];
	struct io_check check = { .checked = checked, .object = object, .chunk = off / PT_HASH_CHUNK, .begun = begun };
	struct pt_data_range io;
	int rc;

	if (!r->window) {
		r->window = pt_window_get(&r->repo->windows);
		if (!r->window)
			return pt_fail_nomem();
	}
	io = (struct pt_data_range){ .blob = o->blob, .off = pt_object_hashed_off(o) + off, .len = len, .buf = r->window };
	rc = engine_read(r, &io, 1);
	return rc || !checked ? rc : verify(r, &check, &io);
}

struct group {
	struct cursor start, end;
	uint64_t chunk;
	uint64_t low, high;             /* span of the pieces */
	uint64_t bytes;
	uint64_t runs;                  /* pieces that are not neighbours of the one before */
	uint64_t pieces;
};

/* The pieces from c on that are in one chunk. */
static bool group_next(const struct reader *r, struct cursor c, struct group *ret_group)
{
	struct group g = { .start = c };
	struct piece p, before = { 0 };

	for (g.end = c; cursor_piece(r, &g.end, &p); g.end.at += p.len) {
		if (!g.pieces) {
			g.chunk = p.off / PT_HASH_CHUNK;
			g.low = p.off;
		} else if (p.off / PT_HASH_CHUNK != g.chunk) {
			break;
		}
		if (!g.pieces || p.off != before.off + before.len || p.buf != before.buf + before.len)
			g.runs++;
		g.low = pt_size_min(g.low, p.off);
		g.high = pt_size_max(g.high, p.off + p.len);
		g.bytes += p.len;
		g.pieces++;
		before = p;
	}
	*ret_group = g;
	return g.pieces != 0;
}

static void copy_out(const struct reader *r, const struct group *g, uint64_t window_off)
{
	struct cursor c = g->start;
	struct piece p;
	uint64_t i;

	for (i = 0; i < g->pieces && cursor_piece(r, &c, &p); i++, c.at += p.len)
		memcpy(p.buf, r->window + (p.off - window_off), p.len);
}

static bool is_direct(struct reader *r, uint32_t object)
{
	struct lane *lane = &r->lanes[object];

	if (lane->engine == ASK)
		lane->engine = pt_data_direct(&r->repo->store->data, &r->m->objects[object].blob) ? DIRECT : PLAIN;
	return lane->engine == DIRECT;
}

static int read_group(struct reader *r, uint32_t object, const struct group *g)
{
	const struct pt_object *o = &r->m->objects[object];
	struct pt_checked_object *checked = r->lanes[object].checked;
	enum pt_verify mode = r->repo->options.verify;
	bool whole = g->bytes == chunk_bytes(o, g->chunk) && g->runs == 1;
	uint64_t chunk_off = g->chunk * PT_HASH_CHUNK;
	bool direct = g->runs > 1 && is_direct(r, object);
	struct cursor c = g->start;
	struct piece p;
	uint64_t i;
	int rc = 0;

	if (mode == PT_VERIFY_TOUCH && direct)
		mode = PT_VERIFY_WHOLE;         /* which a scattered group never is */
	if (mode == PT_VERIFY_OFF || (mode == PT_VERIFY_WHOLE && !whole && !pt_checked_is_bad(checked, g->chunk)) || (mode == PT_VERIFY_TOUCH && pt_checked_test(checked, g->chunk)))
		checked = NULL;
	if (whole) {
		/* One run: the first piece's memory goes on through the others'. */
		cursor_piece(r, &c, &p);
		p.len = g->bytes;
		return add_io(r, object, &p, checked);
	}
	if (checked) {
		rc = window_read(r, object, chunk_off, chunk_bytes(o, g->chunk), checked, r->lanes[object].begun);
		if (!rc)
			copy_out(r, g, chunk_off);
		return rc;
	}
	if (!direct && g->runs > 1 && g->high - g->low < g->bytes / 2 + g->runs * SEPARATE_COST) {
		rc = window_read(r, object, g->low, g->high - g->low, NULL, 0);
		if (!rc)
			copy_out(r, g, g->low);
		return rc;
	}
	for (i = 0; i < g->pieces && !rc && cursor_piece(r, &c, &p); i++, c.at += p.len)
		rc = add_io(r, object, &p, NULL);
	return rc;
}

static int read_lane(struct reader *r, uint32_t object)
{
	struct cursor c = { .range = r->lanes[object].first };
	struct group g;
	int rc;

	rc = pt_checked_get(r->repo->checked, &r->m->objects[object], &r->lanes[object].checked);
	if (!rc)
		r->lanes[object].begun = pt_checked_begin(r->repo, r->lanes[object].checked, &r->m->objects[object].blob);
	while (!rc && group_next(r, c, &g)) {
		rc = read_group(r, object, &g);
		c = g.end;
	}
	return rc;
}

/* Checks the ranges and chains them by object. */
static int sort_ranges(struct reader *r, size_t count)
{
	const struct pt_object_range *range;
	uint64_t end, asked = 0;
	struct lane *lane;
	uint32_t i;

	for (i = 0; i < r->m->object_count; i++)
		r->lanes[i] = (struct lane){ .first = NONE, .last = NONE };
	for (i = 0; i < count; i++) {
		range = &r->ranges[i];
		r->next[i] = NONE;
		if (range->object >= r->m->object_count || !pt_size_add(range->off, range->len, &end) ||
		    end > r->m->objects[range->object].bytes)
			return pt_fail(EINVAL, "a read of %" PRIu64 " bytes at %" PRIu64 " is beyond the object", range->len, range->off);
		if (!range->len)
			continue;
		asked += range->len;
		lane = &r->lanes[range->object];
		if (lane->first == NONE)
			lane->first = i;
		else
			r->next[lane->last] = i;
		lane->last = i;
	}
	pt_count(&r->repo->counters.reads, 1);
	pt_count(&r->repo->counters.read_bytes_asked, asked);
	return 0;
}

static void reader_init(struct reader *r, struct pt_repo *repo, const struct pt_manifest *m, const struct pt_object_range *ranges)
{
	memset(r, 0, offsetof(struct reader, io));
	r->repo = repo;
	r->m = m;
	r->ranges = ranges;
}

int pt_object_read(struct pt_repo *repo, struct pt_manifest *m, const struct pt_object_range *ranges, size_t count)
{
	struct reader r;
	struct lane stack_lanes[STACK_OBJECTS];
	uint32_t stack_next[STACK_RANGES], i;
	int rc = 0;

	reader_init(&r, repo, m, ranges);
	if (count >= NONE)
		return pt_fail(EINVAL, "too many ranges in one read");
	r.lanes = m->object_count <= STACK_OBJECTS ? stack_lanes : pt_reallocarray(NULL, m->object_count, sizeof(*r.lanes));
	r.next = count <= STACK_RANGES ? stack_next : pt_reallocarray(NULL, count, sizeof(*r.next));
	if (!r.lanes || !r.next) {
		rc = pt_fail_nomem();
		goto out;
	}
	rc = sort_ranges(&r, count);
	if (rc < 0)
		goto out;
	for (i = 0; i < m->object_count && !rc; i++)
		if (r.lanes[i].first != NONE)
			rc = read_lane(&r, i);
	if (!rc)
		rc = flush(&r);
	for (i = 0; i < m->object_count; i++)
		if (r.lanes[i].checked)
			pt_checked_put(repo->checked, r.lanes[i].checked);
out:
	pt_window_put(&repo->windows, r.window);
	if (r.lanes != stack_lanes)
		free(r.lanes);
	if (r.next != stack_next)
		free(r.next);
	return rc;
}

int pt_object_check(struct pt_repo *repo, struct pt_manifest *m, uint32_t object, uint64_t off, uint64_t len)
{
	struct pt_checked_object *checked;
	const struct pt_object *o;
	struct reader r;
	uint64_t chunk, end, begun;
	int rc;

	reader_init(&r, repo, m, NULL);
	if (object >= m->object_count || !pt_size_add(off, len, &end) || end > m->objects[object].bytes)
		return pt_fail(EINVAL, "a check of %" PRIu64 " bytes at %" PRIu64 " is beyond the object", len, off);
	o = &m->objects[object];
	rc = pt_checked_get(repo->checked, o, &checked);
	if (rc < 0)
		return rc;
	begun = pt_checked_begin(repo, checked, &o->blob);
	for (chunk = (o->lead + off) / PT_HASH_CHUNK; !rc && chunk * PT_HASH_CHUNK < o->lead + end; chunk++)
		rc = window_read(&r, object, chunk * PT_HASH_CHUNK, chunk_bytes(o, chunk), checked, begun);
	pt_checked_put(repo->checked, checked);
	pt_window_put(&repo->windows, r.window);
	return rc;
}

int pt_object_verify(struct pt_repo *repo, struct pt_manifest *m, uint32_t object, void (*progress)(void *ctx, uint64_t bytes), void *ctx)
{
	struct reader r;
	struct pt_checked_object *checked = NULL;
	struct pt_hasher *hasher = NULL;
	struct pt_buf chunks = PT_BUF_INIT;
	const struct pt_object *o;
	struct pt_hash128 whole;
	uint64_t chunk, len, begun = 0;
	int rc;

	reader_init(&r, repo, m, NULL);
	r.records = true;
	if (object >= m->object_count)
		return pt_fail(EINVAL, "the revision has no object %" PRIu32, object);
	o = &m->objects[object];
	rc = pt_checked_get(repo->checked, o, &checked);
	if (!rc)
		begun = pt_checked_renew(repo, checked, &o->blob);
	if (!rc)
		rc = pt_hasher_create(&hasher);
	for (chunk = o->lead / PT_HASH_CHUNK; !rc && chunk * PT_HASH_CHUNK < o->lead + o->bytes; chunk++) {
		len = chunk_bytes(o, chunk);
		rc = window_read(&r, object, chunk * PT_HASH_CHUNK, len, checked, begun);
		if (rc < 0)
			break;
		pt_hasher_update(hasher, r.window, len);
		if (progress)
			progress(ctx, len);
	}
	if (!rc)
		rc = pt_hasher_finish(hasher, &whole, &chunks);
	/* Every chunk matched, so here the manifest's own hash is what is wrong. Of a window only the chunks that it lies in were read. */
	if (!rc && !o->hashed && memcmp(whole.b, o->hash.b, sizeof(whole.b)))
		rc = mismatch(&r, object, 0);
	if (!rc)
		pt_checked_tell(repo, checked, &o->blob, begun);
	pt_buf_done(&chunks);
	pt_hasher_free(hasher);
	if (checked)
		pt_checked_put(repo->checked, checked);
	pt_window_put(&repo->windows, r.window);
	return rc;
}
