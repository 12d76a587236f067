/* A container's blob: the hash at its end is made right first, so that the bytes are looked at. What decodes must be safe to walk: every name, shape and segment. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "tree/container.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(struct pt_container *c)
{
	uint64_t at = 0, sum = 0;
	struct pt_parse_tensor t;
	struct pt_manifest *m;
	uint8_t buf[512];
	uint32_t i;

	for (i = 0; i < c->segment_count; i++) {
		/* Literals are read as they would be; objects need a store. */
		if (c->segments[i].object == PT_CONTAINER_LITERAL && c->segments[i].end - at <= sizeof(buf) &&
		    pt_container_read(c, buf, c->segments[i].end - at, at) != (int64_t)(c->segments[i].end - at))
			abort();
		at = c->segments[i].end;
	}
	if (at != c->size)
		abort();
	for (i = 0; i < c->tensor_count && i < 1000; i++) {
		pt_container_tensor(c, i, &t);
		sum += strlen(t.name) + t.shape.ndim;
		if (c->bundle || pt_container_manifest(c, i, &m, &t) < 0)
			continue;
		pt_manifest_unref(m);
	}
	for (i = 0; i < c->round_count; i++) {
		const struct pt_container_round *r = &c->rounds[i];
		const char *name = r->names;
		uint32_t k;

		for (k = 0; k < r->name_count; k++)
			name += strlen(name) + 1;
		sum += strlen(r->scope) + strlen(r->step) + (uint64_t)(name - r->names) + r->ranks[r->rank_bytes - 1];
	}
	(void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_container *c;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (size >= 8)
		pt_put_le64(copy + size - 8, pt_hash64(copy, size - 8));
	if (pt_container_decode(copy, size, &c) == 0) {
		walk(c);
		pt_container_unref(c);
	} else {
		free(copy);
	}
	return 0;
}
