/* tp_plan.json, a NUL, and a tensor's name to ask it about. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tree/tp_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_shape shape = { .ndim = 2, .dim = { 512, 256 } }, scale = { .ndim = 2, .dim = { 4, 2 } };
	const uint8_t *end = memchr(data, 0, size);
	size_t len = end ? (size_t)(end - data) : size;
	struct pt_tp_plan *plan = NULL;
	struct pt_tp_rule rule;
	struct pt_box box;
	char name[1100];
	size_t n = size - len > 1 ? size - len - 1 : 0;

	if (n >= sizeof(name))
		n = sizeof(name) - 1;
	memcpy(name, data + (n ? len + 1 : 0), n);
	name[n] = '\0';
	if (pt_tp_plan_parse((const char *)data, len, &plan) < 0)
		plan = NULL;
	pt_tp_plan_rule(plan, name, &shape, &rule);
	if (!rule.why || rule.dim < PT_TP_DIM_SCALE || rule.dim >= PT_DIMS_MAX)
		abort();
	pt_tp_scale_box(&shape, (int32_t)(n % 3), n % 512, 1, &scale, &box);
	pt_tp_plan_free(plan);
	return 0;
}
