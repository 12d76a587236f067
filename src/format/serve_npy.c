/* format/serve_npy.c - the header that numpy.save writes, byte for byte: room for the first dimension to grow to 21 digits, then
 * padding to a multiple of 64. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "format/serve_int.h"

int pt_serve_npy(const struct pt_serve_tensor *t, uint64_t bytes, struct pt_serve_builder *b)
{
	const struct pt_dtype_info *info = pt_dtype_info(t->dtype);
	struct pt_buf text = PT_BUF_INIT;
	char digits[24];
	int grow = 0;
	size_t total;
	uint32_t i;
	int rc = 0;

	pt_buf_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", info->npy);
	for (i = 0; i < t->shape.ndim; i++)
		pt_buf_printf(&text, i ? ", %" PRIu64 : "%" PRIu64, t->shape.dim[i]);
	pt_buf_append_str(&text, t->shape.ndim == 1 ? ",), }" : "), }");
	if (t->shape.ndim)
		grow = 21 - snprintf(digits, sizeof(digits), "%" PRIu64, t->shape.dim[0]);
	pt_buf_append_fill(&text, ' ', grow > 0 ? (size_t)grow : 0);
	total = 10 + text.len + 1;
	pt_buf_append_fill(&text, ' ', 64 - total % 64);
	pt_buf_append_str(&text, "\n");
	if (pt_buf_failed(&text)) {
		rc = pt_fail_nomem();
		goto out;
	}
	pt_buf_append(&b->out.literals, "\x93NUMPY\x01\x00", 8);
	pt_buf_append_le16(&b->out.literals, (uint16_t)text.len);
	pt_buf_append(&b->out.literals, text.data, text.len);
	pt_serve_payload(b, 0, bytes);
out:
	pt_buf_done(&text);
	return rc;
}
