/* tree/container_write.c - a tensor file goes in, in order; its payload goes to objects as it comes, everything else into the container's image.
 *
 * The parser hands payload on as pointers into what it is fed, so what lies between them is literal. Bytes that it had to change or hold back (byte-swapped npy)
 * have no such place, and the file is no container. One object is open at a time, since files hold their storages one after the other; those that are complete are
 * sealed in the background. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tree/container.h"
#include "tree/seal_queue.h"

#define LITERALS_MAX (256 * PT_MIB)
#define ZEROS (64 * PT_KIB)
#define STEP PT_MIB
#define NONE UINT32_MAX

struct storage {
	uint64_t bytes;
	uint32_t whole;                 /* tensor that is all of it, row-major; NONE: kept as raw bytes */
};

/* FEEDING -> SEALED (blob and objects stored) -> PUBLISHED; FEEDING -> FAILED (content or store) -> REPLAYED. */
enum state { FEEDING, SEALED, PUBLISHED, FAILED, REPLAYED };

struct pt_container_writer {
	enum state state;
	int error;
	char sentence[PT_FAIL_SENTENCE_MAX];
	bool content;                   /* FAILED: for what the bytes are */
	struct pt_repo *repo;
	char *dir_key;
	struct pt_parser *parser;
	struct pt_hold *hold;
	struct pt_container_image image;
	struct pt_buf storages;         /* struct storage */
	uint64_t fed;
	const uint8_t *chunk;           /* being fed */
	uint64_t chunk_used;            /* bytes of it that the image has */
	uint64_t chunk_len;
	struct pt_seal_queue sealing;
	struct pt_object_writer *open;  /* object of storage open_storage, open_bytes in */
	uint32_t open_storage;
	uint64_t open_bytes;
	struct pt_blob_ref blob;        /* SEALED */
	uint64_t blob_bytes;
	int publish_rc;                 /* of the last try */
};

static struct storage *storage_at(struct pt_container_writer *w, uint32_t i)
{
	return (struct storage *)(void *)w->storages.data + i;
}

static struct pt_container_object *object_at(struct pt_container_writer *w, uint32_t i)
{
	return (struct pt_container_object *)(void *)w->image.objects.data + i;
}

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

static int literal_add(struct pt_container_writer *w, const uint8_t *data, uint64_t len)
{
	uint64_t off = w->image.literals.len;

	if (!len)
		return 0;
	pt_buf_append(&w->image.literals, data, len);
	return w->image.literals.failed ? pt_fail_nomem() : segment_add(w, len, PT_CONTAINER_LITERAL, off);
}

/* ---- the parser's sink ---- */

static int on_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	struct pt_container_writer *w = ctx;
	struct storage s = { .bytes = bytes, .whole = NONE };
	struct pt_container_object o = { .bytes = 0 };

	if (storage != w->storages.len / sizeof(s))
		return pt_fail(EINVAL, "storages are announced out of order");
	pt_buf_append(&w->storages, &s, sizeof(s));
	pt_buf_append(&w->image.objects, &o, sizeof(o));
	return w->storages.failed || w->image.objects.failed ? pt_fail_nomem() : 0;
}

static int on_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	struct pt_container_writer *w = ctx;
	struct pt_container_image *im = &w->image;
	struct pt_container_tensor c = { .dtype = (uint8_t)t->dtype, .ndim = (uint8_t)t->shape.ndim, .object = t->storage, .contiguous = t->contiguous,
					 .off = t->storage_off };
	struct storage *s;
	uint64_t bytes;
	int rc;

	if (t->storage >= w->storages.len / sizeof(*s))
		return pt_fail(EINVAL, "a tensor names a storage that is not there");
	if (t->obj && !t->obj->full)
		return pt_fail(EINVAL, "the tensor object is a shard: write it to the path of its layout; here it is kept as an ordinary file");
	rc = pt_shape_bytes(&t->shape, t->dtype, &bytes);
	if (rc < 0)
		return rc;
	s = storage_at(w, t->storage);
	if (t->contiguous && (t->storage_off > s->bytes || bytes > s->bytes - t->storage_off))
		return pt_fail(EINVAL, "tensor \"%.200s\" reaches beyond its storage", t->name);
	if (s->whole == NONE && t->contiguous && !t->storage_off && bytes == s->bytes)
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
	pt_buf_append(&im->tensors, &c, sizeof(c));
	return im->names.failed || im->numbers.failed || im->tensors.failed ? pt_fail_nomem() : 0;
}

static int on_header_done(void *ctx)
{
	struct pt_container_writer *w = ctx;

	return w->image.tensors.len ? 0 : pt_fail(EINVAL, "the file holds no tensor: it is kept as an ordinary file");
}

/* ---- objects ---- */

