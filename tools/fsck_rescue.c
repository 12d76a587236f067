/* tools/fsck_rescue.c - sealed blobs that no record names, given names below lost+found/ in the index that is being rebuilt.
 *
 * An object says itself which tensor it is of, and how it was cut (manifest/describe.h). It does not say which parts were written together: parts of the same key, scope, shape, dtype,
 * cut and step are one set only if there is exactly one of each rank. Otherwise two writes of the tensor could be mixed, so each part becomes a tensor of its own. Whole tensors of a key
 * are published in the order in which they were written, so the last one is what the key shows.
 * A tensor file is found by its description, a blob that says what the file is made of; blobs that are neither become ordinary files, and so do descriptions of files that cannot be
 * put together. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "manifest/describe.h"
#include "path/path.h"
#include "tools/fsck.h"
#include "tree/container.h"

#define MAGIC "ptioCNT1"
#define DESCRIPTION_MAX ((uint64_t)1 << 30)
#define PIECE_BYTES PT_HASH_CHUNK

struct orphan {
	struct pt_blob_ref ref;
	uint64_t bytes;
	int64_t mtime_ns, unit_ns;      /* its own; the last one of its set */
	uint64_t group;                 /* a number for the set that it could be of */
	int32_t rank, size;
	bool alone;                     /* of a set that is not whole: a tensor of its own */
	enum { TENSOR, PART, BLOB, DESCRIPTION, DONE } is;
};

struct rescuer {
	struct fsck *f;
	struct pt_repo *repo;
	struct fsck_rescue *got;
	char top[64];                   /* lost+found, or lost+found/TIME where that is taken */
	struct pt_buf found;
	struct orphan *orphans;
	size_t count;
	uint8_t *piece;                 /* PIECE_BYTES */
};

static const char *short_id(const struct pt_id *id, char hex[PT_ID_HEX_LEN + 1])
{
	pt_id_hex(id, hex);
	hex[12] = '\0';
	return hex;
}

static struct pt_data *data_of(struct rescuer *r)
{
	return &pt_repo_store(r->repo)->data;
}

/* ---- which there are ---- */
static int seen(void *ctx, const struct pt_blob_ref *ref, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	struct rescuer *r = ctx;
	struct orphan o;

	(void)live;
	if (staged)
		return 0;
	memset(&o, 0, sizeof(o));
	o.ref = *ref;
	o.bytes = bytes;
	o.mtime_ns = o.unit_ns = mtime_ns;
	o.is = BLOB;
	pt_buf_append(&r->found, &o, sizeof(o));
	return r->found.failed ? pt_fail_nomem() : 0;
}

static int by_ref(const void *a, const void *b)
{
	const struct orphan *x = a, *y = b;

	return pt_id_compare(&x->ref.id, &y->ref.id);
}

static int find_orphans(struct rescuer *r)
{
	size_t i, kept = 0;
	bool referred;
	int rc = pt_data_list(data_of(r), seen, r);

	r->orphans = (void *)r->found.data;
	r->count = r->found.len / sizeof(*r->orphans);
	for (i = 0; i < r->count && rc == 0; i++) {
		rc = pt_blob_is_referred(r->repo, &r->orphans[i].ref, &referred);
		if (rc == 0 && !referred)
			r->orphans[kept++] = r->orphans[i];
	}
	r->count = kept;
	if (kept)
		qsort(r->orphans, kept, sizeof(*r->orphans), by_ref);
	return rc;
}

