/* tests/lib/case.c - stores, tensors and requests of the conformance cases. One case at a time. */
#include "lib/case.h"

#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "unit/daemon.h"
#include "unit/sha256.h"
#include "unit/store_support.h"

#define BIG (4u << 20)

struct ptio *P;
static char uri[256], dir[200];
static struct daemon served;            /* pid 0: the store is here */
static uint8_t *big;                    /* the registered buffer of reads() */
static void *made[65536];
static size_t made_count;
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void open_store(void)
{
	struct ptio_options o = { .create = 1 };
	int rc = ptio_open(uri, &o, &P);

	ck_assert_msg(!rc, "%s: %d: %s", uri, rc, ptio_last_error());
	big = calloc(1, BIG);
	OK(ptio_register_buffer(P, big, BIG));
}

static bool is_rdma(void)
{
	const char *cases = getenv("PTIO_CASES");

	return cases && strcmp(cases, "rdma") == 0;
}

int case_first(void)
{
	return is_rdma() ? CASE_RDMA : CASE_MEM;
}

int case_last(void)
{
	return is_rdma() ? CASE_RDMA : CASE_TCP;
}

static void serve(const char *transport, const char *const *args)
{
	snprintf(dir, sizeof(dir), "%s", dir_make());
	setenv("PTIO_SECRET_FILE", daemon_secret(dir), 1);
	daemon_start_first(&served, dir, "mem:64M", args);
	snprintf(uri, sizeof(uri), "%s://%.*s:%u", transport, (int)strcspn(args[1], ":"), args[1], served.port);
}

void case_begin(int engine)
{
	static const char *const tcp[] = { "--listen", "127.0.0.1:0", "--rdma", "no", NULL };
	static const char *const rdma[] = { "--listen", "10.77.0.1:0", "--rdma", "yes", "--arena", "8M", NULL };
	const char *tmp = getenv("TMPDIR");

	if (engine == CASE_TCP) {
		serve("tcp", tcp);
	} else if (engine == CASE_RDMA) {
		setenv("PTIO_RDMA_DEVICE", "rxe1", 1);
		serve("rdma", rdma);
	} else if (engine == CASE_DIR) {
		snprintf(dir, sizeof(dir), "%.150s/ptio-case-XXXXXX", tmp && *tmp ? tmp : "/tmp");
		ck_assert_ptr_nonnull(mkdtemp(dir));
		snprintf(uri, sizeof(uri), "dir:%s", dir);
	} else {
		snprintf(uri, sizeof(uri), "mem:64M");
		dir[0] = '\0';
	}
	open_store();
}

static void close_store(void)
{
	ptio_close(P);
	P = NULL;
	free(big);
	big = NULL;
}

void case_end(void)
{
	close_store();
	daemon_stop(&served, SIGKILL);
	if (*dir)
		nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	while (made_count)
		free(made[--made_count]);
}

void case_reopen(void)
{
	if (!*dir)
		return;
	close_store();
	open_store();
}

const char *case_uri(void)
{
	return uri;
}

void *case_alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	ck_assert_ptr_nonnull(p);
	pthread_mutex_lock(&made_lock);
	ck_assert_uint_lt(made_count, sizeof(made) / sizeof(made[0]));
	made[made_count++] = p;
	pthread_mutex_unlock(&made_lock);
	return p;
}

uint8_t *registered(uint64_t size)
{
	uint8_t *p = case_alloc(size);

	OK(ptio_register_buffer(P, p, size));
	return p;
}

/* ---- requests ---- */

static int number(const char **p)
{
	char *end;
	long v = strtol(*p, &end, 10);

	ck_assert_msg(end != *p, "a number is missing at '%s'", *p);
	*p = end;
	return (int)v;
}

static void rank_of_size(const char **p, int *rank, int *size)
{
	*rank = number(p);
	ck_assert_msg(!strncmp(*p, "of", 2), "'of' is missing at '%s'", *p);
	*p += 2;
	*size = number(p);
}

static struct ptio_axis axis(const char **p)
{
	struct ptio_axis a = { 0 };
	char kind[3] = { (*p)[0], (*p)[1], 0 };
	int rank, size;

