/* tests/fuzz/fuzz_upload.c - any bytes as a file, at any row of the write table: an error with a sentence, or a tensor that reads back whole.
 * Byte 0 chooses the request, byte 1 the size of the pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tensor/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define READ_MAX (1u << 20)

static struct pt_repo *repo;
static uint64_t node;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, pt_fail_sentence());
	abort();
}

static void setup(void)
{
	struct pt_store_options so = { .create = true, .faults = "" };
	struct pt_store *store;
	struct pt_node n;

	must(!pt_store_open("mem:64M", &so, &store), "store");
	must(!pt_repo_open(store, NULL, &repo), "repo");
	must(!pt_node_by_key(repo, "k", true, &n), "node");
	node = n.id;
	pt_node_done(&n);
}

static struct pt_request request(uint8_t choice)
{
	struct pt_request r = { .target = choice & 1 ? PT_TARGET_SHARD : PT_TARGET_FULL };
	struct pt_axis tp = { .kind = PT_AXIS_TP, .rank = choice >> 5 & 1, .size = 2, .dim = (choice >> 6 & 3) - 1 };
	struct pt_axis dp = { .kind = PT_AXIS_DP, .size = 2, .dim = -1 };

	if (choice & 2)
		pt_layout_add(&r.layout, &tp);
	if (choice & 4)
		pt_layout_add(&r.layout, &dp);
	if (choice & 8) {
		r.has_partition = true;
		r.partition = (struct pt_partition){ .rank = tp.rank, .size = 2, .dim = tp.dim };
	}
	r.split = choice & 16 ? PT_SPLIT_CHUNK : PT_SPLIT_UNSET;
	return r;
}

static void read_back(const struct pt_request *req)
{
	struct pt_view *v;
	uint8_t *buf;

	if (pt_view_resolve(repo, node, req, &v))
		return;
	if (pt_view_info(v)->readable && pt_view_info(v)->bytes <= READ_MAX && !pt_view_pin(v)) {
		buf = malloc(pt_view_info(v)->bytes + 1);
		must(buf && !pt_view_read(v, buf, pt_view_info(v)->bytes, 0), "what was stored does not read back");
		free(buf);
		pt_view_unpin(v);
	}
	pt_view_unref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned runs;
	struct pt_upload_options o = { .format = PT_FORMAT_COUNT, .mode = 0644 };
	struct pt_published published;
	struct pt_gc_stats stats;
	struct pt_request req;
	struct pt_upload *u;
	size_t at, n, piece;
	int rc = 0;

	if (size < 2)
		return 0;
	if (!repo)
		setup();
	req = request(data[0]);
	piece = data[1] ? data[1] : size;
	pt_fail_clear();
	if (!pt_upload_open(repo, node, &req, &o, &u)) {
		for (at = 2; !rc && at < size; at += n) {
			n = size - at < piece ? size - at : piece;
			rc = pt_upload_feed(u, data + at, n);
		}
		if (!rc)
			rc = pt_upload_publish(u, &published);
		pt_upload_free(u);
		must(!rc || *pt_fail_sentence(), "no sentence");
		if (!rc)
			read_back(&req);
		req.target = PT_TARGET_FULL;
		req.has_partition = false;
		req.layout.axis_count = 0;
		read_back(&req);
	} else {
		must(*pt_fail_sentence() != 0, "no sentence");
	}
	if (++runs % 64 == 0)
		must(!pt_gc_run(repo, &stats), "gc");
	return 0;
}