static uint64_t group_of(const struct pt_described *d)
{
	const struct pt_part *p = &d->part;
	struct pt_buf b = PT_BUF_INIT;
	uint64_t hash;
	uint32_t i;

	pt_buf_append_str(&b, d->key);
	pt_buf_append_u8(&b, 0);
	pt_buf_append_str(&b, p->scope);
	pt_buf_append_u8(&b, 0);
	pt_buf_append_str(&b, p->step);
	pt_buf_append_u8(&b, 0);
	pt_buf_append_le32(&b, (uint32_t)p->written);
	pt_buf_append_le32(&b, (uint32_t)p->dtype);
	pt_buf_append_le32(&b, (uint32_t)p->object.part.size);
	pt_buf_append_le32(&b, (uint32_t)p->object.part.dim);
	for (i = 0; i < p->shape.ndim; i++)
		pt_buf_append_le64(&b, p->written == PT_WRITTEN_TP_SHARD && (int32_t)i == p->object.part.dim ? 0 : p->shape.dim[i]);
	hash = b.failed ? 0 : pt_hash64(b.data, b.len);
	pt_buf_done(&b);
	return hash;
}

static int read_blob(struct rescuer *r, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, void *buf)
{
	struct pt_data_range range = { .blob = *ref, .off = off, .len = len, .buf = buf };

	return len ? pt_data_read(data_of(r), &range, 1) : 0;
}

/* What cannot be given a name would be collected: it is kept outside the store's objects, in lost+found/ of the folder. */
static void put_aside(struct rescuer *r, const struct orphan *o)
{
	const char *ext = o->ref.kind == PT_BLOB_TENSOR ? "safetensors" : "blob";
	char hex[PT_ID_HEX_LEN + 1], *dir = pt_asprintf("%s/" FSCK_LOST, r->f->dir), *from, *to;

	pt_id_hex(&o->ref.id, hex);
	from = pt_asprintf("%s/objects/%.2s/%s.%s", r->f->dir, hex, hex, ext);
	to = pt_asprintf("%s/" FSCK_LOST "/%s.%s", r->f->dir, hex, ext);
	if (dir && from && to && !r->f->dry_run) {
		(void)mkdir(dir, 0750);
		if (rename(from, to) == 0)
			fsck_say(r->f, "it is kept as %s", to);
		else
			fsck_say(r->f, "copy %s before anything collects it, or it is lost: it could not be moved to %s: %s", from, to, strerror(errno));
	}
	free(dir);
	free(from);
	free(to);
}

static int classify(struct rescuer *r, struct orphan *o)
{
	struct pt_described d;
	char magic[8];
	int rc;

	if (o->ref.kind == PT_BLOB_PLAIN) {
		rc = o->bytes >= sizeof(magic) ? read_blob(r, &o->ref, 0, sizeof(magic), magic) : 0;
		if (rc == 0 && o->bytes >= sizeof(magic) && memcmp(magic, MAGIC, sizeof(magic)) == 0)
			o->is = DESCRIPTION;
		return rc;
	}
	rc = pt_object_describe(data_of(r), &o->ref, o->bytes, &d);
	if (rc == -EIO) {
		fsck_problem(r->f, "no name for an object: %s", pt_fail_sentence());
		put_aside(r, o);
		o->is = DONE;
		return 0;
	}
	if (rc < 0)
		return rc;
	o->group = group_of(&d);
	o->rank = d.part.object.part.rank;
	o->size = d.part.object.part.size;
	o->is = o->size == 1 ? TENSOR : PART;
	return 0;
}

/* ---- publishing ---- */
/* Checksums of what is there: nobody knows what they were. */
static int hash_payload(struct rescuer *r, struct pt_part *part)
{
	struct pt_object *o = &part->object;
	struct pt_hasher *h;
	uint64_t at, n;
	int rc = pt_hasher_create(&h);

	if (rc < 0)
		return rc;
	o->crc32 = 0;
	for (at = 0; at < o->bytes && rc == 0; at += n) {
		n = pt_size_min(PIECE_BYTES, o->bytes - at);
		rc = read_blob(r, &o->blob, o->payload_off + at, n, r->piece);
		if (rc == 0) {
			pt_hasher_update(h, r->piece, n);
			o->crc32 = pt_crc32(o->crc32, r->piece, n);
		}
	}
	if (rc == 0) {
		pt_buf_reset(&part->chunk_hashes);
		rc = pt_hasher_finish(h, &o->hash, &part->chunk_hashes);
	}
	pt_hasher_free(h);
	return rc;
}

