/* tree/container_code.c - the bytes of a container's blob.
 *
 * "ptioCNT1", u32 flags (1 bundle, 2 bare, 4 verbatim), u32 format, u64 file bytes, u32 objects, u32 segments, u32 tensors, u32 bytes of names, u32 numbers,
 * u32 bytes of rounds (bundles only),
 * u64 literal bytes; then
 *   objects:  id 16, payload offset u64, bytes u64, XXH3-128 16, crc32 u32
 *   segments: end u64, off u64, object u32 (0xffffffff: literal)
 *   tensors:  name u32, numbers u32, object u32, dtype u8, ndim u8, flags u8 (1 contiguous, 2 summed), 0, off u64
 *   names, each ended by NUL; numbers u64 each; literals; rounds; XXH3-64 of everything before it.
 * A round: u64 round, u32 bytes of ranks, u32 names, u32 bytes of text; the ranks' bits; the text: scope, step, names, each ended by NUL.
 * All little-endian. Every index is checked here, so that readers need not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/size.h"
#include "manifest/record_small.h"
#include "tree/container.h"

#define MAGIC "ptioCNT1"
#define HEAD_BYTES 56
#define OBJECT_BYTES 52
#define SEGMENT_BYTES 20
#define TENSOR_BYTES 24
#define FLAG_BUNDLE 1u
#define FLAG_BARE 2u
#define FLAG_VERBATIM 4u
#define TENSOR_CONTIGUOUS 1u
#define TENSOR_SUMMED 2u

void pt_container_image_done(struct pt_container_image *im)
{
	pt_buf_done(&im->objects);
	pt_buf_done(&im->segments);
	pt_buf_done(&im->tensors);
	pt_buf_done(&im->names);
	pt_buf_done(&im->numbers);
	pt_buf_done(&im->literals);
	pt_buf_done(&im->rounds);
}

int pt_container_encode(const struct pt_container_image *im, struct pt_buf *out)
{
	const struct pt_container_object *o = (const void *)im->objects.data;
	const struct pt_container_segment *s = (const void *)im->segments.data;
	const struct pt_container_tensor *t = (const void *)im->tensors.data;
	const uint64_t *n = (const void *)im->numbers.data;
	size_t oc = im->objects.len / sizeof(*o), sc = im->segments.len / sizeof(*s), tc = im->tensors.len / sizeof(*t), nc = im->numbers.len / sizeof(*n), i;

	if (im->objects.failed || im->segments.failed || im->tensors.failed || im->names.failed || im->numbers.failed || im->literals.failed || im->rounds.failed)
		return pt_fail_nomem();
	if (oc >= UINT32_MAX || sc >= UINT32_MAX || tc >= UINT32_MAX || nc >= UINT32_MAX || im->names.len >= UINT32_MAX || im->rounds.len >= UINT32_MAX)
		return pt_fail(EFBIG, "the file holds too many tensors: save it in several files");
	pt_buf_append(out, MAGIC, 8);
	pt_buf_append_le32(out, (im->bundle ? FLAG_BUNDLE : 0) | (im->bare ? FLAG_BARE : 0) | (im->verbatim ? FLAG_VERBATIM : 0));
	pt_buf_append_le32(out, (uint32_t)im->format);
	pt_buf_append_le64(out, im->size);
	pt_buf_append_le32(out, (uint32_t)oc);
	pt_buf_append_le32(out, (uint32_t)sc);
	pt_buf_append_le32(out, (uint32_t)tc);
	pt_buf_append_le32(out, (uint32_t)im->names.len);
	pt_buf_append_le32(out, (uint32_t)nc);
	pt_buf_append_le32(out, (uint32_t)im->rounds.len);
	pt_buf_append_le64(out, im->literals.len);
	for (i = 0; i < oc; i++) {
		pt_buf_append(out, o[i].blob.id.b, 16);
		pt_buf_append_le64(out, o[i].payload_off);
		pt_buf_append_le64(out, o[i].bytes);
		pt_buf_append(out, o[i].hash.b, 16);
		pt_buf_append_le32(out, o[i].crc32);
	}
	for (i = 0; i < sc; i++) {
		pt_buf_append_le64(out, s[i].end);
		pt_buf_append_le64(out, s[i].off);
		pt_buf_append_le32(out, s[i].object);
	}
	for (i = 0; i < tc; i++) {
		pt_buf_append_le32(out, t[i].name);
		pt_buf_append_le32(out, t[i].dims);
		pt_buf_append_le32(out, t[i].object);
		pt_buf_append_u8(out, t[i].dtype);
		pt_buf_append_u8(out, t[i].ndim);
		pt_buf_append_u8(out, (t[i].contiguous ? TENSOR_CONTIGUOUS : 0) | (t[i].summed ? TENSOR_SUMMED : 0));
		pt_buf_append_u8(out, 0);
		pt_buf_append_le64(out, t[i].off);
	}
	pt_buf_append(out, im->names.data, im->names.len);
	for (i = 0; i < nc; i++)
		pt_buf_append_le64(out, n[i]);
	pt_buf_append(out, im->literals.data, im->literals.len);
	pt_buf_append(out, im->rounds.data, im->rounds.len);
	if (!out->failed)
		pt_buf_append_le64(out, pt_hash64(out->data, out->len));
	return out->failed ? pt_fail_nomem() : 0;
}

int pt_bundle_encode(enum pt_format format, const char *const *names, uint32_t count, const struct pt_buf *pickle, const struct pt_buf *rounds, struct pt_buf *ret_blob)
{
	struct pt_container_image im = { .format = format, .bundle = true };
	uint32_t i;
	int rc;

	for (i = 0; i < count; i++) {
		struct pt_container_tensor t = { .object = PT_CONTAINER_LITERAL, .contiguous = true, .name = (uint32_t)im.names.len };

		pt_buf_append(&im.tensors, &t, sizeof(t));
		pt_buf_append(&im.names, names[i], strlen(names[i]) + 1);
	}
	if (pickle->len)
		pt_buf_append(&im.literals, pickle->data, pickle->len);
	if (rounds->len)
		pt_buf_append(&im.rounds, rounds->data, rounds->len);
	im.rounds.failed |= rounds->failed;
	rc = pt_container_encode(&im, ret_blob);
	pt_container_image_done(&im);
	return rc;
}

void pt_bundle_round_append(struct pt_buf *rounds, const struct pt_container_round *r, const char *const *names)
{
	size_t head = strlen(r->scope) + 1 + strlen(r->step) + 1, bytes = 0;
	const char *at = r->names;
	uint32_t i;

	for (i = 0; i < r->name_count; i++)
		bytes += strlen(at ? at + bytes : names[i]) + 1;
	/* More than a record holds: the whole fails as it would with that many tensors. */
	if (bytes >= UINT32_MAX - head)
		rounds->failed = true;
	pt_buf_append_le64(rounds, r->round);
	pt_buf_append_le32(rounds, r->rank_bytes);
	pt_buf_append_le32(rounds, r->name_count);
	pt_buf_append_le32(rounds, (uint32_t)(head + bytes));
	pt_buf_append(rounds, r->ranks, r->rank_bytes);
	pt_buf_append(rounds, r->scope, strlen(r->scope) + 1);
	pt_buf_append(rounds, r->step, strlen(r->step) + 1);
	if (at)
		pt_buf_append(rounds, at, bytes);
	for (i = 0; !at && i < r->name_count; i++)
		pt_buf_append(rounds, names[i], strlen(names[i]) + 1);
}

