/* manifest/audit_blobs.c - the blobs that the index names against those that are there.
 *
 * The index is looked at first, so what is sealed meanwhile is no orphan to worry about, and what is collected meanwhile is looked up again before it counts as
 * missing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manifest/audit_int.h"
#include "manifest/describe.h"

#define PROGRESS_EVERY 256

static int by_id(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct pt_id));
}

/* A buffer as an array in order, and how far one has come. */
struct cursor {
	const uint8_t *data;
	size_t size, count, at;
};

static struct cursor sorted(struct pt_buf *b, size_t size)
{
	struct cursor c = { .data = b->data, .size = size, .count = b->len / size };

	if (c.count)
		qsort(b->data, c.count, size, by_id);
	return c;
}

static const void *current(const struct cursor *c)
{
	return c->at < c->count ? c->data + c->at * c->size : NULL;
}

/* The one with this id, passed by; NULL: there is none. Those before it have been passed by. */
static const void *take(struct cursor *c, const struct pt_id *id)
{
	const void *p = current(c);

	if (!p || by_id(p, id) != 0)
		return NULL;
	c->at++;
	return p;
}

struct comparison {
	struct audit *a;
	struct cursor records, uses, hashes, files;
	uint64_t done;
};

static int blob_listed(void *ctx, const struct pt_blob_ref *blob, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	struct audit *a = ctx;
	struct seen_file f;

	(void)mtime_ns;
	if (staged) {
		a->stats->staged += !live;
		a->stats->staged_bytes += live ? 0 : bytes;
		return 0;
	}
	memset(&f, 0, sizeof(f));
	f.id = blob->id;
	f.kind = blob->kind;
	f.bytes = bytes;
	pt_buf_append(&a->files, &f, sizeof(f));
	return a->files.failed ? pt_fail_nomem() : 0;
}

/* What names a blob, for people: the first place that has a name. */
static const char *owner(struct comparison *c, size_t from, size_t to, char ret_key[PT_KEY_MAX + 1])
{
	const struct seen_use *u = (const void *)c->uses.data;
	size_t i;

	for (i = from; i < to; i++)
		if (u[i].node)
			return pt_audit_key(c->a, u[i].node, ret_key);
	for (i = from; i < to; i++)
		if (u[i].from == 'r')
			return "an object of a tensor file";
	return from < to ? "garbage" : "nothing";
}

/* Garbage may be gone already, for the collector only wants its record away; a tensor file is asked for its objects by whoever reads its description. */
static bool is_wanted(const struct comparison *c, size_t from, size_t to)
{
	const struct seen_use *u = (const void *)c->uses.data;
	size_t i;

	for (i = from; i < to; i++)
		if (u[i].node)
			return true;
	return false;
}

/* Its record has gone since it was looked at: the collector was here. */
static bool collected(struct comparison *c, const struct pt_id *id)
{
	struct pt_blob_rec rec;
	uint64_t version;

	return pt_rec_blob(c->a->repo, id, &rec, &version) == 0 && !version;
}

static bool needs_hashes(const struct comparison *c, size_t from, size_t to)
{
	const struct seen_use *u = (const void *)c->uses.data;
	size_t i;

	for (i = from; i < to; i++)
		if (u[i].from == 'r' || u[i].first)
			return true;
	return false;
}

static void check_hashes(struct comparison *c, const struct seen_record *r, const struct seen_hashes *h, bool needed, const char *who, const char *hex)
{
	uint64_t payload = r->rec.bytes - r->rec.payload_off, chunks = payload / PT_HASH_CHUNK + (payload % PT_HASH_CHUNK != 0);

	if (!h && needed)
		pt_audit_say(c->a, "%s: object %s has no checksums", who, hex);
	else if (h && h->chunks != chunks)
		pt_audit_say(c->a, "%s: object %s has %llu checksums instead of %llu", who, hex, (unsigned long long)h->chunks, (unsigned long long)chunks);
}

