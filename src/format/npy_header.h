/* format/npy_header.h - the text of an npy header: a Python dict literal with descr, fortran_order and shape. Internal to format/. */
#ifndef PT_FORMAT_NPY_HEADER_H
#define PT_FORMAT_NPY_HEADER_H

#include <stdbool.h>
#include <stddef.h>

#include "layout/box.h"

struct pt_npy_header {
	enum pt_dtype dtype;
	uint32_t swap_bytes;            /* units of this size are to be reversed (big-endian file), or 0 */
	bool fortran;
	struct pt_shape shape;
};

/* hint: what the target says, decides what a void type means. -EINVAL (malformed, or void without a fitting hint),
 * -EOPNOTSUPP (a type ptio has not), with a sentence. */
int pt_npy_header_read(const char *text, size_t len, enum pt_dtype hint, struct pt_npy_header *ret_header);

#endif
