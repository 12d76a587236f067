/* tools/fsck_files.c - blobs that no record names and that are no objects of tensors, as files below lost+found/. */
#include "tools/fsck_rescue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tree/container.h"

#define DESCRIPTION_MAX ((uint64_t)1 << 30)

static int make_file(struct rescuer *r, const struct orphan *o, const char *suffix, bool empty, char *ret_key, size_t room, struct pt_node *ret_node)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0644, .uid = geteuid(), .gid = getegid(), .mtime_ns = o->mtime_ns }, dir;
	char hex[PT_ID_HEX_LEN + 1], name[64];
	int rc;

	snprintf(ret_key, room, "%s/files", r->top);
	snprintf(name, sizeof(name), "%s%s%s", fsck_short_id(&o->ref.id, hex), *suffix ? "." : "", suffix);
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

		ret_orphans[i] = fsck_find(r, &o->blob.id);
		if (!ret_orphans[i] || ret_orphans[i]->ref.kind != o->blob.kind || ret_orphans[i]->bytes != o->payload_off + o->bytes)
			return pt_fail(EIO, "its bytes are gone, or are another file's as well");
		parts[i].object = (struct pt_object){ .blob = o->blob, .payload_off = o->payload_off, .bytes = o->bytes };
		rc = fsck_hash_payload(r, &parts[i]);
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
	rc = pt_data_pin(fsck_data(r), &o->ref, 1);
	for (i = 0; i < c->object_count && rc == 0; i++)
		rc = pt_data_pin(fsck_data(r), &parts[i].object.blob, 1);
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
	snprintf(key, sizeof(key), "tensor file %s", fsck_short_id(&o->ref.id, hex));
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
		return fsck_trouble(r, key, rc);
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
	rc = data ? fsck_read_blob(r, &o->ref, 0, o->bytes, data) : pt_fail_nomem();
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
	int rc = pt_data_pin(fsck_data(r), &o->ref, 1);

	if (rc < 0)
		return rc;
	rc = make_file(r, o, "", false, key, sizeof(key), &node);
	if (rc < 0) {
		rc = fsck_trouble(r, key, rc);
		if (rc == 0)
			fsck_put_aside(r, o);
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
int fsck_rescue_files(struct rescuer *r)
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
