/* format/pickle_torch.c - what the known globals of torch's pickles mean: storages, tensors, and values to drop.
 *
 * The list is that of docs/SPEC.md (what torch.save writes for tensors, state dicts and plain values). A name outside it is refused. */
#include "format/pickle_int.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"

struct known_global {
	const char *module, *name;
	enum pt_pickle_global what;
};

static const struct known_global globals_known[] = {
	{ "torch._utils", "_rebuild_tensor_v2", PT_PG_TENSOR_V2 },
	{ "torch._utils", "_rebuild_tensor_v3", PT_PG_TENSOR_V3 },
	{ "torch._utils", "_rebuild_parameter", PT_PG_PARAMETER },
	{ "torch._utils", "_rebuild_parameter_with_state", PT_PG_PARAMETER_STATE },
	{ "torch._tensor", "_rebuild_from_type_v2", PT_PG_FROM_TYPE },
	{ "torch", "Tensor", PT_PG_TENSOR_TYPE },
	{ "torch._tensor", "Tensor", PT_PG_TENSOR_TYPE },
	{ "torch.nn.parameter", "Parameter", PT_PG_TENSOR_TYPE },
	{ "collections", "OrderedDict", PT_PG_ORDERED_DICT },
	{ "torch.storage", "UntypedStorage", PT_PG_STORAGE },
	{ "torch", "UntypedStorage", PT_PG_STORAGE },
	{ "torch", "Size", PT_PG_PLAIN },
	{ "torch", "device", PT_PG_PLAIN },
	{ "torch.serialization", "_get_layout", PT_PG_PLAIN },
	{ "collections", "Counter", PT_PG_PLAIN },
	{ "_codecs", "encode", PT_PG_PLAIN },
	{ "__builtin__", "set", PT_PG_PLAIN },
	{ "__builtin__", "frozenset", PT_PG_PLAIN },
	{ "__builtin__", "bytearray", PT_PG_PLAIN },
	{ "__builtin__", "complex", PT_PG_PLAIN },
	{ "builtins", "set", PT_PG_PLAIN },
	{ "builtins", "frozenset", PT_PG_PLAIN },
	{ "builtins", "bytearray", PT_PG_PLAIN },
	{ "builtins", "complex", PT_PG_PLAIN },
};

/* Names under "torch._utils" or "torch" that deserve a better sentence than "not known". */
struct refused_global {
	const char *module, *prefix;
	int err;
	const char *why;
};

static const struct refused_global globals_refused[] = {
	{ "torch._utils", "_rebuild_qtensor", EOPNOTSUPP, "ptio has no quantized types: dequantize() the tensor before saving" },
	{ "torch", "Q", EOPNOTSUPP, "ptio has no quantized types: dequantize() the tensor before saving" },
	{ "torch._utils", "_rebuild_sparse", EINVAL, "ptio stores dense tensors only: to_dense() the tensor before saving" },
	{ "torch._utils", "_rebuild_nested", EINVAL, "ptio stores dense tensors only: unbind() the nested tensor before saving" },
	{ "torch._utils", "_rebuild_meta", EINVAL, "a meta tensor has no data: materialise it before saving" },
	{ "torch._utils", "_rebuild_wrapper", EINVAL, "the tensor is of a subclass: save its plain tensors" },
	{ "torch._utils", "_rebuild_device", EINVAL, "the tensor is of a device that saves through numpy: cpu() it before saving" },
	{ "torch.distributed", "", EINVAL, "distributed tensors are not taken: save each rank's to_local()" },
	{ "__torch__", "", EINVAL, "this is a TorchScript archive: save the module's state_dict() instead" },
	{ "numpy", "", EINVAL, "numpy values are not taken: save torch tensors and plain Python values" },
};

/* dtypes that torch has and ptio has not. */
static const char *const dtypes_refused[] = {
	"complex32", "quint8", "qint8", "qint32", "quint4x2", "quint2x4", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2",
	"int1", "int2", "int3", "int4", "int5", "int6", "int7", "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
};

/* --- globals -------------------------------------------------------------- */

static bool text_is(const char *s, size_t len, const char *want)
{
	return strlen(want) == len && memcmp(s, want, len) == 0;
}

/* want itself, or a name below it: "torch.distributed.tensor". */
static bool module_is(const char *s, size_t len, const char *want)
{
	size_t n = strlen(want);

	return len >= n && memcmp(s, want, n) == 0 && (len == n || s[n] == '.');
}