	a.kind = ptio_axis_kind_by_name(kind);
	*p += 3;
	rank_of_size(p, &rank, &size);
	a.rank = rank;
	a.size = size;
	for (;; ) {
		char c = **p;

		if (c != '@' && c != 'e' && c != 's')
			return a;
		++*p;
		if (c == '@') {
			a.has_split_dim = 1;
			a.split_dim = number(p);
		} else if (c == 'e') {
			a.has_expert_id = 1;
			a.expert_id = number(p);
		} else {
			a.has_stage_id = 1;
			a.stage_id = number(p);
		}
	}
}

const struct how *how(const char *text)
{
	struct how *h = case_alloc(sizeof(*h));
	const char *p = text ? text : "";
	int rank, size;

	h->parallelism.axes = h->axes;
	while (*p) {
		if (!strncmp(p, "writer=", 7)) {
			p += 7;
			rank_of_size(&p, &rank, &size);
			ck_assert_int_eq(*p++, '@');
			h->writer = (struct ptio_writer_partition){ .rank = rank, .size = size, .split_dim = number(&p) };
			h->write.writer = h->target.writer = &h->writer;
		} else {
			h->axes[h->parallelism.axis_count++] = axis(&p);
			h->write.parallelism = h->target.parallelism = &h->parallelism;
		}
		if (*p) {
			ck_assert_msg(*p == '/', "'/' is missing at '%s'", p);
			p++;
		}
	}
	return h;
}

const struct ptio_write *write_at(const char *text, const char *step)
{
	struct how *h = (struct how *)how(text);

	h->write.step = step;
	return &h->write;
}

const struct ptio_read_target *target(const char *text)
{
	char mode[16];
	size_t n;
	struct how *h;

	if (!text)
		return NULL;
	n = strcspn(text, " ");
	ck_assert_uint_lt(n, sizeof(mode));
	memcpy(mode, text, n);
	mode[n] = '\0';
	h = (struct how *)how(text[n] ? text + n + 1 : "");
	ck_assert_int_ge(ptio_read_mode_by_name(mode), 0);
	h->target.mode = (enum ptio_read_mode)ptio_read_mode_by_name(mode);
	return &h->target;
}

/* ---- tensors ---- */

static struct ptio_tensor make(enum ptio_dtype dtype, const char *shape)
{
	struct ptio_tensor t = { .dtype = dtype };
	uint64_t elems = 1;

	while (*shape) {
		t.shape[t.ndim] = (uint64_t)number(&shape);
		elems *= t.shape[t.ndim++];
		if (*shape)
			shape++;
	}
	t.bytes = elems * ptio_dtype_bits(dtype) / 8;
	t.data = case_alloc(t.bytes);
	return t;
}

struct ptio_tensor zeros(enum ptio_dtype dtype, const char *shape)
{
	return make(dtype, shape);
}

struct ptio_tensor bytes_of(enum ptio_dtype dtype, const char *shape, const void *payload)
{
	struct ptio_tensor t = make(dtype, shape);

	memcpy(t.data, payload, t.bytes);
	return t;
}

/* binary16 of a whole number below 2048 */
static uint16_t half(unsigned v)
{
	unsigned e = 0;

	ck_assert_uint_lt(v, 2048);
	if (!v)
		return 0;
	while (v >> (e + 1))
		e++;
	return (uint16_t)((e + 15) << 10 | ((v << (10 - e)) & 0x3ff));
}

struct ptio_tensor ar(enum ptio_dtype dtype, const char *shape, int k)
{
	struct ptio_tensor t = make(dtype, shape);
	uint32_t unit = ptio_dtype_bits(dtype) / 8;
	uint64_t i;

