/* fs/errors.c - a ring of the last failures with their reasons: `.ptio/errors`, the log, and user.ptio.error of a file. */
#include "fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/text.h"

#define REMOVED "(removed)"             /* in place of the path of what has none any more; the sentence names it where it can */
#define RING 256
#define AGAIN_NS INT64_C(1000000000)       /* the same failure of the same name within this is not told again */

struct failure {
	int64_t time_ns;
	uint64_t ino;                   /* pt_fs_ino of the name */
	int err;
	char op[16];
	char *path;
	char *sentence;
};

struct pt_fs_errors {
	pthread_mutex_t lock;           /* the rest */
	uint64_t count;                 /* ever; the newest is at (count - 1) % RING */
	struct failure failure[RING];
};

int pt_fs_errors_init(struct pt_fs *fs)
{
	fs->errors = pt_calloc(1, sizeof(*fs->errors));
	if (!fs->errors)
		return pt_fail_nomem();
	pthread_mutex_init(&fs->errors->lock, NULL);
	return 0;
}

void pt_fs_errors_done(struct pt_fs *fs)
{
	size_t i;

	if (!fs->errors)
		return;
	for (i = 0; i < RING; i++) {
		free(fs->errors->failure[i].path);
		free(fs->errors->failure[i].sentence);
	}
	pthread_mutex_destroy(&fs->errors->lock);
	free(fs->errors);
	fs->errors = NULL;
}

/* Appends the tree path of a node: its key with each component encoded. */
static void path_of_node(struct pt_fs *fs, uint64_t node, struct pt_buf *out)
{
	char key[PT_KEY_MAX + 1], encoded[PT_PATH_COMPONENT_MAX + 1], dir[PT_TREE_DIR_MAX];
	const char *part, *decoded;
	char *next;

	if (node == PT_NODE_ROOT)
		return;
	if (pt_node_key(fs->repo, node, key) < 0) {
		pt_buf_append_str(out, REMOVED);
		return;
	}
	for (part = key; part && *part; part = next) {
		next = strchr(part, '/');
		if (next)
			*next++ = '\0';
		if (pt_tree_component_split(part, dir, &decoded))
			pt_buf_printf(out, "/%s", dir);
		pt_buf_printf(out, "/%s", pt_path_component_encode(decoded, encoded) < 0 ? decoded : encoded);
	}
}

void pt_fs_path(struct pt_fs *fs, const struct pt_fs_inode *inode, const char *name, struct pt_buf *out)
{
	char saved[PT_FAIL_SENTENCE_MAX];

	snprintf(saved, sizeof(saved), "%s", pt_fail_sentence());
	if (inode->kind == PT_FS_CONTROL_DIR || inode->kind == PT_FS_CONTROL)
		pt_buf_append_str(out, "/" PT_PATH_CONTROL_NAME);
	path_of_node(fs, inode->node, out);
	if (pt_fs_alias_path(inode->dir, out) < 0 && inode->dir[0])
		pt_buf_printf(out, "/%s", inode->dir);
	if (inode->name[0])
		pt_buf_printf(out, "/%s", inode->name);
	if (name)
		pt_buf_printf(out, "/%s", name);
	if (out->len == 0)
		pt_buf_append_str(out, "/");
	/* The sentence that is being reported, not one of finding the path. */
	if (saved[0])
		pt_fail(EIO, "%s", saved);
	else
		pt_fail_clear();
}

/* One failure reaches FLUSH, RELEASE and every descriptor of the file: it is one line. */
static bool told_just_now(struct pt_fs_errors *e, const struct failure *f, const char *sentence)
{
	const struct failure *last;
	bool same;

	pthread_mutex_lock(&e->lock);
	last = &e->failure[(e->count - 1) % RING];
	same = e->count > 0 && last->ino == f->ino && last->err == f->err && f->time_ns - last->time_ns < AGAIN_NS &&
	       (!sentence[0] || (last->sentence && strcmp(last->sentence, sentence) == 0));
	pthread_mutex_unlock(&e->lock);
	return same;
}

