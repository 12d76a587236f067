/* tests/unit/test_path.c - names and paths of the tree, both ways. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lib/suite.h"
#include "path/path.h"
#include "unit/rng.h"

static uint64_t seed;

/* Component of a key, and its one name in the tree. */
static const char *const components[][2] = {
	{ "w", "w" }, { "layers.0.q_proj.weight", "layers.0.q_proj.weight" }, { "step=120", "step=120" }, { "a b", "a b" },
	{ "gr\xc3\xb6\xc3\x9f" "e", "gr\xc3\xb6\xc3\x9f" "e" }, { "100%", "100%25" }, { "%66ull", "%2566ull" }, { "%", "%25" }, { "%%", "%25%25" },
	{ "full", "%66ull" }, { "shard", "%73hard" }, { "as_stored", "%61s_stored" }, { "full.npy", "%66ull.npy" }, { "shard.bin", "%73hard.bin" },
	{ "as_stored.obj", "%61s_stored.obj" }, { "full.pt", "%66ull.pt" }, { "full.safetensors", "%66ull.safetensors" },
	{ "full.txt", "full.txt" }, { "full.", "full." }, { "full.npy.gz", "full.npy.gz" }, { "fuller", "fuller" }, { "FULL", "FULL" },
	{ ".ptio.json", "%2Eptio.json" }, { ".ptio", "%2Eptio" }, { ".ptio.txt", ".ptio.txt" }, { "meta.json", "meta.json" },
	{ ".all.safetensors", "%2Eall.safetensors" }, { ".all.pt", "%2Eall.pt" }, { ".all.npy", ".all.npy" },
	{ ".", "%2E" }, { "..", "%2E." }, { "...", "..." }, { ".hidden", ".hidden" },
	{ "tp=0of2", "%74p=0of2" }, { "tp=", "%74p=" }, { "TP=1of4", "%54P=1of4" }, { "Dp=x", "%44p=x" }, { "ep=a%", "%65p=a%25" },
	{ "pp=3", "%70p=3" }, { "writer=0of1", "%77riter=0of1" }, { "Writer=", "%57riter=" }, { "tp", "tp" }, { "tp0=1", "tp0=1" }, { "writer", "writer" },
	{ "\x01\x7f", "\x01\x7f" },
};

START_TEST(each_component_has_one_name)
{
	char name[PT_PATH_COMPONENT_MAX + 1], back[PT_PATH_COMPONENT_MAX + 1];
	struct pt_path_name n;
	size_t i;

	for (i = 0; i < sizeof(components) / sizeof(components[0]); i++) {
		const char *component = components[i][0], *want = components[i][1];

		ck_assert_msg(pt_path_component_encode(component, name) == 0, "%s", component);
		ck_assert_str_eq(name, want);
		ck_assert_int_eq(pt_path_component_decode(want, back), 0);
		ck_assert_str_eq(back, component);
		ck_assert_int_eq(pt_path_classify(want, &n), 0);
		ck_assert_int_eq(n.kind, PT_PATH_PLAIN);
		ck_assert_str_eq(n.component, component);
		ck_assert_int_eq(pt_path_name_format(&n, name), 0);
		ck_assert_str_eq(name, want);
	}
}
END_TEST

START_TEST(any_other_spelling_is_refused)
{
	static const char *const bad[] = {
		"%", "%2", "a%", "a%2", "%zz", "%2e", "%66Ull", "%77", "%41", "%20", "a%20b", "%2F", "a%2Fb", "%00", "%66ull%2Enpy", "f%75ll", "%66ull.txt",
		"%66oo", "%74p", "%2E%2E", "%2E.x", "%74P=0of2%20", "%C3%B6", "%25%6", "%2eptio", "%66%75ll", "\xff", "a\xc3", "", ".", "..", "a/b", "/",
	};
	char component[PT_PATH_COMPONENT_MAX + 1] = "untouched";
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pt_fail_clear();
		ck_assert_msg(pt_path_component_decode(bad[i], component) == -EINVAL, "'%s' was taken as '%s'", bad[i], component);
		ck_assert_msg(*pt_fail_sentence(), "'%s' without a sentence", bad[i]);
	}
	ck_assert_str_eq(component, "untouched");
	ck_assert_int_eq(pt_path_component_encode("", component), -EINVAL);
	ck_assert_int_eq(pt_path_component_encode("a/b", component), -EINVAL);
}
END_TEST