static int object_open(struct pt_container_writer *w, uint32_t storage)
{
	const struct storage *s = storage_at(w, storage);
	const struct pt_container_tensor *t;
	struct pt_object_spec spec = { .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_box box;
	char *key;
	int rc;

	spec.local.ndim = 1;
	spec.local.dim[0] = s->bytes;
	if (s->whole != NONE) {
		t = (const struct pt_container_tensor *)(const void *)w->image.tensors.data + s->whole;
		spec.dtype = (enum pt_dtype)t->dtype;
		spec.local.ndim = t->ndim;
		if (t->ndim)
			memcpy(spec.local.dim, (const uint64_t *)(const void *)w->image.numbers.data + t->dims, t->ndim * sizeof(uint64_t));
		key = pt_asprintf("%s%s%.*s", w->dir_key, w->dir_key[0] ? "/" : "", PT_KEY_MAX, (const char *)w->image.names.data + t->name);
	} else {
		key = pt_asprintf("%s%s(storage %u)", w->dir_key, w->dir_key[0] ? "/" : "", (unsigned)storage);
	}
	if (!key)
		return pt_fail_nomem();
	pt_shape_box(&spec.local, &box);
	spec.key = key;
	spec.global = &spec.local;
	spec.box = &box;
	rc = pt_object_writer_create(w->repo, &spec, &w->open);
	free(key);
	if (!rc) {
		w->open_storage = storage;
		w->open_bytes = 0;
	}
	return rc;
}

static int object_sealed(void *ctx, uint32_t storage, struct pt_part *part)
{
	struct pt_container_writer *w = ctx;

	*object_at(w, storage) = (struct pt_container_object){ part->object.blob, part->object.payload_off, part->object.bytes, part->object.hash,
							       part->object.crc32 };
	return pt_hold_add(w->hold, part);
}

static int object_close(struct pt_container_writer *w)
{
	struct pt_object_writer *open = w->open;

	w->open = NULL;
	return pt_seal_queue_add(&w->sealing, open, w->open_storage, object_sealed, w);
}

static int on_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	struct pt_container_writer *w = ctx;
	uint64_t at;
	int rc;

	if (!data || (const uint8_t *)data < w->chunk + w->chunk_used || (const uint8_t *)data + len > w->chunk + w->chunk_len)
		return pt_fail(EOPNOTSUPP, "the tensor's bytes are not stored as they are in the file (another byte order): it is kept as an ordinary file");
	at = (uint64_t)((const uint8_t *)data - w->chunk);
	rc = literal_add(w, w->chunk + w->chunk_used, at - w->chunk_used);
	if (rc < 0)
		return rc;
	w->chunk_used = at;
	if (!w->open) {
		rc = off ? pt_fail(EINVAL, "a storage comes in pieces") : object_open(w, storage);
		if (rc < 0)
			return rc;
	}
	if (storage != w->open_storage || off != w->open_bytes)
		return pt_fail(EINVAL, "payload bytes came out of order");
	rc = pt_object_writer_append(w->open, data, len);
	if (!rc)
		rc = segment_add(w, len, storage, off);
	if (rc < 0)
		return rc;
	w->chunk_used += len;
	w->open_bytes += len;
	return w->open_bytes == storage_at(w, storage)->bytes ? object_close(w) : 0;
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
	rc = w->dir_key ? pt_hold_create(repo, &w->hold) : pt_fail_nomem();
	if (!rc)
		rc = pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &w->parser);
	if (rc < 0) {
		pt_container_writer_free(w);
		return rc;
	}
	*ret_w = w;
	return 0;
}

static int fail_for_good(struct pt_container_writer *w, int rc, bool store)
{
	w->state = FAILED;
	w->error = rc;
	w->content = !store && pt_container_error_is_content(rc);
	snprintf(w->sentence, sizeof(w->sentence), "%s", pt_fail_sentence());
	return rc;
}

static int failed_before(const struct pt_container_writer *w)
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
	/* Also after a refusal: the image is what has been fed. */
	rest = rc < 0 && !pt_container_error_is_content(rc) ? 0 : literal_add(w, data + w->chunk_used, len - w->chunk_used);
	w->fed += len;
	if (!rc && !rest && w->image.literals.len > LITERALS_MAX)
		rest = pt_fail(EFBIG, "the file holds more than %llu MiB beside its tensors: it is kept as an ordinary file",
			       (unsigned long long)(LITERALS_MAX / PT_MIB));
	return rc < 0 ? rc : rest;
}

int pt_container_writer_feed(struct pt_container_writer *w, const void *data, uint64_t len)
{
	static const uint8_t zeros[ZEROS];
	uint64_t n;
	int rc = 0;

	if (w->state != FEEDING)
		return failed_before(w);
	if (data)
		rc = len ? feed_chunk(w, data, len) : 0;
	for (; !data && !rc && len; len -= n) {
		n = pt_size_min(len, ZEROS);
		rc = feed_chunk(w, zeros, n);
	}
	return rc < 0 ? fail_for_good(w, rc, false) : 0;
}

uint64_t pt_container_writer_fed(const struct pt_container_writer *w)
{
	return w->fed;
}

