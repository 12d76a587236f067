/* Nodes: names, keys, attributes, rename, listing and walking, and many processes in one directory. */
#include <pthread.h>

#include "manifest_help.h"

static char dir[256];
static struct pt_repo *repo;

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, NULL);
}

static void setup_memory(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open("mem:64M", NULL, NULL);
}

static void teardown(void)
{
	pt_repo_close(repo);
	help_dir_remove(dir);
}

static uint64_t make(uint64_t parent, const char *name, enum pt_node_kind kind)
{
	struct pt_node attrs = { .kind = kind, .mode = 0755, .target = kind == PT_NODE_SYMLINK ? (char *)"there" : NULL }, node;

	check_ok(pt_node_create(repo, parent, name, &attrs, &node));
	pt_node_done(&node);
	return node.id;
}

static bool there(uint64_t parent, const char *name)
{
	struct pt_node node;
	int rc = pt_node_lookup(repo, parent, name, &node);

	if (rc == -ENOENT)
		return false;
	check_ok(rc);
	ck_assert_str_eq(node.name, name);
	ck_assert_uint_eq(node.parent, parent);
	pt_node_done(&node);
	return true;
}

#define REPLACED 60

static void *replace_all(void *ctx)
{
	char name[16];
	int i;

	for (i = 0; i < REPLACED; i++) {
		snprintf(name, sizeof(name), "new.%d", i);
		check_ok(pt_node_rename(repo, PT_NODE_ROOT, name, PT_NODE_ROOT, "f", false, false));
		usleep(2000);
	}
	__atomic_store_n((bool *)ctx, true, __ATOMIC_RELEASE);
	return NULL;
}

START_TEST(a_file_that_is_replaced_meanwhile_is_always_there)
{
	struct pt_repo *slow = help_open(dir, "meta.get:delay_ms=1", NULL);
	struct pt_node node;
	pthread_t thread;
	bool done = false;
	char name[16];
	int i;

	make(PT_NODE_ROOT, "f", PT_NODE_FILE);
	for (i = 0; i < REPLACED; i++) {
		snprintf(name, sizeof(name), "new.%d", i);
		make(PT_NODE_ROOT, name, PT_NODE_FILE);
	}
	ck_assert_int_eq(pthread_create(&thread, NULL, replace_all, &done), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		check_ok(pt_node_lookup(slow, PT_NODE_ROOT, "f", &node));
		pt_node_done(&node);
	}
	pthread_join(thread, NULL);
	pt_repo_close(slow);
}
END_TEST