START_TEST(names_end_at_255_bytes_once_encoded)
{
	char text[400], name[PT_PATH_COMPONENT_MAX + 1];
	struct pt_path_name n;

	memset(text, 'x', sizeof(text));
	text[255] = '\0';
	ck_assert_int_eq(pt_path_component_encode(text, name), 0);
	ck_assert_int_eq(pt_path_classify(text, &n), 0);
	text[0] = '%';
	ck_assert_int_eq(pt_path_component_encode(text, name), -ENAMETOOLONG);
	text[253] = '\0';
	ck_assert_int_eq(pt_path_component_encode(text, name), 0);
	ck_assert_uint_eq(strlen(name), 255);
	text[0] = text[253] = 'x';
	text[256] = '\0';
	text[255] = 'x';
	ck_assert_int_eq(pt_path_component_encode(text, name), -ENAMETOOLONG);
	ck_assert_int_eq(pt_path_component_decode(text, name), -ENAMETOOLONG);
	ck_assert_int_eq(pt_path_classify(text, &n), -ENAMETOOLONG);
	memcpy(text, "tp=0of2,step=", 13);
	ck_assert_int_eq(pt_path_classify(text, &n), -ENAMETOOLONG);
}
END_TEST

/* A name of a layout, and its canonical spelling. */
static const char *const layouts[][2] = {
	{ "tp=1of4", "tp=1of4" }, { "tp=0of1,dim=0", "tp=0of1,dim=0" }, { "tp=3of8,dim=63", "tp=3of8,dim=63" },
	{ "tp=0of2,step=a-b_C.9,dim=1", "tp=0of2,dim=1,step=a-b_C.9" }, { "tp=0of2,split=chunk", "tp=0of2,split=chunk" },
	{ "tp=0of2,step=1,split=balanced,dim=1", "tp=0of2,dim=1,split=balanced,step=1" },
	{ "dp=0", "dp=0" }, { "dp=7of8", "dp=7of8" }, { "dp=2147483646of2147483647", "dp=2147483646of2147483647" },
	{ "ep=0of2,expert=11", "ep=0of2,expert=11" }, { "ep=0,expert=-2147483648", "ep=0,expert=-2147483648" }, { "ep=5", "ep=5" },
	{ "pp=1of2,stage=0", "pp=1of2,stage=0" }, { "pp=1of2,stage=-3", "pp=1of2,stage=-3" },
	{ "writer=0of2", "writer=0of2" }, { "writer=1of2,step=x,dim=0", "writer=1of2,dim=0,step=x" },
	{ "writer=1of2,split=chunk,step=120", "writer=1of2,split=chunk,step=120" },
};

START_TEST(axes_and_partitions_read_back_as_written)
{
	char text[PT_PATH_COMPONENT_MAX + 1];
	struct pt_path_name n;
	size_t i;

	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		ck_assert_msg(pt_path_classify(layouts[i][0], &n) == 0, "%s: %s", layouts[i][0], pt_fail_sentence());
		ck_assert_int_eq(n.kind, layouts[i][0][0] == 'w' ? PT_PATH_PARTITION : PT_PATH_AXIS);
		ck_assert_int_eq(pt_path_name_format(&n, text), 0);
		ck_assert_str_eq(text, layouts[i][1]);
	}
	ck_assert_int_eq(pt_path_classify("tp=1of4,dim=2,step=s,split=chunk", &n), 0);
	ck_assert_int_eq(n.axis.kind, PT_AXIS_TP);
	ck_assert_int_eq(n.axis.rank, 1);
	ck_assert_int_eq(n.axis.size, 4);
	ck_assert_int_eq(n.axis.dim, 2);
	ck_assert_int_eq(n.split, PT_SPLIT_CHUNK);
	ck_assert_str_eq(n.step, "s");
	ck_assert_int_eq(pt_path_classify("ep=2", &n), 0);
	ck_assert_int_eq(n.axis.size, 0);
	ck_assert_int_eq(n.axis.dim, -1);
	ck_assert(!n.axis.has_id);
	ck_assert_int_eq(pt_path_classify("writer=2of3", &n), 0);
	ck_assert_int_eq(n.partition.rank, 2);
	ck_assert_int_eq(n.partition.size, 3);
	ck_assert_int_eq(n.partition.dim, -1);
}
END_TEST

