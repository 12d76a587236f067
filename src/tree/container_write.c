/* tree/container_write.c - a tensor file goes in, in order, and is stored as it comes.
 *
 * Until its header is complete what has come is in memory. Then it is known what the file holds. One tensor that is all of its storage becomes an object, so that a
 * revision can refer to it, and what is around it goes to the container's image. Every other file becomes one blob as it is, with checksums, and its tensors are windows of
 * that (PT_BODY_VERBATIM). Either way the parser hands payload on as pointers into what it is fed, so that it is known where in the file it lies. Bytes that it had to change or hold
 * back (byte-swapped npy) have no such place, and the file is no container. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tree/container_write.h"

#define LITERALS_MAX (256 * PT_MIB)
#define ZEROS (64 * PT_KIB)

/* ---- the image ---- */

static int segment_add(struct pt_container_writer *w, uint64_t len, uint32_t object, uint64_t off)
{
	struct pt_buf *b = &w->image.segments;
	struct pt_container_segment *last, next = { .end = w->image.size + len, .off = off, .object = object };

	if (b->len) {
		last = (struct pt_container_segment *)(void *)(b->data + b->len) - 1;
		if (last->object == object) {
			uint64_t start = b->len > sizeof(next) ? last[-1].end : 0;

			if (last->off + (last->end - start) == off) {
				last->end = next.end;
				w->image.size = next.end;
				return 0;
			}
		}
	}
	pt_buf_append(b, &next, sizeof(next));
	w->image.size = next.end;
	return b->failed ? pt_fail_nomem() : 0;
}

/* Bytes of the file that are no payload; PT_BODY_VERBATIM: any. */
static int take(struct pt_container_writer *w, const uint8_t *data, uint64_t len)
{
	uint64_t off = w->image.literals.len;
	int rc;

	if (!len)
		return 0;
	if (w->body != PT_BODY_VERBATIM || w->head)
		pt_buf_append(&w->image.literals, data, len);
	if (w->image.literals.failed)
		return pt_fail_nomem();
	if (w->body != PT_BODY_VERBATIM)
		return segment_add(w, len, PT_CONTAINER_LITERAL, off);
	rc = pt_object_writer_append(w->open, data, len);
	if (!rc)
		w->image.size += len;
	return rc;
}

/* ---- the parser's sink ---- */

static int on_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	struct pt_container_writer *w = ctx;
	struct pt_container_storage s = { .bytes = bytes, .whole = PT_STORAGE_NO_TENSOR };

	if (storage != w->storages.len / sizeof(s))
		return pt_fail(EINVAL, "storages are announced out of order");
	pt_buf_append(&w->storages, &s, sizeof(s));
	return w->storages.failed ? pt_fail_nomem() : 0;
}

static int on_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	struct pt_container_writer *w = ctx;
	struct pt_container_image *im = &w->image;
	struct pt_container_tensor c = { .dtype = (uint8_t)t->dtype, .ndim = (uint8_t)t->shape.ndim, .object = t->storage, .contiguous = t->contiguous,
					 .off = t->storage_off };
	const uint64_t sum = 0;         /* told when its bytes have come */
	struct pt_container_storage *s;
	uint64_t bytes;
	int rc;

	if (t->storage >= w->storages.len / sizeof(*s))
		return pt_fail(EINVAL, "a tensor names a storage that is not there");
	if (t->obj && !t->obj->full)
		return pt_fail(EINVAL, "the tensor object is a shard: write it to the path of its layout; here it is kept as an ordinary file");
	rc = pt_shape_bytes(&t->shape, t->dtype, &bytes);
	if (rc < 0)
		return rc;
	s = pt_writer_storage(w, t->storage);
	if (t->contiguous && (t->storage_off > s->bytes || bytes > s->bytes - t->storage_off))
		return pt_fail(EINVAL, "tensor \"%.200s\" reaches beyond its storage", t->name);
	c.summed = t->contiguous && !t->storage_off && bytes == s->bytes;
	if (s->whole == PT_STORAGE_NO_TENSOR && c.summed)
		s->whole = (uint32_t)(im->tensors.len / sizeof(c));
	if (!t->name[0])
		im->bare = true;
	if (im->names.len > UINT32_MAX / 2 || im->numbers.len > UINT32_MAX / 2)
		return pt_fail(EFBIG, "the file holds too many tensors: save it in several files");
	c.name = (uint32_t)im->names.len;
	c.dims = (uint32_t)(im->numbers.len / sizeof(uint64_t));
	pt_buf_append(&im->names, t->name, strlen(t->name) + 1);
	pt_buf_append(&im->numbers, t->shape.dim, t->shape.ndim * sizeof(uint64_t));
	if (!t->contiguous)
		pt_buf_append(&im->numbers, t->stride, t->shape.ndim * sizeof(uint64_t));
	if (c.summed)
		pt_buf_append(&im->numbers, &sum, sizeof(sum));
	pt_buf_append(&im->tensors, &c, sizeof(c));
	return im->names.failed || im->numbers.failed || im->tensors.failed ? pt_fail_nomem() : 0;
}

