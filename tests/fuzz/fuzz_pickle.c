/* fuzz/fuzz_pickle.c - the pickle machine: in pieces and whole it must end alike. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "format/pickle.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t whole, pieces;
	int rc = run(data, size, size ? size : 1, &whole);

	if (run(data, size, 5, &pieces) != rc || (rc == 1 && whole != pieces))
		abort();
	return 0;
}