static int damaged(void)
{
	return pt_fail(EIO, "a tensor file's record in the store is damaged: restore this file");
}

struct counts {
	uint32_t objects, segments, tensors, names, numbers, rounds;
	uint64_t literals;
};

/* The arrays fill exactly what is between the head and the hash. */
static bool counts_fit(const struct counts *n, size_t len)
{
	uint64_t want = HEAD_BYTES + 8 + (uint64_t)n->objects * OBJECT_BYTES + (uint64_t)n->segments * SEGMENT_BYTES +
			(uint64_t)n->tensors * TENSOR_BYTES + n->names + n->rounds + (uint64_t)n->numbers * 8;

	return pt_size_add(want, n->literals, &want) && want == len;
}

static bool segments_sound(const struct pt_container *c, uint64_t literals)
{
	uint64_t at = 0, len, limit;
	uint32_t i;

	for (i = 0; i < c->segment_count; i++) {
		const struct pt_container_segment *s = &c->segments[i];

		if (s->end <= at || (s->object != PT_CONTAINER_LITERAL && s->object >= c->object_count))
			return false;
		len = s->end - at;
		limit = s->object == PT_CONTAINER_LITERAL ? literals : c->objects[s->object].bytes;
		if (s->off > limit || len > limit - s->off)
			return false;
		at = s->end;
	}
	return at == c->size;
}