static enum pt_dtype storage_class_dtype(const char *name, size_t len)
{
	for (int d = PT_DTYPE_INVALID + 1; d < PT_DTYPE_COUNT; d++) {
		const struct pt_dtype_info *i = pt_dtype_info((enum pt_dtype)d);

		if (i && i->torch_storage && text_is(name, len, i->torch_storage))
			return i->dtype;
	}
	return PT_DTYPE_INVALID;
}

/* False: no dtype's name. *ret_dtype is PT_DTYPE_INVALID for one that ptio has not. */
static bool torch_dtype(const char *name, size_t len, enum pt_dtype *ret_dtype)
{
	for (int d = PT_DTYPE_INVALID + 1; d < PT_DTYPE_COUNT; d++) {
		const struct pt_dtype_info *i = pt_dtype_info((enum pt_dtype)d);

		if (i && text_is(name, len, i->name)) {
			*ret_dtype = i->dtype;
			return true;
		}
	}
	for (size_t i = 0; i < sizeof(dtypes_refused) / sizeof(dtypes_refused[0]); i++) {
		if (text_is(name, len, dtypes_refused[i])) {
			*ret_dtype = PT_DTYPE_INVALID;
			return true;
		}
	}
	return false;
}

static int global_refuse(const char *module, size_t module_len, const char *name, size_t name_len)
{
	char q[PT_PICKLE_QUOTE];

	pt_pickle_quote(module, module_len + 1 + name_len, q);
	for (size_t i = 0; i < sizeof(globals_refused) / sizeof(globals_refused[0]); i++) {
		const struct refused_global *r = &globals_refused[i];
		size_t n = strlen(r->prefix);
		bool hit = n > 0 ? text_is(module, module_len, r->module) && name_len >= n && memcmp(name, r->prefix, n) == 0 :
			module_is(module, module_len, r->module);

		if (hit)
			return pt_fail(r->err, "data.pkl names %s: %s", q, r->why);
	}
	return pt_fail(EINVAL, "data.pkl names %s, which ptio does not run or know: save a state dict of plain tensors and values", q);
}

int pt_pickle_global_resolve(struct pt_pickle *p, size_t at, size_t module_len, size_t name_len, struct pt_pv *ret_v)
{
	const char *module = (const char *)p->buf.data + at;
	const char *name = module + module_len + 1;
	struct pt_pv v = { .tag = PT_PV_GLOBAL, .v = at };
	enum pt_dtype dtype;

	for (size_t i = 0; i < sizeof(globals_known) / sizeof(globals_known[0]); i++) {
		const struct known_global *g = &globals_known[i];

		if (text_is(module, module_len, g->module) && text_is(name, name_len, g->name)) {
			v.sub = (uint8_t)g->what;
			*ret_v = v;
			return 0;
		}
	}
	if (text_is(module, module_len, "torch")) {
		dtype = storage_class_dtype(name, name_len);
		if (dtype != PT_DTYPE_INVALID) {
			v.sub = PT_PG_STORAGE;
			v.n = dtype;
			*ret_v = v;
			return 0;
		}
		if (torch_dtype(name, name_len, &dtype)) {
			v.sub = PT_PG_DTYPE;
			v.n = dtype;
			*ret_v = v;
			return 0;
		}
	}
	return global_refuse(module, module_len, name, name_len);
}

/* --- storages ------------------------------------------------------------- */

static int torch_bad(const struct pt_pickle *p, const char *what)
{
	return pt_fail(EINVAL, "data.pkl is damaged at byte %zu: %s; save the file again", p->pos, what);
}

/* Bytes of a storage unit: an element, for fp4 a pair. */
static uint64_t unit_bytes(enum pt_dtype dtype)
{
	uint32_t bits = pt_dtype_info(dtype)->bits;

	return bits < 8 ? 1 : bits / 8;
}

static int storage_add(struct pt_pickle *p, const char *key, size_t len, uint64_t bytes, uint32_t *ret_storage)
{
	uint64_t hash = pt_hash64(key, len);
	char q[PT_PICKLE_QUOTE];
	uint32_t old;
	int rc;

	if (pt_namemap_find(&p->storage_map, hash, &old)) {
		const struct pt_pickle_storage *s = &p->storages[old];

		if (s->key_len != len || memcmp(p->keys.data + s->key_off, key, len) != 0)
			return torch_bad(p, "two storage keys collide");
		if (s->bytes != bytes)
			return pt_fail(EINVAL, "data.pkl gives storage %s two sizes, %llu and %llu bytes; save the file again",
				       pt_pickle_quote(key, len, q), (unsigned long long)s->bytes, (unsigned long long)bytes);
		*ret_storage = old;
		return 0;
	}
	rc = pt_pickle_grow(p, &p->storages, &p->storage_cap, p->storage_count + 1, sizeof(*p->storages));
	if (rc < 0)
		return rc;
	rc = pt_namemap_put(&p->storage_map, hash, (uint32_t)p->storage_count, NULL);
	if (rc < 0)
		return rc;
	p->storages[p->storage_count] = (struct pt_pickle_storage){
		.bytes = bytes, .key_off = (uint32_t)p->keys.len, .key_len = (uint32_t)len
	};
	pt_buf_append(&p->keys, key, len);
	if (pt_buf_failed(&p->keys))
		return pt_fail_nomem();
	*ret_storage = (uint32_t)p->storage_count++;
	return 0;
}

