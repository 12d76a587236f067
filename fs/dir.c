/* fs/dir.c - opening and reading directories: entries of listing.c into replies. */
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "transport.h"

#define NODE_BYTES 640                  /* of a key's records in memory, mostly */
#define ENTRY_PLUS_MIN 160              /* bytes of an entry with attributes, at least: struct fuse_direntplus and one of name */

void pt_fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	struct pt_fs_handle *h;
	int rc;

	pt_fail_clear();
	if (i->kind != PT_FS_DIR && i->kind != PT_FS_AXIS && i->kind != PT_FS_CONTROL_DIR) {
		fuse_reply_err(req, ENOTDIR);
		return;
	}
	rc = pt_fs_where_check(fs, i, NULL, fuse_req_ctx(req)->pid);
	if (rc < 0) {
		pt_fs_fail(req, rc, i, NULL, "opendir");
		return;
	}
	h = pt_fs_handle_create(fs, i, false);
	if (!h) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	pt_fs_intent_over(fs, fuse_req_ctx(req)->pid);
	if (fuse_reply_open(req, fi) < 0)
		pt_fs_handle_free(fs, h);
}

/* Offset 0: from the start, as it is now. */
static int begin(struct pt_fs_handle *h, uint64_t off)
{
	if (!h->listing)
		return pt_fs_listing_create(&h->listing);
	if (off == 0)
		pt_fs_listing_rewind(h->listing);
	return 0;
}

/* Entries from off on, as many as fit. */
static int64_t fill(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, char *buf, size_t size, uint64_t off)
{
	struct pt_fs_listed e;
	struct stat st = { 0 };
	size_t used = 0, n;
	uint64_t at;
	int rc;

	rc = begin(h, off);
	if (rc < 0)
		return rc;
	for (at = off; (rc = pt_fs_listing_at(fs, h->inode, h->listing, off, at, &e)) > 0; at++) {
		st.st_ino = e.ino;
		st.st_mode = (mode_t)DTTOIF(e.type);
		n = fuse_add_direntry(req, buf + used, size - used, e.name, &st, (off_t)at + 1);
		if (n > size - used)
			break;
		used += n;
	}
	return rc < 0 && !used ? rc : (int64_t)used;
}

/* The directories among the next entries, as many as fit into *size bytes, are read at once; the offset up to which they are, and what is left of the bytes. */
static uint64_t prefetch(struct pt_fs *fs, struct pt_fs_handle *h, size_t *size, uint64_t keep, uint64_t off)
{
	uint64_t ids[PT_NODE_PREFETCH], at;
	struct pt_fs_listed e;
	size_t n = 0;

	for (at = off; h->inode->kind == PT_FS_DIR && n < PT_NODE_PREFETCH && *size >= ENTRY_PLUS_MIN && pt_fs_listing_at(fs, h->inode, h->listing, keep, at, &e) > 0; at++) {
		*size -= ENTRY_PLUS_MIN;
		if (e.node && e.type == DT_DIR)
			ids[n++] = e.ino;
	}
	if (n > 1) {
		pt_fs_heap_room(n * NODE_BYTES);
		pt_node_prefetch(fs->repo, ids, n);
	}
	pt_fail_clear();
	return at > off ? at : UINT64_MAX;
}

/* All that the next reply will hold. The mark is noted with it: of a store that is away it would be a question. */
static void read_ahead(struct pt_fs *fs, struct pt_fs_handle *h, size_t size, uint64_t keep, uint64_t off)
{
	bool marked = !pt_fs_transport_is_remote(fs) && pt_meta_mark(&fs->store->meta, &h->read_at);

	h->read_from = h->read_to = off;
	for (off = prefetch(fs, h, &size, keep, off); off != UINT64_MAX; off = prefetch(fs, h, &size, keep, off))
		if (marked)
			h->read_to = off;
}

/* Up to which entry they have been read ahead, if nobody has committed since; else off. */
static uint64_t read_to(struct pt_fs *fs, struct pt_fs_handle *h, uint64_t off)
{
	struct pt_meta_mark now;

	if (off < h->read_from || off >= h->read_to || !pt_meta_mark(&fs->store->meta, &now) || memcmp(&now, &h->read_at, sizeof(now)) != 0)
		return off;
	return h->read_to;
}

/* Fills in a directory, so that the kernel needs no look-up for it: a reference that is to become one of the kernel's; NULL: it is to look it up. */
static struct pt_fs_inode *look_up(struct pt_fs *fs, struct pt_fs_inode *dir, const struct pt_fs_listed *e, struct fuse_entry_param *ret_e)
{
	struct pt_node node = { 0 };
	struct pt_meta_mark mark;
	struct pt_fs_inode *i;
	bool marked;

