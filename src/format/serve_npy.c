/* format/serve_npy.c - the header that numpy.save writes, byte for byte: room for the first dimension to grow to 21 digits, then
 * padding to a multiple of 64. */
#include <stdio.h>
#include <string.h>

#include "format/serve_int.h"

#define DECIMAL_MAX 20                  /* digits of a dimension */

/* Digits of v, without a NUL; their number. */
static size_t decimal(uint64_t v, char *ret_digits)
{
	char reversed[DECIMAL_MAX];
	size_t n = 0, i;

	do
		reversed[n++] = (char)('0' + v % 10);
	while (v /= 10);
	for (i = 0; i < n; i++)
		ret_digits[i] = reversed[n - 1 - i];
	return n;
}

int pt_serve_npy(const struct pt_serve_tensor *t, uint64_t bytes, struct pt_serve_builder *b)
{
	char text[128 + PT_DIMS_MAX * (DECIMAL_MAX + 2) + 21 + 64], *at = text, digits[DECIMAL_MAX];
	static const char magic[] = "\x93NUMPY\x01\x00";
	size_t head = sizeof(magic) - 1 + 2, pad;
	uint32_t i;

	at += snprintf(text, 128, "{'descr': '%s', 'fortran_order': False, 'shape': (", pt_dtype_info(t->dtype)->npy);
	for (i = 0; i < t->shape.ndim; i++) {
		if (i)
			at = stpcpy(at, ", ");
		at += decimal(t->shape.dim[i], at);
	}
	at = stpcpy(at, t->shape.ndim == 1 ? ",), }" : "), }");
	pad = t->shape.ndim ? 21 - decimal(t->shape.dim[0], digits) : 0;
	memset(at, ' ', pad);
	at += pad;
	pad = 64 - (head + (size_t)(at - text) + 1) % 64;
	memset(at, ' ', pad);
	at += pad;
	*at++ = '\n';
	pt_buf_append(&b->out.literals, magic, sizeof(magic) - 1);
	pt_buf_append_le16(&b->out.literals, (uint16_t)(at - text));
	pt_buf_append(&b->out.literals, text, (size_t)(at - text));
	pt_serve_payload(b, 0, bytes);
	return 0;
}