/* One question for the name, one for the node, its times and its revision. */
START_TEST(a_key_is_looked_up_with_two_questions_to_the_index)
{
	struct pt_shape shape = help_shape2(2, 2);
	struct pt_meta_counters before, after;
	uint64_t key = help_key(repo, "a");
	struct pt_manifest *m;
	struct pt_node n;

	help_store(repo, key, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	pt_repo_close(repo);
	repo = help_open(dir, NULL, NULL);      /* which learns the index's version by what it asks */
	pt_meta_counters(&pt_repo_store(repo)->meta, &before);
	check_ok(pt_node_lookup(repo, PT_NODE_ROOT, "a", &n));
	pt_meta_counters(&pt_repo_store(repo)->meta, &after);
	ck_assert_uint_eq(after.queries, before.queries + 2);
	check_ok(pt_manifest_get(repo, n.id, "", &m));
	pt_manifest_unref(m);
	pt_node_done(&n);
	check_ok(pt_node_get(repo, key, &n));
	pt_node_done(&n);
	pt_meta_counters(&pt_repo_store(repo)->meta, &before);
	ck_assert_uint_eq(after.queries, before.queries);
	/* Listed together, likewise. */
	pt_repo_close(repo);
	repo = help_open(dir, NULL, NULL);
	check_ok(pt_node_prefetch(repo, &key, 1));
	pt_meta_counters(&pt_repo_store(repo)->meta, &before);
	check_ok(pt_node_get(repo, key, &n));
	pt_node_done(&n);
	check_ok(pt_manifest_get(repo, key, "", &m));
	pt_manifest_unref(m);
	pt_meta_counters(&pt_repo_store(repo)->meta, &after);
	ck_assert_uint_eq(after.queries, before.queries);
}
END_TEST

START_TEST(create_look_up_and_remove)
{
	struct pt_node attrs = { .kind = PT_NODE_SYMLINK, .mode = 0777, .uid = 5, .gid = 6, .target = (char *)"step=120" }, node;
	uint64_t d = make(PT_NODE_ROOT, "d", PT_NODE_DIR);
	char name[300];

	check_ok(pt_node_create(repo, d, "latest", &attrs, &node));
	pt_node_done(&node);
	check_err(pt_node_create(repo, d, "latest", &attrs, &node), EEXIST);
	check_ok(pt_node_lookup(repo, d, "latest", &node));
	ck_assert_str_eq(node.target, "step=120");
	ck_assert_uint_eq(node.size, 8);
	ck_assert_uint_eq(node.uid, 5);
	check_err(pt_node_create(repo, node.id, "x", &attrs, &node), ENOTDIR);
	pt_node_done(&node);
	check_err(pt_node_rmdir(repo, PT_NODE_ROOT, "d"), ENOTEMPTY);
	check_err(pt_node_unlink(repo, PT_NODE_ROOT, "d"), EISDIR);
	check_err(pt_node_rmdir(repo, d, "latest"), ENOTDIR);
	check_ok(pt_node_unlink(repo, d, "latest"));
	check_err(pt_node_unlink(repo, d, "latest"), ENOENT);
	check_ok(pt_node_rmdir(repo, PT_NODE_ROOT, "d"));
	check_err(pt_node_create(repo, d, "latest", &attrs, &node), ENOENT);
	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	make(PT_NODE_ROOT, name, PT_NODE_DIR);
	ck_assert(there(PT_NODE_ROOT, name));
	name[255] = 'n';
	name[256] = '\0';
	check_err(pt_node_lookup(repo, PT_NODE_ROOT, name, &node), ENAMETOOLONG);
	check_err(pt_node_lookup(repo, PT_NODE_ROOT, "", &node), EINVAL);
	check_err(pt_node_lookup(repo, PT_NODE_ROOT, "a/b", &node), EINVAL);
}
END_TEST

START_TEST(unlink_of_one_file_leaves_another_that_has_its_name_now)
{
	uint64_t first = make(PT_NODE_ROOT, "f", PT_NODE_FILE), second = make(PT_NODE_ROOT, "g", PT_NODE_FILE);
	struct pt_node node;

	check_ok(pt_node_rename(repo, PT_NODE_ROOT, "g", PT_NODE_ROOT, "f", false, false));
	check_err(pt_node_unlink_id(repo, PT_NODE_ROOT, "f", first), ENOENT);
	check_ok(pt_node_get(repo, second, &node));
	pt_node_done(&node);
	check_ok(pt_node_unlink_id(repo, PT_NODE_ROOT, "f", second));
	ck_assert(!there(PT_NODE_ROOT, "f"));
}
END_TEST

START_TEST(directory_of_a_tensor_is_not_empty)
{
	struct pt_shape shape = help_shape2(2, 2);
	uint64_t w = make(PT_NODE_ROOT, "w", PT_NODE_DIR), p = make(PT_NODE_ROOT, "p", PT_NODE_DIR);

	make(PT_NODE_ROOT, "e", PT_NODE_DIR);
	help_store(repo, w, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	help_store(repo, p, PT_WRITTEN_WRITER, &shape, 0, 2, 0, NULL, 1);
	check_err(pt_node_rmdir(repo, PT_NODE_ROOT, "w"), ENOTEMPTY);
	check_err(pt_node_rmdir(repo, PT_NODE_ROOT, "p"), ENOTEMPTY);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "e", PT_NODE_ROOT, "w", false, false), ENOTEMPTY);
	check_ok(pt_manifest_remove(repo, w, ""));
	check_ok(pt_node_rmdir(repo, PT_NODE_ROOT, "w"));
}
END_TEST