/* ("storage", class, key, location, count) */
int pt_pickle_persid(struct pt_pickle *p, struct pt_pv id, struct pt_pv *ret_v)
{
	const struct pt_pv *f;
	const char *key;
	uint64_t bytes = 0;
	uint32_t storage = 0;
	int rc;

	if (id.tag != PT_PV_TUPLE || id.n != 5)
		return torch_bad(p, "a persistent id that is no storage");
	f = p->cells + id.v;
	if (f[0].tag != PT_PV_STR || !text_is((const char *)p->buf.data + f[0].v, f[0].n, "storage"))
		return torch_bad(p, "a persistent id that is no storage");
	if (f[1].tag != PT_PV_GLOBAL || f[1].sub != PT_PG_STORAGE)
		return torch_bad(p, "a storage of no known class");
	if (f[2].tag != PT_PV_STR || f[2].n == 0 || f[2].n > PT_PICKLE_KEY_MAX)
		return torch_bad(p, "a storage without a proper key");
	key = (const char *)p->buf.data + f[2].v;
	for (uint32_t i = 0; i < f[2].n; i++)
		if (key[i] <= 0x20 || key[i] >= 0x7f || key[i] == '/')
			return torch_bad(p, "a storage without a proper key");
	if (f[4].tag != PT_PV_INT || (int64_t)f[4].v < 0 ||
	    !pt_size_mul(f[4].v, f[1].n == PT_DTYPE_INVALID ? 1 : unit_bytes((enum pt_dtype)f[1].n), &bytes) ||
	    bytes > PT_TENSOR_BYTES_MAX)
		return torch_bad(p, "a storage whose size is negative or out of range");
	rc = storage_add(p, key, f[2].n, bytes, &storage);
	if (rc < 0)
		return rc;
	*ret_v = (struct pt_pv){ .tag = PT_PV_STORAGE, .n = f[1].n, .v = storage };
	return 0;
}

uint32_t pt_pickle_storage_count(const struct pt_pickle *p)
{
	return (uint32_t)p->storage_count;
}

uint64_t pt_pickle_storage_bytes(const struct pt_pickle *p, uint32_t storage)
{
	return p->storages[storage].bytes;
}

const char *pt_pickle_storage_key(const struct pt_pickle *p, uint32_t storage, size_t *ret_len)
{
	*ret_len = p->storages[storage].key_len;
	return (const char *)p->keys.data + p->storages[storage].key_off;
}

bool pt_pickle_storage_find(const struct pt_pickle *p, const char *key, size_t key_len, uint32_t *ret_storage)
{
	const struct pt_pickle_storage *s;
	uint32_t storage;

	if (!pt_namemap_find(&p->storage_map, pt_hash64(key, key_len), &storage))
		return false;
	s = &p->storages[storage];
	if (s->key_len != key_len || memcmp(p->keys.data + s->key_off, key, key_len) != 0)
		return false;
	*ret_storage = storage;
	return true;
}

/* --- tensors -------------------------------------------------------------- */

static int ints_check(const struct pt_pickle *p, struct pt_pv t, const char *what)
{
	if (t.tag != PT_PV_TUPLE)
		return torch_bad(p, what);
	for (uint32_t i = 0; i < t.n; i++)
		if (p->cells[t.v + i].tag != PT_PV_INT || (int64_t)p->cells[t.v + i].v < 0)
			return torch_bad(p, what);
	return 0;
}

/* Storage units from the tensor's first to one past its last; false on overflow. dims and strides, no dim 0. */
static bool tensor_extent(const uint64_t *dim, const uint64_t *stride, uint32_t ndim, uint64_t *ret_units)
{
	uint64_t sum = 1, part;

	for (uint32_t i = 0; i < ndim; i++)
		if (!pt_size_mul(dim[i] - 1, stride[i], &part) || !pt_size_add(sum, part, &sum))
			return false;
	*ret_units = sum;
	return true;
}