static void own(struct pt_part *part, int64_t mtime_ns)
{
	part->mode = 0644;
	part->uid = geteuid();
	part->gid = getegid();
	part->mtime_ns = mtime_ns;
}

/* What cannot be published is named, and no reason to stop. */
static int trouble(struct rescuer *r, const char *key, int rc)
{
	if (rc != -EINVAL && rc != -EIO && rc != -ENOTDIR && rc != -ENAMETOOLONG && rc != -EEXIST && rc != -EOVERFLOW)
		return rc;
	fsck_problem(r->f, "%s: cannot be put below %s: %s", key, r->top, pt_fail_sentence());
	return 0;
}

static int publish(struct rescuer *r, const char *key, struct pt_part *part, bool *ret_complete)
{
	struct pt_published published;
	struct pt_node node;
	int rc = pt_path_key_check(key);

	if (rc == 0)
		rc = pt_node_by_key(r->repo, key, true, &node);
	if (rc < 0)
		return rc;
	rc = pt_data_pin(data_of(r), &part->object.blob, 1);
	if (rc == 0) {
		struct pt_blob_ref ref = part->object.blob;

		rc = pt_commit_part(r->repo, node.id, part, false, &published);
		if (rc < 0 && rc != -EIO)
			pt_data_unpin(data_of(r), &ref, 1);
	}
	if (rc == 0)
		*ret_complete = published.revision != 0;
	pt_node_done(&node);
	return rc;
}

/* top/KEY, or by its id where that would be too long or no key, a set by what its parts have in common; suffix: "" or what follows it. */
static void name_of(struct rescuer *r, const struct pt_described *d, const struct orphan *o, const char *suffix, char *ret_key, size_t room)
{
	char hex[PT_ID_HEX_LEN + 1];
	int n = snprintf(ret_key, room, "%s/%s%s", r->top, d->key, suffix);

	if (n >= 0 && (size_t)n < room && n <= PT_KEY_MAX && pt_path_key_check(d->key) == 0)
		return;
	if (o->is == PART && !o->alone)
		snprintf(hex, sizeof(hex), "set-%016llx", (unsigned long long)o->group);
	else
		short_id(&o->ref.id, hex);
	snprintf(ret_key, room, "%s/objects/%s%s", r->top, hex, suffix);
}

/* A part of a set that is not whole: a tensor of its own. */
static void stand_alone(struct pt_described *d)
{
	struct pt_part *p = &d->part;

	p->written = PT_WRITTEN_FULL;
	p->shape = d->extent;
	pt_shape_box(&d->extent, &p->object.box);
	p->object.axis_count = 0;
	p->scope[0] = '\0';
	p->scope_axes = (struct pt_layout){ 0 };
	p->step[0] = '\0';
	p->split = PT_SPLIT_UNSET;
}

static int rescue_object(struct rescuer *r, struct orphan *o, enum pt_split split)
{
	struct pt_described *d = pt_calloc(1, sizeof(*d));
	char key[PT_KEY_MAX + 128], suffix[64] = "", hex[PT_ID_HEX_LEN + 1];
	uint64_t payload;
	bool complete;
	int rc;

	if (!d)
		return pt_fail_nomem();
	rc = pt_object_describe(data_of(r), &o->ref, o->bytes, d);
	if (rc < 0)
		goto out;
	if (o->alone) {
		snprintf(suffix, sizeof(suffix), "/part-%d-of-%d-%s", (int)o->rank, (int)o->size, short_id(&o->ref.id, hex));
		stand_alone(d);
	} else if (d->part.written == PT_WRITTEN_TP_SLICE || d->part.written == PT_WRITTEN_WRITER) {
		d->part.split = split;
	}
	name_of(r, d, o, suffix, key, sizeof(key));
	payload = d->part.object.bytes;
	own(&d->part, o->mtime_ns);
	rc = hash_payload(r, &d->part);
	if (rc == 0)
		rc = publish(r, key, &d->part, &complete);
	if (rc == 0) {
		r->got->bytes += payload;
		r->got->parts += o->alone;
		r->got->tensors += complete && !o->alone;
		if (complete)
			fsck_say(r->f, "found %s", key);
	} else {
		rc = trouble(r, key, rc);
		if (rc == 0)
			put_aside(r, o);
	}
	pt_part_done(&d->part);
out:
	free(d);
	return rc;
}

