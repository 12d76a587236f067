/* fs/fs.h - what the files of the driver share: the mount, its inodes, open handles.
 *
 * Locks, in acquisition order: a directory handle's (its listing); an inode's lock (view, writer, file state); pt_fs.writers_lock; pt_fs.table_lock (hash, lookup and
 * reference counts, view LRU). Leaves: a file's shown_lock, handles_lock, intents' and the error ring's own, and the notifier's (told.c). A commit waits for the
 * notifier, maybe with an inode's lock held; the notifier takes none but its own, and tells the kernel without it. No reply is sent under an inode lock. */
#ifndef PT_FS_FS_H
#define PT_FS_FS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "cache/ahead.h"
#include "cache/cache.h"
#include "base/file_state.h"
#include "cache/cache.h"
#include "manifest/repo.h"
#include "tensor/tensor.h"
#include "tree/models.h"
#include "tree/tree.h"

#include "options.h"

enum pt_fs_kind {
	PT_FS_DIR,                      /* a namespace node */
	PT_FS_AXIS,                     /* axis components below a node; always exists */
	PT_FS_VIEW,                     /* one revision of one view, served one way; immutable. Or a placeholder of what cannot be read now */
	PT_FS_WRITER,                   /* a view name being written */
	PT_FS_FILE,                     /* an ordinary file: one inode per node */
	PT_FS_MANY,                     /* many tensors as one file, in one state of what it is made of (many.c). Or a placeholder */
	PT_FS_SEALED,                   /* a container under its own name, in one state (sealed.c): `origin` is the file */
	PT_FS_WHOLE,                    /* a view, many or sealed, whole in memory (cached.c): `origin` */
	PT_FS_SYMLINK,
	PT_FS_CONTROL_DIR, PT_FS_CONTROL,
	PT_FS_INFO                      /* .ptio.json */
};

struct pt_fs_view {
	uint64_t size;                  /* of the file */
	uint64_t stored;                /* bytes for st_blocks */
	uint32_t mode, uid, gid;        /* mode, uid, gid, mtime: refreshed by look-ups */
	int64_t mtime_ns;
	struct pt_vfile *file;          /* NULL: dropped from memory, or a placeholder */
	uint32_t pins;                  /* opens of this mount; file stays while > 0 */
	struct pt_fs_inode *lru_prev, *lru_next;
	bool in_lru;
	atomic_bool keeps;              /* the kernel may keep it: a complete revision of a key */
	bool is_checked;
	struct pt_meta_mark checked;    /* the store as it was when the name was found to mean this */
	int64_t since_ns;               /* CLOCK_BOOTTIME just before that */
};

#define PT_FS_STAMP_NONE ((uint64_t)1)

struct pt_fs_writer;                    /* writer.c */
struct pt_fs_file;                      /* file_int.h */
struct pt_fs_many;                      /* many.c */
struct pt_fs_sealed;                    /* sealed.c */
struct pt_fs_listing;                   /* listing.c */
struct pt_fs_where;                     /* where.c */

struct pt_fs_inode {
	struct pt_fs_inode *hash_next;
	uint64_t hash;
	uint64_t nlookup;               /* kernel's count; table_lock */
	uint64_t refs;                  /* ours: handles, intents, requests; table_lock */
	uint64_t generation;
	enum pt_fs_kind kind;
	atomic_bool made;               /* an axis directory that somebody made with mkdir (caller.c) */
	uint64_t stamp;                 /* views: of revision and box, or PT_FS_STAMP_NONE for a placeholder; writers: unique; else 0 */
	uint64_t node;                  /* namespace node: its own, or that of the key it is below */
	pthread_mutex_t lock;           /* view, writer and file state */
	struct pt_fs_view view;
	struct pt_fs_writer *writer;
	struct pt_fs_file *file;
	struct pt_fs_many *many;
	struct pt_fs_sealed *sealed;
	struct pt_fs_where *where;      /* DIR: what the kernel was told; lock */
	struct pt_fs_inode *told_next, **told_at;       /* told.c, with these two */
	uint64_t told_serial;
	uint8_t told;
	atomic_uint_fast64_t entries;   /* DIR, AXIS: a bit a name (by hash) of which the kernel was told an entry */
	struct pt_buf info;             /* INFO: the text at info_version of the store; lock */
	uint64_t info_version;
	atomic_uint opens;              /* views and many: how often, ever */
	bool answered;                  /* small readers: an open of it, after which it may be read; lock */
	struct pt_fs_inode *origin;     /* WHOLE, SEALED: a reference */
	int backing_id;                 /* WHOLE, while passes > 0: the kernel's name of the file in memory, or, if stored, of the store's own */
	bool stored;
	bool changed;                   /* that is known to be changed since it was passed through to: nobody else gets it before it is found right again */
	uint32_t passes, plain;         /* WHOLE: opens passed through, and others */
	const char *dir;                /* spelled axis components; in text[] */
	const char *name;               /* view, control or info name; in text[] */
	char text[];
};

struct pt_fs_handle {
	struct pt_fs_handle *prev, *next;       /* fs->handles; handles_lock */
	struct pt_fs_inode *inode;      /* a reference */
	bool writes;
	bool passed;                    /* WHOLE: opened by passthrough */
	struct pt_fs *fs;               /* for ahead */
	struct pt_vcache_file *cached;  /* held */
	struct pt_vcache_file *looking; /* held: the store's file, which is being looked through */
	struct pt_ahead *ahead;
	struct pt_buf text;             /* control and info files: contents at open */
	struct pt_fs_listing *listing;  /* directories: made by the first read; lock, also of the next two */
	uint64_t read_from, read_to;    /* entries whose nodes have been read ahead of the request that asks for them, */
	struct pt_meta_mark read_at;    /* with the store like this */
	pthread_mutex_t lock;
};

