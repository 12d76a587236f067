/* tools/fsck_rescue.c - sealed blobs that no record names, given names below lost+found/ in the index that is being rebuilt: which there are, and what they have in common.
 *
 * An object says itself which tensor it is of (fsck_tensors.c). A tensor file is found by its description, a blob that says what the file is made of; blobs that are neither become
 * ordinary files, and so do descriptions of files that cannot be put together (fsck_files.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "manifest/describe.h"
#include "store/folder.h"
#include "tools/fsck_rescue.h"

#define MAGIC "ptioCNT1"

const char *fsck_short_id(const struct pt_id *id, char hex[PT_ID_HEX_LEN + 1])
{
	pt_id_hex(id, hex);
	hex[12] = '\0';
	return hex;
}

struct pt_data *fsck_data(struct rescuer *r)
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
	int rc = pt_data_list(fsck_data(r), seen, r);

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

int fsck_read_blob(struct rescuer *r, const struct pt_blob_ref *ref, uint64_t off, uint64_t len, void *buf)
{
	struct pt_data_range range = { .blob = *ref, .off = off, .len = len, .buf = buf };

	return len ? pt_data_read(fsck_data(r), &range, 1) : 0;
}

/* 0, or -errno. */
static int move_aside(const struct rescuer *r, const char *hex, const char *name)
{
	int store = pt_repo_store(r->repo)->dirfd, objects = -1, bucket = -1, lost = -1, rc;
	char sub[3] = { hex[0], hex[1], '\0' };
	bool made;

	rc = pt_folder_make(store, FSCK_LOST, &made, &lost);
	if (rc == 0)
		rc = pt_folder_open(store, "objects", O_PATH, &objects);
	if (rc == 0)
		rc = pt_folder_open(objects, sub, O_PATH, &bucket);
	if (rc == 0 && renameat(bucket, name, lost, name) < 0)
		rc = pt_fail(errno, "%s", strerror(errno));
	if (bucket >= 0)
		close(bucket);
	if (objects >= 0)
		close(objects);
	if (lost >= 0)
		close(lost);
	return rc;
}

void fsck_put_aside(struct rescuer *r, const struct orphan *o)
{
	char hex[PT_ID_HEX_LEN + 1], name[PT_ID_HEX_LEN + 16];
	int rc;

	if (r->f->dry_run)
		return;
	pt_id_hex(&o->ref.id, hex);
	snprintf(name, sizeof(name), "%s.%s", hex, o->ref.kind == PT_BLOB_TENSOR ? "safetensors" : "blob");
	rc = move_aside(r, hex, name);
	if (rc == 0)
		fsck_say(r->f, "it is kept as %s/" FSCK_LOST "/%s", r->f->dir, name);
	else
		fsck_say(r->f, "copy %s/objects/%.2s/%s before anything collects it, or it is lost: it could not be moved to " FSCK_LOST "/: %s", r->f->dir, hex, name, pt_fail_sentence());
}

int fsck_hash_payload(struct rescuer *r, struct pt_part *part)
{
	struct pt_object *o = &part->object;
	struct pt_hasher *h;
	uint64_t at, n;
	int rc = pt_hasher_create(&h);

	if (rc < 0)
		return rc;
	o->crc32 = 0;
	for (at = 0; at < o->bytes && rc == 0; at += n) {
		n = pt_size_min(FSCK_PIECE, o->bytes - at);
		rc = fsck_read_blob(r, &o->blob, o->payload_off + at, n, r->piece);
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

int fsck_trouble(struct rescuer *r, const char *key, int rc)
{
	if (rc != -EINVAL && rc != -EIO && rc != -ENOTDIR && rc != -ENAMETOOLONG && rc != -EEXIST && rc != -EOVERFLOW)
		return rc;
	fsck_problem(r->f, "%s: cannot be put below %s: %s", key, r->top, pt_fail_sentence());
	return 0;
}

struct orphan *fsck_find(struct rescuer *r, const struct pt_id *id)
{
	struct orphan key = { .ref.id = *id };

	return r->count ? bsearch(&key, r->orphans, r->count, sizeof(key), by_ref) : NULL;
}

static int classify(struct rescuer *r, struct orphan *o)
{
	struct pt_described d;
	char magic[8];
	int rc;

	if (o->ref.kind == PT_BLOB_PLAIN) {
		rc = o->bytes >= sizeof(magic) ? fsck_read_blob(r, &o->ref, 0, sizeof(magic), magic) : 0;
		if (rc == 0 && o->bytes >= sizeof(magic) && memcmp(magic, MAGIC, sizeof(magic)) == 0)
			o->is = DESCRIPTION;
		return rc;
	}
	rc = pt_object_describe(fsck_data(r), &o->ref, o->bytes, &d);
	if (rc == -EIO) {
		fsck_problem(r->f, "no name for an object: %s", pt_fail_sentence());
		fsck_put_aside(r, o);
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

	r.piece = pt_malloc(FSCK_PIECE);
	rc = r.piece ? choose_top(&r, now) : pt_fail_nomem();
	if (rc == 0)
		rc = find_orphans(&r);
	for (i = 0; i < r.count && rc == 0; i++)
		rc = classify(&r, &r.orphans[i]);
	if (rc == 0)
		rc = fsck_rescue_files(&r);
	if (rc == 0)
		rc = fsck_rescue_tensors(&r);
	free(r.piece);
	pt_buf_done(&r.found);
	if (rc == 0)
		*ret_got = got;
	return rc;
}