START_TEST(malformed_axes_are_errors_never_keys)
{
	static const char *const bad[] = {
		"TP=1of4", "Tp=1of4", "tP=1of4", "DP=0", "Writer=0of2", "WRITER=0of2",
		"tp=4of4", "tp=5of4", "tp=01of4", "tp=1of04", "tp=+1of4", "tp=-1of4", "tp=1of0", "tp=0of0", "tp=1of-4", "tp=", "tp=1", "tp=of4", "tp=1of",
		"tp=1of4of5", "tp=1 of4", "tp=1of4 ", "tp=1of4,", "tp=1of4,,dim=0", "tp=1of4,dim", "tp=1of4,dim=", "tp=1of4,dim=-1",
		"tp=1of4,dim=00", "tp=1of4,dim=01", "tp=1of4,dim=64", "tp=1of4,dim=0,dim=0", "tp=1of4,dim=0x", "tp=1of4dim=0", "tp=1of4;dim=0",
		"tp=1of4,Dim=0", "tp=1of4,expert=0", "tp=1of4,stage=0", "tp=1of4,step=", "tp=1of4,step=a/b", "tp=1of4,step=a b", "tp=1of4,step=%61",
		"tp=1of4,step=a,step=a", "tp=1of4,split=", "tp=1of4,split=even", "tp=1of4,split=chunks", "tp=1of4,split=chunk,split=chunk",
		"tp=1of2147483648", "tp=0of99999999999999999999", "tp=1of4,dim=99999999999999999999", "tp=1of4,step=\xc3\xb6",
		"tp=1of4,step=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"dp=0,dim=0", "dp=0of2,step=x", "dp=2of2", "dp=-1", "dp=", "dp=x", "dp=0of", "dp=0,", "dp=00", "dp=2147483648", "dp=0,expert=1",
		"ep=0of2,stage=1", "ep=0,expert=", "ep=0,expert=01", "ep=0,expert=-0", "ep=0,expert=+1", "ep=0,expert=2147483648",
		"ep=0,expert=-2147483649", "ep=0,expert=1,expert=1", "ep=0,dim=0", "pp=0of2,expert=1", "pp=0,stage=1,", "pp=0of2,split=chunk",
		"writer=0", "writer=", "writer=2of2", "writer=0of2,expert=1", "writer=00of2", "writer=0of2,dim=-1", "writer=0of2,dim=64", "writer=0of2.npy",
		"tp=1of4.npy", "tp=1of4/",
	};
	struct pt_path_name n = { .kind = PT_PATH_CONTROL };
	struct pt_path p;
	char path[200];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pt_fail_clear();
		ck_assert_msg(pt_path_classify(bad[i], &n) == -EINVAL, "'%s' was taken", bad[i]);
		ck_assert_msg(*pt_fail_sentence(), "'%s' without a sentence", bad[i]);
		ck_assert_int_eq(n.kind, PT_PATH_CONTROL);
		if (strchr(bad[i], '/'))
			continue;
		snprintf(path, sizeof(path), "a/%s/full", bad[i]);
		ck_assert_int_eq(pt_path_parse(path, &p), -EINVAL);
	}
}
END_TEST

