/* store/ledger.c - see ledger.h.
 *
 * Records are appended by one write(2) each, under a shared lock of the file; who writes the file anew holds it alone, gives the new file the old one's name, and so leaves the old
 * one without a name, by which everybody else notices. So no record is lost, above all no withdrawal. What is in the file in vain is found by the record's checksum: what a full disk has cut, or
 * what is no record, is passed byte by byte until there is one again. In memory are the records that count, and how far the file has been read. */
#include "store/ledger.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/size.h"
#include "store/folder.h"
#include "store/refmap.h"

#define NAME_MAX_LEN 64
#define BOOT_FILE "/proc/sys/kernel/random/boot_id"
#define MAGIC "ptioVER1"                /* what a record's checksum begins with */
#define READ_BYTES ((size_t)64 << 10)
#define TRIES 20                        /* to append beside one who writes the file anew */
#define TRY_NS 1000000
#define OLD_NS (INT64_C(86400) * 1000000000)    /* a file of another boot, perhaps of another machine, to which nobody has added for so long */

struct known {
	struct pt_refmap_node node;     /* first */
	uint64_t stamp;
};

struct pt_ledger {
	int dirfd;
	char name[NAME_MAX_LEN];        /* in the folder; "": the boot is not known, so nothing is */
	pthread_mutex_t lock;           /* the rest */
	int folder, fd;                 /* PT_LEDGER_DIR, and the file in it; -1: not open */
	bool writable;
	uint64_t read;                  /* bytes of the file that map knows */
	uint64_t sweep_at;              /* bytes from which on it is looked at again */
	struct pt_refmap map;           /* struct known */
	uint64_t added, failed;
};

/* ---- starting and ending ---- */

static bool boot_name(char ret_name[NAME_MAX_LEN], const char *boot)
{
	char text[NAME_MAX_LEN] = "";
	ssize_t n = 0;
	int fd = -1;

	if (!boot) {
		fd = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = '\0';
		text[strcspn(text, "\n")] = '\0';
		boot = text;
	}
	/* What is below the folder, and nothing else. */
	if (!*boot || strspn(boot, "0123456789abcdef-") != strlen(boot))
		return false;
	return snprintf(ret_name, NAME_MAX_LEN, "%s", boot) < NAME_MAX_LEN;
}

int pt_ledger_create(int dirfd, const char *boot, struct pt_ledger **ret_ledger)
{
	struct pt_ledger *l = pt_calloc(1, sizeof(*l));

	if (!l)
		return pt_fail_nomem();
	if (pt_refmap_init(&l->map) < 0) {
		free(l);
		return -ENOMEM;
	}
	l->dirfd = dirfd;
	l->folder = l->fd = -1;
	l->sweep_at = PT_LEDGER_SWEEP_MIN;
	if (!boot_name(l->name, boot))
		l->name[0] = '\0';
	pthread_mutex_init(&l->lock, NULL);
	*ret_ledger = l;
	return 0;
}

/* Whether each is to stay; the rest is freed. */
static void known_filter(struct pt_refmap *map, pt_ledger_lives_fn *stays, void *ctx)
{
	struct pt_refmap_node **at, *n;
	size_t i;

	for (i = 0; i < map->bucket_count; i++) {
		for (at = &map->buckets[i]; (n = *at);) {
			if (stays(ctx, &n->ref)) {
				at = &n->next;
				continue;
			}
			*at = n->next;
			map->count--;
			free(n);
		}
	}
}

static bool none_stays(void *ctx, const struct pt_blob_ref *ref)
{
	(void)ctx, (void)ref;
	return false;
}

static void close_locked(struct pt_ledger *l)
{
	if (l->fd >= 0)
		close(l->fd);
	if (l->folder >= 0)
		close(l->folder);
	l->folder = l->fd = -1;
	l->read = 0;
	known_filter(&l->map, none_stays, NULL);
}