struct pt_fs_counters {
	atomic_uint_fast64_t ops[32];
	atomic_uint_fast64_t errors, open_views, open_writers, open_files, published, dropped, read_bytes, written_bytes, stale_retries, stale_dirs;
	atomic_uint_fast64_t direct_opens, passed_opens, stored_opens, given_opens, open_waits, ahead_bytes, writing, overlapped_writes;
};

enum pt_fs_op {
	PT_FS_OP_LOOKUP, PT_FS_OP_GETATTR, PT_FS_OP_SETATTR, PT_FS_OP_READLINK, PT_FS_OP_MKDIR, PT_FS_OP_UNLINK, PT_FS_OP_RMDIR,
	PT_FS_OP_SYMLINK, PT_FS_OP_RENAME, PT_FS_OP_OPEN, PT_FS_OP_CREATE, PT_FS_OP_READ, PT_FS_OP_WRITE, PT_FS_OP_FLUSH, PT_FS_OP_RELEASE,
	PT_FS_OP_FSYNC, PT_FS_OP_READDIR, PT_FS_OP_STATFS, PT_FS_OP_XATTR, PT_FS_OP_COUNT
};

#define PT_FS_MKDIR_SLOTS 1024

struct pt_fs {
	const struct pt_fs_options *options;
	struct pt_store *store;         /* owned by repo */
	struct pt_repo *repo;
	struct fuse_session *session;
	uint32_t proto_major, proto_minor;
	uint64_t kernel_caps;
	int64_t started_ns;
	char *spool_dir;

	pthread_mutex_t table_lock;     /* bucket, bucket_count, inode_count, generation, lru; nlookup, refs of inodes */
	struct pt_fs_inode **bucket;
	size_t bucket_count, inode_count;
	uint64_t generation;
	struct pt_fs_inode *lru_first, *lru_last;
	size_t lru_count;
	struct pt_fs_inode *root;
	struct stat root_st;            /* as it was last known, if root_known; under root->lock */
	bool root_known;

	pthread_mutex_t writers_lock;   /* list of open writers (writer.c) */
	struct pt_fs_writer *writers;

	pthread_mutex_t handles_lock;   /* list of open handles: the kernel forgets the last ones at unmount */
	struct pt_fs_handle *handles;

	struct pt_fs_intents *intents;
	struct pt_fs_errors *errors;
	struct pt_fs_gc *gc;
	struct pt_snapshots *snapshots; /* or NULL */
	uint64_t pokes;                 /* how often something was superseded or removed; atomically */
	pthread_mutex_t room_lock;      /* the next four */
	uint64_t rooms;                 /* passes of the collector that made room for somebody; also read atomically */
	int64_t room_vain_ns;           /* when one made none; 0: the last did */
	uint64_t room_vain_pokes;       /* of before that one */
	int64_t room_made_ns;           /* when one last made some; 0: never */
	struct pt_models *models;
	double entry_timeout;           /* seconds for which the kernel finds names by itself */
	atomic_bool callers_tell, callers_silent;      /* /proc told of some caller, and did not of another (caller.c) */
	bool keeps_views;               /* not directories alone: the store is watched */
	bool news_away;                 /* by asking its daemon (news.c) */
	struct pt_fs_notifier *notifier;
	struct pt_fs_news *news;
	atomic_uint_fast64_t where_serial;
	struct pt_workers *workers;     /* cached.c */
	struct pt_buffers buffers;
	struct pt_share share;          /* of windows ahead, in these buffers */
	struct pt_workers *idle;        /* where nobody else wants the processor */
	struct pt_vcache *cache;
	atomic_bool stored_taken, stored_refused;       /* the kernel passes reads through to the store's files; it does not */
	atomic_uint waiting;            /* opens that wait for a view to be whole */
	atomic_bool passthrough;        /* the kernel takes files in memory */
	bool direct_mmap;               /* what is open for direct io can be mapped */
	atomic_bool read_ahead_set;
	atomic_uint_fast64_t mkdir_tids[PT_FS_MKDIR_SLOTS];    /* a bit a thread that has made a directory (caller.c) */
	struct pt_fs_counters counters;
};

static inline struct pt_fs *pt_fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- inode.c ---- */
int pt_fs_table_init(struct pt_fs *fs);
void pt_fs_table_done(struct pt_fs *fs);
static inline struct pt_fs_inode *pt_fs_inode(struct pt_fs *fs, fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? fs->root : (struct pt_fs_inode *)(uintptr_t)ino;
}
static inline fuse_ino_t pt_fs_inode_id(struct pt_fs *fs, const struct pt_fs_inode *i)
{
	return i == fs->root ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)i;
}
/* The inode of this identity, made if it is not there; a reference. stamp: views. -ENOMEM. */
int pt_fs_inode_get(struct pt_fs *fs, enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name, uint64_t stamp,
		    struct pt_fs_inode **ret_inode);
/* A known one of this identity or NULL; a reference. */
struct pt_fs_inode *pt_fs_inode_find(struct pt_fs *fs, enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name, uint64_t stamp);
/* A new one that look-ups by identity never find (writers). */
int pt_fs_inode_new(struct pt_fs *fs, enum pt_fs_kind kind, uint64_t node, const char *dir, const char *name, struct pt_fs_inode **ret_inode);
struct pt_fs_inode *pt_fs_inode_ref(struct pt_fs *fs, struct pt_fs_inode *i);
void pt_fs_inode_unref(struct pt_fs *fs, struct pt_fs_inode *i);        /* NULL is fine */
void pt_fs_inode_forget(struct pt_fs *fs, struct pt_fs_inode *i, uint64_t nlookup);
/* Turns the caller's reference into one look-up of the kernel. */
void pt_fs_inode_looked_up(struct pt_fs *fs, struct pt_fs_inode *i);
/* st_ino: a stable hash of the identity without the revision. */
uint64_t pt_fs_ino(uint64_t node, const char *dir, const char *name);
/* Marks a view as recently used and returns a view (referenced) whose bytes should be dropped from memory, or NULL. */
struct pt_fs_inode *pt_fs_inode_lru_touch(struct pt_fs *fs, struct pt_fs_inode *i);