START_TEST(views_and_fixed_names_are_recognised)
{
	static const char *const views[] = { "full", "shard", "as_stored" };
	char text[PT_PATH_COMPONENT_MAX + 1], name[64];
	struct pt_path_name n;
	int v, f;

	for (v = 0; v < 3; v++) {
		for (f = 0; f <= PT_FORMAT_COUNT; f++) {
			snprintf(name, sizeof(name), "%s%s%s", views[v], f < PT_FORMAT_COUNT ? "." : "",
				 f < PT_FORMAT_COUNT ? pt_format_name((enum pt_format)f) : "");
			ck_assert_int_eq(pt_path_classify(name, &n), 0);
			ck_assert_int_eq(n.kind, PT_PATH_VIEW);
			ck_assert_int_eq(n.view, v);
			ck_assert_int_eq(n.format, f);
			ck_assert_int_eq(pt_path_name_format(&n, text), 0);
			ck_assert_str_eq(text, name);
		}
	}
	ck_assert_int_eq(pt_path_classify(".ptio.json", &n), 0);
	ck_assert_int_eq(n.kind, PT_PATH_INFO);
	ck_assert_int_eq(pt_path_classify(".ptio", &n), 0);
	ck_assert_int_eq(n.kind, PT_PATH_CONTROL);
	ck_assert_int_eq(pt_path_classify(".all.pt", &n), 0);
	ck_assert_int_eq(n.kind, PT_PATH_ALL);
	ck_assert_int_eq(n.format, PT_FORMAT_PT);
	ck_assert_int_eq(pt_path_name_format(&n, text), 0);
	ck_assert_str_eq(text, ".all.pt");
	ck_assert_int_eq(pt_path_classify(".all.safetensors", &n), 0);
	ck_assert_int_eq(n.format, PT_FORMAT_SAFETENSORS);
}
END_TEST

START_TEST(what_would_read_back_otherwise_is_not_written)
{
	struct pt_path_name bad[] = {
		{ .kind = PT_PATH_AXIS, .axis = { .kind = PT_AXIS_TP, .rank = 1, .size = 0, .dim = 0 } },
		{ .kind = PT_PATH_AXIS, .axis = { .kind = PT_AXIS_TP, .rank = 4, .size = 4, .dim = 0 } },
		{ .kind = PT_PATH_AXIS, .axis = { .kind = PT_AXIS_TP, .rank = 0, .size = 4, .dim = 64 } },
		{ .kind = PT_PATH_AXIS, .axis = { .kind = PT_AXIS_DP, .rank = 0, .size = 4, .dim = 0 } },
		{ .kind = PT_PATH_AXIS, .axis = { .kind = PT_AXIS_DP, .rank = 0, .size = 4, .dim = -1 }, .step = "x" },
		{ .kind = PT_PATH_AXIS, .axis = { .kind = PT_AXIS_DP, .rank = -1, .size = 4, .dim = -1 } },
		{ .kind = PT_PATH_AXIS, .axis = { .kind = PT_AXIS_KINDS, .rank = 0, .size = 4, .dim = -1 } },
		{ .kind = PT_PATH_PARTITION, .partition = { .rank = 0, .size = 0, .dim = -1 } },
		{ .kind = PT_PATH_PARTITION, .partition = { .rank = 0, .size = 1, .dim = -1 }, .step = "a/b" },
		{ .kind = PT_PATH_VIEW, .view = (enum pt_path_view)3, .format = PT_FORMAT_PT },
		{ .kind = PT_PATH_VIEW, .format = (enum pt_format)77 },
		{ .kind = PT_PATH_ALL, .format = PT_FORMAT_NPY },
		{ .kind = (enum pt_path_kind)99 },
		{ .kind = PT_PATH_PLAIN, .component = "" },
		{ .kind = PT_PATH_PLAIN, .component = "a/b" },
	};
	char text[PT_PATH_COMPONENT_MAX + 1] = "untouched";
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(pt_path_name_format(&bad[i], text) == -EINVAL, "name %zu was written as %s", i, text);
	ck_assert_str_eq(text, "untouched");
}
END_TEST