void pt_ledger_free(struct pt_ledger *l)
{
	if (!l)
		return;
	close_locked(l);
	pt_refmap_done(&l->map);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* ---- records ---- */

static uint64_t record_sum(const uint8_t *record)
{
	uint8_t b[8 + PT_LEDGER_RECORD - 8];

	memcpy(b, MAGIC, 8);
	memcpy(b + 8, record, PT_LEDGER_RECORD - 8);
	return pt_hash64(b, sizeof(b));
}

/* stamp 0: withdrawn. */
static void record_encode(const struct pt_blob_ref *ref, uint64_t stamp, uint8_t ret_record[PT_LEDGER_RECORD])
{
	memset(ret_record, 0, PT_LEDGER_RECORD);
	memcpy(ret_record, ref->id.b, sizeof(ref->id.b));
	ret_record[16] = (uint8_t)ref->kind;
	pt_put_le64(ret_record + 24, stamp);
	pt_put_le64(ret_record + 32, record_sum(ret_record));
}

static struct known *known_find(struct pt_ledger *l, const struct pt_blob_ref *ref)
{
	return (struct known *)pt_refmap_find(&l->map, ref);
}

static void known_set(struct pt_ledger *l, const struct pt_blob_ref *ref, uint64_t stamp)
{
	struct known *k = known_find(l, ref);

	if (k && !stamp) {
		pt_refmap_remove(&l->map, &k->node);
		free(k);
		return;
	}
	if (!k && stamp) {
		k = pt_calloc(1, sizeof(*k));
		if (!k) {
			pt_fail_clear();        /* it is verified again */
			return;
		}
		k->node.ref = *ref;
		pt_refmap_insert(&l->map, &k->node);
	}
	if (k)
		k->stamp = stamp;
}

/* The whole records among these bytes; how many of them are behind. */
static size_t records_take(struct pt_ledger *l, const uint8_t *b, size_t len)
{
	struct pt_blob_ref ref;
	size_t at = 0;

	while (len - at >= PT_LEDGER_RECORD) {
		if (pt_get_le64(b + at + 32) != record_sum(b + at)) {
			at++;
			continue;
		}
		memcpy(ref.id.b, b + at, sizeof(ref.id.b));
		ref.kind = b[at + 16] == PT_BLOB_TENSOR ? PT_BLOB_TENSOR : PT_BLOB_PLAIN;
		known_set(l, &ref, pt_get_le64(b + at + 24));
		at += PT_LEDGER_RECORD;
	}
	return at;
}

/* ---- the file ---- */

/* -1: there is none. */
static int folder_open(const struct pt_ledger *l, bool make)
{
	bool made;
	int fd, rc;

	rc = make ? pt_folder_try_make(l->dirfd, PT_LEDGER_DIR, &made, &fd) : pt_folder_try(l->dirfd, PT_LEDGER_DIR, O_RDONLY, &fd);
	return rc < 0 ? -1 : fd;
}

static bool file_open(struct pt_ledger *l, bool make)
{
	const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, both = O_RDWR | O_APPEND | flags;
	struct stat st;

	if (l->name[0])
		l->folder = folder_open(l, make);
	if (l->folder < 0)
		return false;
	l->writable = true;
	l->fd = openat(l->folder, l->name, both);
	if (l->fd < 0 && errno == ENOENT && make) {
		l->fd = openat(l->folder, l->name, both | O_CREAT | O_EXCL, 0640);
		if (l->fd >= 0)
			l->writable = pt_folder_owner_set(l->folder, l->fd) == 0;
		else if (errno == EEXIST)       /* another process was first */
			l->fd = openat(l->folder, l->name, both);
	} else if (l->fd < 0 && errno != ENOENT) {
		l->writable = false;
		l->fd = openat(l->folder, l->name, O_RDONLY | flags);
	}
	if (l->fd < 0 || fstat(l->fd, &st) < 0 || !S_ISREG(st.st_mode))
		close_locked(l);
	return l->fd >= 0;
}

/* Reads on, up to size. */
static void file_read(struct pt_ledger *l, uint64_t size)
{
	uint8_t *buf = pt_malloc(READ_BYTES);
	int64_t n = 0;
	size_t taken;

	size = pt_size_min(size, PT_LEDGER_BYTES_MAX * 2);
	while (buf && l->read < size) {
		n = pt_io_pread(l->fd, buf, (size_t)pt_size_min(READ_BYTES, size - l->read), l->read);
		taken = n < PT_LEDGER_RECORD ? 0 : records_take(l, buf, (size_t)n);
		if (!taken)
			break;
		l->read += taken;
	}
	if (!buf || n < 0)
		pt_fail_clear();
	free(buf);
}

/* What others have added is known then. False: there is no file, and none is made. */
static bool refresh_locked(struct pt_ledger *l, bool make)
{
	struct stat st;
	int i;

	for (i = 0; i < TRIES; i++) {
		if (l->fd < 0 && !file_open(l, make))
			return false;
		if (fstat(l->fd, &st) == 0 && st.st_nlink && (uint64_t)st.st_size >= l->read) {
			if ((uint64_t)st.st_size > l->read)
				file_read(l, (uint64_t)st.st_size);
			return true;
		}
		close_locked(l);        /* written anew, or removed, or cut */
	}
	return false;
}

/* The file, locked so that nobody writes it anew; its size. */
static bool lock_shared(struct pt_ledger *l, uint64_t *ret_size)
{
	struct timespec step = { 0, TRY_NS };
	struct stat st;
	int i;

	for (i = 0; i < TRIES; i++) {
		if ((l->fd < 0 && !file_open(l, true)) || !l->writable)
			return false;
		if (flock(l->fd, LOCK_SH | LOCK_NB) < 0) {
			if (errno != EWOULDBLOCK)
				return false;
			nanosleep(&step, NULL);
			continue;
		}
		if (fstat(l->fd, &st) == 0 && st.st_nlink) {
			*ret_size = (uint64_t)st.st_size;
			return true;
		}
		close_locked(l);
	}
	return false;
}

static bool append_locked(struct pt_ledger *l, const struct pt_blob_ref *ref, uint64_t stamp)
{
	uint8_t record[PT_LEDGER_RECORD];
	uint64_t size;
	bool done;

	record_encode(ref, stamp, record);
	if (!lock_shared(l, &size))
		return false;
	/* A withdrawal has room that others have not; where the disk has none, all of the file goes, which needs none. */
	done = size < PT_LEDGER_BYTES_MAX - (stamp ? PT_LEDGER_SWEEP_MIN : 0) && write(l->fd, record, sizeof(record)) == sizeof(record);
	if (!done && !stamp)
		done = unlinkat(l->folder, l->name, 0) == 0;
	flock(l->fd, LOCK_UN);
	return done;
}

/* ---- what is asked and told ---- */

bool pt_ledger_has(struct pt_ledger *l, const struct pt_blob_ref *ref, uint64_t stamp)
{
	const struct known *k;
	bool has;

	pthread_mutex_lock(&l->lock);
	k = refresh_locked(l, false) ? known_find(l, ref) : NULL;
	has = k && stamp && k->stamp == stamp;
	pthread_mutex_unlock(&l->lock);
	return has;
}

void pt_ledger_add(struct pt_ledger *l, const struct pt_blob_ref *ref, uint64_t stamp)
{
	const struct known *k;
	bool done;

	pthread_mutex_lock(&l->lock);
	k = refresh_locked(l, true) ? known_find(l, ref) : NULL;
	if (!k || k->stamp != stamp) {
		done = append_locked(l, ref, stamp) && refresh_locked(l, false);
		l->added += done;
		l->failed += !done;
	}
	pthread_mutex_unlock(&l->lock);
}

void pt_ledger_withdraw(struct pt_ledger *l, const struct pt_blob_ref *ref)
{
	pthread_mutex_lock(&l->lock);
	if (refresh_locked(l, false) && known_find(l, ref)) {
		if (!append_locked(l, ref, 0))
			l->failed++;
		known_set(l, ref, 0);
	}
	pthread_mutex_unlock(&l->lock);
}

void pt_ledger_counts(struct pt_ledger *l, uint64_t *ret_added, uint64_t *ret_failed)
{
	pthread_mutex_lock(&l->lock);
	*ret_added = l->added;
	*ret_failed = l->failed;
	pthread_mutex_unlock(&l->lock);
}

/* ---- sweeping ---- */

/* Files of other boots, and what a crash has left of writing one anew. */
static void remove_old(struct pt_ledger *l)
{
	int64_t before = pt_time_now_ns() - OLD_NS;
	int fd = folder_open(l, false);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.' || strcmp(e->d_name, l->name) == 0)
			continue;
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && (int64_t)st.st_mtim.tv_sec * INT64_C(1000000000) < before)
			unlinkat(fd, e->d_name, 0);
	}
	closedir(dir);
}