/* ---- heap.c ---- */
/* Before something small is allocated that stays: the pages of what the heap has grown by are there. A hint. */
void pt_fs_heap_ready(void);
/* Before many small things are allocated by somebody who does not ask for that: the heap grows now, if it has no piece of as many bytes. A hint. */
void pt_fs_heap_room(size_t bytes);

/* ---- errors.c: failures with their reasons ---- */
int pt_fs_errors_init(struct pt_fs *fs);
void pt_fs_errors_done(struct pt_fs *fs);
/* Records rc with this thread's sentence (or fallback) for the name in a directory or for an inode (name NULL). */
void pt_fs_errors_add(struct pt_fs *fs, int rc, const struct pt_fs_inode *inode, const char *name, const char *op);
/* Replies the error -rc; one that carries a sentence is recorded first. */
void pt_fs_fail(fuse_req_t req, int rc, const struct pt_fs_inode *inode, const char *name, const char *op);
int pt_fs_errors_text(struct pt_fs *fs, struct pt_buf *out);
/* The last sentence for this st_ino; false when there is none. */
bool pt_fs_errors_last(struct pt_fs *fs, uint64_t ino, char *ret_text, size_t len);
void pt_fs_path(struct pt_fs *fs, const struct pt_fs_inode *inode, const char *name, struct pt_buf *out);

/* ---- intent.c: what a thread is about to do, between ESTALE and its next OPEN ---- */
int pt_fs_intents_init(struct pt_fs *fs);
void pt_fs_intents_done(struct pt_fs *fs);
/* The thread is about to write (node, dir, name): look-ups by it find a fresh writer. */
int pt_fs_intent_write(struct pt_fs *fs, pid_t tid, uint64_t node, const char *dir, const char *name);
/* The thread has unlinked the name: look-ups by it find nothing until somebody creates it here, or revision next_revision of the key, or a later one, is
 * there: it may have been published under another name or through another mount. */
void pt_fs_intent_gone(struct pt_fs *fs, pid_t tid, uint64_t node, const char *dir, const char *name, uint64_t next_revision);
/* The thread got ESTALE, and walks the path again, in the same system call: what its look-ups of views find then is pinned at once, for that call. */
void pt_fs_intent_retry(struct pt_fs *fs, pid_t tid);
/* It has been told this inode by a look-up in a directory, the last thing that it did in that walk; inode NULL: found nothing there, after which it may still make something, or ask
 * once more where the kernel had an entry; both NULL: the call has come to its end. */
void pt_fs_intent_walked(struct pt_fs *fs, pid_t tid, const struct pt_fs_inode *inode, const struct pt_fs_inode *from);
/* 1: one of these two is this inode; -1: they are others; 0: it is in no such walk, or has looked up nothing yet. */
int pt_fs_intent_walks(struct pt_fs *fs, pid_t tid, const struct pt_fs_inode *inode);
enum pt_fs_intent_found { PT_FS_INTENT_NONE, PT_FS_INTENT_GONE, PT_FS_INTENT_WRITER };
/* On WRITER, *ret_inode is a reference; on GONE, *ret_next_revision is what was said. */
enum pt_fs_intent_found pt_fs_intent_find(struct pt_fs *fs, pid_t tid, uint64_t node, const char *dir, const char *name,
					  struct pt_fs_inode **ret_inode, uint64_t *ret_next_revision);
bool pt_fs_intent_retrying(struct pt_fs *fs, pid_t tid);
/* Since when (CLOCK_BOOTTIME), in this call; INT64_MAX: it is not. */
int64_t pt_fs_intent_retrying_since(struct pt_fs *fs, pid_t tid);
void pt_fs_intent_hold(struct pt_fs *fs, pid_t tid, struct pt_fs_inode *view);          /* takes over a pin and a reference */
bool pt_fs_intent_held(struct pt_fs *fs, pid_t tid, const struct pt_fs_inode *view);
/* The thread has opened a view: the next one may be superseded again. */
void pt_fs_intent_opened(struct pt_fs *fs, pid_t tid);
/* Before the answer that ends an open of the thread well: where it has been sent back is of no call that comes, though that may look just the same. */
void pt_fs_intent_over(struct pt_fs *fs, pid_t tid);
/* A call (pt_fs_caller_call) that opens a file to write it anew gets ESTALE, of which it gets no second one: the view that it finds then is a fresh writer. */
void pt_fs_intent_rewrite_begin(struct pt_fs *fs, pid_t tid, uint64_t call);
bool pt_fs_intent_rewrite_end(struct pt_fs *fs, pid_t tid);
/* A thread comes, in one system call (pt_fs_caller_call), through a directory that is not where the kernel was told with this serial. False: it is to be sent back (ESTALE).
 * True: it has been, and comes again. last: what it asks is not asked a second time before the kernel walks the path again. anew: that was another call. */
bool pt_fs_intent_again(struct pt_fs *fs, pid_t tid, uint64_t serial, uint64_t call, bool last, bool anew);
bool pt_fs_intent_sent_back(struct pt_fs *fs, pid_t tid, uint64_t serial, uint64_t call);
/* The thread is about to open an ordinary file for writing, of which it found the sealed state; until it has. */
void pt_fs_intent_plain_begin(struct pt_fs *fs, pid_t tid, uint64_t node);
bool pt_fs_intent_plain(struct pt_fs *fs, pid_t tid, uint64_t node);
void pt_fs_intent_plain_end(struct pt_fs *fs, pid_t tid, uint64_t node);
/* The thread is about to open a file in a way that is not to be passed through to where the store has it; until it has. */
void pt_fs_intent_unpassed_begin(struct pt_fs *fs, pid_t tid, uint64_t node);
bool pt_fs_intent_unpassed(struct pt_fs *fs, pid_t tid, uint64_t node);
void pt_fs_intent_unpassed_end(struct pt_fs *fs, pid_t tid, uint64_t node);
/* The writer was opened, or the name created. */
void pt_fs_intent_end(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, const struct pt_fs_inode *writer);
void pt_fs_intents_tick(struct pt_fs *fs);