START_TEST(keys_are_checked)
{
	static const char *const bad[] = { "", "/", "a/", "/a", "a//b", "\xff", "a/\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xc3", "\x80" };
	static const char *const good[] = { "a", "a/b", ".", "../..", "full/full", "tp=1of4/x", "%", "a b", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf" };
	char key[PT_PATH_KEY_MAX + 2], path[PT_PATH_ENCODED_MAX + 1], back[PT_PATH_KEY_MAX + 1];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pt_fail_clear();
		ck_assert_msg(pt_path_key_check(bad[i]) == -EINVAL, "'%s' was taken", bad[i]);
		ck_assert(*pt_fail_sentence());
		ck_assert_int_eq(pt_path_for_key(bad[i], path), -EINVAL);
	}
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(pt_path_key_check(good[i]) == 0, "'%s': %s", good[i], pt_fail_sentence());
	memset(key, '%', sizeof(key));
	for (i = 85; i < sizeof(key); i += 86)
		key[i] = '/';
	key[1024] = '\0';
	ck_assert_int_eq(pt_path_for_key(key, path), 0);        /* components of exactly 255 bytes */
	ck_assert_int_eq(pt_path_to_key(path, back), 0);
	ck_assert_str_eq(back, key);
	key[1024] = '%';
	key[1025] = '\0';
	ck_assert_int_eq(pt_path_key_check(key), -ENAMETOOLONG);
	strcat(path, "%25");
	ck_assert_int_eq(pt_path_to_key(path, back), -ENAMETOOLONG);
	key[86] = '\0';
	key[85] = '%';
	ck_assert_int_eq(pt_path_key_check(key), -ENAMETOOLONG);
	ck_assert_int_eq(pt_path_to_key("a//b", back), -EINVAL);
	ck_assert_int_eq(pt_path_to_key("a/full", back), -EINVAL);
	ck_assert_int_eq(pt_path_to_key("a/tp=0of2", back), -EINVAL);
	ck_assert_int_eq(pt_path_to_key("", back), -EINVAL);
}
END_TEST

/* Keys put together from what is likely to be misread. */
static void random_key(struct rng *r, char key[PT_PATH_KEY_MAX + 1])
{
	static const char *const pieces[] = {
		"full", "shard", "as_stored", ".", "..", ".npy", ".pt", ".safetensors", ".bin", ".obj", ".ptio", ".json", ".all", "tp=", "dp=", "ep=", "pp=",
		"TP=", "writer=", "0of2", "1", ",dim=0", ",step=x", "%", "%25", "%66", "%2E", " ", "a", "weight", "layers.0", "\xc3\xb6", "\xe2\x82\xac",
		"\xf0\x9f\x98\x80", "-", "_", "=", ",", "\n", "\\", "\"", "~", "*",
	};
	size_t have = 0, count = rng_between(r, 1, 12), len;

	key[0] = '\0';
	while (count--) {
		const char *piece = pieces[rng_below(r, sizeof(pieces) / sizeof(pieces[0]))];

		len = strlen(piece);
		memcpy(key + have, piece, len + 1);
		have += len;
		if (count && !rng_below(r, 3))
			strcpy(key + have++, "/");
	}
	if (key[have - 1] == '/')
		key[have - 1] = '\0';
}

START_TEST(every_key_has_one_path)
{
	struct rng r = { seed };
	char key[PT_PATH_KEY_MAX + 1], path[PT_PATH_ENCODED_MAX + 1], back[PT_PATH_KEY_MAX + 1], other[PT_PATH_ENCODED_MAX + 1];
	struct pt_path p;
	int i;

	for (i = 0; i < 200000; i++) {
		random_key(&r, key);
		if (pt_path_for_key(key, path) < 0 || pt_path_to_key(path, back) < 0 || strcmp(key, back) ||
		    pt_path_parse(path, &p) < 0 || strcmp(key, p.key) || p.has_layout || p.has_view || p.info)
			ck_abort_msg("key '%s', path '%s': %s", key, path, pt_fail_sentence());
		/* The key taken for a path names itself or is refused or has another meaning; never another key. */
		if (pt_path_to_key(key, back) == 0 && (pt_path_for_key(back, other) < 0 || strcmp(other, key)))
			ck_abort_msg("'%s' and '%s' both name key '%s'", key, other, back);
	}
}
END_TEST

