/* manifest/ahead.c - what is about to be told of many keys, read ahead in a few round trips instead of some for each: level by level of their paths, then what the
 * nodes hold. Only for stores that are away; elsewhere nothing is gained. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/internal.h"
#include "store/meta_ahead.h"

#define WANTS_A_KEY 4                   /* of one round: its node and times, and the next entry or what it holds */

struct walk {
	const char *rest;               /* of the key; NULL: ended */
	uint64_t node;
};

struct pt_repo_ahead {
	struct pt_repo *repo;
	struct pt_meta_ahead *meta;
	struct walk *walk;
	struct pt_rkey *key;
	struct pt_meta_look *look;
	size_t count, looks;
};

/* Wants it, if the last few do not already: keys of a batch are often neighbours. */
static void want(struct pt_repo_ahead *a, const struct pt_rkey *key, bool begins)
{
	for (size_t i = a->looks; i && i + 2 * WANTS_A_KEY > a->looks; i--)
		if (a->look[i - 1].begins == begins && a->key[i - 1].len == key->len && memcmp(a->key[i - 1].b, key->b, key->len) == 0)
			return;
	a->key[a->looks] = *key;
	a->look[a->looks] = (struct pt_meta_look){ { a->key[a->looks].b, key->len }, begins };
	a->looks++;
}

/* Length of the next component, or 0 where the key has none that can be. */
static size_t component(const char *rest)
{
	size_t len = strcspn(rest, "/");

	return len <= PT_NAME_MAX ? len : 0;
}

static void want_node(struct pt_repo_ahead *a, uint64_t node)
{
	struct pt_rkey key;

	pt_rkey_node(&key, node);
	want(a, &key, false);
	pt_rkey_times(&key, node);
	want(a, &key, false);
}

/* What the node holds: pending sets first, as whoever looks at both does (tensor/known.c). */
static void want_content(struct pt_repo_ahead *a, uint64_t node)
{
	struct pt_rkey key;

	if (!node)
		return;                         /* would be the sets of all */
	pt_rkey_pending(&key, node, NULL, NULL);
	want(a, &key, true);
	pt_rkey_manifest(&key, node, NULL);
	want(a, &key, true);
}

static void next_level(struct pt_repo_ahead *a)
{
	struct pt_rkey key;

	a->looks = 0;
	for (size_t i = 0; i < a->count; i++) {
		struct walk *w = &a->walk[i];
		size_t len = w->rest ? component(w->rest) : 0;

		if (!w->rest)
			continue;
		want_node(a, w->node);
		if (*w->rest && len) {
			pt_rkey_entry(&key, w->node, w->rest, len);
			want(a, &key, false);
			continue;
		}
		if (!*w->rest)
			want_content(a, w->node);
		w->rest = NULL;
	}
}

/* One component down, by what was loaded. */
static void step(struct pt_repo_ahead *a, struct walk *w)
{
	char name[PT_NAME_MAX + 1];
	struct pt_entry entry;
	uint64_t version;
	size_t len;

	if (!w->rest)
		return;
	len = component(w->rest);
	memcpy(name, w->rest, len);
	name[len] = '\0';
	w->rest += len + (w->rest[len] == '/');
	if (pt_entry_get(a->repo, w->node, name, &entry, &version) < 0)
		w->rest = NULL;
	else
		w->node = entry.id;
}

static int load(struct pt_repo_ahead *a)
{
	int rc;

	for (;;) {
		next_level(a);
		if (!a->looks)
			return 0;
		rc = pt_meta_ahead_load(a->meta, a->look, a->looks);
		if (rc < 0)
			return rc;
		for (size_t i = 0; i < a->count; i++)
			step(a, &a->walk[i]);
	}
}

static int room(struct pt_repo_ahead *a, size_t count)
{
	free(a->key);
	free(a->look);
	a->key = pt_reallocarray(NULL, count, WANTS_A_KEY * sizeof(*a->key));
	a->look = pt_reallocarray(NULL, count, WANTS_A_KEY * sizeof(*a->look));
	a->looks = 0;
	return a->key && a->look ? 0 : pt_fail_nomem();
}

int pt_repo_ahead_content(struct pt_repo_ahead *a, const uint64_t *nodes, size_t count)
{
	int rc;

	if (!a || !a->meta || !count)
		return 0;
	rc = room(a, count);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++)
		want_content(a, nodes[i]);
	return pt_meta_ahead_load(a->meta, a->look, a->looks);
}

int pt_repo_ahead_begin(struct pt_repo *repo, const char *const *keys, size_t count, struct pt_repo_ahead **ret_ahead)
{
	struct pt_repo_ahead *a;
	int rc;

	*ret_ahead = NULL;
	if (!pt_meta_looks_max(&repo->store->meta))
		return 0;
	a = pt_calloc(1, sizeof(*a));
	if (!a)
		return pt_fail_nomem();
	a->repo = repo;
	a->count = count;
	rc = pt_meta_ahead_begin(&repo->store->meta, &a->meta);
	if (rc == 0 && count)
		rc = (a->walk = pt_calloc(count, sizeof(*a->walk))) ? room(a, count) : pt_fail_nomem();
	for (size_t i = 0; rc == 0 && i < count; i++)
		a->walk[i] = (struct walk){ keys[i], PT_NODE_ROOT };
	if (rc == 0 && a->meta && count)
		rc = load(a);
	if (rc < 0) {
		pt_repo_ahead_end(a);
		return rc;
	}
	if (!a->meta) {
		/* One is under way, or nothing is gained after all. */
		pt_repo_ahead_end(a);
		return 0;
	}
	*ret_ahead = a;
	return 0;
}

void pt_repo_ahead_end(struct pt_repo_ahead *a)
{
	if (!a)
		return;
	pt_meta_ahead_end(a->meta);
	free(a->walk);
	free(a->key);
	free(a->look);
	free(a);
}
