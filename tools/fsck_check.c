/* tools/fsck_check.c - the check: the index file, its records against the blobs, tensor files against theirs, and, if that is asked, every byte. Changes nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/audit.h"
#include "store/snapshots.h"
#include "tools/fsck.h"
#include "tree/container.h"

static void problem(void *ctx, const char *text)
{
	fsck_problem(ctx, "%s", text);
}

static void progress(void *ctx, const char *what, uint64_t done)
{
	fsck_progress(ctx, what, done);
}

/* What a tensor file is made of is as its description says. */
static int check_container(struct fsck *f, const char *key, const struct pt_node *node)
{
	struct pt_container *c = NULL;
	uint64_t bytes;
	int rc;

	rc = pt_node_pin(f->cli->repo, node);
	if (rc < 0)
		return rc;
	rc = pt_container_load(f->cli->repo, node, &c);
	for (uint32_t i = 0; rc == 0 && i < c->object_count; i++) {
		rc = pt_data_stat(&pt_repo_store(f->cli->repo)->data, &c->objects[i].blob, &bytes);
		if (rc == 0 && bytes != c->objects[i].payload_off + c->objects[i].bytes)
			fsck_problem(f, "%s: object %u of the tensor file has another size than it says", key, i + 1);
	}
	if (rc == -EIO || rc == -ENOENT) {
		fsck_problem(f, "%s: %s", key, pt_fail_sentence());
		rc = 0;
	}
	pt_container_unref(c);
	pt_node_unpin(f->cli->repo, node);
	return rc;
}

static int check_node(void *ctx, const char *key, const struct pt_node *node)
{
	struct fsck *f = ctx;
	struct pt_node now;
	int rc;

	if (node->kind != PT_NODE_CONTAINER)
		return 0;
	do {
		rc = pt_node_get(f->cli->repo, node->id, &now);
		if (rc < 0)
			break;
		rc = now.kind == PT_NODE_CONTAINER ? check_container(f, key, &now) : 0;
		pt_node_done(&now);
	} while (rc == -ESTALE);                /* replaced while we looked */
	return rc == -ENOENT ? 0 : rc;
}

static void summary(struct fsck *f, const struct pt_audit *a)
{
	char size[32], orphans[32], staged[32];

	fsck_say(f, "%llu directories, %llu files, %llu revisions, %llu incomplete sets, %llu objects (%s)", (unsigned long long)a->directories,
		 (unsigned long long)a->files, (unsigned long long)a->revisions, (unsigned long long)a->sets, (unsigned long long)a->objects,
		 cli_size(a->object_bytes, size));
	if (a->waiting || a->orphans || a->staged)
		fsck_say(f, "to be collected (ptio gc): %llu superseded objects, %llu that nothing names (%s), %llu unfinished uploads (%s)",
			 (unsigned long long)a->waiting, (unsigned long long)a->orphans, cli_size(a->orphan_bytes, orphans), (unsigned long long)a->staged,
			 cli_size(a->staged_bytes, staged));
}

/* What opening says of a store that is not sound is a finding; of one that is not there, or cannot be read, a failure. */
static int open_store(struct fsck *f, bool *ret_damaged)
{
	struct pt_store_options so = { .read_only = true, .force = f->cli->force };
	struct pt_repo_options ro = { .verify = PT_VERIFY_TOUCH };
	struct pt_store *store;
	int rc;

	rc = pt_store_open(f->uri, &so, &store);
	if (rc == 0) {
		rc = pt_repo_open(store, &ro, &f->cli->repo);
		if (rc < 0)
			pt_store_close(store);
	}
	*ret_damaged = rc == -EIO;
	return rc;
}

/* An index that lost its log, or was put back from a copy, may be sound and old. */
int fsck_check_index(struct fsck *f, int dirfd)
{
	char *index = pt_asprintf("%s/index.db", f->dir);
	struct pt_snapshot *all = NULL;
	uint64_t version, records;
	size_t count = 0;
	int rc = index ? pt_snapshots_list(dirfd, &all, &count) : pt_fail_nomem();

	/* In this order: those that are made meanwhile are newer than what is seen of the index. */
	if (rc == 0)
		rc = pt_meta_sqlite_check(dirfd, index, false, &version, &records);
	if (rc == 0 && count && all[0].version > version)
		rc = pt_fail(EIO, "the index %s is older than its snapshot %s: what was committed last is lost from it", index, all[0].name);
	free(all);
	free(index);
	return rc;
}

static int look(struct fsck *f)
{
	struct pt_audit audit = { 0 };
	uint64_t bytes = 0, before = f->problems;
	char size[32];
	int rc;

	rc = pt_repo_audit(f->cli->repo, problem, progress, f, &audit);
	if (rc == 0)
		rc = pt_node_walk(f->cli->repo, PT_NODE_ROOT, check_node, f);
	if (rc == 0 && f->verify) {
		rc = cli_verify_all(f->cli, &f->problems, &bytes);
		fsck_say(f, "%s read and compared with checksums", cli_size(bytes, size));
	}
	if (rc < 0)
		return rc;
	summary(f, &audit);
	if (f->problems == before)
		fsck_say(f, "%s: clean", f->dir);
	return 0;
}

int fsck_check(struct fsck *f)
{
	bool damaged;
	int rc;

	rc = open_store(f, &damaged);
	if (rc < 0 && !damaged)
		return fsck_failed(rc);
	if (rc == 0)
		rc = fsck_check_index(f, pt_repo_store(f->cli->repo)->dirfd);
	if (rc == 0)
		rc = look(f);
	if (rc == -EIO) {
		fsck_problem(f, "%s", pt_fail_sentence());
		if (!strstr(pt_fail_sentence(), "--rebuild"))
			fsck_say(f, "ptio fsck --rebuild %s makes another index, of a snapshot and what the objects say of themselves", f->dir);
		rc = 0;
	}
	if (rc < 0)
		return fsck_failed(rc);
	if (f->problems)
		fsck_say(f, "%s: %llu problems", f->dir, (unsigned long long)f->problems);
	return f->problems ? FSCK_LEFT : FSCK_CLEAN;
}