/* ---- caller.c ---- */
void pt_fs_caller_made_dir(struct pt_fs *fs, pid_t tid);
/* The thread is inside mkdir(2) of a path that ends in name, and has made directories in this mount before. */
bool pt_fs_caller_makes_dir(struct pt_fs *fs, pid_t tid, const char *name);
/* The thread is inside open(2) with O_CREAT and O_EXCL. */
bool pt_fs_caller_excludes(pid_t tid);
/* The thread is inside a call about attributes that takes a descriptor and no path, as fchmod(2) and fstat(2). */
bool pt_fs_caller_has_open(pid_t tid);
/* /proc tells of the thread now, and has told of all others so far. */
bool pt_fs_caller_tells(struct pt_fs *fs, pid_t tid);
/* The thread is inside open(2) or the like, or /proc does not tell. */
bool pt_fs_caller_opens(pid_t tid);
/* The thread is inside a call that opens a file to write it anew, or cuts it to nothing. */
bool pt_fs_caller_rewrites(pid_t tid);
/* The same for all requests of one system call of the thread; another call has another value, unless it has the same arguments. 0 where /proc does not tell. */
uint64_t pt_fs_caller_call(pid_t tid);
/* A path of the call that the thread is inside is relative, and name is the first component that is not "." or "..", and no other one. */
bool pt_fs_caller_begins(pid_t tid, const char *name);
/* The thread is inside mkdir(2), mknod(2), symlink(2) or link(2) of a path that ends in name. */
bool pt_fs_caller_makes(pid_t tid, const char *name);

/* ---- lookup.c ---- */
void pt_fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
/* The inode of an axis or partition directory; a reference. */
int pt_fs_axis_inode(struct pt_fs *fs, struct pt_fs_inode *parent, const struct pt_path_name *n, const char *name, struct pt_fs_inode **ret_inode);
/* -ENOTDIR unless inode is a directory that names can be made in; on success the (node, dir) that names below it hang on. */
int pt_fs_dir_of(const struct pt_fs_inode *dir, uint64_t *ret_node, const char **ret_dir);
/* Component of an ordinary name in a directory. -EINVAL, -EPERM: the name means something else (sentence). */
int pt_fs_component(const struct pt_fs_inode *dir, const char *name, char ret_component[PT_NAME_MAX + 1]);
/* The inode of an ordinary child node; a reference. */
int pt_fs_node_inode(struct pt_fs *fs, const struct pt_node *node, struct pt_fs_inode **ret_inode);
/* An entry whose directory the kernel may keep for a while: node is that of the inode as just read, after pt_fs_told, under this name (its one spelling). read_at: as for
 * pt_fs_where_told. False: it is no such. */
bool pt_fs_entry_keep(struct pt_fs *fs, struct pt_fs_inode *parent, const char *name, struct pt_fs_inode *inode, const struct pt_node *node,
		      const struct pt_meta_mark *read_at, struct fuse_entry_param *e);
/* Attributes into the reply; consumes the caller's reference. */
void pt_fs_reply_entry(fuse_req_t req, struct pt_fs_inode *inode, const struct pt_node *known);
int pt_fs_entry_fill(struct pt_fs *fs, struct pt_fs_inode *inode, const struct pt_node *known, struct fuse_entry_param *ret_e);

/* ---- attr.c ---- */
/* known: the inode's node as just read, or NULL. */
int pt_fs_attr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct pt_node *known, struct stat *ret_st, double *ret_timeout);
void pt_fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void pt_fs_statfs(fuse_req_t req, fuse_ino_t ino);
static inline int64_t pt_fs_time_ns(struct timespec t)
{
	const int64_t most = INT64_MAX / 1000000000 - 1;        /* the year 2262; and 1677 */
	int64_t seconds = t.tv_sec > most ? most : t.tv_sec < -most ? -most : t.tv_sec;

	return seconds * 1000000000 + t.tv_nsec;
}
static inline struct timespec pt_fs_time(int64_t ns)
{
	int64_t rest = ns % 1000000000;

	if (rest < 0)
		rest += 1000000000;
	return (struct timespec){ .tv_sec = (time_t)((ns - rest) / 1000000000), .tv_nsec = (long)rest };
}
/* The time that a SETATTR asks for, or `old`. */
int64_t pt_fs_setattr_mtime(const struct stat *attr, int to_set, int64_t old);

/* ---- where.c: directories that the kernel finds by itself for a while ---- */
void pt_fs_where_done(struct pt_fs_inode *dir);
/* At the beginning of what is done in a directory, or with a view. -ESTALE: the kernel came there by a path that leads elsewhere now. name: that is looked up,
 * else NULL. -ENOENT: the same, and the answer to such a look-up for what is to be made. */
int pt_fs_where_check(struct pt_fs *fs, struct pt_fs_inode *inode, const char *name, pid_t tid);
/* The same before an inode's own attributes are changed, or extended ones read; any inode; and a view is still what its name means. By descriptor a thread changes what it
 * has open, wherever that is. */
int pt_fs_where_check_itself(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid);
/* Of a view: its name still means this revision, whoever has committed. Else -ESTALE, or 0 to whom it comes by a descriptor, or because it is held for him. */
int pt_fs_where_check_meaning(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid);
/* The same before attributes are read; open: by a descriptor, as the kernel says, which does not always. Who has a view open that has been superseded gets its attributes,
 * which the kernel is not to keep then (*ret_told false): the next stat by path must not be answered with them. */