/* The only object of a verbatim container is the file. */
static bool verbatim_sound(const struct pt_container *c)
{
	return !c->verbatim || (!c->bundle && c->object_count == 1 && c->segment_count == 1 && !c->objects[0].payload_off && c->objects[0].bytes == c->size &&
				!c->segments[0].object && !c->segments[0].off);
}

static bool tensor_sound(const struct pt_container *c, struct pt_container_tensor *t, uint32_t names, uint32_t numbers)
{
	struct pt_parse_tensor p;
	uint64_t bytes, count, sum;

	if (t->name >= names || t->ndim > PT_DIMS_MAX)
		return false;
	if (c->bundle)
		return t->object == PT_CONTAINER_LITERAL && !t->ndim;
	if (!pt_dtype_info(t->dtype) || t->object >= c->object_count)
		return false;
	count = (uint64_t)t->ndim * (t->contiguous ? 1 : 2);
	if (t->dims + count + t->summed > numbers)
		return false;
	sum = t->summed ? c->numbers[t->dims + count] : 0;
	if (sum > UINT32_MAX)
		return false;
	pt_container_tensor(c, (uint32_t)(t - c->tensors), &p);
	if (pt_shape_bytes(&p.shape, p.dtype, &bytes) < 0 || t->off > c->objects[t->object].bytes)
		return false;
	/* Strided ones are checked against their object when they are read (tensor/derived.c). */
	if (t->contiguous && bytes > c->objects[t->object].bytes - t->off)
		return false;
	t->whole = t->contiguous && !t->off && bytes == c->objects[t->object].bytes;
	t->crc32 = t->summed ? (uint32_t)sum : t->whole ? c->objects[t->object].crc32 : 0;
	return true;
}

static bool round_read(struct pt_reader *r, struct pt_container_round *ret)
{
	uint32_t bytes, ends = 0, i;
	const char *text;

	ret->round = pt_reader_le64(r);
	ret->rank_bytes = pt_reader_le32(r);
	ret->name_count = pt_reader_le32(r);
	bytes = pt_reader_le32(r);
	ret->ranks = pt_reader_bytes(r, ret->rank_bytes);
	text = pt_reader_bytes(r, bytes);
	if (r->bad || !bytes || text[bytes - 1] || !(uint32_t)ret->round || (uint32_t)ret->round > PT_SET_MAX || ret->rank_bytes != ((uint32_t)ret->round + 7) / 8)
		return false;
	for (i = 0; i < bytes; i++)
		ends += !text[i];
	if (ends < 2 || ends - 2 != ret->name_count)
		return false;
	ret->scope = text;
	ret->step = text + strlen(text) + 1;
	ret->names = ret->step + strlen(ret->step) + 1;
	return true;
}

static bool rounds_read(struct pt_container *c, struct pt_reader *r)
{
	while (pt_reader_left(r))
		if (!c->bundle || c->round_count == PT_CONTAINER_ROUNDS || !round_read(r, &c->rounds[c->round_count++]))
			return false;
	return true;
}

static void *array_new(size_t count, size_t size)
{
	return pt_calloc(count ? count : 1, size);
}