/* ---- what is stored ---- */

int pt_writer_object_open(struct pt_container_writer *w)
{
	const struct pt_container_tensor *t = pt_writer_tensor(w, 0);
	struct pt_object_spec spec = { .dtype = (enum pt_dtype)t->dtype, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_box box;
	char *key;
	int rc;

	spec.local.ndim = t->ndim;
	if (t->ndim)
		memcpy(spec.local.dim, (const uint64_t *)(const void *)w->image.numbers.data + t->dims, t->ndim * sizeof(uint64_t));
	key = pt_asprintf("%s%s%.*s", w->dir_key, w->dir_key[0] ? "/" : "", PT_KEY_MAX, (const char *)w->image.names.data + t->name);
	if (!key)
		return pt_fail_nomem();
	pt_shape_box(&spec.local, &box);
	spec.key = key;
	spec.global = &spec.local;
	spec.box = &box;
	rc = pt_object_writer_create(w->repo, &spec, &w->open);
	free(key);
	return rc;
}

/* The file goes on as a blob; what has come is its beginning. Of a torch file all that is before the first payload is kept at hand: data.pkl, which files for ranks are made
 * after. */
static int verbatim_begin(struct pt_container_writer *w)
{
	int rc;

	rc = pt_file_writer_create(w->repo, &w->open);
	if (!rc)
		rc = pt_object_writer_append(w->open, w->image.literals.data, w->image.literals.len);
	if (rc < 0)
		return rc;
	w->body = PT_BODY_VERBATIM;
	w->head = pt_parser_format(w->parser) == PT_FORMAT_PT;
	if (!w->head)
		pt_buf_done(&w->image.literals);
	return 0;
}

static int on_header_done(void *ctx)
{
	struct pt_container_writer *w = ctx;

	if (!w->image.tensors.len)
		return pt_fail(EINVAL, "the file holds no tensor: it is kept as an ordinary file");
	if (w->image.tensors.len > sizeof(struct pt_container_tensor) || pt_writer_storage_count(w) != 1 || pt_writer_storage(w, 0)->whole == PT_STORAGE_NO_TENSOR)
		return verbatim_begin(w);
	w->body = PT_BODY_OBJECT;
	return 0;
}

/* The CRC-32 of the last len bytes of which that of all is `all`, and that of those before is `before`. */
static uint32_t crc_of_last(uint32_t before, uint32_t all, uint64_t len)
{
	return all ^ (uint32_t)crc32_combine(before, 0, (z_off_t)len);
}

static int payload_verbatim(struct pt_container_writer *w, struct pt_container_storage *s, const uint8_t *data, uint64_t len)
{
	int rc;

	w->head = false;
	if (!s->seen) {
		s->at = w->image.size;
		s->crc = pt_object_writer_crc(w->open);
	}
	if (w->image.size != s->at + s->seen)
		return pt_fail(EINVAL, "a storage comes in pieces");
	rc = take(w, data, len);
	if (rc < 0)
		return rc;
	if (s->seen + len == s->bytes)
		s->crc = crc_of_last(s->crc, pt_object_writer_crc(w->open), s->bytes);
	return 0;
}

static int payload_object(struct pt_container_writer *w, const struct pt_container_storage *s, const uint8_t *data, uint64_t len)
{
	int rc = w->open ? 0 : pt_writer_object_open(w);

	if (!rc)
		rc = pt_object_writer_append(w->open, data, len);
	return rc < 0 ? rc : segment_add(w, len, 0, s->seen);
}

static int on_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	struct pt_container_writer *w = ctx;
	struct pt_container_storage *s;
	uint64_t at;
	int rc;

	if (!data || (const uint8_t *)data < w->chunk + w->chunk_used || (const uint8_t *)data + len > w->chunk + w->chunk_len)
		return pt_fail(EOPNOTSUPP, "the tensor's bytes are not stored as they are in the file (another byte order): it is kept as an ordinary file");
	at = (uint64_t)((const uint8_t *)data - w->chunk);
	rc = take(w, w->chunk + w->chunk_used, at - w->chunk_used);
	if (rc < 0)
		return rc;
	w->chunk_used = at;
	s = storage < pt_writer_storage_count(w) ? pt_writer_storage(w, storage) : NULL;
	if (!s || off != s->seen || len > s->bytes - off)
		return pt_fail(EINVAL, "payload bytes came out of order");
	rc = w->body == PT_BODY_VERBATIM ? payload_verbatim(w, s, data, len) : payload_object(w, s, data, len);
	if (rc < 0)
		return rc;
	w->chunk_used += len;
	s->seen += len;
	return 0;
}