/* ---- sets ---- */
static int by_group(const void *a, const void *b)
{
	const struct orphan *x = a, *y = b;

	if ((x->is == PART) != (y->is == PART))
		return x->is == PART ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return pt_id_compare(&x->ref.id, &y->ref.id);
}

static int by_time(const void *a, const void *b)
{
	const struct orphan *x = a, *y = b;

	if (x->unit_ns != y->unit_ns)
		return x->unit_ns < y->unit_ns ? -1 : 1;
	return by_group(a, b);
}

/* Which parts are whole sets; then all in the order in which they were written, sets by their last part. */
static void sort_units(struct rescuer *r)
{
	struct orphan *o = r->orphans;
	size_t from, to, i;
	int64_t last;
	bool whole;

	if (r->count)
		qsort(o, r->count, sizeof(*o), by_group);
	for (from = 0; from < r->count && o[from].is == PART; from = to) {
		last = o[from].mtime_ns;
		whole = true;
		for (to = from; to < r->count && o[to].is == PART && o[to].group == o[from].group; to++) {
			whole = whole && o[to].rank == (int32_t)(to - from);
			last = o[to].mtime_ns > last ? o[to].mtime_ns : last;
		}
		whole = whole && (int32_t)(to - from) == o[from].size;
		for (i = from; i < to; i++) {
			o[i].unit_ns = last;
			o[i].alone = !whole;
		}
	}
	if (r->count)
		qsort(o, r->count, sizeof(*o), by_time);
}

/* The rule by which all parts of a set were cut. */
static int split_of(struct rescuer *r, size_t from, size_t to, enum pt_split *ret_split)
{
	struct pt_described d;
	size_t i;
	int rc = 0;

	*ret_split = PT_SPLIT_BALANCED;
	for (i = from; i < to && rc == 0; i++) {
		rc = pt_object_describe(data_of(r), &r->orphans[i].ref, r->orphans[i].bytes, &d);
		if (rc == 0 && !pt_described_split(&d, PT_SPLIT_BALANCED))
			*ret_split = PT_SPLIT_CHUNK;
	}
	return rc;
}

static int rescue_tensors(struct rescuer *r)
{
	struct orphan *o = r->orphans;
	enum pt_split split = PT_SPLIT_BALANCED;
	size_t i, to, end = 0;
	int rc = 0;

	for (i = 0; i < r->count && rc == 0; i++) {
		fsck_progress(r->f, "objects", i);
		if (o[i].is == PART && !o[i].alone && i >= end) {
			for (to = i; to < r->count && o[to].is == PART && o[to].group == o[i].group; to++)
				;
			rc = split_of(r, i, to, &split);
			end = to;
		}
		if (rc == 0 && (o[i].is == PART || o[i].is == TENSOR))
			rc = rescue_object(r, &o[i], o[i].is == PART ? split : PT_SPLIT_BALANCED);
	}
	return rc;
}

/* ---- files ---- */
static struct orphan *find(struct rescuer *r, const struct pt_id *id)
{
	struct orphan key = { .ref.id = *id };

	return r->count ? bsearch(&key, r->orphans, r->count, sizeof(key), by_ref) : NULL;
}