/* What the object's own header says against what revisions and sets do. */
static int check_header(struct comparison *c, const struct seen_record *r, const struct seen_file *f, size_t from, size_t to, const char *who, const char *hex)
{
	const struct seen_use *u = (const void *)c->uses.data;
	struct pt_blob_ref ref = { .id = f->id, .kind = f->kind };
	struct pt_described d;
	uint64_t described;
	size_t i;
	int rc;

	rc = pt_object_describe(&c->a->repo->store->data, &ref, f->bytes, &d);
	if (rc == -ENOENT)
		return 0;               /* collected meanwhile */
	if (rc == -EIO) {
		pt_audit_say(c->a, "%s: %s", who, pt_fail_sentence());
		return 0;
	}
	if (rc < 0)
		return rc;
	described = pt_audit_description(d.part.dtype, d.extent.ndim, d.extent.dim);
	if (d.part.object.payload_off != r->rec.payload_off)
		pt_audit_say(c->a, "%s: object %s has its payload elsewhere than the index says", who, hex);
	for (i = from; i < to; i++)
		if (u[i].first && (u[i].described != described || u[i].bytes != d.part.object.bytes || u[i].payload_off != d.part.object.payload_off)) {
			pt_audit_say(c->a, "%s: object %s is of another dtype or shape than the index says", who, hex);
			break;
		}
	return 0;
}

static int compare(struct comparison *c, const struct pt_id *id)
{
	const struct seen_use *u = (const void *)c->uses.data;
	size_t from = c->uses.at, to;
	const struct seen_record *r;
	const struct seen_hashes *h;
	const struct seen_file *f;
	char key[PT_KEY_MAX + 1], hex[PT_ID_HEX_LEN + 1];
	const char *who;

	while (take(&c->uses, id))
		;
	to = c->uses.at;
	r = take(&c->records, id);
	h = take(&c->hashes, id);
	f = take(&c->files, id);
	pt_id_hex(id, hex);
	if (f && !r && from == to) {
		c->a->stats->orphans++;
		c->a->stats->orphan_bytes += f->bytes;
		return 0;
	}
	who = owner(c, from, to, key);
	if (!r) {
		pt_audit_say(c->a, "%s: object %s has no record in the index", who, hex);
		return 0;
	}
	if (r->rec.refs != to - from)
		pt_audit_say(c->a, "%s: object %s is named by %zu places, and its record says %u", who, hex, to - from, (unsigned)r->rec.refs);
	check_hashes(c, r, h, needs_hashes(c, from, to), who, hex);
	if ((!f || f->bytes != r->rec.bytes) && (!is_wanted(c, from, to) || collected(c, id)))
		return 0;
	if (!f || f->kind != r->rec.kind || (from < to && u[from].kind != r->rec.kind)) {
		pt_audit_say(c->a, "%s: object %s is missing", who, hex);
		return 0;
	}
	if (f->bytes != r->rec.bytes) {
		pt_audit_say(c->a, "%s: object %s has %llu bytes instead of %llu", who, hex, (unsigned long long)f->bytes, (unsigned long long)r->rec.bytes);
		return 0;
	}
	return f->kind == PT_BLOB_TENSOR ? check_header(c, r, f, from, to, who, hex) : 0;
}

int pt_audit_blobs(struct audit *a)
{
	struct comparison c = { .a = a };
	const struct cursor *all[] = { &c.records, &c.uses, &c.hashes, &c.files };
	struct pt_id id;
	const void *p, *least;
	size_t i;
	int rc;

	rc = pt_data_list(&a->repo->store->data, blob_listed, a);
	if (rc < 0)
		return rc;
	c.records = sorted(&a->records, sizeof(struct seen_record));
	c.uses = sorted(&a->uses, sizeof(struct seen_use));
	c.hashes = sorted(&a->hashes, sizeof(struct seen_hashes));
	c.files = sorted(&a->files, sizeof(struct seen_file));
	for (;;) {
		for (least = NULL, i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			p = current(all[i]);
			if (p && (!least || by_id(p, least) < 0))
				least = p;
		}
		if (!least)
			return 0;
		memcpy(&id, least, sizeof(id));
		rc = compare(&c, &id);
		if (rc < 0)
			return rc;
		if (++c.done % PROGRESS_EVERY == 0 && a->progress)
			a->progress(a->ctx, "objects", c.done);
	}
}
