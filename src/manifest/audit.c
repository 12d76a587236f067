/* manifest/audit.c - see audit.h: reads every record, and checks those that make the tree. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manifest/audit_int.h"

#define PROGRESS_EVERY 4096

void pt_audit_say(struct audit *a, const char *fmt, ...)
{
	char line[PT_KEY_MAX + PT_FAIL_SENTENCE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	a->stats->problems++;
	a->problem(a->ctx, line);
}

const char *pt_audit_key(struct audit *a, uint64_t node, char ret_key[PT_KEY_MAX + 1])
{
	if (node == PT_NODE_ROOT || pt_node_key(a->repo, node, ret_key) < 0)
		snprintf(ret_key, PT_KEY_MAX + 1, node == PT_NODE_ROOT ? "/" : "(node %llu, which has no name)", (unsigned long long)node);
	return ret_key;
}

uint64_t pt_audit_description(enum pt_dtype dtype, uint32_t ndim, const uint64_t *ext)
{
	uint64_t words[1 + PT_DIMS_MAX];

	words[0] = (uint64_t)dtype << 32 | ndim;
	memcpy(words + 1, ext, ndim * sizeof(*ext));
	return pt_hash64(words, (1 + ndim) * sizeof(*words));
}

/* ---- one record ---- */
static void use(struct audit *a, char from, uint64_t node, const struct pt_blob_ref *ref)
{
	struct seen_use u;

	memset(&u, 0, sizeof(u));
	u.id = ref->id;
	u.kind = ref->kind;
	u.from = from;
	u.node = node;
	pt_buf_append(&a->uses, &u, sizeof(u));
}

static void use_objects(struct audit *a, char from, uint64_t node, enum pt_dtype dtype, const struct pt_object *objects, uint32_t count)
{
	struct seen_use *u;
	uint32_t i;

	for (i = 0; i < count && !a->uses.failed; i++) {
		use(a, from, node, &objects[i].blob);
		if (a->uses.failed)
			break;
		u = (void *)(a->uses.data + a->uses.len - sizeof(*u));
		u->first = true;
		u->payload_off = objects[i].payload_off;
		u->bytes = objects[i].bytes;
		u->described = pt_audit_description(dtype, objects[i].box.ndim, objects[i].box.ext);
	}
	pt_buf_append(&a->sets_of, &node, sizeof(node));
}

static int see_node(struct audit *a, const void *value, size_t len)
{
	struct seen_node seen;
	struct pt_node n;
	int rc = pt_record_node_decode(value, len, &n);

	if (rc < 0)
		return rc;
	memset(&seen, 0, sizeof(seen));
	seen.id = n.id;
	seen.parent = n.parent;
	seen.name = pt_hash64(n.name, strlen(n.name));
	seen.kind = n.kind;
	pt_buf_append(&a->nodes, &seen, sizeof(seen));
	if (!pt_id_is_zero(&n.blob.id))
		use(a, 'n', n.id, &n.blob);
	if (n.kind == PT_NODE_DIR)
		a->stats->directories++;
	else
		a->stats->files++;
	pt_node_done(&n);
	return 0;
}

