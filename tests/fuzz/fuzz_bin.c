/* tests/fuzz/fuzz_bin.c - plain payloads of a described tensor on any bytes, in pieces of any size.
 *
 * Bytes 0 and 1 as in format_fuzz.h; byte 2: the number of dimensions (low 3 bits); then a byte a dimension, 255 being a huge one; then the file. */
#include "fuzz/format_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_shape shape = { 0 };
	uint8_t *file;
	size_t at = 3;
	int rc;

	if (size < 3 || size - 3 < (data[2] & 7))
		return 0;
	for (shape.ndim = 0; shape.ndim < (uint32_t)(data[2] & 7); shape.ndim++, at++)
		shape.dim[shape.ndim] = data[at] == 255 ? (uint64_t)1 << 40 : data[at];
	file = malloc(2 + size - at);
	if (!file)
		return 0;
	memcpy(file, data, 2);
	memcpy(file + 2, data + at, size - at);
	rc = fuzz_parse_shaped(PT_FORMAT_BIN, &shape, file, 2 + size - at);
	free(file);
	return rc;
}