int pt_fs_where_check_attr(struct pt_fs *fs, struct pt_fs_inode *inode, bool open, pid_t tid, bool *ret_told);
/* The thread's call is about to be answered with ESTALE, of which it should get no second one. */
void pt_fs_where_sent_back(struct pt_fs *fs, pid_t tid);
/* The kernel is about to be told an entry of the directory. */
void pt_fs_where_entry(struct pt_fs_inode *dir, const char *name);
/* Before the kernel is told that the entry `name` (decoded) of parent is this directory. False: do not let it keep that. read_at: the store had this mark before the directory
 * was found there, or NULL; so it need not be found right once more as long as nobody commits. */
bool pt_fs_where_told(struct pt_fs *fs, struct pt_fs_inode *dir, struct pt_fs_inode *parent, const char *name, const struct pt_meta_mark *read_at);
/* This mount has given something, maybe a directory, a new place. */
void pt_fs_where_moved(struct pt_fs *fs, uint64_t parent, const char *name);

/* ---- told.c: what the kernel was told for a while, and telling it otherwise ---- */
int pt_fs_told_start(struct pt_fs *fs);
void pt_fs_told_end(struct pt_fs *fs);                                  /* nothing more is told: before the mount ends, for the number of its descriptor is another file's a moment later, perhaps */
void pt_fs_told_stop(struct pt_fs *fs);                                 /* before the session goes */
void pt_fs_told_free(struct pt_fs *fs);                                 /* when nothing is committed any more */
/* The kernel is about to be told attributes of an inode that it knows or gets to know (nlookup > 0), for fs->entry_timeout: before these are read, or compared with the store. Of
 * ordinary files and the like nothing is told for longer. */
void pt_fs_told(struct pt_fs *fs, struct pt_fs_inode *inode);
/* The kernel has forgotten the inode. */
void pt_fs_told_forget(struct pt_fs *fs, struct pt_fs_inode *inode);
/* All that was told before is forgotten soon. */
void pt_fs_told_sweep(struct pt_fs *fs);

/* ---- news.c: what others commit ---- */
int pt_fs_news_start(struct pt_fs *fs);
void pt_fs_news_stop(struct pt_fs *fs);
void pt_fs_news_free(struct pt_fs *fs);
/* What was read at the mark may have been changed without that being told to the kernel any more, though pt_fs_told came before this; NULL: it is not known at which. Of a store that is here never: there the mark itself is to be compared. */
bool pt_fs_news_missed(struct pt_fs *fs, const struct pt_meta_mark *mark);

/* ---- listing.c: what a directory lists, in pieces ---- */
struct pt_fs_listed {
	uint64_t ino;                   /* st_ino */
	unsigned char type;             /* DT_ */
	bool node;                      /* of a namespace node, whose id is ino */
	const char *name;               /* valid until the listing's next call */
};
int pt_fs_listing_create(struct pt_fs_listing **ret_listing);
void pt_fs_listing_free(struct pt_fs_listing *listing);                 /* NULL is fine */
/* To the start, and everything is read anew. */
void pt_fs_listing_rewind(struct pt_fs_listing *listing);
/* The entry at an offset: 1, or 0 past the last. Entries before `keep` may be forgotten. One thread at a time. */
int pt_fs_listing_at(struct pt_fs *fs, const struct pt_fs_inode *dir, struct pt_fs_listing *listing, uint64_t keep, uint64_t off, struct pt_fs_listed *ret_entry);

/* ---- dir.c, names.c, rename.c ---- */
void pt_fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void pt_fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void pt_fs_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void pt_fs_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void pt_fs_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name);
void pt_fs_readlink(fuse_req_t req, fuse_ino_t ino);
void pt_fs_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void pt_fs_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void pt_fs_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname);
void pt_fs_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags);

/* ---- open.c: opens by kind of inode ---- */
struct pt_fs_handle *pt_fs_handle_create(struct pt_fs *fs, struct pt_fs_inode *inode, bool writes);
/* Frees a handle of which nothing was opened. */
void pt_fs_handle_free(struct pt_fs *fs, struct pt_fs_handle *h);
/* What RELEASE does. */
void pt_fs_handle_close(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h);      /* req: NULL at unmount */
void pt_fs_handles_close(struct pt_fs *fs);                             /* all that are left, at unmount */
void pt_fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);

/* ---- io.c: what is done with open files ---- */
/* This thread's buffer for what the kernel is about to be sent, at least size bytes, until it is asked for again; NULL: no memory. */
void *pt_fs_reply_buffer(struct pt_fs *fs, size_t size);
void pt_fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void pt_fs_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi);
void pt_fs_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void pt_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi);

/* ---- view.c ---- */
struct pt_fs_resolved {
	struct pt_request req;
	enum pt_format format;
	int rc;                         /* 0, or why it cannot be read: -EINVAL, -ENODATA, -EOPNOTSUPP */
	struct pt_view *view;           /* NULL when rc is -EINVAL */
	struct pt_vfile *file;          /* NULL unless rc is 0 */
	uint64_t stamp;
	bool listed;
	uint32_t object;                /* listed: which */
	bool marked;
	struct pt_meta_mark mark;       /* the store just before */
	int64_t since_ns;               /* CLOCK_BOOTTIME then */
};
/* -ENOENT: nothing there (look-ups find nothing); other failures that only stop reading are in ret->rc. */
int pt_fs_view_resolve(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, struct pt_fs_resolved *ret_r);
void pt_fs_resolved_done(struct pt_fs_resolved *r);
/* The inode of what was resolved; takes file over. A reference. */
int pt_fs_view_inode(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, struct pt_fs_resolved *r, struct pt_fs_inode **ret_inode);
/* 0: the inode is no view, or its name still means this revision; -ESTALE, -ENOENT: it does not. */
int pt_fs_view_current(struct pt_fs *fs, struct pt_fs_inode *inode);
/* 0; -ESTALE: superseded, look up again; or why it cannot be read. */
int pt_fs_view_pin(struct pt_fs *fs, struct pt_fs_inode *inode);
void pt_fs_view_unpin(struct pt_fs *fs, struct pt_fs_inode *inode);
int64_t pt_fs_view_read(struct pt_fs *fs, struct pt_fs_inode *inode, void *buf, size_t len, uint64_t off);
void pt_fs_view_drop(struct pt_fs *fs, struct pt_fs_inode *inode);
void pt_fs_view_done(struct pt_fs_inode *inode);
/* chmod, chown, utimens of the revision. */
int pt_fs_view_setattr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set);