	if (!e->node || e->type != DT_DIR || dir->kind != PT_FS_DIR || pt_fs_inode_get(fs, PT_FS_DIR, e->ino, "", "", 0, &i) < 0) {
		pt_fail_clear();
		return NULL;
	}
	pt_fs_where_entry(dir, e->name);
	pt_fs_inode_looked_up(fs, pt_fs_inode_ref(fs, i));
	pt_fs_told(fs, i);              /* before the node is read: whoever changes it later finds it */
	marked = fs->keeps_views && pt_meta_mark(&fs->store->meta, &mark);      /* of a store that is away it is a question, once in a request */
	if (pt_node_get(fs->repo, e->ino, &node) < 0 || node.kind != PT_NODE_DIR || pt_fs_entry_fill(fs, i, &node, ret_e) < 0 ||
	    !pt_fs_entry_keep(fs, dir, e->name, i, &node, marked ? &mark : NULL, ret_e) || pt_fs_news_missed(fs, marked ? &mark : NULL)) {
		memset(ret_e, 0, sizeof(*ret_e));
		pt_fs_inode_forget(fs, i, 1);
		pt_fs_inode_unref(fs, i);
		i = NULL;
	}
	pt_fail_clear();
	pt_node_done(&node);
	return i;
}

/* As fill; inodes that the kernel gets to know are in `known`, *ret_count of them, a reference each. *ret_next: where the next request goes on. */
static int64_t fill_plus(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, char *buf, size_t size, uint64_t off, struct pt_fs_inode **known,
			 size_t *ret_count, uint64_t *ret_next)
{
	struct fuse_entry_param entry;
	struct pt_fs_inode *i;
	struct pt_fs_listed e;
	size_t used = 0, n, left;
	uint64_t ahead, at;
	int rc;

	rc = begin(h, off);
	if (rc < 0)
		return rc;
	ahead = read_to(fs, h, off);
	for (at = off;; at++) {
		left = size - used;
		if (at >= ahead)
			ahead = prefetch(fs, h, &left, off, at);
		rc = pt_fs_listing_at(fs, h->inode, h->listing, off, at, &e);
		if (rc <= 0)
			break;
		memset(&entry, 0, sizeof(entry));
		i = look_up(fs, h->inode, &e, &entry);
		if (!i) {
			entry.attr.st_ino = e.ino;
			entry.attr.st_mode = (mode_t)DTTOIF(e.type);
		}
		n = fuse_add_direntry_plus(req, buf + used, size - used, e.name, &entry, (off_t)at + 1);
		if (n > size - used) {
			if (i)
				pt_fs_inode_forget(fs, i, 1);
			pt_fs_inode_unref(fs, i);
			break;
		}
		used += n;
		if (i)
			known[(*ret_count)++] = i;
	}
	*ret_next = at;
	return rc < 0 && !used ? rc : (int64_t)used;
}

/* What the next request will ask for is read while the caller looks at what it has got; that request, and the close, wait for the handle's lock. */
void pt_fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_handle *h = (struct pt_fs_handle *)(uintptr_t)fi->fh;
	struct pt_fs_inode **known;
	uint64_t next = 0;
	size_t count = 0, i;
	bool lost = true;
	int64_t n = 0;
	char *buf;

	(void)ino;
	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_READDIR], 1);
	buf = pt_malloc(size);
	known = pt_calloc(size / ENTRY_PLUS_MIN + 1, sizeof(*known));
	pthread_mutex_lock(&h->lock);
	n = buf && known ? fill_plus(req, fs, h, buf, size, (uint64_t)off, known, &count, &next) : pt_fail_nomem();
	if (n < 0)
		pt_fs_fail(req, (int)n, h->inode, NULL, "readdir");
	else
		lost = fuse_reply_buf(req, buf, (size_t)n) < 0; /* interrupted: the kernel never saw it */
	if (n > 0 && !lost)
		read_ahead(fs, h, size, (uint64_t)off, next);
	pthread_mutex_unlock(&h->lock);
	for (i = 0; i < count; i++) {
		if (lost)
			pt_fs_inode_forget(fs, known[i], 1);
		pt_fs_inode_unref(fs, known[i]);
	}
	free(known);
	free(buf);
}

void pt_fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_handle *h = (struct pt_fs_handle *)(uintptr_t)fi->fh;
	int64_t n;
	char *buf;

	(void)ino;
	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_READDIR], 1);
	buf = pt_malloc(size);
	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	pthread_mutex_lock(&h->lock);
	n = fill(req, fs, h, buf, size, (uint64_t)off);
	pthread_mutex_unlock(&h->lock);
	if (n < 0)
		pt_fs_fail(req, (int)n, h->inode, NULL, "readdir");
	else
		fuse_reply_buf(req, buf, (size_t)n);
	free(buf);
}

void pt_fs_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_handle *h = (struct pt_fs_handle *)(uintptr_t)fi->fh;

	(void)ino;
	pthread_mutex_lock(&h->lock);   /* whoever still reads ahead */
	pthread_mutex_unlock(&h->lock);
	pt_fs_handle_free(fs, h);
	fuse_reply_err(req, 0);
}