START_TEST(update_writes_attributes_once_and_entries_move_the_time)
{
	uint64_t d = make(PT_NODE_ROOT, "d", PT_NODE_DIR);
	struct pt_xattr xattr = { .name = (char *)"user.a", .value = (uint8_t *)"b\0c", .value_len = 3 };
	struct pt_node node, again;

	check_ok(pt_node_get(repo, d, &node));
	check_ok(pt_node_get(repo, d, &again));
	node.mode = 0700;
	node.mtime_ns = 1000;
	node.split = PT_SPLIT_CHUNK;
	node.xattrs = &xattr;
	node.xattr_count = 1;
	check_ok(pt_node_update(repo, &node));
	node.uid = 9;
	check_ok(pt_node_update(repo, &node));
	ck_assert_int_eq(pt_node_update(repo, &again), -EAGAIN);
	pt_node_done(&again);
	check_ok(pt_node_get(repo, d, &again));
	ck_assert_uint_eq(again.mode, 0700);
	ck_assert_uint_eq(again.uid, 9);
	ck_assert_int_eq(again.mtime_ns, 1000);
	ck_assert_int_eq(again.split, PT_SPLIT_CHUNK);
	ck_assert_uint_eq(again.xattr_count, 1);
	ck_assert_str_eq(again.xattrs[0].name, "user.a");
	ck_assert_mem_eq(again.xattrs[0].value, "b\0c", 3);
	pt_node_done(&again);
	make(d, "x", PT_NODE_FILE);
	/* A new entry since: who has not seen its time may not write an older one. */
	ck_assert_int_eq(pt_node_update(repo, &node), -EAGAIN);
	check_ok(pt_node_get(repo, d, &again));
	ck_assert_int_gt(again.mtime_ns, 1000);
	ck_assert_uint_eq(again.mode, 0700);
	pt_node_done(&again);
}
END_TEST

static void plain(const char *text, struct pt_blob_ref *ret_blob, uint64_t *ret_bytes)
{
	struct pt_object_writer *w;

	check_ok(pt_plain_writer_create(repo, &w));
	check_ok(pt_object_writer_append(w, text, strlen(text)));
	check_ok(pt_plain_writer_seal(w, ret_blob, ret_bytes));
}

START_TEST(replaced_contents_live_while_pinned)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0644 }, node, old;
	struct pt_gc_stats stats;
	char buf[3];

	plain("one", &attrs.blob, &attrs.size);
	check_ok(pt_node_create(repo, PT_NODE_ROOT, "f", &attrs, &node));
	check_ok(pt_node_pin(repo, &node));
	old = node;
	plain("three", &node.blob, &node.size);
	check_ok(pt_node_update(repo, &node));
	ck_assert_uint_eq(node.size, 5);
	check_err(pt_node_pin(repo, &old), ESTALE);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.kept_pinned, 1);
	check_ok(pt_data_read(&pt_repo_store(repo)->data, &(struct pt_data_range){ .blob = old.blob, .len = 3, .buf = buf }, 1));
	ck_assert_mem_eq(buf, "one", 3);
	pt_node_unpin(repo, &old);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.objects_removed, 1);
	check_ok(pt_node_unlink(repo, PT_NODE_ROOT, "f"));
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.objects_removed, 1);
	ck_assert_uint_eq(help_blobs(repo), 0);
	pt_node_done(&node);
}
END_TEST

START_TEST(two_names_may_refer_to_one_blob)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0644 }, node;
	struct pt_gc_stats stats;

	plain("one", &attrs.blob, &attrs.size);
	check_ok(pt_node_create(repo, PT_NODE_ROOT, "f", &attrs, &node));
	pt_node_done(&node);
	check_ok(pt_node_create(repo, PT_NODE_ROOT, "g", &attrs, &node));
	pt_node_done(&node);
	check_ok(pt_node_unlink(repo, PT_NODE_ROOT, "f"));
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.objects_removed, 0);
	ck_assert_uint_eq(help_blobs(repo), 1);
	check_ok(pt_node_unlink(repo, PT_NODE_ROOT, "g"));
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.objects_removed, 1);
	ck_assert_uint_eq(help_blobs(repo), 0);
}
END_TEST

