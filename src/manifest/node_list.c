/* manifest/node_list.c - listing a directory, and walking everything below one.
 *
 * Both take pages of entries out of the index and call back between index accesses, so a callback may use and change the repo. The walk keeps one page
 * for each directory between the start and where it is: memory grows with depth, not with the number of nodes. Of a store that is away, where each page would be a
 * round trip, the first pages of the directories that come next are read with the one that is needed (fill_ahead): WAVE at once, and WAITING_MAX and a wave at most that have not been walked yet. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/internal.h"

#define LIST_PAGE 512
#define WALK_PAGE 128
#define WAVE 512
#define WAITING_MAX 4096

/* Entries packed one after the other: id, kind, name length, name, NUL. */
struct page {
	struct pt_buf bytes;
	struct pt_reader at;
	uint32_t count;
};

static int page_add(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct page *page = ctx;
	struct pt_entry entry;
	size_t name_len;
	int rc;

	(void)version;
	rc = pt_record_entry_decode(value, value_len, &entry);
	if (rc < 0)
		return rc;
	if (key_len <= 9 || key_len - 9 > PT_NAME_MAX || memchr((const char *)key + 9, 0, key_len - 9))
		return pt_record_bad("directory entry");
	name_len = key_len - 9;
	pt_buf_append_le64(&page->bytes, entry.id);
	pt_buf_append_u8(&page->bytes, (uint8_t)entry.kind);
	pt_buf_append_u8(&page->bytes, (uint8_t)name_len);
	pt_buf_append(&page->bytes, (const char *)key + 9, name_len);
	pt_buf_append_u8(&page->bytes, 0);
	page->count++;
	return 0;
}

/* Up to `limit` entries after the name `after`. */
static int page_fill(struct pt_repo *repo, uint64_t parent, const char *after, uint32_t limit, struct page *page)
{
	struct pt_rkey start, end;
	int rc;

	pt_rkey_entry(&start, parent, after, strlen(after));
	start.b[start.len++] = 0;       /* just after `after`; for "" before every name, since names hold no NUL */
	pt_rkey_entry(&end, parent + 1, "", 0);
	pt_buf_reset(&page->bytes);
	page->count = 0;
	rc = pt_meta_scan(&repo->store->meta, start.b, start.len, end.b, end.len, limit, page_add, page);
	if (!rc && page->bytes.failed)
		rc = pt_fail_nomem();
	pt_reader_init(&page->at, page->bytes.data, page->bytes.len);
	return rc < 0 ? rc : 0;
}

/* False at the page's end. *ret_name is valid until the next fill. */
static bool page_next(struct page *page, struct pt_entry *ret_entry, const char **ret_name)
{
	if (!pt_reader_left(&page->at))
		return false;
	ret_entry->id = pt_reader_le64(&page->at);
	ret_entry->kind = pt_reader_u8(&page->at);
	*ret_name = pt_reader_bytes(&page->at, (size_t)pt_reader_u8(&page->at) + 1);
	return true;
}

int pt_node_list(struct pt_repo *repo, uint64_t parent, const char *after, pt_node_list_fn *fn, void *ctx)
{
	char last[PT_NAME_MAX + 1];
	struct page page = { .count = 0 };
	struct pt_entry entry;
	const char *name;
	int rc;

	if (strnlen(after, sizeof(last)) == sizeof(last))
		return pt_fail(ENAMETOOLONG, "a name may have %d bytes", PT_NAME_MAX);
	strcpy(last, after);
	do {
		rc = page_fill(repo, parent, last, LIST_PAGE, &page);
		while (!rc && page_next(&page, &entry, &name)) {
			strcpy(last, name);
			rc = fn(ctx, name, entry.id, entry.kind);
		}
	} while (!rc && page.count == LIST_PAGE);
	pt_buf_done(&page.bytes);
	return rc < 0 ? rc : 0;
}

/* Its nodes, which the walk gets one by one. A hint. */
static void page_prefetch(struct pt_repo *repo, const struct page *page)
{
	uint64_t ids[PT_NODE_PREFETCH];
	struct page copy = *page;
	struct pt_entry entry;
	const char *name;
	size_t n = 0;

	while (n < PT_NODE_PREFETCH && page_next(&copy, &entry, &name))
		ids[n++] = entry.id;
	if (n > 1 && pt_node_prefetch(repo, ids, n) < 0)
		pt_fail_clear();
}

