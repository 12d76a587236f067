/* store/arena.c - best fit: pieces in a list by address, the free ones also in a treap by length and address.
 *
 * Invariants (pt_arena_check):
 * 1. The list covers the span without gap or overlap; no two free pieces are neighbours.
 * 2. The treap holds exactly the free pieces, ordered by (len, off), each above those of lower priority.
 * 3. bytes_free is the sum of the free pieces' lengths. */
#include "store/arena.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"

struct pt_arena_piece {
	uint64_t off, len;
	struct pt_arena_piece *before, *after;  /* by address */
	struct pt_arena_piece *left, *right;    /* of free ones */
	uint32_t priority;
	bool is_free;
};

struct pt_arena {
	uint64_t bytes, bytes_free;
	struct pt_arena_piece *first, *root;
	uint32_t random;
};

static bool less(const struct pt_arena_piece *a, uint64_t len, uint64_t off)
{
	return a->len < len || (a->len == len && a->off < off);
}

/* ---- the treap ---- */

static struct pt_arena_piece *merge(struct pt_arena_piece *a, struct pt_arena_piece *b)
{
	struct pt_arena_piece *root = NULL, **at = &root;

	while (a && b) {
		if (a->priority > b->priority) {
			*at = a;
			at = &a->right;
			a = a->right;
		} else {
			*at = b;
			at = &b->left;
			b = b->left;
		}
	}
	*at = a ? a : b;
	return root;
}

static void split(struct pt_arena_piece *t, uint64_t len, uint64_t off, struct pt_arena_piece **left, struct pt_arena_piece **right)
{
	while (t) {
		if (less(t, len, off)) {
			*left = t;
			left = &t->right;
			t = t->right;
		} else {
			*right = t;
			right = &t->left;
			t = t->left;
		}
	}
	*left = *right = NULL;
}

static void tree_insert(struct pt_arena *a, struct pt_arena_piece *p)
{
	struct pt_arena_piece **at = &a->root;

	a->random = a->random * 1664525u + 1013904223u;
	p->priority = a->random;
	while (*at && (*at)->priority >= p->priority)
		at = less(*at, p->len, p->off) ? &(*at)->right : &(*at)->left;
	split(*at, p->len, p->off, &p->left, &p->right);
	*at = p;
	p->is_free = true;
	a->bytes_free += p->len;
}

static void tree_remove(struct pt_arena *a, struct pt_arena_piece *p)
{
	struct pt_arena_piece **at = &a->root;

	while (*at != p)
		at = less(*at, p->len, p->off) ? &(*at)->right : &(*at)->left;
	*at = merge(p->left, p->right);
	p->left = p->right = NULL;
	p->is_free = false;
	a->bytes_free -= p->len;
}

/* The smallest free piece of at least len bytes. */
static struct pt_arena_piece *tree_fit(const struct pt_arena *a, uint64_t len)
{
	struct pt_arena_piece *t = a->root, *best = NULL;

	while (t) {
		if (less(t, len, 0)) {
			t = t->right;
		} else {
			best = t;
			t = t->left;
		}
	}
	return best;
}

/* ---- the arena ---- */

int pt_arena_create(uint64_t bytes, struct pt_arena **ret_arena)
{
	struct pt_arena *a;
	struct pt_arena_piece *p;

	bytes -= bytes % PT_ARENA_ALIGN;
	if (!bytes)
		return pt_fail(EINVAL, "an arena has %llu bytes or more", (unsigned long long)PT_ARENA_ALIGN);
	a = pt_calloc(1, sizeof(*a));
	p = pt_calloc(1, sizeof(*p));
	if (!a || !p) {
		free(a);
		free(p);
		return pt_fail_nomem();
	}
	a->bytes = p->len = bytes;
	a->first = p;
	tree_insert(a, p);
	*ret_arena = a;
	return 0;
}

void pt_arena_free(struct pt_arena *a)
{
	struct pt_arena_piece *p, *next;

	if (!a)
		return;
	for (p = a->first; p; p = next) {
		next = p->after;
		free(p);
	}
	free(a);
}

int pt_arena_alloc(struct pt_arena *a, uint64_t len, struct pt_arena_piece **ret_piece)
{
	struct pt_arena_piece *p, *rest;

	if (!len || !pt_size_align(len, PT_ARENA_ALIGN, &len))
		return pt_fail(EINVAL, "an arena cannot give %llu bytes", (unsigned long long)len);
	p = tree_fit(a, len);
	if (!p)
		return pt_fail(ENOSPC, "the arena has no %llu bytes in one piece (%llu are free); give the daemon a larger one", (unsigned long long)len,
			       (unsigned long long)a->bytes_free);
	if (p->len > len) {
		rest = pt_calloc(1, sizeof(*rest));
		if (!rest)
			return pt_fail_nomem();
		tree_remove(a, p);
		*rest = (struct pt_arena_piece){ .off = p->off + len, .len = p->len - len, .before = p, .after = p->after };
		if (p->after)
			p->after->before = rest;
		p->after = rest;
		p->len = len;
		tree_insert(a, rest);
	} else {
		tree_remove(a, p);
	}
	*ret_piece = p;
	return 0;
}

/* Takes `next`, which is free and follows, into p. */
static void swallow(struct pt_arena *a, struct pt_arena_piece *p, struct pt_arena_piece *next)
{
	tree_remove(a, next);
	p->len += next->len;
	p->after = next->after;
	if (next->after)
		next->after->before = p;
	free(next);
}

void pt_arena_release(struct pt_arena *a, struct pt_arena_piece *p)
{
	struct pt_arena_piece *before = p->before;

	if (p->after && p->after->is_free)
		swallow(a, p, p->after);
	if (before && before->is_free) {
		tree_remove(a, before);
		before->len += p->len;
		before->after = p->after;
		if (p->after)
			p->after->before = before;
		free(p);
		p = before;
	}
	tree_insert(a, p);
}

uint64_t pt_arena_off(const struct pt_arena_piece *piece)
{
	return piece->off;
}

uint64_t pt_arena_len(const struct pt_arena_piece *piece)
{
	return piece->len;
}

uint64_t pt_arena_bytes_free(const struct pt_arena *arena)
{
	return arena->bytes_free;
}

uint64_t pt_arena_bytes_largest(const struct pt_arena *arena)
{
	const struct pt_arena_piece *t = arena->root;

	while (t && t->right)
		t = t->right;
	return t ? t->len : 0;
}

/* ---- for tests ---- */

static void must(bool holds)
{
	if (!holds)
		abort();
}

static uint64_t count_tree(const struct pt_arena_piece *t)
{
	if (!t)
		return 0;
	must(t->is_free);
	must(!t->left || (t->left->priority <= t->priority && less(t->left, t->len, t->off)));
	must(!t->right || (t->right->priority <= t->priority && !less(t->right, t->len, t->off)));
	return 1 + count_tree(t->left) + count_tree(t->right);
}

void pt_arena_check(const struct pt_arena *a)
{
	uint64_t at = 0, bytes_free = 0, frees = 0;
	const struct pt_arena_piece *p, *before = NULL;

	for (p = a->first; p; before = p, p = p->after) {
		must(p->off == at && p->len && p->before == before);
		must(!before || !before->is_free || !p->is_free);
		at += p->len;
		frees += p->is_free;
		bytes_free += p->is_free ? p->len : 0;
	}
	must(at == a->bytes && bytes_free == a->bytes_free && count_tree(a->root) == frees);
}