static bool tensor_contiguous(const uint64_t *dim, const uint64_t *stride, uint32_t ndim)
{
	uint64_t want = 1;

	for (uint32_t i = ndim; i-- > 0;) {
		if (dim[i] == 1)
			continue;
		if (stride[i] != want)
			return false;
		want *= dim[i];
	}
	return true;
}

static int tensor_dtype(const struct pt_pickle *p, bool v3, const struct pt_pv *a, uint32_t n, enum pt_dtype *ret_dtype)
{
	char q[PT_PICKLE_QUOTE];
	const uint8_t *text;

	if (!v3) {
		if (a[0].n == PT_DTYPE_INVALID)
			return torch_bad(p, "a tensor whose storage has no dtype");
		*ret_dtype = (enum pt_dtype)a[0].n;
		return 0;
	}
	if (n < 7 || a[6].tag != PT_PV_GLOBAL || a[6].sub != PT_PG_DTYPE)
		return torch_bad(p, "a tensor without a dtype");
	if (a[6].n == PT_DTYPE_INVALID) {
		text = p->buf.data + a[6].v + strlen("torch") + 1;
		return pt_fail(EOPNOTSUPP, "data.pkl holds a tensor of dtype torch.%s, which ptio has not: convert it before saving",
			       pt_pickle_quote(text, (size_t)((const uint8_t *)memchr(text, '\n', p->buf.len - (size_t)(text - p->buf.data)) - text), q));
	}
	*ret_dtype = (enum pt_dtype)a[6].n;
	return 0;
}

/* Fills dims[] from size and stride tuples of n dims; logical sizes. */
static int tensor_place(struct pt_pickle *p, enum pt_dtype dtype, uint64_t off, const uint64_t *size, const uint64_t *stride,
			uint32_t ndim, uint32_t storage)
{
	struct pt_pickle_tensor t = { .storage = storage, .dtype = (uint8_t)dtype, .ndim = (uint8_t)ndim, .dims = p->dim_count,
				      .contiguous = true };
	struct pt_shape shape = { .ndim = ndim };
	uint64_t unit = unit_bytes(dtype), extent = 0, end;
	bool empty = false;
	int rc;

	for (uint32_t i = 0; i < ndim; i++) {
		empty = empty || size[i] == 0;
		shape.dim[i] = size[i];
	}
	if (dtype == PT_DTYPE_F4_E2M1) {
		if (ndim == 0)
			return pt_fail(EOPNOTSUPP, "data.pkl holds a float4_e2m1fn_x2 tensor without dimensions, which ptio has not: reshape it to (1,)");
		if (!pt_size_mul(size[ndim - 1], 2, &shape.dim[ndim - 1]))
			return torch_bad(p, "a tensor whose size is out of range");
	}
	if (pt_shape_bytes(&shape, dtype, &t.bytes) < 0)
		return torch_bad(p, "a tensor whose size is out of range");
	if (!empty) {
		if (!tensor_extent(size, stride, ndim, &extent) || !pt_size_add(off, extent, &end) || !pt_size_mul(end, unit, &end) ||
		    end > p->storages[storage].bytes)
			return torch_bad(p, "a tensor that reaches beyond its storage");
		t.storage_off = off * unit;
		t.contiguous = tensor_contiguous(size, stride, ndim);
	}
	rc = pt_pickle_grow(p, &p->dims, &p->dim_cap, p->dim_count + 2 * (size_t)ndim, sizeof(*p->dims));
	if (rc == 0)
		rc = pt_pickle_grow(p, &p->tensors, &p->tensor_cap, p->tensor_count + 1, sizeof(*p->tensors));
	if (rc < 0)
		return rc;
	if (ndim > 0) {
		memcpy(p->dims + p->dim_count, shape.dim, ndim * sizeof(*p->dims));
		memcpy(p->dims + p->dim_count + ndim, stride, ndim * sizeof(*p->dims));
	}
	p->dim_count += 2 * (size_t)ndim;
	p->tensors[p->tensor_count++] = t;
	return 0;
}