static uint64_t be64(const uint8_t *p)
{
	uint64_t v = 0;
	int i;

	for (i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static int see_entry(struct audit *a, const uint8_t *key, size_t key_len, const void *value, size_t len)
{
	struct seen_node seen;
	struct pt_entry e;
	int rc = key_len > 9 ? pt_record_entry_decode(value, len, &e) : pt_record_bad("directory entry");

	if (rc < 0)
		return rc;
	memset(&seen, 0, sizeof(seen));
	seen.id = e.id;
	seen.parent = be64(key + 1);
	seen.name = pt_hash64(key + 9, key_len - 9);
	seen.kind = e.kind;
	pt_buf_append(&a->entries, &seen, sizeof(seen));
	return 0;
}

static int see_revision(struct audit *a, const void *value, size_t len)
{
	struct pt_manifest *m;
	int rc = pt_record_manifest_decode(value, len, &m);

	if (rc < 0)
		return rc;
	a->stats->revisions++;
	use_objects(a, 'm', m->node, m->dtype, m->objects, m->object_count);
	pt_manifest_unref(m);
	return 0;
}

static int see_set(struct audit *a, const void *value, size_t len)
{
	struct pt_pending *p;
	int rc = pt_record_pending_decode(value, len, &p);

	if (rc < 0)
		return rc;
	a->stats->sets++;
	use_objects(a, 'p', p->node, p->dtype, p->objects, p->object_count);
	pt_pending_free(p);
	return 0;
}

static int see_list(struct audit *a, char from, const void *value, size_t len)
{
	struct pt_blob_ref *refs;
	size_t count, i;
	int rc = pt_record_garbage_decode(value, len, &refs, &count);

	if (rc < 0)
		return rc;
	for (i = 0; i < count; i++)
		use(a, from, 0, &refs[i]);
	if (from == 'x')
		a->stats->waiting += count;
	free(refs);
	return 0;
}

static int see_blob(struct audit *a, const uint8_t *key, size_t key_len, const void *value, size_t len)
{
	struct seen_record seen;
	int rc;

	memset(&seen, 0, sizeof(seen));
	rc = key_len == 1 + sizeof(seen.id) ? pt_record_blob_decode(value, len, &seen.rec) : pt_record_bad("object");
	if (rc < 0)
		return rc;
	memcpy(seen.id.b, key + 1, sizeof(seen.id.b));
	pt_buf_append(&a->records, &seen, sizeof(seen));
	a->stats->objects++;
	a->stats->object_bytes += seen.rec.bytes;
	return 0;
}

static int see_hashes(struct audit *a, const uint8_t *key, size_t key_len, const void *value, size_t len)
{
	struct seen_hashes seen;
	const uint8_t *hashes;
	int rc;

	memset(&seen, 0, sizeof(seen));
	rc = key_len == 1 + sizeof(seen.id) ? pt_record_hashes_decode(value, len, &hashes, &seen.chunks) : pt_record_bad("checksum");
	if (rc < 0)
		return rc;
	memcpy(seen.id.b, key + 1, sizeof(seen.id.b));
	pt_buf_append(&a->hashes, &seen, sizeof(seen));
	return 0;
}

static int see(void *ctx, const void *key, size_t key_len, const void *value, size_t len, uint64_t version)
{
	struct audit *a = ctx;
	int64_t time;
	int rc = 0;

	(void)version;
	switch (*(const uint8_t *)key) {
	case 'n':
		rc = see_node(a, value, len);
		break;
	case 'd':
		rc = see_entry(a, key, key_len, value, len);
		break;
	case 'm':
		rc = see_revision(a, value, len);
		break;
	case 'p':
		rc = see_set(a, value, len);
		break;
	case 'x':
	case 'r':
		rc = see_list(a, *(const char *)key, value, len);
		break;
	case 'o':
		rc = see_blob(a, key, key_len, value, len);
		break;
	case 'h':
		rc = see_hashes(a, key, key_len, value, len);
		break;
	case 'f':
	case 't':
		rc = pt_record_times_decode(value, len, &time);
		break;
	case 'c':
		break;
	default:
		pt_audit_say(a, "index: a record of an unknown type (byte %u)", *(const uint8_t *)key);
	}
	/* A damaged record is one problem; the others can still be looked at. */
	if (rc == -EIO) {
		pt_audit_say(a, "index: %s", pt_fail_sentence());
		rc = 0;
	}
	if (++a->stats->records % PROGRESS_EVERY == 0 && a->progress)
		a->progress(a->ctx, "records", a->stats->records);
	if (a->nodes.failed || a->entries.failed || a->uses.failed || a->records.failed || a->hashes.failed || a->sets_of.failed)
		rc = pt_fail_nomem();
	return rc;
}

/* ---- the tree ---- */
static int by_number(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static const struct seen_node *node_find(const struct audit *a, uint64_t id)
{
	return a->nodes.len ? bsearch(&id, a->nodes.data, a->nodes.len / sizeof(struct seen_node), sizeof(struct seen_node), by_number) : NULL;
}

static void check_tree(struct audit *a)
{
	const struct seen_node *n, *e, *parent;
	size_t nodes, entries, i, at = 0, count;
	char key[PT_KEY_MAX + 1];
	uint64_t id;

	nodes = a->nodes.len / sizeof(*n);
	entries = a->entries.len / sizeof(*e);
	if (nodes)
		qsort(a->nodes.data, nodes, sizeof(*n), by_number);
	if (entries)
		qsort(a->entries.data, entries, sizeof(*e), by_number);
	n = (const void *)a->nodes.data;
	e = (const void *)a->entries.data;
	for (i = 0; i < nodes; i++) {
		for (; at < entries && e[at].id < n[i].id; at++)
			pt_audit_say(a, "%s: a name leads to node %llu, which is not there", pt_audit_key(a, e[at].parent, key), (unsigned long long)e[at].id);
		for (count = 0; at < entries && e[at].id == n[i].id; at++, count++)
			if (e[at].parent != n[i].parent || e[at].name != n[i].name || e[at].kind != n[i].kind)
				pt_audit_say(a, "%s: the name that leads here is not the node's own", pt_audit_key(a, n[i].id, key));
		if (count != (n[i].id != PT_NODE_ROOT))
			pt_audit_say(a, "%s: %zu names lead here", pt_audit_key(a, n[i].id, key), count);
		parent = n[i].id == PT_NODE_ROOT ? NULL : node_find(a, n[i].parent);
		if (n[i].id != PT_NODE_ROOT && (!parent || parent->kind != PT_NODE_DIR))
			pt_audit_say(a, "%s: what it should be in is no directory", pt_audit_key(a, n[i].id, key));
	}
	for (; at < entries; at++)
		pt_audit_say(a, "%s: a name leads to node %llu, which is not there", pt_audit_key(a, e[at].parent, key), (unsigned long long)e[at].id);
	for (i = 0; i < a->sets_of.len / sizeof(id); i++) {
		memcpy(&id, a->sets_of.data + i * sizeof(id), sizeof(id));
		parent = node_find(a, id);
		if (!parent || parent->kind != PT_NODE_DIR)
			pt_audit_say(a, "a tensor is of node %llu, which is no directory", (unsigned long long)id);
	}
}

int pt_repo_audit(struct pt_repo *repo, pt_audit_problem_fn *problem, pt_audit_progress_fn *progress, void *ctx, struct pt_audit *ret_audit)
{
	static const uint8_t first;
	struct pt_audit stats = { 0 };
	struct audit a = { .repo = repo, .problem = problem, .progress = progress, .ctx = ctx, .stats = &stats };
	int rc;

	rc = pt_meta_scan(&repo->store->meta, &first, sizeof(first), NULL, 0, 0, see, &a);
	if (!rc) {
		check_tree(&a);
		rc = pt_audit_blobs(&a);
	}
	pt_buf_done(&a.records);
	pt_buf_done(&a.uses);
	pt_buf_done(&a.hashes);
	pt_buf_done(&a.files);
	pt_buf_done(&a.nodes);
	pt_buf_done(&a.entries);
	pt_buf_done(&a.sets_of);
	if (!rc)
		*ret_audit = stats;
	return rc;
}
