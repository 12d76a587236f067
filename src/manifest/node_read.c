/* manifest/node_read.c - single nodes as they are: get, look up, read ahead.
 *
 * The records of one node are read together, and those of many in the order of the index. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "manifest/internal.h"

#define FEW 3                           /* records read together, of keys of FEW_LEN bytes */
#define FEW_LEN 9

int pt_name_check(const char *name)
{
	size_t len = strnlen(name, PT_NAME_MAX + 1);

	if (!len)
		return pt_fail(EINVAL, "a name must not be empty");
	if (len > PT_NAME_MAX)
		return pt_fail(ENAMETOOLONG, "a name may have %d bytes: '%.40s...' is longer", PT_NAME_MAX, name);
	if (strchr(name, '/'))
		return pt_fail(EINVAL, "the name '%s' holds a slash", name);
	return 0;
}

static void few_key(const struct pt_rkey *key, uint8_t *buf, struct pt_meta_key *ret_key)
{
	assert(key->len == FEW_LEN);
	memcpy(buf, key->b, FEW_LEN);
	*ret_key = (struct pt_meta_key){ buf, FEW_LEN };
}

/* The records that whoever looks at a node wants: its own, its times, and the revision without a scope that a key mostly has. */
static void few_keys(uint64_t id, uint8_t few[FEW][FEW_LEN], struct pt_meta_key ret_keys[FEW])
{
	struct pt_rkey key;

	pt_rkey_node(&key, id);
	few_key(&key, few[0], &ret_keys[0]);
	pt_rkey_times(&key, id);
	few_key(&key, few[1], &ret_keys[1]);
	pt_rkey_manifest(&key, id, "");
	few_key(&key, few[2], &ret_keys[2]);
}

static int node_get(struct pt_repo *repo, uint64_t id, struct pt_node *ret_node)
{
	struct pt_buf value = PT_BUF_INIT;
	uint8_t few[FEW][FEW_LEN];
	struct pt_meta_key keys[FEW];
	struct pt_node node;
	struct pt_rkey key;
	uint64_t version;
	int64_t changed_ns;
	int rc;

	few_keys(id, few, keys);
	rc = pt_meta_get_beside(&repo->store->meta, &keys[0], &keys[1], FEW - 1, &value, &version);
	if (!rc && !version)
		rc = pt_fail(ENOENT, "there is no node %llu (any more)", (unsigned long long)id);
	if (!rc)
		rc = pt_record_node_decode(value.data, value.len, &node);
	if (rc < 0)
		goto out;
	node.version = version;
	node.times_version = 0;
	if (node.kind == PT_NODE_DIR) {
		pt_rkey_times(&key, id);
		rc = pt_rec_get(repo, &key, &value, &node.times_version);
		if (!rc && node.times_version)
			rc = pt_record_times_decode(value.data, value.len, &changed_ns);
		if (rc < 0) {
			pt_node_done(&node);
			goto out;
		}
		if (node.times_version && changed_ns > node.mtime_ns)
			node.mtime_ns = changed_ns;
		if (node.times_version && changed_ns > node.ctime_ns)
			node.ctime_ns = changed_ns;
	}
	*ret_node = node;
out:
	pt_buf_done(&value);
	return rc;
}

/* Record and times of a node are one question to a store that is away. */
int pt_node_get(struct pt_repo *repo, uint64_t id, struct pt_node *ret_node)
{
	struct pt_repo_ahead *ahead;
	int rc = pt_repo_ahead_begin(repo, NULL, 0, &ahead);

	if (!rc && ahead)
		rc = pt_node_prefetch(repo, &id, 1);
	if (!rc)
		rc = node_get(repo, id, ret_node);
	pt_repo_ahead_end(ahead);
	return rc;
}

/* Few, and mostly in order but for a place or two. */
static void ids_sort(uint64_t *ids, size_t count)
{
	uint64_t id;
	size_t i, at;

	for (i = 1; i < count; i++) {
		id = ids[i];
		for (at = i; at > 0 && ids[at - 1] > id; at--)
			ids[at] = ids[at - 1];
		ids[at] = id;
	}
}

/* In the order of the index: kind by kind, and of each by id. Of a store that is away every record is bytes of an answer, so what may not be wanted is left out. */
int pt_node_prefetch(struct pt_repo *repo, const uint64_t *ids, size_t count)
{
	static const size_t order[FEW] = { 2, 0, 1 };   /* of few_keys: m, n, t */
	size_t first = pt_meta_looks_max(&repo->store->meta) ? 1 : 0, n = 0, i, f;
	struct pt_meta_key keys[FEW * PT_NODE_PREFETCH], one[PT_NODE_PREFETCH][FEW];
	uint8_t bytes[PT_NODE_PREFETCH][FEW][FEW_LEN];
	uint64_t sorted[PT_NODE_PREFETCH];

	if (count > PT_NODE_PREFETCH)
		count = PT_NODE_PREFETCH;
	memcpy(sorted, ids, count * sizeof(*ids));
	ids_sort(sorted, count);
	for (i = 0; i < count; i++)
		few_keys(sorted[i], bytes[i], one[i]);
	for (f = first; f < FEW; f++)
		for (i = 0; i < count; i++)
			keys[n++] = one[i][order[f]];
	return pt_meta_prefetch(&repo->store->meta, keys, n);
}

int pt_entry_get(struct pt_repo *repo, uint64_t parent, const char *name, struct pt_entry *ret_entry, uint64_t *ret_version)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	rc = pt_name_check(name);
	if (rc < 0)
		return rc;
	pt_rkey_entry(&key, parent, name, strlen(name));
	rc = pt_rec_get(repo, &key, &value, &version);
	if (!rc && !version)
		rc = pt_fail(ENOENT, "there is no '%s'", name);
	if (!rc)
		rc = pt_record_entry_decode(value.data, value.len, ret_entry);
	if (!rc)
		*ret_version = version;
	pt_buf_done(&value);
	return rc;
}

int pt_node_lookup(struct pt_repo *repo, uint64_t parent, const char *name, struct pt_node *ret_node)
{
	uint64_t version, missed = 0;
	struct pt_entry entry;
	int rc;

	/* A file renamed onto the name between the two reads takes the node of the first away: the name is there all the time. */
	for (;;) {
		rc = pt_entry_get(repo, parent, name, &entry, &version);
		if (rc < 0)
			return rc;
		rc = pt_node_get(repo, entry.id, ret_node);
		if (rc != -ENOENT || version == missed)
			return rc;
		missed = version;
	}
}

int pt_node_models_version(struct pt_repo *repo, uint64_t id, uint64_t *ret_version)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_rkey key;
	int rc;

	pt_rkey_models(&key, id);
	rc = pt_rec_get(repo, &key, &value, ret_version);
	pt_buf_done(&value);
	return rc;
}