	for (i = 0; i < t.bytes / unit; i++) {
		uint8_t *at = (uint8_t *)t.data + i * unit;
		int64_t v = (int64_t)i + k;
		float f = (float)v;
		double d = (double)v;
		uint32_t bits;
		uint16_t h;

		memcpy(&bits, &f, sizeof(bits));
		switch (dtype) {
		case PTIO_F32:
			memcpy(at, &f, 4);
			break;
		case PTIO_F64:
			memcpy(at, &d, 8);
			break;
		case PTIO_F16:
			h = half((unsigned)v);
			memcpy(at, &h, 2);
			break;
		case PTIO_BF16:
			h = (uint16_t)(bits >> 16);
			memcpy(at, &h, 2);
			break;
		default:
			memcpy(at, &v, unit);           /* little-endian integers */
			break;
		}
	}
	return t;
}

struct ptio_tensor floats(const char *shape, ...)
{
	struct ptio_tensor t = make(PTIO_F32, shape);
	float *f = t.data;
	va_list ap;
	uint64_t i;

	va_start(ap, shape);
	for (i = 0; i < t.bytes / 4; i++)
		f[i] = (float)va_arg(ap, double);
	va_end(ap);
	return t;
}

struct ptio_tensor cut(struct ptio_tensor t, uint32_t dim, uint64_t off, uint64_t ext)
{
	struct ptio_tensor c = t;
	uint64_t inner = ptio_dtype_bits(t.dtype) / 8, outer = 1, o, i;
	uint32_t d;

	for (d = 0; d < t.ndim; d++) {
		if (d < dim)
			outer *= t.shape[d];
		if (d > dim)
			inner *= t.shape[d];
	}
	c.shape[dim] = ext;
	c.bytes = outer * ext * inner;
	c.data = case_alloc(c.bytes);
	for (o = 0; o < outer; o++)
		for (i = 0; i < ext; i++)
			memcpy((uint8_t *)c.data + (o * ext + i) * inner, (uint8_t *)t.data + (o * t.shape[dim] + off + i) * inner, inner);
	return c;
}

struct ptio_tensor part(struct ptio_tensor t, uint32_t dim, int rank, int size)
{
	uint64_t d = t.shape[dim], from = d * (uint64_t)rank / (uint64_t)size, to = d * (uint64_t)(rank + 1) / (uint64_t)size;

	return cut(t, dim, from, to - from);
}

bool same(const struct ptio_tensor *a, const struct ptio_tensor *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->shape, b->shape, a->ndim * sizeof(a->shape[0])) && a->bytes == b->bytes &&
	       (!a->bytes || !memcmp(a->data, b->data, a->bytes));
}

/* ---- writing ---- */

int put(const char *key, struct ptio_tensor t, const char *text)
{
	return ptio_put(P, key, &t, &how(text)->write);
}

int upsert(const char *key, struct ptio_tensor t, const char *text)
{
	return ptio_upsert(P, key, &t, &how(text)->write);
}

const void *object_of(struct ptio_tensor t, uint64_t *ret_size)
{
	static const int8_t codes[] = { [PTIO_BOOL] = 10, [PTIO_U8] = 3, [PTIO_I8] = 2, [PTIO_U16] = 5, [PTIO_I16] = 4, [PTIO_U32] = 7, [PTIO_I32] = 6,
					[PTIO_U64] = 9, [PTIO_I64] = 8, [PTIO_F16] = 11, [PTIO_BF16] = 12, [PTIO_F32] = 0, [PTIO_F64] = 1 };
	uint8_t *o = case_alloc(PTIO_OBJECT_HEADER + t.bytes);
	uint32_t d;

	memcpy(o, "NOOM\1\0\60\1", 8);
	o[8] = (uint8_t)codes[t.dtype];
	o[12] = (uint8_t)t.ndim;
	o[24] = 0x30, o[25] = 1;
	memcpy(o + 32, &t.bytes, 8);
	memset(o + 40, 0xff, 128);
	for (d = 0; d < t.ndim; d++) {
		memcpy(o + 40 + 8 * d, &t.shape[d], 8);
		memcpy(o + 104 + 8 * d, &t.shape[d], 8);
	}
	memcpy(o + PTIO_OBJECT_HEADER, t.data, t.bytes);
	*ret_size = PTIO_OBJECT_HEADER + t.bytes;
	return o;
}