static int make_file(struct rescuer *r, const struct orphan *o, const char *suffix, bool empty, char *ret_key, size_t room, struct pt_node *ret_node)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0644, .uid = geteuid(), .gid = getegid(), .mtime_ns = o->mtime_ns }, dir;
	char hex[PT_ID_HEX_LEN + 1], name[64];
	int rc;

	snprintf(ret_key, room, "%s/files", r->top);
	snprintf(name, sizeof(name), "%s%s%s", short_id(&o->ref.id, hex), *suffix ? "." : "", suffix);
	rc = pt_node_by_key(r->repo, ret_key, true, &dir);
	if (rc < 0)
		return rc;
	if (!empty) {
		attrs.blob = o->ref;
		attrs.size = o->bytes;
	}
	rc = pt_node_create(r->repo, dir.id, name, &attrs, ret_node);
	pt_node_done(&dir);
	snprintf(ret_key, room, "%s/files/%s", r->top, name);
	return rc;
}

/* Its objects as parts, with checksums that are what the description says. -EIO: something of it is gone or damaged. */
static int contents(struct rescuer *r, const struct pt_container *c, struct pt_part *parts, struct orphan **ret_orphans)
{
	uint32_t i;
	int rc = 0;

	for (i = 0; i < c->object_count && rc == 0; i++) {
		const struct pt_container_object *o = &c->objects[i];

		ret_orphans[i] = find(r, &o->blob.id);
		if (!ret_orphans[i] || ret_orphans[i]->ref.kind != o->blob.kind || ret_orphans[i]->bytes != o->payload_off + o->bytes)
			return pt_fail(EIO, "its bytes are gone, or are another file's as well");
		parts[i].object = (struct pt_object){ .blob = o->blob, .payload_off = o->payload_off, .bytes = o->bytes };
		rc = hash_payload(r, &parts[i]);
		if (rc == 0 && memcmp(parts[i].object.hash.b, o->hash.b, sizeof(o->hash.b)) != 0)
			return pt_fail(EIO, "its bytes are damaged: they are not what its checksum says");
	}
	return rc;
}

static int publish_container(struct rescuer *r, struct orphan *o, const struct pt_container *c, struct pt_part *parts, char *key, size_t room)
{
	struct pt_container_sealed sealed = { .blob = o->ref, .blob_bytes = o->bytes, .size = c->size, .parts = parts, .part_count = c->object_count };
	struct pt_node node;
	uint32_t i;
	int rc = make_file(r, o, pt_format_name(c->format), true, key, room, &node);

	if (rc < 0)
		return rc;
	rc = pt_data_pin(data_of(r), &o->ref, 1);
	for (i = 0; i < c->object_count && rc == 0; i++)
		rc = pt_data_pin(data_of(r), &parts[i].object.blob, 1);
	if (rc == 0)
		rc = pt_container_publish(r->repo, &sealed, &node);
	pt_node_done(&node);
	return rc;
}

static int rescue_container(struct rescuer *r, struct orphan *o, const struct pt_container *c)
{
	struct orphan *orphans[PT_CONTAINER_PARTS];
	struct pt_part parts[PT_CONTAINER_PARTS];
	char key[PT_KEY_MAX + 1], hex[PT_ID_HEX_LEN + 1];
	uint32_t i;
	int rc = 0;

	if (c->bundle) {                /* a list of keys, whose names are lost, and what else the file says */
		o->is = BLOB;
		return 0;
	}
	snprintf(key, sizeof(key), "tensor file %s", short_id(&o->ref.id, hex));
	memset(parts, 0, sizeof(parts));
	if (c->object_count > PT_CONTAINER_PARTS)
		rc = pt_fail(EINVAL, "it has more objects than are written at once; its tensors are found one by one");
	else
		rc = contents(r, c, parts, orphans);
	if (rc == 0)
		rc = publish_container(r, o, c, parts, key, sizeof(key));
	for (i = 0; i < PT_CONTAINER_PARTS; i++)
		pt_part_done(&parts[i]);
	if (rc < 0) {
		o->is = BLOB;
		return trouble(r, key, rc);
	}
	for (i = 0; i < c->object_count; i++)
		orphans[i]->is = DONE;
	r->got->files++;
	r->got->bytes += c->size;
	fsck_say(r->f, "found %s, %llu bytes, %u tensors, the first \"%.200s\"", key, (unsigned long long)c->size, (unsigned)c->tensor_count, c->tensor_count ? c->names : "");
	return 0;
}

