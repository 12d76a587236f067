/* format/pickle_value.c - memory of the pickle machine: its arrays, lists and dicts. */
#include "format/pickle_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

#define VALUE_MEM_MAX ((uint64_t)384 << 20)

int pt_pickle_create(struct pt_pickle **ret_p)
{
	struct pt_pickle *p = pt_calloc(1, sizeof(*p));

	if (!p)
		return pt_fail_nomem();
	*ret_p = p;
	return 0;
}

void pt_pickle_trim(struct pt_pickle *p)
{
	pt_buf_done(&p->buf);
	free(p->stack);
	free(p->memo);
	free(p->cells);
	free(p->containers);
	free(p->items);
	free(p->tensors);
	free(p->dims);
	p->stack = p->memo = p->cells = NULL;
	p->containers = NULL;
	p->items = NULL;
	p->tensors = NULL;
	p->dims = NULL;
	p->stack_len = p->memo_len = p->cell_count = p->container_count = p->item_count = p->tensor_count = p->dim_count = 0;
	p->stack_cap = p->memo_cap = p->cell_cap = p->container_cap = p->item_cap = p->tensor_cap = p->dim_cap = 0;
	pt_namemap_done(&p->dict_keys);
}

void pt_pickle_free(struct pt_pickle *p)
{
	if (!p)
		return;
	pt_pickle_trim(p);
	free(p->storages);
	pt_buf_done(&p->keys);
	pt_namemap_done(&p->storage_map);
	free(p);
}

int pt_pickle_grow(struct pt_pickle *p, void *array, size_t *cap, size_t need, size_t size)
{
	size_t next = *cap;
	uint64_t more;
	void *old, *mem;

	if (need <= *cap)
		return 0;
	while (next < need)
		next = next ? next + next / 2 : 64;
	more = (uint64_t)(next - *cap) * size;
	if (more > VALUE_MEM_MAX - p->mem)
		return pt_fail(EFBIG, "data.pkl makes more than %llu MiB of values; save tensors apart from other data, or in several files",
			       (unsigned long long)(VALUE_MEM_MAX >> 20));
	memcpy(&old, array, sizeof(old));
	mem = pt_reallocarray(old, next, size);
	if (!mem)
		return pt_fail_nomem();
	memcpy(array, &mem, sizeof(mem));
	*cap = next;
	p->mem += more;
	return 0;
}

const char *pt_pickle_quote(const void *s, size_t len, char buf[PT_PICKLE_QUOTE])
{
	const uint8_t *b = s;
	size_t n = len < PT_PICKLE_QUOTE - 4 ? len : PT_PICKLE_QUOTE - 4;

	for (size_t i = 0; i < n; i++)
		buf[i] = b[i] >= 0x20 && b[i] < 0x7f ? (char)b[i] : b[i] == '\n' ? '.' : '?';
	if (n < len) {
		memcpy(buf + n, "...", 3);
		n += 3;
	}
	buf[n] = '\0';
	return buf;
}

int pt_pickle_container_add(struct pt_pickle *p, uint64_t *ret_container)
{
	int rc = pt_pickle_grow(p, &p->containers, &p->container_cap, p->container_count + 1, sizeof(*p->containers));

	if (rc < 0)
		return rc;
	p->containers[p->container_count] = (struct pt_pickle_container){ .first = UINT32_MAX, .last = UINT32_MAX };
	*ret_container = p->container_count++;
	return 0;
}

/* Dicts: a key that is set twice would leave two readers with two ideas of the file. */
int pt_pickle_dict_key(struct pt_pickle *p, uint64_t container, struct pt_pv key)
{
	uint64_t part[3] = { container, key.tag, key.v };
	char q[PT_PICKLE_QUOTE];
	int rc;

	if (key.tag == PT_PV_STR)
		part[2] = pt_hash64(p->buf.data + key.v, key.n);
	else if (key.tag == PT_PV_BOOL)
		part[1] = PT_PV_INT;
	else if (key.tag != PT_PV_INT)
		return 0;
	rc = pt_namemap_put(&p->dict_keys, pt_hash64(part, sizeof(part)), 0, NULL);
	if (rc <= 0)
		return rc;
	if (key.tag == PT_PV_STR)
		return pt_fail(EINVAL, "data.pkl sets the key \"%s\" twice in one dict; save the file again",
			       pt_pickle_quote(p->buf.data + key.v, key.n, q));
	return pt_fail(EINVAL, "data.pkl sets the key %lld twice in one dict; save the file again", (long long)key.v);
}

int pt_pickle_add(struct pt_pickle *p, uint64_t container, struct pt_pv key, struct pt_pv value)
{
	struct pt_pickle_container *c;
	bool keep = value.tag == PT_PV_TENSOR || value.tag == PT_PV_LIST || value.tag == PT_PV_DICT ||
		(value.tag == PT_PV_TUPLE && value.n > 0);
	int rc;

	if (keep) {
		rc = pt_pickle_grow(p, &p->items, &p->item_cap, p->item_count + 1, sizeof(*p->items));
		if (rc < 0)
			return rc;
	}
	c = &p->containers[container];
	c->count++;
	if (!keep)
		return 0;
	p->items[p->item_count] = (struct pt_pickle_item){ .key = key, .value = value, .next = UINT32_MAX };
	if (c->last == UINT32_MAX)
		c->first = (uint32_t)p->item_count;
	else
		p->items[c->last].next = (uint32_t)p->item_count;
	c->last = (uint32_t)p->item_count++;
	return 0;
}
