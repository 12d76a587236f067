/* tests/fuzz/fuzz_safetensors.c - the safetensors parser on any bytes, in pieces of any size. */
#include "fuzz/format_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_parse(PT_FORMAT_SAFETENSORS, data, size);
}
