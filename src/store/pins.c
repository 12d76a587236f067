/* store/pins.c - see pins.h.
 *
 * On tmpfs slots are written through a map of the file, so that opening and closing a tensor there costs no system call for its pin. What is mapped has its space: it is
 * allocated first, and then no store into it can fail. On a disk one can, where the filesystem has been shut down after an error, and would be a signal; so there, and where
 * there is no space for more, slots are written with pwrite(). Whoever queries reads the file, which is the same memory. */
#include "store/pins.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "store/refmap.h"
#include "store/token.h"

#define MAP_BYTES ((uint64_t)32 << 20)  /* of addresses: a million pins */
#define MAP_STEP 4096                   /* a page: what is allocated at a time */

struct pin {
	struct pt_refmap_node node;             /* first */
	uint64_t count;
	uint64_t slot;
};

struct pt_pins {
	int dirfd;
	pthread_mutex_t lock;                   /* all below */
	struct pt_token token;
	struct pt_refmap map;                   /* struct pin */
	uint64_t slots;                         /* in the file */
	uint64_t *free_slots;                   /* room for `slots` of them */
	size_t free_count;
	size_t free_cap;
	uint8_t *shown;                         /* MAP_BYTES of the file, of which the first `mapped` exist; NULL: none do, or ever will */
	uint64_t mapped;
};

int pt_pins_create(int dirfd, struct pt_pins **ret_pins)
{
	struct pt_pins *p = pt_calloc(1, sizeof(*p));

	if (!p)
		return pt_fail_nomem();
	if (pt_refmap_init(&p->map) < 0) {
		free(p);
		return -ENOMEM;
	}
	p->dirfd = dirfd;
	p->token.fd = -1;
	pthread_mutex_init(&p->lock, NULL);
	*ret_pins = p;
	return 0;
}

void pt_pins_free(struct pt_pins *p)
{
	struct pt_refmap_node *n;

	if (!p)
		return;
	while ((n = pt_refmap_any(&p->map))) {
		pt_refmap_remove(&p->map, n);
		free(n);
	}
	pt_refmap_done(&p->map);
	if (p->shown)
		munmap(p->shown, MAP_BYTES);
	pt_token_remove(p->dirfd, false, &p->token);
	pthread_mutex_destroy(&p->lock);
	free(p->free_slots);
	free(p);
}

