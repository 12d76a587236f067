/* format/pickle.c - the opcodes: reads the pickle, runs stack and memo. What globals do is in pickle_torch.c. */
#include "format/pickle_int.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

#define FEED_STEP ((size_t)64 << 10)    /* bytes taken at a time: what follows the pickle is not copied in bulk */
#define STACK_MAX ((size_t)2 << 20)     /* values */
#define MEMO_SLACK 1024

enum {
	OP_MARK = '(', OP_STOP = '.', OP_NONE = 'N', OP_BINFLOAT = 'G', OP_BININT = 'J', OP_BININT1 = 'K', OP_BININT2 = 'M',
	OP_BINPERSID = 'Q', OP_REDUCE = 'R', OP_SHORT_BINSTRING = 'U', OP_BINUNICODE = 'X', OP_EMPTY_LIST = ']', OP_APPEND = 'a',
	OP_BUILD = 'b', OP_GLOBAL = 'c', OP_APPENDS = 'e', OP_BINGET = 'h', OP_LONG_BINGET = 'j', OP_BINPUT = 'q',
	OP_LONG_BINPUT = 'r', OP_SETITEM = 's', OP_TUPLE = 't', OP_SETITEMS = 'u', OP_EMPTY_DICT = '}', OP_EMPTY_TUPLE = ')',
	OP_BINBYTES = 'B', OP_SHORT_BINBYTES = 'C',
	OP_PROTO = 0x80, OP_TUPLE1 = 0x85, OP_TUPLE2, OP_TUPLE3, OP_NEWTRUE, OP_NEWFALSE, OP_LONG1,
	OP_SHORT_BINUNICODE = 0x8c, OP_EMPTY_SET = 0x8f, OP_STACK_GLOBAL = 0x93, OP_MEMOIZE = 0x94, OP_FRAME = 0x95
};

static int pkl_bad(const struct pt_pickle *p, const char *what)
{
	return pt_fail(EINVAL, "data.pkl is damaged at byte %zu: %s; save the file again", p->pos, what);
}

/* --- stack ---------------------------------------------------------------- */

static int pkl_push(struct pt_pickle *p, struct pt_pv v)
{
	int rc;

	if (p->stack_len >= STACK_MAX)
		return pt_fail(EFBIG, "data.pkl stacks more than %zu values; save fewer tensors in one file", STACK_MAX);
	rc = pt_pickle_grow(p, &p->stack, &p->stack_cap, p->stack_len + 1, sizeof(*p->stack));
	if (rc == 0 && p->trace)
		rc = pt_pickle_grow(p, &p->trace->stack_at, &p->trace->stack_cap, p->stack_len + 1, sizeof(*p->trace->stack_at));
	if (rc < 0)
		return rc;
	if (p->trace)
		p->trace->stack_at[p->stack_len] = p->trace->from;
	p->stack[p->stack_len++] = v;
	return 0;
}

static int pkl_push_plain(struct pt_pickle *p, enum pt_pickle_tag tag, uint64_t v)
{
	return pkl_push(p, (struct pt_pv){ .tag = (uint8_t)tag, .v = v });
}

/* The top n entries are values; -EINVAL when they are not there or a mark is among them. */
static int pkl_need(const struct pt_pickle *p, size_t n)
{
	if (p->stack_len < n)
		return pkl_bad(p, "too few values on the stack");
	for (size_t i = p->stack_len - n; i < p->stack_len; i++)
		if (p->stack[i].tag == PT_PV_MARK)
			return pkl_bad(p, "a mark where a value belongs");
	return 0;
}

/* Entries above the last mark. */
static int pkl_marked(const struct pt_pickle *p, size_t *ret_first)
{
	size_t i = p->stack_len;

	while (i > 0 && p->stack[i - 1].tag != PT_PV_MARK)
		i--;
	if (i == 0)
		return pkl_bad(p, "no mark on the stack");
	*ret_first = i;
	return 0;
}

