/* manifest/record_node.c - coding of node records, and what a struct pt_node owns. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/record.h"
#include "manifest/record_small.h"

#define NODE_IMPLICIT 1
#define XATTR_BYTES_MIN 8               /* two lengths */
#define TARGET_MAX 4096

int pt_record_node_encode(const struct pt_node *n, struct pt_buf *out)
{
	uint32_t i;

	pt_buf_append_u8(out, PT_RECORD_VERSION);
	pt_buf_append_u8(out, (uint8_t)n->kind);
	pt_buf_append_u8(out, n->implicit ? NODE_IMPLICIT : 0);
	pt_buf_append_u8(out, (uint8_t)n->split);
	pt_buf_append_le64(out, n->id);
	pt_buf_append_le64(out, n->parent);
	pt_buf_append_lenstr(out, n->name, (uint32_t)strlen(n->name));
	pt_buf_append_le32(out, n->mode);
	pt_buf_append_le32(out, n->uid);
	pt_buf_append_le32(out, n->gid);
	pt_buf_append_le64(out, (uint64_t)n->mtime_ns);
	pt_buf_append_le64(out, (uint64_t)n->ctime_ns);
	pt_buf_append_le64(out, n->next_revision);
	pt_record_append_id(out, &n->blob.id);
	pt_buf_append_u8(out, pt_id_is_zero(&n->blob.id) ? 0 : (uint8_t)n->blob.kind);
	pt_buf_append_le64(out, n->size);
	pt_buf_append_lenstr(out, n->target, n->target ? (uint32_t)strlen(n->target) : 0);
	pt_buf_append_le32(out, n->xattr_count);
	for (i = 0; i < n->xattr_count; i++) {
		pt_buf_append_lenstr(out, n->xattrs[i].name, (uint32_t)strlen(n->xattrs[i].name));
		pt_buf_append_lenstr(out, n->xattrs[i].value, n->xattrs[i].value_len);
	}
	return pt_buf_failed(out) ? pt_fail_nomem() : 0;
}

/* A NUL-terminated copy of len bytes; NULL without memory. */
static char *copy_text(const void *p, uint32_t len)
{
	char *s = pt_malloc((size_t)len + 1);

	if (!s)
		return NULL;
	if (len)
		memcpy(s, p, len);
	s[len] = '\0';
	return s;
}

/* False: out of memory. Malformed bytes set r->bad. */
static bool read_xattrs(struct pt_reader *r, struct pt_node *n)
{
	uint32_t count = pt_reader_le32(r), i, len;
	const void *p;

	if (r->bad || count > pt_reader_left(r) / XATTR_BYTES_MIN) {
		r->bad = true;
		return true;
	}
	if (!count)
		return true;
	n->xattrs = pt_calloc(count, sizeof(n->xattrs[0]));
	if (!n->xattrs)
		return false;
	n->xattr_count = count;
	for (i = 0; i < count; i++) {
		p = pt_reader_lenstr(r, &len);
		if (r->bad || !len || memchr(p, 0, len)) {
			r->bad = true;
			return true;
		}
		n->xattrs[i].name = copy_text(p, len);
		p = pt_reader_lenstr(r, &len);
		if (r->bad)
			return true;
		n->xattrs[i].value = (uint8_t *)copy_text(p, len);
		n->xattrs[i].value_len = len;
		if (!n->xattrs[i].name || !n->xattrs[i].value)
			return false;
	}
	return true;
}

static bool node_sound(const struct pt_node *n, uint32_t flags, unsigned int blob_kind)
{
	bool blob = !pt_id_is_zero(&n->blob.id);

	if (n->kind < PT_NODE_DIR || n->kind > PT_NODE_CONTAINER || (flags & ~(uint32_t)NODE_IMPLICIT) || n->split > PT_SPLIT_CHUNK)
		return false;
	if (!n->id || (n->id == PT_NODE_ROOT) != !n->name[0] || (n->id == PT_NODE_ROOT) != !n->parent)
		return false;
	if (blob ? blob_kind != PT_BLOB_TENSOR && blob_kind != PT_BLOB_PLAIN : blob_kind != 0)
		return false;
	if (blob && n->kind != PT_NODE_FILE && n->kind != PT_NODE_CONTAINER)
		return false;
	if (n->kind == PT_NODE_DIR && !n->next_revision)
		return false;
	return (n->kind == PT_NODE_SYMLINK) == (n->target != NULL);
}

int pt_record_node_decode(const void *data, size_t len, struct pt_node *ret_node)
{
	struct pt_node n = { 0 };
	struct pt_reader r;
	uint32_t flags, target_len;
	unsigned int blob_kind;
	const void *target;

	pt_reader_init(&r, data, len);
	if (pt_reader_u8(&r) != PT_RECORD_VERSION)
		return pt_record_bad("node");
	n.kind = pt_reader_u8(&r);
	flags = pt_reader_u8(&r);
	n.implicit = flags & NODE_IMPLICIT;
	n.split = pt_reader_u8(&r);
	n.id = pt_reader_le64(&r);
	n.parent = pt_reader_le64(&r);
	pt_record_read_text(&r, n.name, PT_NAME_MAX);
	n.mode = pt_reader_le32(&r);
	n.uid = pt_reader_le32(&r);
	n.gid = pt_reader_le32(&r);
	n.mtime_ns = (int64_t)pt_reader_le64(&r);
	n.ctime_ns = (int64_t)pt_reader_le64(&r);
	n.next_revision = pt_reader_le64(&r);
	pt_record_read_id(&r, &n.blob.id);
	blob_kind = pt_reader_u8(&r);
	n.blob.kind = blob_kind;
	n.size = pt_reader_le64(&r);
	target = pt_reader_lenstr(&r, &target_len);
	if (r.bad || target_len > TARGET_MAX)
		return pt_record_bad("node");
	if (target_len) {
		if (memchr(target, 0, target_len))
			return pt_record_bad("node");
		n.target = copy_text(target, target_len);
		if (!n.target)
			return pt_fail_nomem();
	}
	if (!read_xattrs(&r, &n)) {
		pt_node_done(&n);
		return pt_fail_nomem();
	}
	if (r.bad || pt_reader_left(&r) || !node_sound(&n, flags, blob_kind)) {
		pt_node_done(&n);
		return pt_record_bad("node");
	}
	*ret_node = n;
	return 0;
}

void pt_node_done(struct pt_node *n)
{
	uint32_t i;

	for (i = 0; n->xattrs && i < n->xattr_count; i++) {
		free(n->xattrs[i].name);
		free(n->xattrs[i].value);
	}
	free(n->xattrs);
	free(n->target);
	n->xattrs = NULL;
	n->xattr_count = 0;
	n->target = NULL;
}