/* Best effort, when the file has been made. */
static void map_locked(struct pt_pins *p)
{
	struct statfs fs;
	void *map;

	if (fstatfs(p->token.fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return;
	map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->token.fd, 0);
	if (map != MAP_FAILED)
		p->shown = map;
}

/* The slot in memory, or NULL. */
static uint8_t *slot_map(struct pt_pins *p, uint64_t slot)
{
	uint64_t end = (slot + 1) * PT_PINS_SLOT;

	if (!p->shown || end > MAP_BYTES || end > p->mapped + MAP_STEP)
		return NULL;
	if (end > p->mapped) {
		if (fallocate(p->token.fd, 0, 0, (off_t)(p->mapped + MAP_STEP)) < 0)
			return NULL;
		p->mapped += MAP_STEP;
	}
	return p->shown + slot * PT_PINS_SLOT;
}

static int write_slot(struct pt_pins *p, uint64_t slot, const struct pt_blob_ref *ref)
{
	uint8_t *mapped = slot_map(p, slot);
	uint8_t b[PT_PINS_SLOT] = { 0 };
	int rc;

	if (ref) {
		memcpy(b, ref->id.b, sizeof(ref->id.b));
		b[sizeof(ref->id.b)] = (uint8_t)ref->kind;
	}
	if (mapped) {
		memcpy(mapped, b, sizeof(b));
		/* What the caller looks at next, to see whether the revision is still current, it must not have looked at before the pin was visible. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		return 0;
	}
	rc = pt_io_pwrite(p->token.fd, b, sizeof(b), slot * PT_PINS_SLOT);
	if (rc < 0)
		return pt_fail(-rc, "cannot write the pins of this process below pins/ of the store: %s", strerror(-rc));
	return 0;
}

/* Room to give back every slot there is is kept, so that giving back cannot fail. */
static int take_slot(struct pt_pins *p, uint64_t *ret_slot)
{
	if (p->free_count) {
		*ret_slot = p->free_slots[--p->free_count];
		return 0;
	}
	if (p->slots == p->free_cap) {
		size_t cap = p->free_cap ? p->free_cap * 2 : 64;
		uint64_t *bigger = pt_reallocarray(p->free_slots, cap, sizeof(*bigger));

		if (!bigger)
			return pt_fail_nomem();
		p->free_slots = bigger;
		p->free_cap = cap;
	}
	*ret_slot = p->slots++;
	return 0;
}

static int add_locked(struct pt_pins *p, const struct pt_blob_ref *ref)
{
	struct pin *pin = (struct pin *)pt_refmap_find(&p->map, ref);
	int rc;

	if (pin) {
		pin->count++;
		return 0;
	}
	if (p->token.fd < 0) {
		rc = pt_token_create(p->dirfd, false, &p->token);
		if (rc < 0)
			return pt_fail(-rc, "cannot make a file below pins/ of the store: %s; reading needs it, so that nobody deletes what is read",
				       strerror(-rc));
		map_locked(p);
	}
	pin = pt_calloc(1, sizeof(*pin));
	if (!pin)
		return pt_fail_nomem();
	rc = take_slot(p, &pin->slot);
	if (rc < 0)
		goto fail;
	rc = write_slot(p, pin->slot, ref);
	if (rc < 0) {
		p->free_slots[p->free_count++] = pin->slot;
		goto fail;
	}
	pin->node.ref = *ref;
	pin->count = 1;
	pt_refmap_insert(&p->map, &pin->node);
	return 0;
fail:
	free(pin);
	return rc;
}

static void drop_locked(struct pt_pins *p, const struct pt_blob_ref *ref)
{
	struct pin *pin = (struct pin *)pt_refmap_find(&p->map, ref);

	if (!pin || --pin->count)
		return;
	/* A slot that could not be cleared keeps its blob until this process ends; it is not used again. */
	if (write_slot(p, pin->slot, NULL) == 0)
		p->free_slots[p->free_count++] = pin->slot;
	pt_refmap_remove(&p->map, &pin->node);
	free(pin);
}

int pt_pins_add(struct pt_pins *p, const struct pt_blob_ref *refs, size_t count)
{
	size_t done = 0;
	int rc = 0;

	if (p->dirfd < 0)
		return 0;
	pthread_mutex_lock(&p->lock);
	while (done < count && (rc = add_locked(p, &refs[done])) == 0)
		done++;
	while (rc < 0 && done)
		drop_locked(p, &refs[--done]);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void pt_pins_drop(struct pt_pins *p, const struct pt_blob_ref *refs, size_t count)
{
	if (p->dirfd < 0)
		return;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < count; i++)
		drop_locked(p, &refs[i]);
	pthread_mutex_unlock(&p->lock);
}

/* What is asked for, found by reference: the question's own map. */
struct question {
	struct pt_refmap_node node;             /* first */
	bool pinned;
};

static int read_file(int fd, struct pt_refmap *map)
{
	uint8_t b[PT_PINS_SLOT * 128];
	uint64_t off = 0;
	int64_t n;

	while ((n = pt_io_pread(fd, b, sizeof(b), off)) > 0) {
		for (int64_t i = 0; i + PT_PINS_SLOT <= n; i += PT_PINS_SLOT) {
			struct question *q;
			struct pt_blob_ref ref;

			memcpy(ref.id.b, b + i, sizeof(ref.id.b));
			ref.kind = (enum pt_blob_kind)b[i + (int)sizeof(ref.id.b)];
			q = (struct question *)pt_refmap_find(map, &ref);
			if (q)
				q->pinned = true;
		}
		off += (uint64_t)n;
	}
	return n < 0 ? (int)n : 0;
}

static int read_token(struct pt_pins *p, const char *name, struct pt_refmap *map)
{
	int fd;
	int rc = pt_token_claim_dead(p->dirfd, name, false, &fd);

	if (rc < 0)
		return rc;
	if (rc > 0) {
		unlinkat(p->dirfd, name, 0);
		close(fd);
		return 0;
	}
	fd = openat(p->dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	rc = fd < 0 ? -errno : read_file(fd, map);
	if (fd >= 0)
		close(fd);
	if (rc < 0)
		return pt_fail(-rc, "cannot read pins/%s of the store: %s; nothing is deleted until that works", name, strerror(-rc));
	return 0;
}

static int read_all(struct pt_pins *p, struct pt_refmap *map)
{
	struct dirent *e;
	DIR *dir = NULL;
	int fd = openat(p->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = 0;

	if (fd >= 0)
		dir = fdopendir(fd);
	if (!dir) {
		rc = pt_fail(errno, "cannot list pins/ of the store: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (rc == 0) {
		errno = 0;
		e = readdir(dir);
		if (!e) {
			if (errno)
				rc = pt_fail(errno, "cannot list pins/ of the store: %s", strerror(errno));
			break;
		}
		if (pt_token_name_is(e->d_name))
			rc = read_token(p, e->d_name, map);
	}
	closedir(dir);
	return rc;
}

int pt_pins_query(struct pt_pins *p, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned)
{
	struct pt_refmap map = { 0 };
	struct question *q;
	int rc;

	if (p->dirfd < 0) {
		memset(ret_pinned, 0, count * sizeof(*ret_pinned));
		return 0;
	}
	q = pt_calloc(count, sizeof(*q));
	if (!q)
		return pt_fail_nomem();
	rc = pt_refmap_init(&map);
	if (rc < 0)
		goto out;
	for (size_t i = 0; i < count; i++) {
		q[i].node.ref = refs[i];
		if (!pt_refmap_find(&map, &refs[i]))
			pt_refmap_insert(&map, &q[i].node);
	}
	rc = read_all(p, &map);
	for (size_t i = 0; rc == 0 && i < count; i++)
		ret_pinned[i] = ((struct question *)pt_refmap_find(&map, &refs[i]))->pinned;
	pt_refmap_done(&map);
out:
	free(q);
	return rc;
}