static int pkl_tuple(struct pt_pickle *p, size_t first, size_t drop)
{
	size_t n = p->stack_len - first;
	struct pt_pv v = { .tag = PT_PV_TUPLE, .n = (uint32_t)n, .v = p->cell_count };
	int rc = pt_pickle_grow(p, &p->cells, &p->cell_cap, p->cell_count + n, sizeof(*p->cells));

	if (rc < 0)
		return rc;
	if (n > 0)
		memcpy(p->cells + p->cell_count, p->stack + first, n * sizeof(*p->cells));
	p->cell_count += n;
	if (p->trace && p->stack_len > first - drop)
		p->trace->from = p->trace->stack_at[first - drop];
	p->stack_len = first - drop;
	return pkl_push(p, v);
}

/* --- memo ----------------------------------------------------------------- */

static int pkl_put(struct pt_pickle *p, uint32_t index)
{
	int rc = pkl_need(p, 1);

	if (rc < 0)
		return rc;
	/* Writers number from 0 upwards, so an index far beyond the stores so far is no memo but an attempt on memory. */
	if (index >= p->memo_puts * 4 + MEMO_SLACK)
		return pkl_bad(p, "a memo index far out of order");
	if (index >= p->memo_len) {
		rc = pt_pickle_grow(p, &p->memo, &p->memo_cap, (size_t)index + 1, sizeof(*p->memo));
		if (rc < 0)
			return rc;
		for (size_t i = p->memo_len; i <= index; i++)
			p->memo[i] = (struct pt_pv){ .tag = PT_PV_MARK };
		p->memo_len = (size_t)index + 1;
	}
	p->memo[index] = p->stack[p->stack_len - 1];
	p->memo_puts++;
	if (p->trace) {
		rc = pt_pickle_grow(p, &p->trace->memo_at, &p->trace->memo_cap, p->memo_len, sizeof(*p->trace->memo_at));
		if (rc < 0)
			return rc;
		p->trace->memo_at[index] = p->pos;
	}
	return 0;
}

static int pkl_get(struct pt_pickle *p, uint32_t index)
{
	struct pt_pickle_trace *t = p->trace;
	int rc;

	if (index >= p->memo_len || p->memo[index].tag == PT_PV_MARK)
		return pkl_bad(p, "a memo entry that was never stored");
	if (t) {
		rc = pt_pickle_grow(p, &t->uses, &t->use_cap, t->use_count + 1, sizeof(*t->uses));
		if (rc < 0)
			return rc;
		t->uses[t->use_count++] = (struct pt_pickle_use){ .at = p->pos, .len = p->buf.data[p->pos] == OP_BINGET ? 2 : 5, .put = t->memo_at[index],
								  .value = p->memo[index] };
	}
	return pkl_push(p, p->memo[index]);
}

/* --- lists and dicts ------------------------------------------------------ */

static int pkl_push_container(struct pt_pickle *p, enum pt_pickle_tag tag)
{
	uint64_t c;
	int rc = pt_pickle_container_add(p, &c);

	return rc < 0 ? rc : pkl_push_plain(p, tag, c);
}

/* Puts the entries from first on into the container below them (drop: marks in between). */
static int pkl_fill(struct pt_pickle *p, size_t first, size_t drop, enum pt_pickle_tag want)
{
	size_t step = want == PT_PV_DICT ? 2 : 1;
	struct pt_pv target;
	int rc;

	if (first < drop + 1 || p->stack[first - drop - 1].tag != want)
		return pkl_bad(p, want == PT_PV_DICT ? "items set on what is no dict" : "items appended to what is no list");
	if ((p->stack_len - first) % step != 0)
		return pkl_bad(p, "a key without a value");
	target = p->stack[first - drop - 1];
	for (size_t i = first; i < p->stack_len; i += step) {
		struct pt_pv key = { .tag = PT_PV_INT, .v = p->containers[target.v].count };

		if (want == PT_PV_DICT) {
			key = p->stack[i];
			rc = pt_pickle_dict_key(p, target.v, key);
			if (rc < 0)
				return rc;
		}
		rc = pt_pickle_add(p, target.v, key, p->stack[i + step - 1]);
		if (rc < 0)
			return rc;
	}
	p->stack_len = first - drop;
	return 0;
}

static int pkl_fill_marked(struct pt_pickle *p, enum pt_pickle_tag want)
{
	size_t first = 0;
	int rc = pkl_marked(p, &first);

	return rc < 0 ? rc : pkl_fill(p, first, 1, want);
}

