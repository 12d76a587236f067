/* layout/dtype.h - element types and how each format names them.
 *
 * Sizes are in bits because fp4 packs two elements a byte (even element first, in the low nibble). Shapes are
 * logical: an fp4 tensor's last dimension counts elements, as in safetensors; torch's float4_e2m1fn_x2
 * counts pairs. */
#ifndef PT_LAYOUT_DTYPE_H
#define PT_LAYOUT_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

/* Values are stored in records: append only. */
enum pt_dtype {
	PT_DTYPE_INVALID = 0,
	PT_DTYPE_BOOL = 1,
	PT_DTYPE_U8, PT_DTYPE_I8, PT_DTYPE_U16, PT_DTYPE_I16, PT_DTYPE_U32, PT_DTYPE_I32, PT_DTYPE_U64, PT_DTYPE_I64,
	PT_DTYPE_F16, PT_DTYPE_BF16, PT_DTYPE_F32, PT_DTYPE_F64, PT_DTYPE_C64, PT_DTYPE_C128,
	PT_DTYPE_F8_E4M3FN, PT_DTYPE_F8_E5M2, PT_DTYPE_F8_E4M3FNUZ, PT_DTYPE_F8_E5M2FNUZ, PT_DTYPE_F8_E8M0,
	PT_DTYPE_F4_E2M1,
	PT_DTYPE_COUNT
};

struct pt_dtype_info {
	enum pt_dtype dtype;
	uint32_t bits;                  /* bits an element: 4, 8, 16, 32, 64 or 128 */
	const char *name;               /* ptio's and torch's name: "bfloat16", "float8_e4m3fn", "float4_e2m1fn_x2" */
	const char *safetensors;        /* "BF16"; NULL: safetensors cannot express it */
	const char *npy;                /* descr ptio writes: "<f4", "<V2", "|u1"; NULL: npy cannot */
	const char *torch_storage;      /* "BFloat16Storage" (rebuild v2); NULL: UntypedStorage and rebuild v3 */
	int obj_code;                   /* tensor object dtype code 0..14; -1: none */
	int safetensors_rank;           /* order in which save_file writes dtypes (spec file-formats 3.2), 0 first = highest */
};

/* NULL for a value that is no dtype. */
const struct pt_dtype_info *pt_dtype_info(enum pt_dtype dtype);
/* PT_DTYPE_INVALID when unknown. */
enum pt_dtype pt_dtype_by_name(const char *name);
enum pt_dtype pt_dtype_by_safetensors(const char *name);
enum pt_dtype pt_dtype_by_obj_code(int32_t code);

#endif