/* (storage, offset, size, stride, requires_grad, hooks[, dtype in v3][, metadata]) */
static int tensor_build(struct pt_pickle *p, bool v3, struct pt_pv args, struct pt_pv *ret_v)
{
	uint64_t size[PT_DIMS_MAX], stride[PT_DIMS_MAX];
	uint32_t least = v3 ? 7 : 6;
	const struct pt_pv *a, *meta;
	enum pt_dtype dtype = PT_DTYPE_INVALID;
	int rc;

	if (args.tag != PT_PV_TUPLE || args.n < least || args.n > least + 1)
		return torch_bad(p, "a tensor with the wrong number of arguments");
	a = p->cells + args.v;
	if (a[0].tag != PT_PV_STORAGE)
		return torch_bad(p, "a tensor without a storage");
	rc = tensor_dtype(p, v3, a, args.n, &dtype);
	if (rc < 0)
		return rc;
	if (args.n > least) {
		meta = &a[least];
		if (meta->tag == PT_PV_DICT && p->containers[meta->v].count > 0)
			return pt_fail(EINVAL, "data.pkl holds a tensor with its conjugate or negative bit set: save resolve_conj().resolve_neg() of it");
		if (meta->tag != PT_PV_DICT && meta->tag != PT_PV_NONE)
			return torch_bad(p, "a tensor with unknown metadata");
	}
	if (a[1].tag != PT_PV_INT || (int64_t)a[1].v < 0)
		return torch_bad(p, "a tensor whose offset is negative or out of range");
	rc = ints_check(p, a[2], "a tensor whose size is negative or out of range");
	if (rc == 0)
		rc = ints_check(p, a[3], "a tensor whose stride is negative or out of range");
	if (rc < 0)
		return rc;
	if (a[2].n != a[3].n)
		return torch_bad(p, "a tensor with more sizes than strides, or fewer");
	if (a[2].n > PT_DIMS_MAX)
		return pt_fail(EFBIG, "data.pkl holds a tensor of %u dimensions; ptio has at most %d: reshape it", a[2].n, PT_DIMS_MAX);
	for (uint32_t i = 0; i < a[2].n; i++) {
		size[i] = p->cells[a[2].v + i].v;
		stride[i] = p->cells[a[3].v + i].v;
	}
	rc = tensor_place(p, dtype, a[1].v, size, stride, a[2].n, (uint32_t)a[0].v);
	if (rc < 0)
		return rc;
	*ret_v = (struct pt_pv){ .tag = PT_PV_TENSOR, .v = p->tensor_count - 1 };
	return 0;
}

/* _rebuild_from_type_v2(function, type, its arguments, attributes): a tensor with Python attributes, which are dropped. */
static int tensor_from_type(struct pt_pickle *p, struct pt_pv args, struct pt_pv *ret_v)
{
	const struct pt_pv *a;
	struct pt_pv func, inner;

	if (args.n != 4)
		return torch_bad(p, "a tensor rebuilt by no known function");
	a = p->cells + args.v;
	if (a[0].tag != PT_PV_GLOBAL || a[0].sub == PT_PG_FROM_TYPE || a[0].sub > PT_PG_PARAMETER_STATE)
		return torch_bad(p, "a tensor rebuilt by no known function");
	if (a[1].tag != PT_PV_GLOBAL || a[1].sub != PT_PG_TENSOR_TYPE)
		return pt_fail(EINVAL, "data.pkl holds a tensor of a subclass: save its plain tensors");
	func = a[0];
	inner = a[2];
	return pt_pickle_reduce(p, func, inner, ret_v);
}

int pt_pickle_reduce(struct pt_pickle *p, struct pt_pv func, struct pt_pv args, struct pt_pv *ret_v)
{
	uint64_t c;
	int rc;

	if (func.tag != PT_PV_GLOBAL || args.tag != PT_PV_TUPLE)
		return torch_bad(p, "a call of what is no function");
	switch ((enum pt_pickle_global)func.sub) {
	case PT_PG_TENSOR_V2:
	case PT_PG_TENSOR_V3:
		return tensor_build(p, func.sub == PT_PG_TENSOR_V3, args, ret_v);
	case PT_PG_PARAMETER:
	case PT_PG_PARAMETER_STATE:
		if (args.n < 1 || args.n > 4 || p->cells[args.v].tag != PT_PV_TENSOR)
			return torch_bad(p, "a parameter without a tensor");
		*ret_v = p->cells[args.v];
		return 0;
	case PT_PG_FROM_TYPE:
		return tensor_from_type(p, args, ret_v);
	case PT_PG_ORDERED_DICT:
		if (args.n != 0)
			return pt_fail(EINVAL, "data.pkl builds an OrderedDict from a list, as Python 2 did: load it and save it again");
		rc = pt_pickle_container_add(p, &c);
		if (rc < 0)
			return rc;
		*ret_v = (struct pt_pv){ .tag = PT_PV_DICT, .sub = 1, .v = c };
		return 0;
	case PT_PG_PLAIN:
		*ret_v = (struct pt_pv){ .tag = PT_PV_OTHER };
		return 0;
	case PT_PG_TENSOR_TYPE:
	case PT_PG_STORAGE:
	case PT_PG_DTYPE:
		break;
	}
	return torch_bad(p, "a call of what is no function");
}