void pt_fs_errors_add(struct pt_fs *fs, int rc, const struct pt_fs_inode *inode, const char *name, const char *op)
{
	struct pt_fs_errors *e = fs->errors;
	const char *sentence;
	struct pt_buf path = PT_BUF_INIT;
	struct failure f, old;

	pt_fs_path(fs, inode, name, &path);
	pt_buf_append_u8(&path, 0);
	if (!pt_buf_failed(&path))
		pt_text_clean((char *)path.data);       /* what was refused for its name comes with that name */
	sentence = pt_fail_sentence();
	f.time_ns = pt_time_now_ns();
	f.err = -rc;
	f.ino = pt_fs_ino(inode->node, inode->dir, name ? name : inode->name);
	snprintf(f.op, sizeof(f.op), "%s", op);
	if (told_just_now(e, &f, sentence)) {
		pt_buf_done(&path);
		pt_fail_clear();
		return;
	}
	f.path = pt_strdup(pt_buf_failed(&path) ? "?" : (const char *)path.data);
	f.sentence = pt_strdup(sentence[0] ? sentence : strerror(-rc));
	pt_buf_done(&path);
	pt_log(PT_LOG_WARN, "%s %s: %s: %s", f.op, f.path ? f.path : "?", strerrorname_np(f.err) ? strerrorname_np(f.err) : "?",
	       f.sentence ? f.sentence : "");
	pthread_mutex_lock(&e->lock);
	old = e->failure[e->count % RING];
	e->failure[e->count % RING] = f;
	e->count++;
	pthread_mutex_unlock(&e->lock);
	free(old.path);
	free(old.sentence);
	atomic_fetch_add(&fs->counters.errors, 1);
	pt_fail_clear();                /* told once */
}

void pt_fs_fail(fuse_req_t req, int rc, const struct pt_fs_inode *inode, const char *name, const char *op)
{
	if (rc != -ESTALE && inode && pt_fail_sentence()[0])
		pt_fs_errors_add(pt_fs_of(req), rc, inode, name, op);
	fuse_reply_err(req, rc == -ETIMEDOUT ? EIO : -rc);
}

int pt_fs_errors_text(struct pt_fs *fs, struct pt_buf *out)
{
	struct pt_fs_errors *e = fs->errors;
	const struct failure *f;
	char when[32];
	time_t seconds;
	struct tm tm;
	uint64_t i;

	pthread_mutex_lock(&e->lock);
	for (i = e->count > RING ? e->count - RING : 0; i < e->count; i++) {
		f = &e->failure[i % RING];
		seconds = (time_t)(f->time_ns / 1000000000);
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
		pt_buf_printf(out, "%s.%03dZ %s %s %s: %s\n", when, (int)(f->time_ns / 1000000 % 1000), f->op, f->path ? f->path : "?",
			      strerrorname_np(f->err) ? strerrorname_np(f->err) : "?", f->sentence ? f->sentence : "");
	}
	pthread_mutex_unlock(&e->lock);
	return 0;
}

bool pt_fs_errors_last(struct pt_fs *fs, uint64_t ino, char *ret_text, size_t len)
{
	struct pt_fs_errors *e = fs->errors;
	const struct failure *f;
	bool found = false;
	uint64_t i;

	pthread_mutex_lock(&e->lock);
	for (i = e->count; i > 0 && i + RING > e->count && !found; i--) {
		f = &e->failure[(i - 1) % RING];
		if (f->ino == ino && f->sentence) {
			snprintf(ret_text, len, "%s: %s", strerrorname_np(f->err) ? strerrorname_np(f->err) : "?", f->sentence);
			found = true;
		}
	}
	pthread_mutex_unlock(&e->lock);
	return found;
}
