/* fs/listing.c - the entries of a directory in the order of their offsets, read in pieces.
 *
 * Offsets count entries from the start. In memory are the entries from the oldest one that the kernel may still ask for; the others have been told and forgotten. Children
 * come in byte order of their names, so that each piece goes on after the last name of the one before: what is there all the time is listed once, whatever others
 * make, remove or rename meanwhile. Every piece leaves a mark, from which entries are read again for a program that seeks back (not to the start); only there
 * names that were made or removed since may shift the others. */
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define PIECE 512                       /* children */
#define RECORD_HEAD 10                  /* ino, type, node */

enum stage { STAGE_START, STAGE_CHILDREN, STAGE_LAYOUTS, STAGE_END };

struct mark {
	uint64_t off;                   /* of the first entry of the piece */
	enum stage stage;               /* that the piece belongs to */
	char *after;                    /* the name before its first one */
};

struct pt_fs_listing {
	uint64_t first;                 /* offset of record 0 */
	struct pt_buf records;          /* u64 ino, u8 type, u8 node, name with its NUL */
	uint32_t *at;                   /* where each begins */
	uint32_t count, cap;
	enum stage stage;               /* of the next piece */
	char after[PT_NAME_MAX + 1];
	struct mark *marks;
	size_t mark_count, mark_cap;
	/* while a piece is read */
	const struct pt_fs_inode *dir;
	int rc;
};

int pt_fs_listing_create(struct pt_fs_listing **ret_listing)
{
	struct pt_fs_listing *l = pt_calloc(1, sizeof(*l));

	if (!l)
		return pt_fail_nomem();
	*ret_listing = l;
	return 0;
}

static void restart(struct pt_fs_listing *l, uint64_t first, enum stage stage, const char *after)
{
	l->first = first;
	l->stage = stage;
	l->count = 0;
	pt_buf_reset(&l->records);
	strcpy(l->after, after);
}

static void marks_drop(struct pt_fs_listing *l)
{
	while (l->mark_count)
		free(l->marks[--l->mark_count].after);
}

void pt_fs_listing_free(struct pt_fs_listing *l)
{
	if (!l)
		return;
	marks_drop(l);
	free(l->marks);
	free(l->at);
	pt_buf_done(&l->records);
	free(l);
}