static int pkl_fill_top(struct pt_pickle *p, size_t n, enum pt_pickle_tag want)
{
	int rc = pkl_need(p, n + 1);

	return rc < 0 ? rc : pkl_fill(p, p->stack_len - n, 0, want);
}

/* --- opcodes -------------------------------------------------------------- */

static int pkl_long1(struct pt_pickle *p, const uint8_t *b, size_t len)
{
	uint64_t v = len > 0 && b[len - 1] & 0x80 ? UINT64_MAX : 0;

	if (len > 8)
		return pkl_push_plain(p, PT_PV_OTHER, 0);
	for (size_t i = len; i-- > 0;)
		v = v << 8 | b[i];
	return pkl_push_plain(p, PT_PV_INT, v);
}

/* A tensor has been made by the two values on top. */
static int pkl_trace_tensor(struct pt_pickle *p, const struct pt_pv *func, const struct pt_pv *args, uint64_t tensor)
{
	struct pt_pickle_trace *t = p->trace;
	size_t start = t->stack_at[p->stack_len - 2];
	int rc;

	if (func->sub == PT_PG_FROM_TYPE)
		t->why = "a tensor in it has Python attributes";
	if (t->span_count && t->spans[t->span_count - 1].end > start)
		t->why = "one of its tensors is part of another's description";
	rc = pt_pickle_grow(p, &t->spans, &t->span_cap, t->span_count + 1, sizeof(*t->spans));
	if (rc < 0)
		return rc;
	t->spans[t->span_count++] = (struct pt_pickle_span){ .start = start, .end = p->pos + 1, .tensor = (uint32_t)tensor,
							     .grad = args->n > 4 && p->cells[args->v + 4].tag == PT_PV_BOOL && p->cells[args->v + 4].v };
	return 0;
}

static int pkl_reduce(struct pt_pickle *p)
{
	size_t tensors = p->tensor_count;
	struct pt_pv v;
	int rc = pkl_need(p, 2);

	if (rc < 0)
		return rc;
	rc = pt_pickle_reduce(p, p->stack[p->stack_len - 2], p->stack[p->stack_len - 1], &v);
	if (rc == 0 && p->trace && p->tensor_count > tensors)
		rc = pkl_trace_tensor(p, &p->stack[p->stack_len - 2], &p->stack[p->stack_len - 1], tensors);
	if (rc < 0)
		return rc;
	p->stack_len--;
	p->stack[p->stack_len - 1] = v;
	return 0;
}

static int pkl_build(struct pt_pickle *p)
{
	const struct pt_pv *top;
	int rc = pkl_need(p, 2);

	if (rc < 0)
		return rc;
	top = p->stack + p->stack_len - 2;
	if (top[0].tag != PT_PV_DICT || top[0].sub != 1 || top[1].tag != PT_PV_DICT)
		return pt_fail(EINVAL, "data.pkl sets the state of an object at byte %zu; ptio takes that for an OrderedDict only: "
			       "save a state dict of plain tensors", p->pos);
	p->stack_len--;                 /* the attributes (_metadata) are dropped */
	return 0;
}

static int pkl_stop(struct pt_pickle *p)
{
	int rc = pkl_need(p, 1);

	if (rc < 0)
		return rc;
	if (p->stack_len != 1)
		return pkl_bad(p, "values are left on the stack");
	p->root = p->stack[0];
	p->done = true;
	return 0;
}

static int pkl_proto(unsigned int proto)
{
	if (proto != 2 && proto != 3)
		return pt_fail(EINVAL, "data.pkl is pickle protocol %u; ptio takes 2 and 3: save with torch.save's default pickle_protocol",
			       proto);
	return 0;
}

static int pkl_unsupported(const struct pt_pickle *p, unsigned int op)
{
	if (op == OP_FRAME || op == OP_MEMOIZE || op == OP_STACK_GLOBAL || op == OP_SHORT_BINUNICODE)
		return pt_fail(EINVAL, "data.pkl uses pickle protocol 4; ptio takes 2 and 3: save with torch.save's default pickle_protocol");
	return pt_fail(EINVAL, "data.pkl has opcode 0x%02x at byte %zu, which no state dict of tensors needs: save tensors and plain values only",
		       op, p->pos);
}