START_TEST(a_whole_path_is_taken_apart)
{
	struct pt_path p;

	ck_assert_int_eq(pt_path_parse("llama/w/tp=1of4,dim=0,step=7,split=chunk/dp=0/full.npy", &p), 0);
	ck_assert_str_eq(p.key, "llama/w");
	ck_assert_str_eq(p.dir, "tp=1of4,dim=0,step=7,split=chunk/dp=0");
	ck_assert(p.has_layout);
	ck_assert_uint_eq(p.layout.axis_count, 2);
	ck_assert_int_eq(p.layout.axis[0].kind, PT_AXIS_DP);
	ck_assert_int_eq(p.axis[0].kind, PT_AXIS_TP);   /* as the path has it */
	ck_assert_uint_eq(p.axis_count, 2);
	ck_assert_int_eq(p.split, PT_SPLIT_CHUNK);
	ck_assert_str_eq(p.step, "7");
	ck_assert(p.has_view);
	ck_assert_int_eq(p.view, PT_PATH_FULL);
	ck_assert_int_eq(p.format, PT_FORMAT_NPY);
	ck_assert(!p.has_partition);

	ck_assert_int_eq(pt_path_parse("/w//writer=1of2,dim=1/shard/", &p), 0);
	ck_assert_str_eq(p.key, "w");
	ck_assert(p.has_partition);
	ck_assert_int_eq(p.partition.dim, 1);
	ck_assert_int_eq(p.view, PT_PATH_SHARD);
	ck_assert_int_eq(p.format, PT_FORMAT_COUNT);

	ck_assert_int_eq(pt_path_parse("%66ull/%2E./.ptio.json", &p), 0);
	ck_assert_str_eq(p.key, "full/..");
	ck_assert(p.info);
	ck_assert(!p.has_layout);
	ck_assert_int_eq(pt_path_parse("", &p), 0);
	ck_assert_str_eq(p.key, "");
	ck_assert_int_eq(pt_path_parse("tp=0of2", &p), 0);
	ck_assert_str_eq(p.key, "");
	ck_assert(p.has_layout);
}
END_TEST

START_TEST(axis_order_in_a_path_does_not_matter)
{
	static const char *const part[] = { "dp=0of2", "tp=1of4,dim=1", "ep=1of2,expert=9", "pp=0of2,stage=3" };
	char path[200], text[PT_PATH_TEXT_MAX + 1];
	struct pt_path p;
	int i;

	for (i = 0; i < 256; i++) {
		int a = i & 3, b = i >> 2 & 3, c = i >> 4 & 3, d = i >> 6;

		if ((1 << a | 1 << b | 1 << c | 1 << d) != 15)
			continue;
		snprintf(path, sizeof(path), "k/%s/%s/%s/%s/shard.pt", part[a], part[b], part[c], part[d]);
		ck_assert_int_eq(pt_path_parse(path, &p), 0);
		ck_assert_int_eq(pt_path_format(&p, text), 0);
		ck_assert_str_eq(text, "k/dp=0of2/tp=1of4,dim=1/ep=1of2,expert=9/pp=0of2,stage=3/shard.pt");
	}
}
END_TEST

