/* tree/bundle.c - making and extending bundles. Their blobs are stored before the batch that publishes them; the last one stored is used again when that batch loses a
 * race and the file is to be the same. */
#include "tree/bundle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"

static void forget(struct pt_bundle *b)
{
	pt_node_done(&b->node);
	memset(&b->node, 0, sizeof(b->node));
	pt_container_unref(b->old);
	b->old = NULL;
	free(b->joined);
	free(b->ranks);
	b->joined = NULL;
	b->ranks = NULL;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two lists of names as one: sorted, each once; the strings stay theirs. */
static int join(const char *const *a, uint32_t a_count, const char *const *b, uint32_t b_count, const char ***ret_all, uint32_t *ret_count)
{
	uint32_t i, n = 0, total;
	const char **all;

	if (a_count > UINT32_MAX - b_count)
		return pt_fail(EFBIG, "too many tensors for one file");
	total = a_count + b_count;
	all = pt_reallocarray(NULL, total ? total : 1, sizeof(*all));
	if (!all)
		return pt_fail_nomem();
	for (i = 0; i < total; i++)
		all[i] = i < a_count ? a[i] : b[i - a_count];
	qsort(all, total, sizeof(*all), by_text);
	for (i = 0; i < total; i++)
		if (!n || strcmp(all[n - 1], all[i]) != 0)
			all[n++] = all[i];
	*ret_all = all;
	*ret_count = n;
	return 0;
}

/* The names that a container shows, in its order. */
static int names_of(const struct pt_container *c, const char ***ret_names)
{
	const char **names = pt_reallocarray(NULL, c && c->tensor_count ? c->tensor_count : 1, sizeof(*names));
	uint32_t i;

	if (!names)
		return pt_fail_nomem();
	for (i = 0; c && i < c->tensor_count; i++)
		names[i] = c->names + c->tensors[i].name;
	*ret_names = names;
	return 0;
}

static bool same_round(const struct pt_bundle *b, const struct pt_container_round *r)
{
	return r->round == b->round->round && !strcmp(r->scope, b->round->scope) && !strcmp(r->step, b->round->step);
}

/* The round with this file. */
static int round_look(struct pt_bundle *b)
{
	uint32_t size = (uint32_t)b->round->round, i, here = 0, count = 0;
	const struct pt_container_round *r = NULL;
	const char **names, *at;
	bool again;
	int rc;

	b->other = b->node.id && !b->old && b->node.size;
	for (i = 0; b->old && i < b->old->round_count; i++)
		if (same_round(b, &b->old->rounds[i]))
			r = &b->old->rounds[i];
	b->ranks = pt_calloc((size + 7) / 8, 1);
	names = pt_reallocarray(NULL, r && r->name_count ? r->name_count : 1, sizeof(*names));
	if (!b->ranks || !names) {
		free(names);
		return pt_fail_nomem();
	}
	for (i = 0; r && i < size; i++)
		here += r->ranks[i / 8] >> i % 8 & 1;
	again = r && here == 1 && r->ranks[b->rank / 8] >> b->rank % 8 & 1;
	b->full = r && here == size;
	if (r && !again) {
		memcpy(b->ranks, r->ranks, r->rank_bytes);
		for (at = r->names; count < r->name_count; at += strlen(at) + 1)
			names[count++] = at;
	}
	b->ranks[b->rank / 8] |= (uint8_t)(1u << b->rank % 8);
	for (i = 0, here = 0; i < size; i++)
		here += b->ranks[i / 8] >> i % 8 & 1;
	b->all = here == size || b->other;
	rc = join(names, count, b->names, b->count, &b->joined, &b->joined_count);
	free(names);
	return rc;
}

/* The rounds under way after this file. */
static void rounds_make(const struct pt_bundle *b, bool finishes, struct pt_buf *out)
{
	struct pt_container_round r = { .round = b->round->round, .scope = b->round->scope, .step = b->round->step, .ranks = b->ranks,
					.rank_bytes = ((uint32_t)b->round->round + 7) / 8, .name_count = b->joined_count };
	uint32_t i, others = 0;

	if (b->full) {
		memset(b->ranks, 0, r.rank_bytes);
		b->ranks[b->rank / 8] = (uint8_t)(1u << b->rank % 8);
	}
	for (i = 0; b->old && i < b->old->round_count; i++)
		others += !same_round(b, &b->old->rounds[i]);
	for (i = 0; b->old && i < b->old->round_count; i++)
		if (!same_round(b, &b->old->rounds[i]) && others-- < PT_CONTAINER_ROUNDS)
			pt_bundle_round_append(out, &b->old->rounds[i], NULL);
	if (b->full)
		r.name_count = b->count;
	if (!finishes)
		pt_bundle_round_append(out, &r, b->full ? b->names : b->joined);
}

static int file_look(struct pt_bundle *b, struct pt_models *models, struct pt_repo *repo, uint64_t dir_node)
{
	int rc;

	rc = pt_node_lookup(repo, dir_node, b->file_name, &b->node);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (b->node.kind == PT_NODE_DIR || b->node.kind == PT_NODE_SYMLINK)
		return pt_fail(EEXIST, "%s is in the way: remove what has that name in the directory", b->file_name);
	if (b->node.kind != PT_NODE_CONTAINER)
		return 0;
	rc = pt_models_container(models, &b->node, &b->old);
	if (rc < 0)
		return rc == -ESTALE || rc == -ENOENT ? -EAGAIN : rc;
	if (!b->old->bundle) {
		pt_container_unref(b->old);
		b->old = NULL;
	}
	return 0;
}

int pt_bundle_look(struct pt_bundle *b, struct pt_models *models, struct pt_repo *repo, uint64_t dir_node)
{
	int rc;

	forget(b);
	rc = file_look(b, models, repo, dir_node);
	return rc < 0 ? rc : round_look(b);
}

/* -EEXIST: the other file's name is one of these. */
static int name_apart(const struct pt_bundle *b, const char *file_name, const char *name)
{
	if (!bsearch(&name, b->names, b->count, sizeof(*b->names), by_text))
		return 0;
	return pt_fail(EEXIST, "%.200s: the ranks' file '%.200s' in this directory has a tensor of that name: write this file in a directory of its own, or remove the other",
		       name, file_name);
}

int pt_bundle_check(struct pt_bundle *b, struct pt_models *models, struct pt_repo *repo, uint64_t dir_node)
{
	struct pt_model_dir *dir;
	const char *name;
	uint32_t f, r, i;
	int rc;

	rc = pt_node_models_version(repo, dir_node, &b->models_version);
	if (!rc)
		rc = pt_models_dir(models, dir_node, &dir);
	if (rc < 0)
		return rc;
	for (f = 0; f < dir->file_count && !rc; f++) {
		const struct pt_container *c = dir->files[f].c;

		if (!c->bundle || strcmp(dir->files[f].name, b->file_name) == 0)
			continue;
		for (i = 0; i < c->tensor_count && !rc; i++)
			rc = name_apart(b, dir->files[f].name, c->names + c->tensors[i].name);
		for (r = 0; r < c->round_count; r++)
			for (i = 0, name = c->rounds[r].names; i < c->rounds[r].name_count && !rc; i++, name += strlen(name) + 1)
				rc = name_apart(b, dir->files[f].name, name);
	}
	pt_model_dir_unref(dir);
	return rc;
}

static int store(struct pt_bundle *b, struct pt_repo *repo, const struct pt_buf *bytes)
{
	uint64_t content = pt_hash64(bytes->data, bytes->len);
	struct pt_object_writer *out;
	int rc;

	if (!pt_id_is_zero(&b->blob.id) && b->content == content)
		return 0;
	pt_blob_discard(repo, &b->blob, 0);
	memset(&b->blob, 0, sizeof(b->blob));
	rc = pt_plain_writer_create(repo, &out);
	if (rc < 0)
		return rc;
	rc = pt_object_writer_append(out, bytes->data, bytes->len);
	if (rc < 0) {
		pt_object_writer_abort(out);
		return rc;
	}
	b->content = content;
	return pt_plain_writer_seal(out, &b->blob, &b->blob_bytes);
}

/* What it shows: the round, in a scope with what is shown already, else what it has shown before. *ret_names is the caller's, the strings are not. */
static int shown(const struct pt_bundle *b, bool finishes, const char ***ret_names, uint32_t *ret_count, bool *ret_shaped)
{
	const char **before = NULL;
	int rc;

	rc = names_of(finishes && !b->round->scope[0] ? NULL : b->old, &before);
	if (!rc && finishes)
		rc = join(before, b->old && b->round->scope[0] ? b->old->tensor_count : 0, b->joined, b->joined_count, ret_names, ret_count);
	if (!rc && finishes) {
		*ret_shaped = *ret_count == b->count && b->pickle->len;
	} else if (!rc) {
		*ret_names = before;
		*ret_count = b->old ? b->old->tensor_count : 0;
		return 0;
	}
	free(before);
	return rc;
}

int pt_bundle_make(struct pt_bundle *b, struct pt_repo *repo, bool finishes, struct pt_group_file *ret_file, bool *ret_writes)
{
	struct pt_buf bytes = PT_BUF_INIT, rounds = PT_BUF_INIT, pickle = PT_BUF_INIT;
	enum pt_format format = b->format;
	const char **names = NULL;
	bool shaped = false;
	uint32_t count;
	int rc;

	*ret_writes = b->taken = false;
	if (b->other && !finishes)
		return 0;
	rc = shown(b, finishes, &names, &count, &shaped);
	if (rc < 0)
		goto out;
	if (shaped)
		pt_buf_append(&pickle, b->pickle->data, b->pickle->len);
	if (!finishes && count) {
		format = b->old->format;
		if (b->old->literal_bytes)
			pt_buf_append(&pickle, b->old->literals, b->old->literal_bytes);
	}
	rounds_make(b, finishes, &rounds);
	rc = pickle.failed ? pt_fail_nomem() : pt_bundle_encode(format, shaped ? b->in_order : names, count, &pickle, &rounds, &bytes);
	if (rc < 0 || (b->old && b->old->blob_bytes == bytes.len && memcmp(b->old->data, bytes.data, bytes.len) == 0))
		goto out;
	rc = store(b, repo, &bytes);
	if (rc < 0)
		goto out;
	if (!b->node.id) {
		b->node = (struct pt_node){ .kind = PT_NODE_FILE, .mode = b->attrs->mode ? b->attrs->mode : 0644, .uid = b->attrs->uid, .gid = b->attrs->gid };
		strcpy(b->node.name, b->file_name);
	}
	ret_file->node = b->node;       /* goes over to the caller */
	memset(&b->node, 0, sizeof(b->node));
	ret_file->blob = b->blob;
	ret_file->blob_bytes = b->blob_bytes;
	ret_file->shows = finishes;
	ret_file->models_version = b->models_version;
	ret_file->mtime_ns = b->attrs->mtime_ns;
	*ret_writes = b->taken = true;
out:
	free(names);
	pt_buf_done(&bytes);
	pt_buf_done(&rounds);
	pt_buf_done(&pickle);
	return rc;
}

void pt_bundle_done(struct pt_bundle *b, struct pt_repo *repo, int rc)
{
	forget(b);
	if (rc < 0 || !b->taken)
		pt_blob_discard(repo, &b->blob, rc);
	memset(&b->blob, 0, sizeof(b->blob));
}