/* Bytes of the whole opcode at pos, 0 when more must arrive to tell. Also finds the ends of GLOBAL's two lines. */
static int pkl_length(const struct pt_pickle *p, uint64_t *ret_len, size_t *ret_module_len)
{
	const uint8_t *op = p->buf.data + p->pos;
	size_t have = p->buf.len - p->pos;
	uint64_t fixed = 1, len;

	switch (op[0]) {
	case OP_PROTO: case OP_BININT1: case OP_BINGET: case OP_BINPUT: case OP_SHORT_BINSTRING: case OP_SHORT_BINBYTES: case OP_LONG1:
		fixed = 2;
		break;
	case OP_BININT2:
		fixed = 3;
		break;
	case OP_BININT: case OP_LONG_BINGET: case OP_LONG_BINPUT: case OP_BINUNICODE: case OP_BINBYTES:
		fixed = 5;
		break;
	case OP_BINFLOAT:
		fixed = 9;
		break;
	case OP_GLOBAL:
		len = 1;
		for (int line = 0; line < 2; line++) {
			size_t left = have - len < PT_PICKLE_LINE_MAX ? have - len : PT_PICKLE_LINE_MAX;
			const uint8_t *nl = memchr(op + len, '\n', left);

			if (!nl && left == PT_PICKLE_LINE_MAX)
				return pkl_bad(p, "the name of a global is too long");
			if (!nl) {
				*ret_len = 0;
				return 0;
			}
			if (line == 0)
				*ret_module_len = (size_t)(nl - op) - 1;
			len = (uint64_t)(nl - op) + 1;
		}
		*ret_len = len;
		return 0;
	}
	if (have < fixed) {
		*ret_len = 0;
		return 0;
	}
	len = fixed;
	if (op[0] == OP_SHORT_BINSTRING || op[0] == OP_SHORT_BINBYTES || op[0] == OP_LONG1)
		len += op[1];
	else if (op[0] == OP_BINUNICODE || op[0] == OP_BINBYTES)
		len += pt_get_le32(op + 1);
	if (len > PT_PICKLE_BYTES_MAX - p->pos)
		return pt_fail(EFBIG, "data.pkl is over %llu MiB; save fewer tensors, or less besides tensors, in one file",
			       (unsigned long long)(PT_PICKLE_BYTES_MAX >> 20));
	*ret_len = len <= have ? len : 0;
	return 0;
}