/* ---- cached.c ---- */
int pt_fs_cached_start(struct pt_fs *fs);
void pt_fs_cached_stop(struct pt_fs *fs);                               /* before the inode table is taken down */
void pt_fs_cached_init(struct pt_fs *fs, struct fuse_conn_info *conn);  /* inside INIT */
/* What readers can open: views, many, sealed; pinned, it stays as it is. -ESTALE: superseded. */
int pt_fs_reader_pin(struct pt_fs *fs, struct pt_fs_inode *i);
void pt_fs_reader_unpin(struct pt_fs *fs, struct pt_fs_inode *i);
static inline bool pt_fs_reader_is(const struct pt_fs_inode *i)
{
	return i->kind == PT_FS_VIEW || i->kind == PT_FS_MANY || i->kind == PT_FS_SEALED;
}
/* For reading: pins i, decides how it is served. -ESTALE: superseded, or to be opened by its whole node. */
int pt_fs_cached_open(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct pt_fs_inode *i, struct fuse_file_info *fi);
int pt_fs_whole_open(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, struct fuse_file_info *fi);
void pt_fs_cached_release(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h);    /* req: NULL at unmount */
/* The whole node instead of i, if there is one; takes and returns a reference. tid: who looks. */
/* A thread that was sent back by an open opens what it finds now, pinned, and cannot be sent to the whole node then: so it is here that it waits for the view to be in memory. */
void pt_fs_cached_await(fuse_req_t req, struct pt_fs *fs, struct pt_fs_inode *i);
struct pt_fs_inode *pt_fs_whole_prefer(struct pt_fs *fs, struct pt_fs_inode *i, pid_t tid);
static inline struct pt_fs_inode *pt_fs_origin(struct pt_fs_inode *i)
{
	return i->kind == PT_FS_WHOLE ? i->origin : i;
}
/* The inode that has i's extended attributes. */
static inline struct pt_fs_inode *pt_fs_owner(struct pt_fs_inode *i)
{
	i = pt_fs_origin(i);
	return i->kind == PT_FS_SEALED ? i->origin : i;
}
/* False: it is never in memory. */
bool pt_fs_cached_progress(struct pt_fs *fs, struct pt_fs_inode *i, uint64_t *ret_filled, uint64_t *ret_size);
/* Answers a read from memory or what was read ahead; false: neither, read it. */
bool pt_fs_cached_reply(fuse_req_t req, struct pt_fs *fs, struct pt_fs_handle *h, size_t size, uint64_t off);
int64_t pt_fs_cached_read(struct pt_fs *fs, struct pt_fs_inode *i, void *buf, uint64_t len, uint64_t off);
int pt_fs_cached_text(struct pt_fs *fs, void (*metric)(struct pt_buf *out, const char *name, const char *type, const char *help, uint64_t value),
		      struct pt_buf *out);

/* ---- writer.c ---- */
int pt_fs_writer_create(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, struct pt_fs_inode **ret_inode);
void pt_fs_writer_done(struct pt_fs *fs, struct pt_fs_inode *inode);
/* Opens for writing: checks the request (-EACCES, -EINVAL). flags: of open(2); O_RDWR wants reads and out-of-order writes, without O_TRUNC and
 * O_CREAT attributes that are set before any byte go to the present revision (touch). */
int pt_fs_writer_open(struct pt_fs *fs, struct pt_fs_inode *inode, int flags, uint32_t mode, uint32_t uid, uint32_t gid);
/* The open writer of this name, or NULL; a reference. */
struct pt_fs_inode *pt_fs_writer_find(struct pt_fs *fs, uint64_t node, const char *dir, const char *name);
/* Its name was unlinked: nothing will be published. */
void pt_fs_writer_abandon(struct pt_fs *fs, struct pt_fs_inode *inode);
enum pt_fs_writer_state { PT_FS_WRITER_FRESH, PT_FS_WRITER_BUSY, PT_FS_WRITER_PUBLISHED };
enum pt_fs_writer_state pt_fs_writer_state(struct pt_fs_inode *inode);
int pt_fs_writer_write(struct pt_fs *fs, struct pt_fs_inode *inode, const void *buf, uint64_t len, uint64_t off, pid_t tid);
int64_t pt_fs_writer_read(struct pt_fs_inode *inode, void *buf, uint64_t len, uint64_t off);
int pt_fs_writer_truncate(struct pt_fs *fs, struct pt_fs_inode *inode, uint64_t size);
int pt_fs_writer_flush(struct pt_fs *fs, struct pt_fs_inode *inode, pid_t tid);
int pt_fs_writer_fsync(struct pt_fs *fs, struct pt_fs_inode *inode);
void pt_fs_writer_release(struct pt_fs *fs, struct pt_fs_inode *inode);
void pt_fs_writer_stat(struct pt_fs_inode *inode, struct stat *st);
int pt_fs_writer_setattr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set);
/* dtype (name) or shape (text) of a bin stream that has not begun; the other NULL. */
int pt_fs_writer_hint(struct pt_fs *fs, struct pt_fs_inode *inode, const char *dtype, const char *shape);

