/* fuzz/fuzz_pickle.c - the pickle machine: in pieces and whole it must end alike. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "format/pickle.h"
#include "format/repickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	uint64_t bytes;

	(void)ctx;
	if (pt_shape_bytes(&t->shape, t->dtype, &bytes) < 0)
		abort();
	return 0;
}

static int run(const uint8_t *data, size_t size, size_t piece, size_t *ret_used)
{
	struct pt_parse_ctx ctx = { .sink = { .tensor = on_tensor } };
	struct pt_pickle *p = NULL;
	size_t used;
	int rc = 0;

	*ret_used = 0;
	if (pt_pickle_create(&p) < 0)
		return 0;
	for (size_t off = 0; off < size && rc == 0; off += piece) {
		rc = pt_pickle_feed(p, data + off, size - off < piece ? size - off : piece, &used);
		if (rc >= 0)
			*ret_used += used;
	}
	if (rc == 1)
		rc = pt_pickle_announce(p, &ctx) < 0 ? -1 : 1;
	if (rc < 0 && pt_fail_sentence()[0] == '\0')
		abort();
	pt_pickle_trim(p);
	pt_pickle_free(p);
	return rc;
}

/* What is written again must be read again, with the same tensors under the same names. */
static void again(const uint8_t *data, size_t size)
{
	struct pt_repickle *r, *s;
	struct pt_serve_tensor *t;
	struct pt_buf out = PT_BUF_INIT;
	uint32_t *storage, i;
	size_t n;

	if (pt_repickle_create(data, size, &r) < 0)
		return;
	n = pt_repickle_tensor_count(r);
	t = calloc(n + 1, sizeof(*t));
	storage = calloc(n + 1, sizeof(*storage));
	for (i = 0; i < n; i++) {
		t[i] = (struct pt_serve_tensor){ .name = "", .dtype = i % 2 ? PT_DTYPE_F32 : PT_DTYPE_U16, .shape = { .ndim = 1, .dim = { i } } };
		storage[i] = i;
	}
	if (pt_repickle_emit(r, t, storage, &out) == 0) {
		int rc = pt_repickle_create(out.data, out.len, &s);

		if (out.len > size + PT_PICKLE_BYTES_MAX + n * 1024)
			abort();        /* it grows without bound */
		if (rc == -EFBIG || rc == -ENOMEM)
			goto out;
		if (rc < 0 || pt_repickle_tensor_count(s) != n || pt_repickle_name_count(s) != pt_repickle_name_count(r))
			abort();
		for (i = 0; i < pt_repickle_name_count(s); i++)
			if (pt_repickle_name_tensor(s, i) != pt_repickle_name_tensor(r, i))
				abort();
		pt_repickle_free(s);
	}
out:
	pt_repickle_free(r);
	pt_buf_done(&out);
	free(t);
	free(storage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t whole, pieces;
	int rc = run(data, size, size ? size : 1, &whole);

	if (run(data, size, 5, &pieces) != rc || (rc == 1 && whole != pieces))
		abort();
	again(data, size);
	return 0;
}
