/* format/npy_header.c - reads the dict literal of an npy header: exactly three keys in any order, either quote, an optional trailing
 * comma, integers with an optional L. Nothing is evaluated. */
#include "format/npy_header.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

struct text {
	const char *p, *end;
};

static int malformed(const char *what)
{
	return pt_fail(EINVAL, "the npy header is malformed: %s; write the file with numpy.save", what);
}

static void skip_blanks(struct text *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t' || *t->p == '\n' || *t->p == '\r'))
		t->p++;
}

/* Takes c, blanks before it skipped. */
static bool take(struct text *t, char c)
{
	skip_blanks(t);
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

static bool take_word(struct text *t, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(t);
	if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0)
		return false;
	t->p += n;
	return true;
}

/* A string without escapes into buf. */
static bool take_string(struct text *t, char *buf, size_t size)
{
	const char *s;
	char quote;
	size_t n;

	skip_blanks(t);
	if (t->p == t->end || (*t->p != '\'' && *t->p != '"'))
		return false;
	quote = *t->p++;
	for (s = t->p; t->p < t->end && *t->p != quote; t->p++)
		if ((unsigned char)*t->p < 0x20 || (unsigned char)*t->p > 0x7e || *t->p == '\\')
			return false;
	n = (size_t)(t->p - s);
	if (t->p == t->end || n >= size)
		return false;
	t->p++;
	memcpy(buf, s, n);
	buf[n] = '\0';
	return true;
}

static bool take_int(struct text *t, uint64_t *ret)
{
	uint64_t v = 0;
	const char *s;

	skip_blanks(t);
	for (s = t->p; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*t->p - '0'), &v))
			return false;
	if (t->p == s || (t->p - s > 1 && *s == '0'))
		return false;
	if (t->p < t->end && *t->p == 'L')
		t->p++;
	*ret = v;
	return true;
}

static int take_shape(struct text *t, struct pt_shape *ret_shape)
{
	bool comma = true;

	ret_shape->ndim = 0;
	if (!take(t, '('))
		return malformed("shape is not a tuple");
	while (!take(t, ')')) {
		if (!comma)
			return malformed("shape is not a tuple of whole numbers");
		if (ret_shape->ndim == PT_DIMS_MAX)
			return pt_fail(EINVAL, "the npy array has more than %d dimensions", PT_DIMS_MAX);
		if (!take_int(t, &ret_shape->dim[ret_shape->ndim]))
			return malformed("shape is not a tuple of whole numbers");
		ret_shape->ndim++;
		comma = take(t, ',');
	}
	if (ret_shape->ndim == 1 && !comma)
		return malformed("shape is a number, not a tuple");
	return 0;
}

/* Kind letter and size of the types that numpy itself has. */
static const struct {
	const char *code;
	enum pt_dtype dtype;
	uint32_t swap_bytes;
} codes[] = {
	{ "?", PT_DTYPE_BOOL, 0 }, { "b1", PT_DTYPE_BOOL, 0 }, { "i1", PT_DTYPE_I8, 0 }, { "u1", PT_DTYPE_U8, 0 },
	{ "i2", PT_DTYPE_I16, 2 }, { "u2", PT_DTYPE_U16, 2 }, { "f2", PT_DTYPE_F16, 2 }, { "i4", PT_DTYPE_I32, 4 },
	{ "u4", PT_DTYPE_U32, 4 }, { "f4", PT_DTYPE_F32, 4 }, { "i8", PT_DTYPE_I64, 8 }, { "u8", PT_DTYPE_U64, 8 },
	{ "f8", PT_DTYPE_F64, 8 }, { "c8", PT_DTYPE_C64, 4 }, { "c16", PT_DTYPE_C128, 8 },
};

static int read_void(const char *descr, const char *code, enum pt_dtype hint, enum pt_dtype *ret)
{
	const struct pt_dtype_info *info = pt_dtype_info(hint);
	bool two = strcmp(code, "V2") == 0;

	if (two ? hint == PT_DTYPE_BF16 : info && info->npy && strcmp(info->npy, "<V1") == 0) {
		*ret = hint;
		return 0;
	}
	if (two)
		return pt_fail(EINVAL, "the npy type '%s' may be bfloat16, but does not say so; set user.ptio.dtype to bfloat16 first", descr);
	return pt_fail(EINVAL, "the npy type '%s' may be any 8-bit float; set user.ptio.dtype to the one it is (float8_e4m3fn, float8_e5m2, ...) first",
		       descr);
}

static int read_descr(const char *descr, enum pt_dtype hint, struct pt_npy_header *h)
{
	const char *code = descr;
	char order = '=';
	size_t i;

	h->swap_bytes = 0;
	if (*code == '<' || *code == '>' || *code == '|' || *code == '=')
		order = *code++;
	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (strcmp(code, codes[i].code) == 0) {
			h->dtype = codes[i].dtype;
			h->swap_bytes = order == '>' ? codes[i].swap_bytes : 0;
			return 0;
		}
	if (order != '>' && (strcmp(code, "V2") == 0 || strcmp(code, "V1") == 0 || strcmp(code, "f1") == 0))
		return read_void(descr, code, hint, &h->dtype);
	if (code == descr) {                            /* a name, as hand-made files have */
		h->dtype = pt_dtype_by_name(descr);
		if (h->dtype != PT_DTYPE_INVALID && h->dtype != PT_DTYPE_F4_E2M1)
			return 0;
	}
	if (*code == 'O')
		return pt_fail(EOPNOTSUPP, "the npy array holds Python objects ('%s'), which ptio neither runs nor stores; "
			       "convert it to a number type", descr);
	return pt_fail(EOPNOTSUPP, "the npy type '%s' is none that ptio has; convert the array to a plain number type", descr);
}

int pt_npy_header_read(const char *text, size_t len, enum pt_dtype hint, struct pt_npy_header *ret_header)
{
	struct text t = { text, text + len };
	struct pt_npy_header h = { .dtype = PT_DTYPE_INVALID };
	bool descr = false, order = false, shape = false, comma = true;
	char key[16], type[64];
	int rc;

	if (!len || text[len - 1] != '\n')
		return malformed("it does not end in a newline");
	if (!take(&t, '{'))
		return malformed("it is no dict");
	while (!take(&t, '}')) {
		if (!comma || !take_string(&t, key, sizeof(key)) || !take(&t, ':'))
			return malformed("it is no dict of descr, fortran_order and shape");
		if (!descr && strcmp(key, "descr") == 0) {
			descr = true;
			if (!take_string(&t, type, sizeof(type)))
				return pt_fail(EOPNOTSUPP, "the npy array has fields or a type that is not a plain name; convert it to a plain number type");
			rc = read_descr(type, hint, &h);
			if (rc)
				return rc;
		} else if (!order && strcmp(key, "fortran_order") == 0) {
			order = true;
			if (take_word(&t, "True"))
				h.fortran = true;
			else if (!take_word(&t, "False"))
				return malformed("fortran_order is neither True nor False");
		} else if (!shape && strcmp(key, "shape") == 0) {
			shape = true;
			rc = take_shape(&t, &h.shape);
			if (rc)
				return rc;
		} else {
			return malformed("a key other than descr, fortran_order and shape, or one of them twice");
		}
		comma = take(&t, ',');
	}
	skip_blanks(&t);
	if (t.p != t.end)
		return malformed("text follows the dict");
	if (!descr || !order || !shape)
		return malformed("descr, fortran_order or shape is missing");
	*ret_header = h;
	return 0;
}
