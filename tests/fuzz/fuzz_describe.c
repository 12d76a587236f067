/* The header of an object, as a rebuild of the index believes it: what decodes has a box within its shape, and a part that fits its rule. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/describe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_blob_ref blob = { .kind = PT_BLOB_TENSOR };
	struct pt_described d;
	uint64_t bytes;
	size_t i;

	for (i = 0; i < sizeof(blob.id.b); i++)
		blob.id.b[i] = (uint8_t)(((i * 2) % 16) << 4 | (i * 2 + 1) % 16);
	memset(&d, 0, sizeof(d));
	if (pt_described_decode(&blob, (const char *)data, size, 280, &d) < 0)
		return 0;
	if (pt_shape_bytes(&d.extent, d.part.dtype, &bytes) < 0 || bytes != 280 || !pt_box_within(&d.part.object.box, &d.part.shape) || strlen(d.key) > PT_KEY_MAX)
		abort();
	(void)pt_described_split(&d, PT_SPLIT_CHUNK);
	return 0;
}