START_TEST(rename_follows_posix)
{
	uint64_t a = make(PT_NODE_ROOT, "a", PT_NODE_DIR), b = make(PT_NODE_ROOT, "b", PT_NODE_DIR), c = make(a, "c", PT_NODE_DIR);
	uint64_t f = make(PT_NODE_ROOT, "f", PT_NODE_FILE), g = make(b, "g", PT_NODE_SYMLINK);
	char key[PT_KEY_MAX + 1];
	struct pt_node node;

	check_err(pt_node_rename(repo, PT_NODE_ROOT, "a", c, "x", false, false), EINVAL);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "a", a, "x", false, false), EINVAL);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "a", PT_NODE_ROOT, "f", false, false), ENOTDIR);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "f", PT_NODE_ROOT, "b", false, false), EISDIR);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "a", PT_NODE_ROOT, "b", false, false), ENOTEMPTY);
	check_err(pt_node_rename(repo, a, "c", PT_NODE_ROOT, "a", false, false), ENOTEMPTY);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "nothing", b, "x", false, false), ENOENT);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "f", b, "g", true, false), EEXIST);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "f", f, "g", false, false), ENOTDIR);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "f", b, "h", false, true), ENOENT);
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "a", a, "c", false, true), EINVAL);
	check_ok(pt_node_rename(repo, PT_NODE_ROOT, "f", PT_NODE_ROOT, "f", false, false));
	check_err(pt_node_rename(repo, PT_NODE_ROOT, "f", PT_NODE_ROOT, "f", true, false), EEXIST);
	ck_assert(there(PT_NODE_ROOT, "f"));
	/* Over a symlink, which goes. */
	check_ok(pt_node_rename(repo, PT_NODE_ROOT, "f", b, "g", false, false));
	ck_assert(!there(PT_NODE_ROOT, "f"));
	check_err(pt_node_get(repo, g, &node), ENOENT);
	check_ok(pt_node_lookup(repo, b, "g", &node));
	ck_assert_uint_eq(node.id, f);
	pt_node_done(&node);
	/* Directories take what is below along, in two records. */
	check_ok(pt_node_rename(repo, PT_NODE_ROOT, "a", b, "aa", true, false));
	check_ok(pt_node_key(repo, c, key));
	ck_assert_str_eq(key, "b/aa/c");
	/* Over an empty directory. */
	make(PT_NODE_ROOT, "e", PT_NODE_DIR);
	check_ok(pt_node_rename(repo, b, "aa", PT_NODE_ROOT, "e", false, false));
	check_ok(pt_node_key(repo, c, key));
	ck_assert_str_eq(key, "e/c");
	/* Exchange of a directory and a file. */
	check_ok(pt_node_rename(repo, PT_NODE_ROOT, "e", b, "g", false, true));
	check_ok(pt_node_key(repo, c, key));
	ck_assert_str_eq(key, "b/g/c");
	check_ok(pt_node_lookup(repo, PT_NODE_ROOT, "e", &node));
	ck_assert_uint_eq(node.id, f);
	pt_node_done(&node);
}
END_TEST

