/* tests/fuzz/fuzz_obj.c - tensor objects and manifests on any bytes: parsed in pieces, and what decodes is encoded again. */
#include "fuzz/format_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size)
{
	struct pt_obj_manifest m, m2;
	struct pt_layout layout;
	struct pt_obj o, o2;
	uint8_t bytes[PT_OBJ_HEADER];

	if (pt_obj_decode(data, size, UINT64_MAX, &o) == 0) {
		fuzz_require(pt_obj_encode(&o, bytes) == 0);
		fuzz_require(pt_obj_decode(bytes, sizeof(bytes), UINT64_MAX, &o2) == 0);
		fuzz_require(pt_shape_equal(&o.local_shape, &o2.local_shape) && o.axis_count == o2.axis_count && o.full == o2.full);
		if (pt_obj_layout(&o, &layout) == 0)
			fuzz_require(layout.axis_count == o.axis_count);
	}
	if (pt_obj_manifest_decode(data, size, &m) == 0) {
		pt_obj_manifest_encode(&m, bytes);
		fuzz_require(pt_obj_manifest_decode(bytes, PT_OBJ_MANIFEST, &m2) == 0);
		fuzz_require(pt_shape_equal(&m.global_shape, &m2.global_shape));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 2)
		decode(data + 2, size - 2);
	return fuzz_parse(PT_FORMAT_OBJ, data, size);
}