int pt_container_decode(uint8_t *data, size_t len, struct pt_container **ret_c)
{
	struct pt_container *c;
	struct pt_reader r;
	struct counts n;
	uint32_t flags, i;
	const void *p;

	if (len < HEAD_BYTES + 8 || memcmp(data, MAGIC, 8) != 0 || pt_get_le64(data + len - 8) != pt_hash64(data, len - 8))
		return damaged();
	c = pt_calloc(1, sizeof(*c));
	if (!c)
		return pt_fail_nomem();
	c->refs = 1;
	pt_reader_init(&r, data + 8, len - 16);
	flags = pt_reader_le32(&r);
	c->format = (enum pt_format)pt_reader_le32(&r);
	c->size = pt_reader_le64(&r);
	n.objects = pt_reader_le32(&r);
	n.segments = pt_reader_le32(&r);
	n.tensors = pt_reader_le32(&r);
	n.names = pt_reader_le32(&r);
	n.numbers = pt_reader_le32(&r);
	n.rounds = pt_reader_le32(&r);
	n.literals = pt_reader_le64(&r);
	if (c->format >= PT_FORMAT_COUNT || flags & ~(FLAG_BUNDLE | FLAG_BARE | FLAG_VERBATIM) || !counts_fit(&n, len))
		goto bad;
	c->bundle = flags & FLAG_BUNDLE;
	c->bare = flags & FLAG_BARE;
	c->verbatim = flags & FLAG_VERBATIM;
	c->objects = array_new(n.objects, sizeof(*c->objects));
	c->segments = array_new(n.segments, sizeof(*c->segments));
	c->tensors = array_new(n.tensors, sizeof(*c->tensors));
	c->names = array_new((size_t)n.names + 1, 1);
	c->numbers = array_new(n.numbers, sizeof(*c->numbers));
	if (!c->objects || !c->segments || !c->tensors || !c->names || !c->numbers) {
		pt_container_unref(c);
		return pt_fail_nomem();
	}
	c->object_count = n.objects;
	c->segment_count = n.segments;
	for (i = 0; i < n.objects; i++) {
		struct pt_container_object *o = &c->objects[i];

		o->blob.kind = c->verbatim ? PT_BLOB_PLAIN : PT_BLOB_TENSOR;
		p = pt_reader_bytes(&r, 16);
		if (p)
			memcpy(o->blob.id.b, p, 16);
		o->payload_off = pt_reader_le64(&r);
		o->bytes = pt_reader_le64(&r);
		p = pt_reader_bytes(&r, 16);
		if (p)
			memcpy(o->hash.b, p, 16);
		o->crc32 = pt_reader_le32(&r);
		if (o->bytes > PT_TENSOR_BYTES_MAX || o->payload_off > PT_TENSOR_BYTES_MAX)
			goto bad;
	}
	for (i = 0; i < n.segments; i++) {
		c->segments[i].end = pt_reader_le64(&r);
		c->segments[i].off = pt_reader_le64(&r);
		c->segments[i].object = pt_reader_le32(&r);
	}
	for (i = 0; i < n.tensors; i++) {
		struct pt_container_tensor *t = &c->tensors[i];

		t->name = pt_reader_le32(&r);
		t->dims = pt_reader_le32(&r);
		t->object = pt_reader_le32(&r);
		t->dtype = pt_reader_u8(&r);
		t->ndim = pt_reader_u8(&r);
		flags = pt_reader_u8(&r);
		t->contiguous = flags & TENSOR_CONTIGUOUS;
		t->summed = flags & TENSOR_SUMMED;
		pt_reader_u8(&r);
		t->off = pt_reader_le64(&r);
	}
	p = pt_reader_bytes(&r, n.names);
	if (n.names)
		memcpy(c->names, p, n.names);
	for (i = 0; i < n.numbers; i++)
		c->numbers[i] = pt_reader_le64(&r);
	c->literals = n.literals ? pt_reader_bytes(&r, n.literals) : data;
	c->literal_bytes = n.literals;
	if (r.bad || !rounds_read(c, &r) || !segments_sound(c, n.literals) || !verbatim_sound(c))
		goto bad;
	for (i = 0; i < n.tensors; i++)
		if (!tensor_sound(c, &c->tensors[i], n.names, n.numbers))
			goto bad;
	c->tensor_count = n.tensors;
	c->data = data;
	c->blob_bytes = len;
	*ret_c = c;
	return 0;
bad:
	pt_container_unref(c);
	return damaged();
}