START_TEST(revisions_and_pending_sets_move_along)
{
	struct pt_shape shape = help_shape2(4, 2);
	uint64_t w = help_key(repo, "x/w");
	struct pt_manifest *m;
	struct pt_node node;

	help_store(repo, w, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	help_store(repo, w, PT_WRITTEN_WRITER, &shape, 0, 2, 0, NULL, 1);
	check_ok(pt_node_rename(repo, PT_NODE_ROOT, "x", PT_NODE_ROOT, "y", false, false));
	check_ok(pt_node_by_key(repo, "y/w", false, &node));
	ck_assert_uint_eq(node.id, w);
	pt_node_done(&node);
	check_ok(pt_manifest_get(repo, w, "", &m));
	pt_manifest_unref(m);
	ck_assert_uint_eq(help_store(repo, w, PT_WRITTEN_WRITER, &shape, 1, 2, 0, NULL, 1), 2);
}
END_TEST

START_TEST(keys_go_there_and_back)
{
	char key[PT_KEY_MAX + 2], back[PT_KEY_MAX + 1];
	struct pt_node node;
	uint64_t id;

	id = help_key(repo, "a b/\xc3\xa4/..");
	check_ok(pt_node_key(repo, id, back));
	ck_assert_str_eq(back, "a b/\xc3\xa4/..");
	check_ok(pt_node_by_key(repo, "", false, &node));
	ck_assert_uint_eq(node.id, PT_NODE_ROOT);
	pt_node_done(&node);
	check_ok(pt_node_key(repo, PT_NODE_ROOT, back));
	ck_assert_str_eq(back, "");
	check_err(pt_node_by_key(repo, "a b/none", false, &node), ENOENT);
	check_err(pt_node_by_key(repo, "/a", true, &node), EINVAL);
	check_err(pt_node_by_key(repo, "a//b", true, &node), EINVAL);
	check_err(pt_node_by_key(repo, "a/", true, &node), EINVAL);
	make(PT_NODE_ROOT, "f", PT_NODE_FILE);
	check_err(pt_node_by_key(repo, "f/x", true, &node), ENOTDIR);
	for (int i = 0; i < PT_KEY_MAX; i++)
		key[i] = i % 2 ? '/' : 'k';
	key[PT_KEY_MAX - 1] = 'k';
	key[PT_KEY_MAX] = '\0';
	id = help_key(repo, key);
	check_ok(pt_node_key(repo, id, back));
	ck_assert_str_eq(back, key);
	strcat(key, "k");
	check_err(pt_node_by_key(repo, key, true, &node), ENAMETOOLONG);
	/* Nothing holds all those directories but themselves. */
	check_ok(pt_node_prune(repo, id));
	check_err(pt_node_by_key(repo, "k", false, &node), ENOENT);
}
END_TEST

START_TEST(prune_stops_at_what_is_needed)
{
	struct pt_shape shape = help_shape2(2, 2);
	uint64_t id = help_key(repo, "a/b/c");
	struct pt_node node;

	help_store(repo, help_key(repo, "a"), PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	check_ok(pt_node_prune(repo, id));
	check_err(pt_node_by_key(repo, "a/b", false, &node), ENOENT);
	check_ok(pt_node_by_key(repo, "a", false, &node));
	pt_node_done(&node);
	make(PT_NODE_ROOT, "made", PT_NODE_DIR);
	check_ok(pt_node_prune(repo, help_key(repo, "made/x")));
	check_ok(pt_node_by_key(repo, "made", false, &node));
	pt_node_done(&node);
}
END_TEST

struct listing {
	unsigned count, stop_at;
	char last[PT_NAME_MAX + 1];
};

static int list_one(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	struct listing *l = ctx;

	ck_assert_uint_gt(id, 1);
	ck_assert_int_eq(kind, PT_NODE_DIR);
	ck_assert_int_gt(strcmp(name, l->last), 0);
	strcpy(l->last, name);
	return ++l->count == l->stop_at;
}

START_TEST(list_is_in_order_and_resumes)
{
	uint64_t d = make(PT_NODE_ROOT, "d", PT_NODE_DIR);
	struct listing l = { .stop_at = 700 };
	char name[16];

	for (int i = 0; i < 1100; i++) {
		snprintf(name, sizeof(name), "n%d", i * 7919 % 1100);
		make(d, name, PT_NODE_DIR);
	}
	check_ok(pt_node_list(repo, d, "", list_one, &l));
	ck_assert_uint_eq(l.count, 700);
	strcpy(name, l.last);
	check_ok(pt_node_list(repo, d, name, list_one, &l));
	ck_assert_uint_eq(l.count, 1100);
	check_ok(pt_node_list(repo, d, "zzz", list_one, &l));
	ck_assert_uint_eq(l.count, 1100);
}
END_TEST

struct walking {
	unsigned count;
	unsigned depth_max;
	char before[PT_KEY_MAX + 1];
	bool remove;
};

static int walk_one(void *ctx, const char *key, const struct pt_node *node)
{
	struct walking *w = ctx;
	unsigned depth = 0;

	for (const char *p = key; *p; p++)
		depth += *p == '/';
	if (depth > w->depth_max)
		w->depth_max = depth;
	if (w->remove && node->kind == PT_NODE_FILE)
		check_ok(pt_node_unlink(repo, node->parent, node->name));
	w->count++;
	return 0;
}

START_TEST(walk_sees_everything_once_and_may_change_it)
{
	uint64_t top = make(PT_NODE_ROOT, "top", PT_NODE_DIR), d = top;
	struct walking w = { .count = 0 };
	char name[16];

	for (int i = 0; i < 20; i++) {
		for (int j = 0; j < 5; j++) {
			snprintf(name, sizeof(name), "f%d", j);
			make(d, name, PT_NODE_FILE);
		}
		d = make(d, "d", PT_NODE_DIR);
	}
	for (int j = 0; j < 300; j++) {
		snprintf(name, sizeof(name), "%d", j);
		make(d, name, PT_NODE_FILE);
	}
	check_ok(pt_node_walk(repo, top, walk_one, &w));
	ck_assert_uint_eq(w.count, 20 * 6 + 300);
	ck_assert_uint_eq(w.depth_max, 20);
	w = (struct walking){ .remove = true };
	check_ok(pt_node_walk(repo, top, walk_one, &w));
	ck_assert_uint_eq(w.count, 20 * 6 + 300);
	w = (struct walking){ .count = 0 };
	check_ok(pt_node_walk(repo, top, walk_one, &w));
	ck_assert_uint_eq(w.count, 20);
}
END_TEST

START_TEST(walk_of_very_many_nodes)
{
	struct walking w = { .count = 0 };
	uint64_t d = 0;
	char name[16];

	for (int i = 0; i < 30000; i++) {
		if (i % 10000 == 0)
			d = make(PT_NODE_ROOT, i ? i > 10000 ? "c" : "b" : "a", PT_NODE_DIR);
		snprintf(name, sizeof(name), "%d", i);
		make(d, name, i % 2 ? PT_NODE_DIR : PT_NODE_FILE);
	}
	check_ok(pt_node_walk(repo, PT_NODE_ROOT, walk_one, &w));
	ck_assert_uint_eq(w.count, 30003);
	ck_assert_uint_eq(w.depth_max, 1);
}
END_TEST

#define CREATORS 8
#define EACH 12

static int creator(void *ctx)
{
	struct pt_node attrs = { .kind = PT_NODE_DIR, .mode = 0755 }, node;
	char name[32];

	repo = help_open(dir, NULL, NULL);
	for (int i = 0; i < EACH; i++) {
		snprintf(name, sizeof(name), "p%d-%d", (int)(intptr_t)ctx, i);
		check_ok(pt_node_create(repo, PT_NODE_ROOT, name, &attrs, &node));
		pt_node_done(&node);
		/* The shared name: one wins each time. */
		if (i < 4) {
			snprintf(name, sizeof(name), "shared/%d/key", i);
			help_key(repo, name);
		}
	}
	pt_repo_close(repo);
	return 0;
}

static int changer(void *ctx)
{
	struct pt_node node;
	int rc;

	(void)ctx;
	repo = help_open(dir, NULL, NULL);
	for (unsigned i = 1; i <= 10; i++)
		do {
			check_ok(pt_node_get(repo, PT_NODE_ROOT, &node));
			node.uid++;
			rc = pt_node_update(repo, &node);
			pt_node_done(&node);
		} while (rc == -EAGAIN);
	pt_repo_close(repo);
	return 0;
}

static int same_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct ids {
	uint64_t id[CREATORS * EACH + 64];
	unsigned count;
};

static int take_id(void *ctx, const char *key, const struct pt_node *node)
{
	struct ids *ids = ctx;

	(void)key;
	ids->id[ids->count++] = node->id;
	return 0;
}

START_TEST(processes_create_in_one_directory_and_lose_nothing)
{
	struct pt_node before, after;
	struct ids ids = { .count = 0 };
	pid_t pid[CREATORS + 1];

	check_ok(pt_node_get(repo, PT_NODE_ROOT, &before));
	pid[CREATORS] = help_spawn(changer, NULL);
	for (intptr_t i = 0; i < CREATORS; i++)
		pid[i] = help_spawn(creator, (void *)i);
	for (int i = 0; i <= CREATORS; i++)
		ck_assert_int_eq(help_join(pid[i]), 0);
	check_ok(pt_node_walk(repo, PT_NODE_ROOT, take_id, &ids));
	ck_assert_uint_eq(ids.count, CREATORS * EACH + 1 + 4 + 4);
	qsort(ids.id, ids.count, sizeof(ids.id[0]), same_ids);
	for (unsigned i = 1; i < ids.count; i++)
		ck_assert_uint_ne(ids.id[i], ids.id[i - 1]);
	check_ok(pt_node_get(repo, PT_NODE_ROOT, &after));
	ck_assert_uint_eq(after.uid, before.uid + 10);
	pt_node_done(&before);
	pt_node_done(&after);
}
END_TEST

static uint64_t arena;

/* Puts its directory into the other one. */
static int mover(void *ctx)
{
	bool second = ctx != NULL;
	struct pt_node into;
	int rc;

	repo = help_open(dir, NULL, NULL);
	rc = pt_node_lookup(repo, arena, second ? "a" : "b", &into);
	if (!rc) {
		rc = pt_node_rename(repo, arena, second ? "b" : "a", into.id, "in", false, false);
		pt_node_done(&into);
	}
	pt_repo_close(repo);
	return rc ? 1 : 0;
}

START_TEST(racing_renames_make_no_circle)
{
	char name[24];

	for (int i = 0; i < 8; i++) {
		struct walking w = { .count = 0 };
		pid_t one, two;

		snprintf(name, sizeof(name), "arena%d", i);
		arena = make(PT_NODE_ROOT, name, PT_NODE_DIR);
		make(arena, "a", PT_NODE_DIR);
		make(arena, "b", PT_NODE_DIR);
		one = help_spawn(mover, NULL);
		two = help_spawn(mover, &w);
		ck_assert_int_eq(help_join(one) + help_join(two), 1);
		check_ok(pt_node_walk(repo, arena, walk_one, &w));
		ck_assert_uint_eq(w.count, 2);
		ck_assert_uint_eq(w.depth_max, 1);
	}
}
END_TEST

static uint64_t models_of(uint64_t node)
{
	uint64_t version;

	check_ok(pt_node_models_version(repo, node, &version));
	return version;
}

static void contents_put(uint64_t id, enum pt_node_kind kind)
{
	struct pt_object_writer *w;
	struct pt_node node;

	check_ok(pt_node_get(repo, id, &node));
	check_ok(pt_plain_writer_create(repo, &w));
	check_ok(pt_object_writer_append(w, "bytes", 5));
	check_ok(pt_plain_writer_seal(w, &node.blob, &node.size));
	node.kind = kind;
	check_ok(pt_node_update(repo, &node));
	pt_node_done(&node);
}

#define CHANGES(node, call) do { uint64_t was = models_of(node); call; ck_assert_uint_ne(models_of(node), was); } while (0)
#define CHANGES_NOT(node, call) do { uint64_t was = models_of(node); call; ck_assert_uint_eq(models_of(node), was); } while (0)

START_TEST(model_files_and_nothing_else_change_the_number_of_their_directory)
{
	uint64_t d = make(PT_NODE_ROOT, "d", PT_NODE_DIR), e = make(PT_NODE_ROOT, "e", PT_NODE_DIR), file, plan, in_e;

	CHANGES_NOT(d, make(d, "key", PT_NODE_DIR));
	CHANGES_NOT(d, file = make(d, "w.npy", PT_NODE_FILE));
	CHANGES_NOT(d, contents_put(file, PT_NODE_FILE));
	CHANGES(d, contents_put(file, PT_NODE_CONTAINER));
	CHANGES(d, contents_put(file, PT_NODE_CONTAINER));
	CHANGES_NOT(d, make(d, "another", PT_NODE_DIR));
	CHANGES_NOT(d, check_ok(pt_node_rename(repo, d, "another", d, "third", false, false)));
	CHANGES(d, check_ok(pt_node_rename(repo, d, "w.npy", d, "v.npy", false, false)));
	in_e = models_of(e);
	CHANGES(d, check_ok(pt_node_rename(repo, d, "v.npy", e, "w.npy", false, false)));
	ck_assert_uint_ne(models_of(e), in_e);
	make(d, "plain", PT_NODE_FILE);
	in_e = models_of(e);
	CHANGES(d, check_ok(pt_node_rename(repo, d, "plain", e, "w.npy", false, true)));
	ck_assert_uint_ne(models_of(e), in_e);
	CHANGES(d, check_ok(pt_node_unlink(repo, d, "plain")));
	CHANGES_NOT(e, check_ok(pt_node_unlink(repo, e, "w.npy")));
	CHANGES(d, plan = make(d, "tp_plan.json", PT_NODE_FILE));
	CHANGES(d, contents_put(plan, PT_NODE_FILE));
	CHANGES(d, check_ok(pt_node_rename(repo, d, "tp_plan.json", d, "old", false, false)));
	CHANGES_NOT(d, contents_put(plan, PT_NODE_FILE));
	CHANGES(d, check_ok(pt_node_rename(repo, d, "old", d, "tp_plan.json", false, false)));
	CHANGES(d, contents_put(plan, PT_NODE_CONTAINER));
	CHANGES(d, contents_put(plan, PT_NODE_FILE));
	CHANGES(d, check_ok(pt_node_unlink(repo, d, "tp_plan.json")));
	check_ok(pt_node_rmdir(repo, d, "third"));
	check_ok(pt_node_rmdir(repo, d, "key"));
	check_ok(pt_node_rmdir(repo, PT_NODE_ROOT, "d"));
	ck_assert_uint_eq(models_of(d), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("node"), *big = tcase_create("many");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, create_look_up_and_remove);
	tcase_add_test(c, a_key_is_looked_up_with_two_questions_to_the_index);
	tcase_add_test(c, a_file_that_is_replaced_meanwhile_is_always_there);
	tcase_add_test(c, unlink_of_one_file_leaves_another_that_has_its_name_now);
	tcase_add_test(c, directory_of_a_tensor_is_not_empty);
	tcase_add_test(c, update_writes_attributes_once_and_entries_move_the_time);
	tcase_add_test(c, replaced_contents_live_while_pinned);
	tcase_add_test(c, two_names_may_refer_to_one_blob);
	tcase_add_test(c, rename_follows_posix);
	tcase_add_test(c, model_files_and_nothing_else_change_the_number_of_their_directory);
	tcase_add_test(c, revisions_and_pending_sets_move_along);
	tcase_add_test(c, keys_go_there_and_back);
	tcase_add_test(c, prune_stops_at_what_is_needed);
	tcase_add_test(c, processes_create_in_one_directory_and_lose_nothing);
	tcase_add_test(c, racing_renames_make_no_circle);
	tcase_add_checked_fixture(big, setup_memory, teardown);
	tcase_add_test(big, list_is_in_order_and_resumes);
	tcase_add_test(big, walk_sees_everything_once_and_may_change_it);
	tcase_add_test(big, walk_of_very_many_nodes);
	return run_suite("node", (TCase *[]){ c, big }, 2);
}