/* ---- upload.c ---- */
/* Feeds a whole file (spool descriptor, or blob when fd < 0) into a new upload for a view name and publishes it. Keeps the upload for later attributes. */
struct pt_fs_source {
	int fd;
	struct pt_blob_ref blob;
	uint64_t size;
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
	struct pt_container *container; /* of blob, or NULL: blob is the contents */
};
int pt_fs_upload_source(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, const struct pt_fs_source *source,
			struct pt_upload **ret_upload);
int pt_fs_upload_open(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, const struct pt_parse_hint *hint,
		      const struct pt_fs_source *attrs, struct pt_upload **ret_upload);

/* ---- file.c: ordinary files ---- */
int pt_fs_file_attach(struct pt_fs *fs, struct pt_fs_inode *inode);             /* makes inode->file if it is not there */
void pt_fs_file_done(struct pt_fs *fs, struct pt_fs_inode *inode);
/* *ret_keep: the kernel's cached pages are still right. */
int pt_fs_file_open(struct pt_fs *fs, struct pt_fs_inode *inode, int flags, bool *ret_keep);
/* Of one that has just been opened with these flags: somebody else has it open for writing. */
bool pt_fs_file_shared(struct pt_fs_inode *inode, int flags);
/* As an open for reading that leaves it to the next one to say whether the kernel may keep its pages; ended by release. -ESTALE. */
int pt_fs_file_hold(struct pt_fs *fs, struct pt_fs_inode *inode);
void pt_fs_file_release(struct pt_fs *fs, struct pt_fs_inode *inode, bool writes);
int64_t pt_fs_file_read(struct pt_fs *fs, struct pt_fs_inode *inode, void *buf, uint64_t len, uint64_t off);
int pt_fs_file_write(struct pt_fs *fs, struct pt_fs_inode *inode, const void *buf, uint64_t len, uint64_t off);
int pt_fs_file_truncate(struct pt_fs *fs, struct pt_fs_inode *inode, uint64_t size);
int pt_fs_file_fallocate(struct pt_fs *fs, struct pt_fs_inode *inode, int mode, uint64_t off, uint64_t len);
int pt_fs_file_seal(struct pt_fs *fs, struct pt_fs_inode *inode);               /* dirty contents become the node's blob */
int pt_fs_file_stat(struct pt_fs *fs, struct pt_fs_inode *inode, struct stat *st);
int pt_fs_file_setattr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set);
/* Publishes the file's bytes under a view name and removes the file's own name; the inode lives on while open. */
int pt_fs_file_publish(struct pt_fs *fs, struct pt_fs_inode *inode, uint64_t parent, const char *component, uint64_t node, const char *dir,
		       const char *name);

/* ---- many.c: files of many tensors, and what an axis directory shows of a model directory ---- */
/* -ENOENT: the name is no rank view, bundle or .all file. */
int pt_fs_many_lookup(struct pt_fs *fs, struct pt_fs_inode *parent, const char *name, struct pt_fs_inode **ret_inode);
void pt_fs_many_done(struct pt_fs_inode *inode);
/* Gives the file back until it is opened again, unless it is open. */
void pt_fs_many_drop(struct pt_fs_inode *inode);
void pt_fs_many_stat(struct pt_fs_inode *inode, struct stat *st);
int pt_fs_many_open(struct pt_fs *fs, struct pt_fs_inode *inode);       /* -ESTALE, or why it cannot be read */
void pt_fs_many_release(struct pt_fs_inode *inode);
uint64_t pt_fs_many_read_end(struct pt_fs_inode *inode, uint64_t off, uint64_t max);    /* as pt_many_read_end */
int64_t pt_fs_many_read(struct pt_fs_inode *inode, void *buf, uint64_t len, uint64_t off);
/* Somebody opens it for writing: a file of the axis directory takes its name. -ESTALE: look again. */
int pt_fs_many_write(struct pt_fs *fs, const struct pt_fs_inode *inode, const struct fuse_ctx *ctx);
/* A name that is no file of the axis directory's own. */
int pt_fs_rank_lookup(struct pt_fs *fs, struct pt_fs_inode *parent, const char *component, const char *name, struct pt_fs_inode **ret_inode);
int pt_fs_rank_list(struct pt_fs *fs, const struct pt_fs_inode *dir, pt_tree_list_fn *fn, void *ctx);

/* ---- sealed.c: containers under their own name ---- */
/* What a look-up of this file gives: its sealed state, if it is a container that is worth it and at rest; else the file. Takes and returns a reference. node: as read. */
struct pt_fs_inode *pt_fs_sealed_prefer(struct pt_fs *fs, struct pt_fs_inode *file, const struct pt_node *node, pid_t tid);
void pt_fs_sealed_done(struct pt_fs *fs, struct pt_fs_inode *inode);
uint64_t pt_fs_sealed_size(const struct pt_fs_inode *inode);            /* bytes */
enum pt_format pt_fs_sealed_format(const struct pt_fs_inode *inode);    /* pinned */
int pt_fs_sealed_pin(struct pt_fs *fs, struct pt_fs_inode *inode);      /* -ESTALE: it has been written again */
void pt_fs_sealed_unpin(struct pt_fs *fs, struct pt_fs_inode *inode);
/* Pinned. */
bool pt_fs_sealed_stored(const struct pt_fs_inode *inode, struct pt_blob_ref *ret_blob);        /* as pt_container_stored */
int pt_fs_sealed_check(struct pt_fs_inode *inode, uint64_t len, uint64_t off);          /* as pt_container_check */
bool pt_fs_sealed_whole(struct pt_fs_inode *inode, const struct pt_file_state *state);  /* as pt_container_whole */
/* Whether it was found right when last looked at, pinned or not; a hint for who looks it up. */
void pt_fs_sealed_found(struct pt_fs_inode *inode, bool right);
bool pt_fs_sealed_is_found(const struct pt_fs_inode *inode);
int64_t pt_fs_sealed_read(struct pt_fs_inode *inode, void *buf, uint64_t len, uint64_t off);
uint64_t pt_fs_sealed_cut(struct pt_fs_inode *inode, uint64_t off, uint64_t max);       /* as pt_container_cut */
void pt_fs_sealed_stat(struct pt_fs_inode *inode, struct stat *st);
int pt_fs_sealed_setattr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set, pid_t tid);
/* The thread wants to write: its next look-ups find the ordinary file. Always -ESTALE. */
int pt_fs_sealed_write(struct pt_fs *fs, const struct pt_fs_inode *inode, pid_t tid);

