/* format/pickle_int.h - values of the pickle machine; shared by pickle.c (opcodes), pickle_value.c (memory), pickle_torch.c (globals, tensors) and pickle_walk.c (names).
 *
 * Values live in growing arrays of the machine and refer to each other by index, so that all of them go at once. */
#ifndef PT_FORMAT_PICKLE_INT_H
#define PT_FORMAT_PICKLE_INT_H

#include "format/namemap.h"
#include "format/pickle.h"

#define PT_PICKLE_QUOTE 100             /* bytes for a quoted piece of the file in a sentence */
#define PT_PICKLE_KEY_MAX 64            /* bytes of a storage key */
#define PT_PICKLE_LINE_MAX 256          /* of a module or global name, with its newline */

enum pt_pickle_tag {
	PT_PV_MARK,                     /* on the stack only */
	PT_PV_NONE,
	PT_PV_BOOL,                     /* v 0 or 1 */
	PT_PV_INT,                      /* v as int64_t */
	PT_PV_STR,                      /* v offset in the pickle, n bytes */
	PT_PV_TUPLE,                    /* v first cell, n cells */
	PT_PV_LIST,                     /* v container */
	PT_PV_DICT,                     /* v container; sub 1: an OrderedDict */
	PT_PV_GLOBAL,                   /* sub pt_pickle_global; n dtype (storage classes, dtypes); v as for STR: module, newline, name */
	PT_PV_STORAGE,                  /* v storage; n dtype of its class, PT_DTYPE_INVALID for UntypedStorage */
	PT_PV_TENSOR,                   /* v tensor */
	PT_PV_OTHER                     /* a value that can be no tensor and no part of one: float, bytes, set, big int ... */
};

enum pt_pickle_global {
	PT_PG_TENSOR_V2, PT_PG_TENSOR_V3, PT_PG_PARAMETER, PT_PG_PARAMETER_STATE, PT_PG_FROM_TYPE,
	PT_PG_TENSOR_TYPE,              /* torch.Tensor, torch.nn.parameter.Parameter as a type */
	PT_PG_ORDERED_DICT,
	PT_PG_STORAGE,                  /* a storage class */
	PT_PG_DTYPE,                    /* n PT_DTYPE_INVALID: one that ptio has not */
	PT_PG_PLAIN                     /* makes a value that is dropped: torch.Size, set ... */
};

struct pt_pv {
	uint8_t tag;
	uint8_t sub;
	uint32_t n;
	uint64_t v;
};

/* A list or dict; only entries that may lead to a tensor are kept, count counts all. */
struct pt_pickle_container {
	uint32_t first, last;           /* items, UINT32_MAX none */
	uint64_t count;
};

struct pt_pickle_item {
	struct pt_pv key;               /* lists: INT position */
	struct pt_pv value;
	uint32_t next;
};

struct pt_pickle_storage {
	uint64_t bytes;
	uint32_t key_off, key_len;      /* in keys */
};

struct pt_pickle_tensor {
	uint64_t storage_off;           /* bytes */
	uint64_t bytes;                 /* of the row-major tensor */
	uint64_t dims;                  /* index in dims[]: ndim sizes (logical), then ndim strides (storage units) */
	uint32_t storage;
	uint8_t dtype;
	uint8_t ndim;
	bool contiguous;
};

/* Where things are in the pickle, for writing it again with other tensors (repickle.c). */
struct pt_pickle_span {                 /* what makes one tensor: from the function's opcode to after REDUCE */
	size_t start, end;
	uint32_t tensor;
	bool grad;
};

struct pt_pickle_use {                  /* a memo entry that is fetched */
	size_t at, len, put;            /* put: where the entry was stored */
	struct pt_pv value;
};

struct pt_pickle_trace {
	size_t from;                    /* where what is pushed next begins */
	size_t *stack_at;               /* where each value on the stack begins */
	size_t *memo_at;                /* where each memo entry was stored */
	struct pt_pickle_span *spans;   /* by end */
	struct pt_pickle_use *uses;     /* by at */
	size_t *persids;                /* where storages are named */
	uint32_t *named;                /* tensors in the order in which they are announced */
	size_t stack_cap, memo_cap, span_count, span_cap, use_count, use_cap, persid_count, persid_cap, named_count, named_cap;
	const char *why;                /* it cannot be written again, or NULL */
};

struct pt_pickle {
	struct pt_pickle_trace *trace;  /* NULL: nobody wants to know; not owned */
	struct pt_buf buf;              /* the pickle so far */
	size_t pos;                     /* the next opcode */
	bool started, done;
	uint64_t mem;                   /* bytes of the arrays below */

	struct pt_pv *stack;
	size_t stack_len, stack_cap;
	struct pt_pv *memo;             /* tag MARK: not set */
	size_t memo_len, memo_cap;
	uint64_t memo_puts;
	struct pt_pv *cells;
	size_t cell_count, cell_cap;
	struct pt_pickle_container *containers;
	size_t container_count, container_cap;
	struct pt_pickle_item *items;
	size_t item_count, item_cap;
	struct pt_pickle_tensor *tensors;
	size_t tensor_count, tensor_cap;
	uint64_t *dims;
	size_t dim_count, dim_cap;
	struct pt_namemap dict_keys;    /* (dict, key) pairs seen */

	struct pt_pickle_storage *storages;
	size_t storage_count, storage_cap;
	struct pt_buf keys;
	struct pt_namemap storage_map;

	struct pt_pv root;              /* after the end */
};

/* Makes room for need elements of size bytes in *array; charges the machine's budget. -ENOMEM, -EFBIG. */
int pt_pickle_grow(struct pt_pickle *p, void *array, size_t *cap, size_t need, size_t size);
/* The bytes as printable ASCII, cut to fit; returns buf. */
const char *pt_pickle_quote(const void *s, size_t len, char buf[PT_PICKLE_QUOTE]);

int pt_pickle_container_add(struct pt_pickle *p, uint64_t *ret_container);
/* Notes that the dict has the key; refuses one that is set twice. */
int pt_pickle_dict_key(struct pt_pickle *p, uint64_t container, struct pt_pv key);
int pt_pickle_add(struct pt_pickle *p, uint64_t container, struct pt_pv key, struct pt_pv value);

/* pickle_torch.c */
/* Which global "module\nname" is: a GLOBAL value, or refused by name. text is at offset at of the pickle. */
int pt_pickle_global_resolve(struct pt_pickle *p, size_t at, size_t module_len, size_t name_len, struct pt_pv *ret_v);
int pt_pickle_reduce(struct pt_pickle *p, struct pt_pv func, struct pt_pv args, struct pt_pv *ret_v);
int pt_pickle_persid(struct pt_pickle *p, struct pt_pv id, struct pt_pv *ret_v);

#endif