static int rescue_description(struct rescuer *r, struct orphan *o)
{
	struct pt_container *c = NULL;
	uint8_t *data;
	int rc;

	if (o->bytes > DESCRIPTION_MAX) {       /* a user's file that begins so */
		o->is = BLOB;
		return 0;
	}
	data = pt_malloc(o->bytes);
	rc = data ? read_blob(r, &o->ref, 0, o->bytes, data) : pt_fail_nomem();
	if (rc == 0)
		rc = pt_container_decode(data, o->bytes, &c);
	if (rc == -EIO) {               /* a user's file may begin so */
		o->is = BLOB;
		rc = 0;
	} else if (rc == 0) {
		data = NULL;
		o->is = DONE;
		rc = rescue_container(r, o, c);
	}
	pt_container_unref(c);
	free(data);
	return rc;
}

static int rescue_plain(struct rescuer *r, struct orphan *o)
{
	char key[PT_KEY_MAX + 1];
	struct pt_node node;
	int rc = pt_data_pin(data_of(r), &o->ref, 1);

	if (rc < 0)
		return rc;
	rc = make_file(r, o, "", false, key, sizeof(key), &node);
	if (rc < 0) {
		rc = trouble(r, key, rc);
		if (rc == 0)
			put_aside(r, o);
		return rc;
	}
	pt_node_done(&node);
	o->is = DONE;
	r->got->files++;
	r->got->bytes += o->bytes;
	fsck_say(r->f, "found %s, %llu bytes", key, (unsigned long long)o->bytes);
	return 0;
}

/* Descriptions first: what they are made of is no file of its own. */
static int rescue_files(struct rescuer *r)
{
	size_t i;
	int rc = 0;

	for (i = 0; i < r->count && rc == 0; i++)
		if (r->orphans[i].is == DESCRIPTION)
			rc = rescue_description(r, &r->orphans[i]);
	for (i = 0; i < r->count && rc == 0; i++)
		if (r->orphans[i].is == BLOB)
			rc = rescue_plain(r, &r->orphans[i]);
	return rc;
}

/* What an earlier rebuild has found is not mixed with this one's. */
static int choose_top(struct rescuer *r, const char *now)
{
	struct pt_node node;
	int rc = pt_node_by_key(r->repo, FSCK_LOST, false, &node);

	if (rc == 0)
		pt_node_done(&node);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	snprintf(r->top, sizeof(r->top), "%s%s%s", FSCK_LOST, rc == 0 ? "/" : "", rc == 0 ? now : "");
	return 0;
}

int fsck_rescue(struct fsck *f, const char *now, struct fsck_rescue *ret_got)
{
	struct fsck_rescue got = { 0 };
	struct rescuer r = { .f = f, .repo = f->cli->repo, .got = &got };
	size_t i;
	int rc;

	r.piece = pt_malloc(PIECE_BYTES);
	rc = r.piece ? choose_top(&r, now) : pt_fail_nomem();
	if (rc == 0)
		rc = find_orphans(&r);
	for (i = 0; i < r.count && rc == 0; i++)
		rc = classify(&r, &r.orphans[i]);
	if (rc == 0)
		rc = rescue_files(&r);
	if (rc == 0) {
		sort_units(&r);
		rc = rescue_tensors(&r);
	}
	free(r.piece);
	pt_buf_done(&r.found);
	if (rc == 0)
		*ret_got = got;
	return rc;
}