/* ---- shards.c ---- */
/* A file got its name inside an axis directory. Fails only if what was written is lost; else the failure is recorded. */
int pt_fs_shards_renamed(struct pt_fs *fs, const struct pt_fs_inode *dir, const char *component, const char *name);

/* ---- alias.c: tensors of containers as if they were keys ---- */
static inline bool pt_fs_alias_is(const char *dir)
{
	return dir[0] == 1;
}
/* The tensor's directory, no layout of it. */
bool pt_fs_alias_itself(const char *dir);
bool pt_fs_alias_split(const char *dir, char ret_name[PT_KEY_MAX + 1], const char **ret_axes);
/* component below a directory, or below an alias: the tensor of that name, or the beginning of longer names. */
int pt_fs_alias_lookup(struct pt_fs *fs, struct pt_fs_inode *parent, const char *component, struct pt_fs_inode **ret_inode);
/* The key that an alias's name becomes by writing to it, made if it is not there. */
int pt_fs_alias_key(struct pt_fs *fs, uint64_t node, const char *dir, uint64_t *ret_node, const char **ret_axes);
/* A directory that something is made in; for an alias, that of its key, made first. A reference. */
int pt_fs_alias_dir(struct pt_fs *fs, struct pt_fs_inode *dir, struct pt_fs_inode **ret_dir);
/* "/NAME/AXES" of the dir text of an alias, as it is spelled; -ENOENT: it is none. */
int pt_fs_alias_path(const char *dir, struct pt_buf *out);

/* ---- spool.c: unlinked files that hold what is being written at random ---- */
int pt_fs_spool_create(struct pt_fs *fs, int *ret_fd);
int pt_fs_spool_from_blob(struct pt_fs *fs, const struct pt_blob_ref *blob, uint64_t size, int fd);
/* Calls fn for every stretch of the file in order, data NULL for holes and zero pages. */
typedef int pt_fs_spool_fn(void *ctx, const void *data, uint64_t len);
int pt_fs_spool_each(int fd, uint64_t size, pt_fs_spool_fn *fn, void *ctx);
int pt_fs_container_each(struct pt_container *c, pt_fs_spool_fn *fn, void *ctx);        /* container.c */
int pt_fs_blob_read(struct pt_fs *fs, const struct pt_data_range *range);
int pt_fs_blob_each(struct pt_fs *fs, const struct pt_blob_ref *blob, uint64_t size, pt_fs_spool_fn *fn, void *ctx);

/* ---- xattr.c, control.c ---- */
void pt_fs_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void pt_fs_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void pt_fs_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void pt_fs_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
int pt_fs_control_text(struct pt_fs *fs, const char *name, struct pt_buf *out);         /* -ENOENT: no such control file */
const char *pt_fs_control_name(size_t index);                                           /* NULL past the last */
int pt_fs_info_text(struct pt_fs *fs, struct pt_fs_inode *inode, struct pt_buf *out);

/* ---- gc.c, session.c ---- */
/* Once, at the first request: the answer to INIT lowers what was set before. */
void pt_fs_read_ahead_set(struct pt_fs *fs);
int pt_fs_gc_start(struct pt_fs *fs);
void pt_fs_gc_stop(struct pt_fs *fs);
/* What was removed or replaced a moment ago is room, too, and would be there a few seconds later: collects it now, for one who found none. true: try again. Those that ask
 * at once share a pass. Any thread. */
bool pt_fs_gc_room(struct pt_fs *fs);
void pt_fs_gc_poke(struct pt_fs *fs);                                   /* something was superseded or removed */
extern const struct fuse_lowlevel_ops pt_fs_ops;

/* ---- moments.c: the same requests, each in one moment of the store ---- */
void pt_fs_lookup_at_once(fuse_req_t req, fuse_ino_t parent, const char *name);
void pt_fs_getattr_at_once(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_setattr_at_once(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void pt_fs_readlink_at_once(fuse_req_t req, fuse_ino_t ino);
void pt_fs_mknod_at_once(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void pt_fs_mkdir_at_once(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void pt_fs_unlink_at_once(fuse_req_t req, fuse_ino_t parent, const char *name);
void pt_fs_rmdir_at_once(fuse_req_t req, fuse_ino_t parent, const char *name);
void pt_fs_symlink_at_once(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void pt_fs_open_at_once(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_create_at_once(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void pt_fs_opendir_at_once(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void pt_fs_readdir_at_once(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void pt_fs_readdirplus_at_once(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void pt_fs_setxattr_at_once(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void pt_fs_getxattr_at_once(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void pt_fs_listxattr_at_once(fuse_req_t req, fuse_ino_t ino, size_t size);
void pt_fs_removexattr_at_once(fuse_req_t req, fuse_ino_t ino, const char *name);
/* Mounts and serves until unmounted or told to stop. ready is called once when the mount answers. 0 or -errno with a sentence. */
int pt_fs_run(const struct pt_fs_options *options, struct fuse_args *args, void (*ready)(void *ctx), void *ctx);

#endif