/* ---- walking ---- */

/* A directory of a walk, and the page of it that is being walked. */
struct walk_dir {
	uint64_t id;
	bool filled;
	struct page page;
	struct walk_dir *below;         /* the directories of that page, in order; from below_at on they are still to be walked */
	uint32_t below_count, below_at;
};

struct walk_frame {
	struct walk_dir *dir;
	size_t key_len;                 /* of the directory's own key, with its slash */
	char last[PT_NAME_MAX + 1];
};

struct walk {
	struct pt_repo *repo;
	struct pt_buf key;              /* NUL-terminated while a callback runs */
	struct walk_dir top;
	struct walk_frame *frames;
	size_t depth, capacity;
	uint64_t waiting;               /* directories that are filled and not walked yet */
};

static void dir_done(struct walk_dir *d)
{
	uint32_t i;

	for (i = 0; i < d->below_count; i++)
		dir_done(&d->below[i]);
	free(d->below);
	pt_buf_done(&d->page.bytes);
	*d = (struct walk_dir){ .id = d->id };
}

/* The page is there. */
static int dir_filled(struct walk *w, struct walk_dir *d)
{
	struct page copy;
	struct pt_entry entry;
	const char *name;

	if (d->page.bytes.failed)
		return pt_fail_nomem();
	pt_reader_init(&d->page.at, d->page.bytes.data, d->page.bytes.len);
	copy = d->page;
	d->filled = true;
	w->waiting++;
	d->below = pt_calloc(d->page.count ? d->page.count : 1, sizeof(*d->below));
	if (!d->below)
		return pt_fail_nomem();
	while (page_next(&copy, &entry, &name))
		if (entry.kind == PT_NODE_DIR)
			d->below[d->below_count++].id = entry.id;
	return 0;
}

static int dir_fill(struct walk *w, struct walk_dir *d, const char *after)
{
	int rc;

	dir_done(d);
	rc = page_fill(w->repo, d->id, after, WALK_PAGE, &d->page);
	if (rc == 0)
		rc = dir_filled(w, d);
	if (rc == 0)
		page_prefetch(w->repo, &d->page);
	return rc;
}

/* ---- of a store that is away: many directories in one question ---- */

struct wave {
	struct walk_dir *dir[WAVE];
	struct pt_rkey key[WAVE];
	struct pt_meta_look look[WAVE];
	size_t count, at;
	struct pt_buf last;             /* the key that came before, of dir[at] */
};

/* Those of this directory and below that are still to be filled, in the order of the walk. */
static void wave_gather(struct wave *v, struct walk_dir *d)
{
	uint32_t i;

	if (v->count == WAVE)
		return;
	if (!d->filled) {
		v->dir[v->count++] = d;
		return;
	}
	for (i = d->below_at; i < d->below_count; i++)
		wave_gather(v, &d->below[i]);
}

/* Keys come in order, those of one directory after those of the one before. One that has been moved meanwhile may come twice. */
static int wave_row(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct wave *v = ctx;
	size_t shorter = key_len < v->last.len ? key_len : v->last.len;
	bool follows = v->last.len == 0 || memcmp(key, v->last.data, shorter) > 0 || (memcmp(key, v->last.data, shorter) == 0 && key_len > v->last.len);

	while (v->at < v->count && (!follows || key_len < v->key[v->at].len || memcmp(key, v->key[v->at].b, v->key[v->at].len) != 0)) {
		v->at++;
		follows = true;
	}
	if (v->at == v->count)
		return pt_fail(EIO, "the daemon tells what was not asked for; use the same release of ptio on both sides");
	pt_buf_reset(&v->last);
	pt_buf_append(&v->last, key, key_len);
	if (v->last.failed)
		return pt_fail_nomem();
	return v->dir[v->at]->page.count < WALK_PAGE ? page_add(&v->dir[v->at]->page, key, key_len, value, value_len, version) : 0;
}

/* The nodes of all these pages. A hint. */
static void wave_prefetch(struct pt_repo *repo, const struct wave *v)
{
	uint64_t ids[PT_NODE_PREFETCH];
	struct pt_entry entry;
	struct page copy;
	const char *name;
	size_t i, n = 0;
	int rc = 0;

	for (i = 0; i < v->count; i++)
		for (copy = v->dir[i]->page; page_next(&copy, &entry, &name);) {
			ids[n++] = entry.id;
			if (n < PT_NODE_PREFETCH)
				continue;
			rc = rc < 0 ? rc : pt_node_prefetch(repo, ids, n);
			n = 0;
		}
	if (n && rc == 0)
		rc = pt_node_prefetch(repo, ids, n);
	if (rc < 0)
		pt_fail_clear();
}