bool pt_container_writer_complete(const struct pt_container_writer *w)
{
	return w->state == FEEDING && pt_parser_complete(w->parser);
}

bool pt_container_writer_hopeful(const struct pt_container_writer *w)
{
	return w->state == FEEDING;
}

/* ---- the end ---- */

static int blob_store(struct pt_container_writer *w)
{
	struct pt_buf bytes = PT_BUF_INIT;
	struct pt_object_writer *out;
	int rc;

	rc = pt_container_encode(&w->image, &bytes);
	if (!rc)
		rc = pt_plain_writer_create(w->repo, &out);
	if (!rc) {
		rc = pt_object_writer_append(out, bytes.data, bytes.len);
		if (!rc)
			rc = pt_plain_writer_seal(out, &w->blob, &w->blob_bytes);
		else
			pt_object_writer_abort(out);
	}
	pt_buf_done(&bytes);
	return rc;
}

int pt_container_writer_seal(struct pt_container_writer *w)
{
	uint32_t i, n;
	int rc = 0;

	if (w->state == SEALED || w->state == PUBLISHED)
		return 0;
	if (w->state != FEEDING)
		return failed_before(w);
	rc = pt_parser_end(w->parser);
	if (rc < 0)
		return rc;
	w->image.format = pt_parser_format(w->parser);
	n = (uint32_t)(w->storages.len / sizeof(struct storage));
	for (i = 0; !rc && i < n; i++) {
		if (storage_at(w, i)->bytes)
			continue;
		rc = object_open(w, i);
		if (!rc)
			rc = object_close(w);
	}
	if (!rc)
		rc = pt_seal_queue_drain(&w->sealing, object_sealed, w);
	if (!rc)
		rc = blob_store(w);
	if (rc < 0)
		return fail_for_good(w, rc, true);
	w->state = SEALED;
	return 0;
}

int pt_container_writer_publish(struct pt_container_writer *w, struct pt_node *node)
{
	int rc;

	if (w->state != SEALED)
		return failed_before(w);
	node->blob = w->blob;
	node->size = w->image.size;
	rc = pt_hold_publish(w->hold, node, w->blob_bytes);
	w->publish_rc = rc;
	if (!rc)
		w->state = PUBLISHED;
	return rc;
}

/* An image of what came, without tensors: only to be read back. */
static int image_read_back(struct pt_container_writer *w, pt_container_out_fn *fn, void *ctx)
{
	struct pt_buf bytes = PT_BUF_INIT;
	struct pt_container *c = NULL;
	uint64_t off;
	int64_t n = 0;
	void *buf;
	int rc;

	w->image.tensors.len = w->image.names.len = w->image.numbers.len = 0;
	w->image.format = PT_FORMAT_BIN;
	buf = pt_malloc(STEP);
	rc = buf ? pt_container_encode(&w->image, &bytes) : pt_fail_nomem();
	if (!rc)
		rc = pt_container_decode(bytes.data, bytes.len, &c);
	if (!rc && c->size != w->fed)
		rc = pt_fail(EIO, "a file's first bytes cannot be read back");
	if (!rc || c) {
		bytes = (struct pt_buf)PT_BUF_INIT;
		c->repo = w->repo;
		for (off = 0; !rc && off < c->size; off += (uint64_t)n) {
			n = pt_container_read(c, buf, STEP, off);
			rc = n < 0 ? (int)n : n == 0 ? pt_fail(EIO, "a file's first bytes cannot be read back") : fn(ctx, buf, (uint64_t)n);
		}
	}
	pt_container_unref(c);
	pt_buf_done(&bytes);
	free(buf);
	return rc;
}

/* Objects held are recorded in groups; reading them needs their checksums in the index. */
int pt_container_writer_replay(struct pt_container_writer *w, pt_container_out_fn *fn, void *ctx)
{
	int rc = 0;

	if (w->state != FEEDING && !(w->state == FAILED && w->content) && w->state != SEALED)
		return failed_before(w);
	w->state = REPLAYED;
	if (w->open) {
		rc = pt_object_writer_append(w->open, NULL, storage_at(w, w->open_storage)->bytes - w->open_bytes);
		if (!rc)
			rc = object_close(w);
	}
	if (!rc)
		rc = pt_seal_queue_drain(&w->sealing, object_sealed, w);
	if (!rc)
		rc = pt_hold_record(w->hold);
	if (!rc)
		rc = image_read_back(w, fn, ctx);
	return rc;
}

void pt_container_writer_free(struct pt_container_writer *w)
{
	if (!w)
		return;
	pt_parser_free(w->parser);
	pt_object_writer_abort(w->open);
	pt_seal_queue_done(&w->sealing, w->repo);
	if (w->state != PUBLISHED)
		pt_blob_discard(w->repo, &w->blob, w->publish_rc);
	pt_hold_free(w->hold);
	pt_container_image_done(&w->image);
	pt_buf_done(&w->storages);
	free(w->dir_key);
	free(w);
}
