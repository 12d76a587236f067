/* manifest/node_list.c - listing a directory, and walking everything below one.
 *
 * Both take pages of entries out of the index and call back between index accesses, so a callback may use and change the repo. The walk keeps one page
 * for each directory between the start and where it is: memory grows with depth, not with the number of nodes, and nothing recurses. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/internal.h"

#define LIST_PAGE 512
#define WALK_PAGE 128

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

/* A page of a walk. */
static int walk_fill(struct pt_repo *repo, uint64_t dir, const char *after, struct page *page)
{
	int rc = page_fill(repo, dir, after, WALK_PAGE, page);

	if (!rc)
		page_prefetch(repo, page);
	return rc;
}

struct walk_frame {
	uint64_t dir;
	size_t key_len;                 /* of the directory's own key, with its slash */
	char last[PT_NAME_MAX + 1];
	struct page page;
};

struct walk {
	struct pt_repo *repo;
	struct pt_buf key;              /* NUL-terminated while a callback runs */
	struct walk_frame *frames;
	size_t depth, capacity;
};

static int walk_push(struct walk *w, uint64_t dir)
{
	struct walk_frame *frames, *frame;
	size_t capacity;

	if (w->depth == w->capacity) {
		capacity = w->capacity ? w->capacity * 2 : 16;
		frames = pt_reallocarray(w->frames, capacity, sizeof(*frames));
		if (!frames)
			return pt_fail_nomem();
		w->frames = frames;
		w->capacity = capacity;
	}
	frame = &w->frames[w->depth++];
	memset(frame, 0, sizeof(*frame));
	frame->dir = dir;
	frame->key_len = w->key.len;
	return walk_fill(w->repo, dir, "", &frame->page);
}

static int walk_visit(struct walk *w, const struct pt_entry *entry, const char *name, pt_node_walk_fn *fn, void *ctx)
{
	struct pt_node node;
	int rc;

	rc = pt_node_get(w->repo, entry->id, &node);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	pt_buf_append_str(&w->key, name);
	pt_buf_append_u8(&w->key, 0);
	rc = w->key.failed ? pt_fail_nomem() : fn(ctx, (const char *)w->key.data, &node);
	pt_node_done(&node);
	if (rc || entry->kind != PT_NODE_DIR)
		return rc;
	w->key.data[w->key.len - 1] = '/';
	return walk_push(w, entry->id);
}

int pt_node_walk(struct pt_repo *repo, uint64_t parent, pt_node_walk_fn *fn, void *ctx)
{
	struct walk w = { .repo = repo };
	struct walk_frame *frame;
	struct pt_entry entry;
	const char *name;
	int rc;

	rc = walk_push(&w, parent);
	while (!rc && w.depth) {
		frame = &w.frames[w.depth - 1];
		w.key.len = frame->key_len;
		if (page_next(&frame->page, &entry, &name)) {
			strcpy(frame->last, name);
			rc = walk_visit(&w, &entry, name, fn, ctx);
		} else if (frame->page.count == WALK_PAGE) {
			rc = walk_fill(repo, frame->dir, frame->last, &frame->page);
		} else {
			pt_buf_done(&frame->page.bytes);
			w.depth--;
		}
	}
	while (w.depth)
		pt_buf_done(&w.frames[--w.depth].page.bytes);
	free(w.frames);
	pt_buf_done(&w.key);
	return rc < 0 ? rc : 0;
}