/* Keeps the first so many. */
static bool some_stay(void *ctx, const struct pt_blob_ref *ref)
{
	uint64_t *left = ctx;

	(void)ref;
	return *left && (*left)--;
}

static void records_all(const struct pt_ledger *l, struct pt_buf *out)
{
	uint8_t record[PT_LEDGER_RECORD];
	const struct pt_refmap_node *n;
	size_t i;

	for (i = 0; i < l->map.bucket_count; i++) {
		for (n = l->map.buckets[i]; n; n = n->next) {
			record_encode(&n->ref, ((const struct known *)n)->stamp, record);
			pt_buf_append(out, record, sizeof(record));
		}
	}
}

/* The lock is held alone. */
static void write_anew(struct pt_ledger *l)
{
	char hex[PT_ID_HEX_LEN + 1];
	struct pt_buf all = PT_BUF_INIT;
	struct stat st;
	struct pt_id id;
	int fd = -1, rc;

	records_all(l, &all);
	rc = all.failed ? -ENOMEM : pt_id_random(&id);
	if (rc == 0) {
		pt_id_hex(&id, hex);
		fd = openat(l->folder, hex, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
	}
	if (fd >= 0) {
		if (fstat(l->fd, &st) < 0 || pt_folder_owner_set(l->folder, fd) < 0 || fchmod(fd, st.st_mode & 0777) < 0 ||
		    pt_io_pwrite(fd, all.data, all.len, 0) < 0 || renameat(l->folder, hex, l->folder, l->name) < 0)
			unlinkat(l->folder, hex, 0);
		close(fd);
	}
	pt_buf_done(&all);
	pt_fail_clear();
}

static bool worth_writing_anew(const struct pt_ledger *l, uint64_t size)
{
	return l->map.count * PT_LEDGER_RECORD * 2 < size || size > PT_LEDGER_BYTES_MAX / 2;
}

static void sweep_locked(struct pt_ledger *l, pt_ledger_lives_fn *lives, void *ctx)
{
	uint64_t left = PT_LEDGER_BYTES_MAX / 4 / PT_LEDGER_RECORD;
	struct stat st;

	if (!refresh_locked(l, false) || !l->writable || fstat(l->fd, &st) < 0 || (uint64_t)st.st_size < l->sweep_at)
		return;
	known_filter(&l->map, lives, ctx);
	l->sweep_at = pt_size_min((uint64_t)st.st_size * 2, PT_LEDGER_BYTES_MAX / 2);
	if (!worth_writing_anew(l, (uint64_t)st.st_size) || flock(l->fd, LOCK_EX | LOCK_NB) < 0)
		return;
	/* The name may be another file's by now, to which all has come. */
	if (fstat(l->fd, &st) == 0 && st.st_nlink && (uint64_t)st.st_size >= l->read) {
		file_read(l, (uint64_t)st.st_size);
		/* More than anybody would have written is nothing to trust. */
		if ((uint64_t)st.st_size - l->read >= PT_LEDGER_RECORD)
			known_filter(&l->map, none_stays, NULL);
		known_filter(&l->map, lives, ctx);
		known_filter(&l->map, some_stay, &left);
		write_anew(l);
	}
	close_locked(l);                /* and with it the lock */
	l->sweep_at = PT_LEDGER_SWEEP_MIN;
}

void pt_ledger_sweep(struct pt_ledger *l, pt_ledger_lives_fn *lives, void *ctx)
{
	pthread_mutex_lock(&l->lock);
	if (l->name[0]) {
		remove_old(l);
		sweep_locked(l, lives, ctx);
	}
	pthread_mutex_unlock(&l->lock);
}