START_TEST(parts_that_do_not_fit_are_refused)
{
	static const struct {
		const char *path;
		int rc;
	} bad[] = {
		{ "a/dp=0/dp=0/full", -ENOENT }, { "a/dp=0/tp=0of2/dp=1", -ENOENT }, { "a/writer=0of2/writer=0of2/full", -ENOENT },
		{ "a/writer=0of2/dp=0/full", -EINVAL }, { "a/tp=0of2/writer=0of2/full", -EINVAL }, { "a/tp=0of2/b", -ENOENT },
		{ "a/tp=0of2/model.safetensors", -ENOENT }, { "a/writer=0of2/b/full", -ENOENT }, { "a/full/full", -ENOTDIR },
		{ "a/full/tp=0of2", -ENOTDIR }, { "a/.ptio.json/x", -ENOTDIR }, { "a/./full", -EINVAL }, { "a/../full", -EINVAL }, { "..", -EINVAL },
		{ "a/\xff/full", -EINVAL }, { "a/%zz", -EINVAL }, { "a/.ptio", -EINVAL }, { "a/.all.pt", -EINVAL },
	};
	struct pt_path p = { .key = "untouched" };
	char path[1200];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pt_fail_clear();
		ck_assert_msg(pt_path_parse(bad[i].path, &p) == bad[i].rc, "'%s': %s", bad[i].path, pt_fail_sentence());
		ck_assert(*pt_fail_sentence());
	}
	for (i = 0; i < 1025; i++)
		path[i] = i % 128 == 127 ? '/' : 'x';
	path[1025] = '\0';
	ck_assert_int_eq(pt_path_parse(path, &p), -ENAMETOOLONG);
	ck_assert_str_eq(p.key, "untouched");
	path[1023] = 'x';
	path[1024] = '\0';
	ck_assert_int_eq(pt_path_parse(path, &p), 0);
	ck_assert_uint_eq(strlen(p.key), 1024);
}
END_TEST

START_TEST(the_longest_path_is_written_and_read_back)
{
	char key[PT_PATH_KEY_MAX + 1], text[PT_PATH_TEXT_MAX + 1];
	struct pt_path p, back;
	size_t i;

	memset(key, '%', sizeof(key));
	for (i = 85; i < sizeof(key); i += 86)
		key[i] = '/';
	key[1024] = '\0';
	memset(&p, 0, sizeof(p));
	strcpy(p.key, key);
	for (i = 0; i < PT_AXIS_KINDS; i++)
		p.layout.axis[i] = (struct pt_axis){ .kind = (enum pt_axis_kind)i, .rank = INT32_MAX - 1, .size = INT32_MAX, .dim = i == PT_AXIS_TP ? 63 : -1,
						     .has_id = i > 1, .id = INT32_MIN };
	p.layout.axis_count = PT_AXIS_KINDS;
	p.split = PT_SPLIT_BALANCED;
	memset(p.step, 's', PT_PATH_STEP_MAX);
	p.has_view = true;
	p.view = PT_PATH_AS_STORED;
	p.format = PT_FORMAT_SAFETENSORS;
	ck_assert_int_eq(pt_path_format(&p, text), 0);
	ck_assert_int_eq(pt_path_parse(text, &back), 0);
	ck_assert_str_eq(back.key, key);
	ck_assert(pt_layout_equal(&back.layout, &p.layout));
	ck_assert_str_eq(back.step, p.step);
	ck_assert_int_eq(back.split, p.split);
	/* And what is no path is not written. */
	p.has_partition = true;
	p.partition = (struct pt_partition){ .rank = 0, .size = 1, .dim = -1 };
	ck_assert_int_eq(pt_path_format(&p, text), -EINVAL);
	p.has_partition = false;
	p.layout.axis[0] = p.layout.axis[1];
	ck_assert_int_eq(pt_path_format(&p, text), -ENOENT);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("path");

	seed = rng_seed(42);
	tcase_add_test(tcase, each_component_has_one_name);
	tcase_add_test(tcase, any_other_spelling_is_refused);
	tcase_add_test(tcase, names_end_at_255_bytes_once_encoded);
	tcase_add_test(tcase, axes_and_partitions_read_back_as_written);
	tcase_add_test(tcase, malformed_axes_are_errors_never_keys);
	tcase_add_test(tcase, views_and_fixed_names_are_recognised);
	tcase_add_test(tcase, what_would_read_back_otherwise_is_not_written);
	tcase_add_test(tcase, keys_are_checked);
	tcase_add_test(tcase, every_key_has_one_path);
	tcase_add_test(tcase, a_whole_path_is_taken_apart);
	tcase_add_test(tcase, axis_order_in_a_path_does_not_matter);
	tcase_add_test(tcase, parts_that_do_not_fit_are_refused);
	tcase_add_test(tcase, the_longest_path_is_written_and_read_back);
	return run_suite("path", &tcase, 1);
}
