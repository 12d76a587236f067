/* tools/fsck_tensors.c - objects that no record names, as tensors below lost+found/.
 *
 * An object says which tensor it is of, and how it was cut (manifest/describe.h). It does not say which parts were written together: parts of the same key, scope, shape, dtype, cut
 * and step are one set only if there is exactly one of each rank. Otherwise two writes of the tensor could be mixed, so each part becomes a tensor of its own. Whole tensors of a key
 * are published in the order in which they were written, so the last one is what the key shows. */
#include "tools/fsck_rescue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/describe.h"
#include "path/path.h"

/* ---- publishing ---- */
static void own(struct pt_part *part, int64_t mtime_ns)
{
	part->mode = 0644;
	part->uid = geteuid();
	part->gid = getegid();
	part->mtime_ns = mtime_ns;
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
	rc = pt_data_pin(fsck_data(r), &part->object.blob, 1);
	if (rc == 0) {
		struct pt_blob_ref ref = part->object.blob;

		rc = pt_commit_part(r->repo, node.id, part, false, &published);
		if (rc < 0 && rc != -EIO)
			pt_data_unpin(fsck_data(r), &ref, 1);
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
		fsck_short_id(&o->ref.id, hex);
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
	rc = pt_object_describe(fsck_data(r), &o->ref, o->bytes, d);
	if (rc < 0)
		goto out;
	if (o->alone) {
		snprintf(suffix, sizeof(suffix), "/part-%d-of-%d-%s", (int)o->rank, (int)o->size, fsck_short_id(&o->ref.id, hex));
		stand_alone(d);
	} else if (d->part.written == PT_WRITTEN_TP_SLICE || d->part.written == PT_WRITTEN_WRITER) {
		d->part.split = split;
	}
	name_of(r, d, o, suffix, key, sizeof(key));
	payload = d->part.object.bytes;
	own(&d->part, o->mtime_ns);
	rc = fsck_hash_payload(r, &d->part);
	if (rc == 0)
		rc = publish(r, key, &d->part, &complete);
	if (rc == 0) {
		r->got->bytes += payload;
		r->got->parts += o->alone;
		r->got->tensors += complete && !o->alone;
		if (complete)
			fsck_say(r->f, "found %s", key);
	} else {
		rc = fsck_trouble(r, key, rc);
		if (rc == 0)
			fsck_put_aside(r, o);
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
		rc = pt_object_describe(fsck_data(r), &r->orphans[i].ref, r->orphans[i].bytes, &d);
		if (rc == 0 && !pt_described_split(&d, PT_SPLIT_BALANCED))
			*ret_split = PT_SPLIT_CHUNK;
	}
	return rc;
}

int fsck_rescue_tensors(struct rescuer *r)
{
	struct orphan *o = r->orphans;
	enum pt_split split = PT_SPLIT_BALANCED;
	size_t i, to, end = 0;
	int rc = 0;

	sort_units(r);
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