static int wave_fill(struct walk *w, struct wave *v)
{
	size_t i;
	int rc;

	for (i = 0; i < v->count; i++) {
		pt_rkey_entry(&v->key[i], v->dir[i]->id, "", 0);
		v->look[i] = (struct pt_meta_look){ { v->key[i].b, v->key[i].len }, true };
	}
	rc = pt_meta_look_first(&w->repo->store->meta, v->look, v->count, WALK_PAGE, wave_row, v);
	for (i = 0; i < v->count && rc == 0; i++)
		rc = dir_filled(w, v->dir[i]);
	if (rc == 0)
		wave_prefetch(w->repo, v);
	pt_buf_done(&v->last);
	return rc;
}

/* The directory, which is to be walked now, and with it those that will be soon, as far as memory is bounded. */
static int fill_ahead(struct walk *w, struct walk_dir *d)
{
	struct wave *v;
	size_t i;
	int rc;

	if (!pt_meta_looks_max(&w->repo->store->meta) || w->waiting >= WAITING_MAX)
		return dir_fill(w, d, "");
	v = pt_calloc(1, sizeof(*v));
	if (!v)
		return pt_fail_nomem();
	wave_gather(v, d);
	for (i = w->depth; i; i--)
		wave_gather(v, w->frames[i - 1].dir);
	rc = wave_fill(w, v);
	free(v);
	return rc;
}

/* ---- one after the other ---- */

static int walk_push(struct walk *w, struct walk_dir *dir)
{
	struct walk_frame *frames;
	size_t capacity;
	int rc;

	if (w->depth == w->capacity) {
		capacity = w->capacity ? w->capacity * 2 : 16;
		frames = pt_reallocarray(w->frames, capacity, sizeof(*frames));
		if (!frames)
			return pt_fail_nomem();
		w->frames = frames;
		w->capacity = capacity;
	}
	rc = dir->filled ? 0 : fill_ahead(w, dir);
	if (rc < 0)
		return rc;
	w->waiting--;
	w->frames[w->depth++] = (struct walk_frame){ .dir = dir, .key_len = w->key.len };
	return 0;
}

static int walk_visit(struct walk *w, struct walk_dir *in, const struct pt_entry *entry, const char *name, pt_node_walk_fn *fn, void *ctx)
{
	struct walk_dir *below = entry->kind == PT_NODE_DIR ? &in->below[in->below_at++] : NULL;
	struct pt_node node;
	int rc;

	rc = pt_node_get(w->repo, entry->id, &node);
	if (rc == -ENOENT && below && below->filled)
		w->waiting--;
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	pt_buf_append_str(&w->key, name);
	pt_buf_append_u8(&w->key, 0);
	rc = w->key.failed ? pt_fail_nomem() : fn(ctx, (const char *)w->key.data, &node);
	pt_node_done(&node);
	if (rc || !below)
		return rc;
	w->key.data[w->key.len - 1] = '/';
	return walk_push(w, below);
}

int pt_node_walk(struct pt_repo *repo, uint64_t parent, pt_node_walk_fn *fn, void *ctx)
{
	struct walk w = { .repo = repo, .top = { .id = parent } };
	struct walk_frame *frame;
	struct pt_entry entry;
	const char *name;
	int rc;

	rc = walk_push(&w, &w.top);
	while (!rc && w.depth) {
		frame = &w.frames[w.depth - 1];
		w.key.len = frame->key_len;
		if (page_next(&frame->dir->page, &entry, &name)) {
			strcpy(frame->last, name);
			rc = walk_visit(&w, frame->dir, &entry, name, fn, ctx);
		} else if (frame->dir->page.count == WALK_PAGE) {
			rc = dir_fill(&w, frame->dir, frame->last);
			w.waiting--;
		} else {
			dir_done(frame->dir);
			w.depth--;
		}
	}
	dir_done(&w.top);
	free(w.frames);
	pt_buf_done(&w.key);
	return rc < 0 ? rc : 0;
}