static int pkl_run(struct pt_pickle *p, const uint8_t *op, uint64_t len, size_t module_len)
{
	struct pt_pv v;
	size_t first = 0;
	int rc;

	if (!p->started && op[0] != OP_PROTO)
		return pkl_bad(p, "it does not begin as a pickle of protocol 2");
	p->started = true;
	if (p->trace)
		p->trace->from = p->pos;
	switch (op[0]) {
	case OP_PROTO:
		return pkl_proto(op[1]);
	case OP_MARK:
		return pkl_push_plain(p, PT_PV_MARK, 0);
	case OP_NONE:
		return pkl_push_plain(p, PT_PV_NONE, 0);
	case OP_NEWTRUE: case OP_NEWFALSE:
		return pkl_push_plain(p, PT_PV_BOOL, op[0] == OP_NEWTRUE);
	case OP_BININT:
		return pkl_push_plain(p, PT_PV_INT, (uint64_t)(int64_t)(int32_t)pt_get_le32(op + 1));
	case OP_BININT1:
		return pkl_push_plain(p, PT_PV_INT, op[1]);
	case OP_BININT2:
		return pkl_push_plain(p, PT_PV_INT, pt_get_le16(op + 1));
	case OP_LONG1:
		return pkl_long1(p, op + 2, op[1]);
	case OP_BINFLOAT: case OP_BINBYTES: case OP_SHORT_BINBYTES: case OP_EMPTY_SET:
		return pkl_push_plain(p, PT_PV_OTHER, 0);
	case OP_BINUNICODE:
		return pkl_push(p, (struct pt_pv){ .tag = PT_PV_STR, .n = (uint32_t)(len - 5), .v = p->pos + 5 });
	case OP_SHORT_BINSTRING:
		return pkl_push(p, (struct pt_pv){ .tag = PT_PV_STR, .n = (uint32_t)(len - 2), .v = p->pos + 2 });
	case OP_EMPTY_TUPLE:
		return pkl_push_plain(p, PT_PV_TUPLE, 0);
	case OP_TUPLE1: case OP_TUPLE2: case OP_TUPLE3:
		rc = pkl_need(p, op[0] - OP_TUPLE1 + 1u);
		return rc < 0 ? rc : pkl_tuple(p, p->stack_len - (op[0] - OP_TUPLE1 + 1u), 0);
	case OP_TUPLE:
		rc = pkl_marked(p, &first);
		return rc < 0 ? rc : pkl_tuple(p, first, 1);
	case OP_EMPTY_LIST:
		return pkl_push_container(p, PT_PV_LIST);
	case OP_EMPTY_DICT:
		return pkl_push_container(p, PT_PV_DICT);
	case OP_APPEND:
		return pkl_fill_top(p, 1, PT_PV_LIST);
	case OP_APPENDS:
		return pkl_fill_marked(p, PT_PV_LIST);
	case OP_SETITEM:
		return pkl_fill_top(p, 2, PT_PV_DICT);
	case OP_SETITEMS:
		return pkl_fill_marked(p, PT_PV_DICT);
	case OP_BINPUT:
		return pkl_put(p, op[1]);
	case OP_LONG_BINPUT:
		return pkl_put(p, pt_get_le32(op + 1));
	case OP_BINGET:
		return pkl_get(p, op[1]);
	case OP_LONG_BINGET:
		return pkl_get(p, pt_get_le32(op + 1));
	case OP_GLOBAL:
		rc = pt_pickle_global_resolve(p, p->pos + 1, module_len, (size_t)len - 3 - module_len, &v);
		return rc < 0 ? rc : pkl_push(p, v);
	case OP_BINPERSID:
		rc = pkl_need(p, 1);
		if (rc == 0)
			rc = pt_pickle_persid(p, p->stack[p->stack_len - 1], &v);
		if (rc == 0 && p->trace)
			rc = pt_pickle_grow(p, &p->trace->persids, &p->trace->persid_cap, p->trace->persid_count + 1, sizeof(*p->trace->persids));
		if (rc == 0 && p->trace)
			p->trace->persids[p->trace->persid_count++] = p->pos;
		if (rc < 0)
			return rc;
		p->stack[p->stack_len - 1] = v;
		return 0;
	case OP_REDUCE:
		return pkl_reduce(p);
	case OP_BUILD:
		return pkl_build(p);
	case OP_STOP:
		return pkl_stop(p);
	default:
		return pkl_unsupported(p, op[0]);
	}
}

int pt_pickle_feed(struct pt_pickle *p, const void *data, size_t len, size_t *ret_used)
{
	size_t used = 0, module_len = 0, before;
	uint64_t op_len = 0;
	int rc;

	while (used < len) {
		size_t n = len - used < FEED_STEP ? len - used : FEED_STEP;

		before = p->buf.len;
		if (n > PT_PICKLE_BYTES_MAX - before)
			n = (size_t)(PT_PICKLE_BYTES_MAX - before);
		if (n == 0)
			return pt_fail(EFBIG, "data.pkl is over %llu MiB; save fewer tensors, or less besides tensors, in one file",
				       (unsigned long long)(PT_PICKLE_BYTES_MAX >> 20));
		pt_buf_append(&p->buf, (const uint8_t *)data + used, n);
		if (pt_buf_failed(&p->buf))
			return pt_fail_nomem();
		while (p->pos < p->buf.len) {
			rc = pkl_length(p, &op_len, &module_len);
			if (rc < 0)
				return rc;
			if (op_len == 0)
				break;
			rc = pkl_run(p, p->buf.data + p->pos, op_len, module_len);
			if (rc < 0)
				return rc;
			p->pos += op_len;
			if (p->done) {
				*ret_used = used + (p->pos - before);
				p->buf.len = p->pos;
				return 1;
			}
		}
		used += n;
	}
	*ret_used = used;
	return 0;
}