static int record_add(struct pt_fs_listing *l, uint64_t ino, unsigned char type, bool node, const char *name)
{
	uint32_t *more;

	if (l->count == l->cap) {
		more = pt_reallocarray(l->at, l->cap ? 2 * (size_t)l->cap : 64, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		l->at = more;
		l->cap = l->cap ? 2 * l->cap : 64;
	}
	if (l->records.len > UINT32_MAX / 2)
		return pt_fail(EOVERFLOW, "the directory is too large to list");
	l->at[l->count] = (uint32_t)l->records.len;
	pt_buf_append_le64(&l->records, ino);
	pt_buf_append_u8(&l->records, type);
	pt_buf_append_u8(&l->records, node);
	pt_buf_append(&l->records, name, strlen(name) + 1);
	if (pt_buf_failed(&l->records))
		return pt_fail_nomem();
	l->count++;
	return 0;
}

static int add_one(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	struct pt_fs_listing *l = ctx;
	size_t len = strlen(l->dir->dir);
	char path[PT_TREE_DIR_MAX];
	uint64_t ino = id;

	if (!id && kind == PT_NODE_DIR) {
		if (len + strlen(name) + 2 > sizeof(path))
			return 0;
		memcpy(path, l->dir->dir, len);
		if (len)
			path[len++] = '/';
		strcpy(path + len, name);
		ino = pt_fs_ino(l->dir->node, path, "");
	} else if (!id) {
		ino = pt_fs_ino(l->dir->node, l->dir->dir, name);
	}
	l->rc = record_add(l, ino, kind == PT_NODE_DIR ? DT_DIR : kind == PT_NODE_SYMLINK ? DT_LNK : DT_REG, id != 0, name);
	return l->rc ? 1 : 0;
}

/* Best effort: without a mark the way back is longer. */
static void mark_here(struct pt_fs_listing *l)
{
	uint64_t off = l->first + l->count;
	struct mark *more;

	if (l->mark_count && l->marks[l->mark_count - 1].off >= off)
		return;
	if (l->mark_count == l->mark_cap) {
		more = pt_reallocarray(l->marks, l->mark_cap ? 2 * l->mark_cap : 8, sizeof(*more));
		if (!more)
			return;
		l->marks = more;
		l->mark_cap = l->mark_cap ? 2 * l->mark_cap : 8;
	}
	l->marks[l->mark_count] = (struct mark){ .off = off, .stage = l->stage, .after = pt_strdup(l->after) };
	if (l->marks[l->mark_count].after)
		l->mark_count++;
}

static int start(struct pt_fs *fs, struct pt_fs_listing *l)
{
	const struct pt_fs_inode *dir = l->dir;
	int rc;
	size_t i;

	rc = record_add(l, pt_fs_ino(dir->node, dir->dir, dir->name), DT_DIR, false, ".");
	if (rc == 0)
		rc = record_add(l, PT_NODE_ROOT, DT_DIR, false, "..");
	l->stage = STAGE_CHILDREN;
	if (dir->kind == PT_FS_CONTROL_DIR) {
		for (i = 0; rc == 0 && pt_fs_control_name(i); i++)
			rc = record_add(l, pt_fs_ino(PT_NODE_ROOT, "", pt_fs_control_name(i)), DT_REG, false, pt_fs_control_name(i));
		l->stage = STAGE_END;
	} else if (pt_fs_alias_is(dir->dir)) {
		if (pt_fs_alias_itself(dir->dir))
			add_one(l, "full", 0, PT_NODE_FILE);
		l->stage = STAGE_END;
	}
	(void)fs;
	return rc;
}

static int read_piece(struct pt_fs *fs, struct pt_fs_listing *l)
{
	const struct pt_fs_inode *dir = l->dir;
	int rc;

	switch (l->stage) {
	case STAGE_START:
		return start(fs, l);
	case STAGE_CHILDREN:
		rc = pt_tree_list_children(fs->repo, dir->node, dir->dir, PIECE, l->after, add_one, l);
		if (rc == 0)
			l->stage = STAGE_LAYOUTS;
		return rc;
	case STAGE_LAYOUTS:
		rc = pt_tree_list_layouts(fs->repo, dir->node, dir->dir, fs->options->list_all, add_one, l);
		if (rc == 0 && l->rc == 0 && dir->kind == PT_FS_AXIS)
			rc = pt_fs_rank_list(fs, dir, add_one, l);
		l->stage = STAGE_END;
		return rc;
	case STAGE_END:
		break;
	}
	return 0;
}

/* A piece that fails is as if it had not been begun. */
static int next_piece(struct pt_fs *fs, struct pt_fs_listing *l)
{
	size_t len = l->records.len;
	uint32_t count = l->count;
	enum stage stage = l->stage;
	char after[PT_NAME_MAX + 1];
	int rc;

	mark_here(l);
	strcpy(after, l->after);
	l->rc = 0;
	rc = read_piece(fs, l);
	if (rc >= 0 && l->rc < 0)
		rc = l->rc;
	if (rc < 0) {
		l->records.len = len;
		l->count = count;
		l->stage = stage;
		strcpy(l->after, after);
	}
	return rc;
}

/* Entries before `keep` go once they are many. */
static void forget(struct pt_fs_listing *l, uint64_t keep)
{
	uint32_t gone, bytes, i;

	if (keep < l->first + PIECE)
		return;
	gone = keep - l->first < l->count ? (uint32_t)(keep - l->first) : l->count;
	if (!gone || gone < l->count / 2)
		return;
	bytes = gone == l->count ? (uint32_t)l->records.len : l->at[gone];
	memmove(l->records.data, l->records.data + bytes, l->records.len - bytes);
	l->records.len -= bytes;
	for (i = gone; i < l->count; i++)
		l->at[i - gone] = l->at[i] - bytes;
	l->first += gone;
	l->count -= gone;
}

static void seek_back(struct pt_fs_listing *l, uint64_t off)
{
	size_t i;

	for (i = l->mark_count; i > 0 && l->marks[i - 1].off > off; i--)
		;
	if (i)
		restart(l, l->marks[i - 1].off, l->marks[i - 1].stage, l->marks[i - 1].after);
	else
		restart(l, 0, STAGE_START, "");
}

void pt_fs_listing_rewind(struct pt_fs_listing *l)
{
	marks_drop(l);
	restart(l, 0, STAGE_START, "");
}

int pt_fs_listing_at(struct pt_fs *fs, const struct pt_fs_inode *dir, struct pt_fs_listing *l, uint64_t keep, uint64_t off, struct pt_fs_listed *ret_entry)
{
	const uint8_t *record;
	int rc = 0;

	l->dir = dir;
	if (off < l->first) {
		seek_back(l, off);
	} else {
		forget(l, keep);
	}
	while (off >= l->first + l->count && l->stage != STAGE_END) {
		rc = next_piece(fs, l);
		if (rc < 0)
			return rc;
		if (off >= l->first + l->count)
			forget(l, keep);
	}
	if (off >= l->first + l->count)
		return 0;
	record = l->records.data + l->at[off - l->first];
	*ret_entry = (struct pt_fs_listed){ .ino = pt_get_le64(record), .type = record[8], .node = record[9] != 0, .name = (const char *)record + RECORD_HEAD };
	return 1;
}
