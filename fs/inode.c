/* fs/inode.c - the inode table: one inode for each thing the kernel knows or a handle holds, found by identity.
 *
 * Invariants: 1. an inode is in the hash from its making until nlookup and refs are both 0, then it is freed; 2. node ids given to the kernel are
 * addresses of inodes with nlookup > 0; 3. identity (kind, node, dir, name, stamp) never changes. */
#include "fs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* Views whose headers and plans stay in memory without being open: 5 KB each, mostly. Whoever looks at all tensors of a model and then opens them finds them there. */
#define LRU_MAX 8192
#define BUCKETS_FIRST 1024

static uint64_t mix(uint64_t h, uint64_t v)
{
	h ^= v;
	h *= 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

uint64_t pt_fs_ino(uint64_t node, const char *dir, const char *name)
{
	uint64_t h;

	if (!dir[0] && !name[0])
		return node;
	h = mix(mix(node, pt_hash64(dir, strlen(dir))), pt_hash64(name, strlen(name)));
	return h | (uint64_t)1 << 63;
}

static uint64_t hash_of(enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name, uint64_t stamp)
{
	return mix(mix(pt_fs_ino(node, dir, name), (uint64_t)kind), stamp);
}

int pt_fs_table_init(struct pt_fs *fs)
{
	int rc;

	fs->bucket = pt_calloc(BUCKETS_FIRST, sizeof(*fs->bucket));
	if (!fs->bucket)
		return pt_fail_nomem();
	fs->bucket_count = BUCKETS_FIRST;
	pthread_mutex_init(&fs->table_lock, NULL);
	rc = pt_fs_inode_get(fs, PT_FS_DIR, PT_NODE_ROOT, "", "", 0, &fs->root);
	if (rc < 0) {
		free(fs->bucket);
		fs->bucket = NULL;
	}
	return rc;
}

static void inode_free(struct pt_fs *fs, struct pt_fs_inode *i)
{
	pt_fs_view_done(i);
	pt_fs_writer_done(fs, i);
	pt_fs_file_done(fs, i);
	pt_fs_many_done(i);
	pt_fs_sealed_done(fs, i);
	pt_fs_where_done(i);
	pt_buf_done(&i->info);
	pthread_mutex_destroy(&i->lock);
	free(i);
}

void pt_fs_table_done(struct pt_fs *fs)
{
	struct pt_fs_inode *i;
	size_t b;

	if (!fs->bucket)
		return;
	for (b = 0; b < fs->bucket_count; b++)
		while ((i = fs->bucket[b])) {
			fs->bucket[b] = i->hash_next;
			inode_free(fs, i);
		}
	free(fs->bucket);
	fs->bucket = NULL;
	pthread_mutex_destroy(&fs->table_lock);
}

static void table_grow_locked(struct pt_fs *fs)
{
	size_t count = fs->bucket_count * 4, b;
	struct pt_fs_inode **bucket, *i;

	if (2 * fs->inode_count < fs->bucket_count)     /* each step along a chain is a wait for memory */
		return;
	bucket = pt_calloc(count, sizeof(*bucket));
	if (!bucket)
		return;                 /* longer chains will do */
	for (b = 0; b < fs->bucket_count; b++)
		while ((i = fs->bucket[b])) {
			fs->bucket[b] = i->hash_next;
			i->hash_next = bucket[i->hash & (count - 1)];
			bucket[i->hash & (count - 1)] = i;
		}
	free(fs->bucket);
	fs->bucket = bucket;
	fs->bucket_count = count;
}

static struct pt_fs_inode *find_locked(struct pt_fs *fs, uint64_t hash, enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name,
				       uint64_t stamp)
{
	struct pt_fs_inode *i;

	for (i = fs->bucket[hash & (fs->bucket_count - 1)]; i; i = i->hash_next)
		if (i->hash == hash && i->kind == kind && i->node == node && i->stamp == stamp && strcmp(i->name, name) == 0 &&
		    strcmp(i->dir, dir) == 0)
			return i;
	return NULL;
}

static struct pt_fs_inode *inode_alloc(enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name)
{
	size_t dir_len = strlen(dir) + 1, name_len = strlen(name) + 1;
	struct pt_fs_inode *i;

	pt_fs_heap_ready();
	i = pt_calloc(1, sizeof(*i) + dir_len + name_len);
	if (!i)
		return NULL;
	memcpy(i->text, dir, dir_len);
	memcpy(i->text + dir_len, name, name_len);
	i->dir = i->text;
	i->name = i->text + dir_len;
	i->kind = kind;
	i->node = node;
	i->refs = 1;
	pthread_mutex_init(&i->lock, NULL);
	return i;
}

static void insert_locked(struct pt_fs *fs, struct pt_fs_inode *i)
{
	table_grow_locked(fs);
	i->hash_next = fs->bucket[i->hash & (fs->bucket_count - 1)];
	fs->bucket[i->hash & (fs->bucket_count - 1)] = i;
	fs->inode_count++;
	i->generation = ++fs->generation;
}

struct pt_fs_inode *pt_fs_inode_find(struct pt_fs *fs, enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name, uint64_t stamp)
{
	struct pt_fs_inode *i;

	pthread_mutex_lock(&fs->table_lock);
	i = find_locked(fs, hash_of(kind, node, dir, name, stamp), kind, node, dir, name, stamp);
	if (i)
		i->refs++;
	pthread_mutex_unlock(&fs->table_lock);
	return i;
}

int pt_fs_inode_get(struct pt_fs *fs, enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name, uint64_t stamp,
		    struct pt_fs_inode **ret_inode)
{
	uint64_t hash = hash_of(kind, node, dir, name, stamp);
	struct pt_fs_inode *i;

	pthread_mutex_lock(&fs->table_lock);
	i = find_locked(fs, hash, kind, node, dir, name, stamp);
	if (!i) {
		i = inode_alloc(kind, node, dir, name);
		if (i) {
			i->hash = hash;
			i->stamp = stamp;
			insert_locked(fs, i);
		}
	} else {
		i->refs++;
	}
	pthread_mutex_unlock(&fs->table_lock);
	if (!i)
		return pt_fail_nomem();
	*ret_inode = i;
	return 0;
}

int pt_fs_inode_new(struct pt_fs *fs, enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name, struct pt_fs_inode **ret_inode)
{
	struct pt_fs_inode *i = inode_alloc(kind, node, dir, name);

	if (!i)
		return pt_fail_nomem();
	pthread_mutex_lock(&fs->table_lock);
	i->stamp = fs->generation + 1;  /* the generation it is about to get: never used twice */
	i->hash = hash_of(kind, node, dir, name, i->stamp);
	insert_locked(fs, i);
	pthread_mutex_unlock(&fs->table_lock);
	*ret_inode = i;
	return 0;
}

struct pt_fs_inode *pt_fs_inode_ref(struct pt_fs *fs, struct pt_fs_inode *i)
{
	pthread_mutex_lock(&fs->table_lock);
	i->refs++;
	pthread_mutex_unlock(&fs->table_lock);
	return i;
}

static void lru_unlink_locked(struct pt_fs *fs, struct pt_fs_inode *i)
{
	if (!i->view.in_lru)
		return;
	*(i->view.lru_prev ? &i->view.lru_prev->view.lru_next : &fs->lru_first) = i->view.lru_next;
	*(i->view.lru_next ? &i->view.lru_next->view.lru_prev : &fs->lru_last) = i->view.lru_prev;
	i->view.in_lru = false;
	fs->lru_count--;
}

/* Takes i out of the table if nobody holds it; the caller frees it after unlocking. */
static bool dead_locked(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_inode **p;

	if (i->nlookup || i->refs)
		return false;
	for (p = &fs->bucket[i->hash & (fs->bucket_count - 1)]; *p != i; p = &(*p)->hash_next)
		assert(*p);
	*p = i->hash_next;
	fs->inode_count--;
	lru_unlink_locked(fs, i);
	return true;
}

static void inode_dead(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_inode *origin = i->origin;

	inode_free(fs, i);
	pt_fs_inode_unref(fs, origin);
}

void pt_fs_inode_unref(struct pt_fs *fs, struct pt_fs_inode *i)
{
	bool dead;

	if (!i)
		return;
	pthread_mutex_lock(&fs->table_lock);
	assert(i->refs > 0);
	i->refs--;
	dead = dead_locked(fs, i);
	pthread_mutex_unlock(&fs->table_lock);
	if (dead)
		inode_dead(fs, i);
}

void pt_fs_inode_forget(struct pt_fs *fs, struct pt_fs_inode *i, uint64_t nlookup)
{
	bool dead;

	if (i == fs->root)
		return;
	pthread_mutex_lock(&fs->table_lock);
	i->nlookup -= nlookup < i->nlookup ? nlookup : i->nlookup;
	if (!i->nlookup)
		pt_fs_told_forget(fs, i);
	dead = dead_locked(fs, i);
	pthread_mutex_unlock(&fs->table_lock);
	if (dead)
		inode_dead(fs, i);
}

void pt_fs_inode_looked_up(struct pt_fs *fs, struct pt_fs_inode *i)
{
	pthread_mutex_lock(&fs->table_lock);
	i->nlookup++;
	assert(i->refs > 0);
	i->refs--;
	pthread_mutex_unlock(&fs->table_lock);
}

struct pt_fs_inode *pt_fs_inode_lru_touch(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_inode *old = NULL;

	pthread_mutex_lock(&fs->table_lock);
	lru_unlink_locked(fs, i);
	i->view.lru_prev = NULL;
	i->view.lru_next = fs->lru_first;
	*(fs->lru_first ? &fs->lru_first->view.lru_prev : &fs->lru_last) = i;
	fs->lru_first = i;
	i->view.in_lru = true;
	if (++fs->lru_count > LRU_MAX) {
		old = fs->lru_last;
		lru_unlink_locked(fs, old);
		old->refs++;
	}
	pthread_mutex_unlock(&fs->table_lock);
	return old;
}