/* ---- feeding ---- */

int pt_container_writer_create(struct pt_repo *repo, const char *dir_key, struct pt_container_writer **ret_w)
{
	struct pt_container_writer *w = pt_calloc(1, sizeof(*w));
	struct pt_parse_sink sink = { .ctx = w, .storage = on_storage, .tensor = on_tensor, .header_done = on_header_done, .data = on_data };
	int rc;

	if (!w)
		return pt_fail_nomem();
	w->repo = repo;
	w->image.format = PT_FORMAT_COUNT;
	w->dir_key = pt_strdup(dir_key);
	rc = w->dir_key ? pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &w->parser) : pt_fail_nomem();
	if (rc < 0) {
		pt_container_writer_free(w);
		return rc;
	}
	*ret_w = w;
	return 0;
}

int pt_writer_fail(struct pt_container_writer *w, int rc, bool store)
{
	w->state = PT_WRITER_FAILED;
	w->error = rc;
	w->content = !store && pt_container_error_is_content(rc);
	snprintf(w->sentence, sizeof(w->sentence), "%s", pt_fail_sentence());
	return rc;
}

int pt_writer_failed(const struct pt_container_writer *w)
{
	return pt_fail(w->error ? -w->error : EINVAL, "%s", w->error ? w->sentence : "the file has been taken already");
}

static int feed_chunk(struct pt_container_writer *w, const uint8_t *data, uint64_t len)
{
	int rc, rest;

	w->chunk = data;
	w->chunk_len = len;
	w->chunk_used = 0;
	rc = pt_parser_feed(w->parser, data, len);
	/* Also after a refusal: what has been fed is to be had again. */
	rest = rc < 0 && !pt_container_error_is_content(rc) ? 0 : take(w, data + w->chunk_used, len - w->chunk_used);
	w->fed += len;
	if (!rc && !rest && w->image.literals.len > LITERALS_MAX)
		rest = pt_fail(EFBIG, "the file holds more than %llu MiB beside its tensors: it is kept as an ordinary file",
			       (unsigned long long)(LITERALS_MAX / PT_MIB));
	return rest < 0 ? rest : rc;
}

int pt_container_writer_feed(struct pt_container_writer *w, const void *data, uint64_t len)
{
	static const uint8_t zeros[ZEROS];
	uint64_t n;
	int rc = 0;

	if (w->state != PT_WRITER_FEEDING)
		return pt_writer_failed(w);
	if (data)
		rc = len ? feed_chunk(w, data, len) : 0;
	for (; !data && !rc && len; len -= n) {
		n = pt_size_min(len, ZEROS);
		rc = feed_chunk(w, zeros, n);
	}
	return rc < 0 ? pt_writer_fail(w, rc, false) : 0;
}

uint64_t pt_container_writer_fed(const struct pt_container_writer *w)
{
	return w->fed;
}

bool pt_container_writer_complete(const struct pt_container_writer *w)
{
	return w->state == PT_WRITER_FEEDING && pt_parser_complete(w->parser);
}

bool pt_container_writer_hopeful(const struct pt_container_writer *w)
{
	return w->state == PT_WRITER_FEEDING;
}
