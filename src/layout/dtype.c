/* layout/dtype.c - the table of element types. Names and codes: spec file-formats 3.2 and 9, tensor-store-format a.2. */
#include "layout/dtype.h"

#include <stddef.h>
#include <string.h>

static const struct pt_dtype_info infos[PT_DTYPE_COUNT] = {
#define ROW(d, b, n, st, np, ts, oc, rank) \
	[PT_DTYPE_##d] = { PT_DTYPE_##d, b, n, st, np, ts, oc, rank }
	ROW(BOOL, 8, "bool", "BOOL", "|b1", "BoolStorage", 10, 21),
	ROW(U8, 8, "uint8", "U8", "|u1", "ByteStorage", 3, 17),
	ROW(I8, 8, "int8", "I8", "|i1", "CharStorage", 2, 16),
	ROW(U16, 16, "uint16", "U16", "<u2", NULL, 5, 9),
	ROW(I16, 16, "int16", "I16", "<i2", "ShortStorage", 4, 10),
	ROW(U32, 32, "uint32", "U32", "<u4", NULL, 7, 5),
	ROW(I32, 32, "int32", "I32", "<i4", "IntStorage", 6, 6),
	ROW(U64, 64, "uint64", "U64", "<u8", NULL, 9, 0),
	ROW(I64, 64, "int64", "I64", "<i8", "LongStorage", 8, 1),
	ROW(F16, 16, "float16", "F16", "<f2", "HalfStorage", 11, 8),
	ROW(BF16, 16, "bfloat16", "BF16", "<V2", "BFloat16Storage", 12, 7),
	ROW(F32, 32, "float32", "F32", "<f4", "FloatStorage", 0, 4),
	ROW(F64, 64, "float64", "F64", "<f8", "DoubleStorage", 1, 2),
	ROW(C64, 64, "complex64", "C64", "<c8", "ComplexFloatStorage", -1, 3),
	ROW(C128, 128, "complex128", NULL, "<c16", "ComplexDoubleStorage", -1, -1),
	ROW(F8_E4M3FN, 8, "float8_e4m3fn", "F8_E4M3", "<V1", NULL, 13, 14),
	ROW(F8_E5M2, 8, "float8_e5m2", "F8_E5M2", "<V1", NULL, 14, 15),
	ROW(F8_E4M3FNUZ, 8, "float8_e4m3fnuz", "F8_E4M3FNUZ", "<V1", NULL, -1, 12),
	ROW(F8_E5M2FNUZ, 8, "float8_e5m2fnuz", "F8_E5M2FNUZ", "<V1", NULL, -1, 11),
	ROW(F8_E8M0, 8, "float8_e8m0fnu", "F8_E8M0", "<V1", NULL, -1, 13),
	/* 18 and 19 are F6_E3M2 and F6_E2M3, which no torch dtype matches. */
	ROW(F4_E2M1, 4, "float4_e2m1fn_x2", "F4", NULL, NULL, -1, 20),
#undef ROW
};

const struct pt_dtype_info *pt_dtype_info(enum pt_dtype dtype)
{
	if (dtype <= PT_DTYPE_INVALID || dtype >= PT_DTYPE_COUNT)
		return NULL;
	return &infos[dtype];
}

enum pt_dtype pt_dtype_by_name(const char *name)
{
	unsigned d;

	for (d = PT_DTYPE_INVALID + 1; d < PT_DTYPE_COUNT; d++)
		if (!strcmp(infos[d].name, name))
			return (enum pt_dtype)d;
	return PT_DTYPE_INVALID;
}

enum pt_dtype pt_dtype_by_safetensors(const char *name)
{
	unsigned d;

	for (d = PT_DTYPE_INVALID + 1; d < PT_DTYPE_COUNT; d++)
		if (infos[d].safetensors && !strcmp(infos[d].safetensors, name))
			return (enum pt_dtype)d;
	return PT_DTYPE_INVALID;
}

enum pt_dtype pt_dtype_by_obj_code(int32_t code)
{
	unsigned d;

	if (code < 0)
		return PT_DTYPE_INVALID;
	for (d = PT_DTYPE_INVALID + 1; d < PT_DTYPE_COUNT; d++)
		if (infos[d].obj_code == code)
			return (enum pt_dtype)d;
	return PT_DTYPE_INVALID;
}
