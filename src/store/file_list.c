/* store/file_list.c - the file engine's enumeration, and the sweep of what dead writers left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file_int.h"
#include "store/folder.h"

/* Called for each entry but dot names; 1 stops, -errno fails. */
typedef int entry_fn(void *ctx, int dirfd, const char *name);

static int each_entry(const struct pt_file_store *f, int at, const char *name, entry_fn *fn, void *ctx)
{
	DIR *dir;
	int fd, rc;

	rc = pt_folder_open(at, name, O_RDONLY, &fd);
	if (rc < 0)
		return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;        /* gone meanwhile, or not ours */
	dir = fdopendir(fd);
	if (!dir) {
		rc = pt_fail(errno, "cannot list %s in the store %s: %s", name, f->dir, strerror(errno));
		close(fd);
		return rc;
	}
	while (rc == 0) {
		struct dirent *e;

		errno = 0;
		e = readdir(dir);
		if (!e) {
			if (errno)
				rc = pt_fail(errno, "cannot list %s in the store %s: %s", name, f->dir, strerror(errno));
			break;
		}
		if (e->d_name[0] != '.')
			rc = fn(ctx, fd, e->d_name);
	}
	closedir(dir);
	return rc;
}

struct lister {
	struct pt_file_store *f;
	pt_data_list_fn *fn;
	void *ctx;
	bool staged, live;
};

static int list_blob(void *ctx, int dirfd, const char *name)
{
	struct lister *l = ctx;
	struct pt_blob_ref ref;
	struct stat st;

	if (!pt_file_name_parse(name, &ref) || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return l->fn(l->ctx, &ref, (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
		     l->staged, l->live);
}

static int list_bucket(void *ctx, int dirfd, const char *name)
{
	struct lister *l = ctx;

	return strlen(name) == 2 ? each_entry(l->f, dirfd, name, list_blob, l) : 0;
}

static int list_token(void *ctx, int dirfd, const char *name)
{
	struct lister *l = ctx;

	if (!pt_token_name_is(name))
		return 0;
	l->live = pt_token_is_live(dirfd, name, true);
	return each_entry(l->f, dirfd, name, list_blob, l);
}

void pt_file_list(void *h, pt_data_list_fn *fn, void *ctx, struct pt_done *done)
{
	struct pt_file_store *f = h;
	struct lister l = { .f = f, .fn = fn, .ctx = ctx };
	int rc = each_entry(f, f->objects, ".", list_bucket, &l);

	l.staged = true;
	if (rc == 0)
		rc = each_entry(f, f->staging, ".", list_token, &l);
	pt_done_call(done, rc < 0 ? rc : 0);
}

struct sweeper {
	struct pt_file_store *f;
	uint64_t count;
};

static int sweep_blob(void *ctx, int dirfd, const char *name)
{
	struct sweeper *s = ctx;
	struct pt_blob_ref ref;

	if (pt_file_name_parse(name, &ref) && unlinkat(dirfd, name, 0) == 0)
		s->count++;
	return 0;
}

static int sweep_token(void *ctx, int dirfd, const char *name)
{
	struct sweeper *s = ctx;
	int fd, rc;

	if (!pt_token_name_is(name))
		return 0;
	rc = pt_token_claim_dead(dirfd, name, true, &fd);
	if (rc <= 0)
		return rc;
	rc = each_entry(s->f, dirfd, name, sweep_blob, s);
	unlinkat(dirfd, name, AT_REMOVEDIR);
	close(fd);
	return rc;
}

void pt_file_tidy(void *h, const struct pt_blob_ref *ref)
{
	struct pt_file_store *f = h;

	pt_fdcache_sweep(f->cache);
	if (ref)
		pt_fdcache_forget(f->cache, ref);       /* it may have been moved away, and so have a name yet */
}

void pt_file_sweep(void *h, uint64_t *ret_count, struct pt_done *done)
{
	struct pt_file_store *f = h;
	struct sweeper s = { .f = f };
	int rc = each_entry(f, f->staging, ".", sweep_token, &s);

	pt_file_tidy(f, NULL);
	pt_file_proof_sweep(f);
	if (rc >= 0)
		*ret_count = s.count;
	pt_done_call(done, rc < 0 ? rc : 0);
}