int put_from(const char *key, struct ptio_tensor full, const char *text)
{
	uint64_t size;
	const void *o = object_of(full, &size);

	return ptio_put_from(P, key, o, size, &how(text)->write);
}

int upsert_from(const char *key, struct ptio_tensor full, const char *text)
{
	uint64_t size;
	const void *o = object_of(full, &size);

	return ptio_upsert_from(P, key, o, size, &how(text)->write);
}

void put_ranks(const char *key, struct ptio_tensor t, const char *text, int size, int dim)
{
	char one[128];
	const char *r = strchr(text, 'R');
	bool shard = !strncmp(text, "tp=", 3) && !strchr(text, '/');
	int rank;

	ck_assert_ptr_nonnull(r);
	for (rank = 0; rank < size; rank++) {
		snprintf(one, sizeof(one), "%.*s%d%s", (int)(r - text), text, rank, r + 1);
		OK(put(key, shard ? part(t, (uint32_t)dim, rank, size) : t, one));
	}
}

/* ---- reading ---- */

int reads(const char *key, const char *target_text, struct ptio_tensor *ret_t)
{
	const struct ptio_read_target *to = target(target_text);
	struct ptio_tensor t, into;
	uint64_t size;
	void *data;
	int64_t n;
	int rc;

	rc = ptio_get(P, key, to, &t);
	n = ptio_get_into(P, key, to, big, BIG, &into);
	if (rc || n < 0) {
		/* Only what an object cannot hold is read by one of the two. */
		ck_assert_msg(rc == n || (!rc && n == -EOPNOTSUPP), "get %d, get_into %lld: %s", rc, (long long)n, ptio_last_error());
		if (rc)
			return rc;
	} else {
		ck_assert(same(&t, &into));
		ck_assert_int_eq((int64_t)(PTIO_OBJECT_HEADER + t.bytes), n);
		OK(ptio_object_size(P, key, to, &size));
		ck_assert_uint_eq(size, (uint64_t)n);
	}
	data = case_alloc(t.bytes);
	memcpy(data, t.data, t.bytes);
	*ret_t = t;
	ret_t->data = data;
	ptio_tensor_done(&t);
	return 0;
}

void expect_read(const char *key, const char *target_text, struct ptio_tensor want, const char *file, int line)
{
	struct ptio_tensor have;
	int rc = reads(key, target_text, &have);

	ck_assert_msg(!rc, "%s:%d: %s %s: %d: %s", file, line, key, target_text, rc, ptio_last_error());
	ck_assert_msg(same(&have, &want), "%s:%d: %s %s: other bytes, shape or dtype", file, line, key, target_text);
}

void expect_code(const char *key, const char *target_text, int code, const char *file, int line)
{
	struct ptio_tensor have;
	int rc = reads(key, target_text, &have);

	ck_assert_msg(rc == code, "%s:%d: %s %s: %d, not %d: %s", file, line, key, target_text, rc, code, ptio_last_error());
	ck_assert_msg(*ptio_last_error() != 0, "%s:%d: no sentence", file, line);
}

const uint8_t *object_at(const char *key, const char *target_text, uint64_t *ret_size)
{
	int64_t n = ptio_get_into(P, key, target(target_text), big, BIG, NULL);
	uint8_t *copy;

	ck_assert_msg(n > 0, "%s %s: %lld: %s", key, target_text ? target_text : "", (long long)n, ptio_last_error());
	copy = case_alloc((size_t)n);
	memcpy(copy, big, (size_t)n);
	*ret_size = (uint64_t)n;
	return copy;
}

void expect_sha(const void *data, uint64_t len, const char *hex_prefix)
{
	char hex[65];

	sha256_hex(data, len, hex);
	hex[strlen(hex_prefix)] = '\0';
	ck_assert_str_eq(hex, hex_prefix);
}

static int add_key(void *ctx, const char *key, int complete)
{
	char *text = ctx;

	(void)complete;
	snprintf(text + strlen(text), 4096 - strlen(text), "%s%s", *text ? " " : "", key);
	return 0;
}

const char *keys_listed(void)
{
	char *text = case_alloc(4096);

	OK(ptio_list(P, "", add_key, text));
	return text;
}
