/* tree/container.h - tensor files kept as they are, or as their own bytes around references to objects (docs/SPEC-store.md "Containers").
 *
 * A container is a node whose blob says which ranges of which objects its file is made of, holds every byte of the file that is in none of them, and lists the file's
 * tensors, each as a window of one object. What is written now is either verbatim, with one object that is the file from its first byte to its last, or it has one tensor
 * that is all of its object, with the rest of the file around it; in stores of before files of any number of tensors have an object for each storage. A bundle is the other kind: a list of keys of its directory, which reads as one synthesised
 * file of their current revisions (what sharded state-dict writes leave behind). Its literals, if there are any, are the data.pkl whose shape that file has; the keys
 * are in the order of that pickle's tensors then. It has no keys before the first round of its ranks is complete. Loaded containers are immutable and shared by threads. */
#ifndef PT_TREE_CONTAINER_H
#define PT_TREE_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "format/parse.h"
#include "manifest/repo.h"

#define PT_CONTAINER_LITERAL UINT32_MAX

struct pt_container_object {
	struct pt_blob_ref blob;
	uint64_t payload_off, bytes;
	struct pt_hash128 hash;
	uint32_t crc32;
};

struct pt_container_segment {           /* in file order */
	uint64_t end;                   /* in the file, of the byte after the last */
	uint64_t off;                   /* in the object's payload, or in the literals */
	uint32_t object;                /* or PT_CONTAINER_LITERAL */
};

struct pt_container_tensor {
	uint32_t name;                  /* offset in names */
	uint32_t dims;                  /* index in numbers: ndim extents, then, unless contiguous, ndim strides, then, if summed, its CRC-32 */
	uint32_t object;                /* bundles: PT_CONTAINER_LITERAL */
	uint8_t dtype, ndim;
	bool contiguous;
	bool whole;                     /* row-major and all of its object: contiguous, off 0, same bytes */
	bool summed;
	uint32_t crc32;                 /* 0: not known */
	uint64_t off;                   /* in the object's payload */
};

/* Ranks' files that have come for a bundle, and are not shown before all of them have. */
struct pt_container_round {
	uint64_t round;                 /* struct pt_group_round */
	const char *scope, *step;
	const uint8_t *ranks;           /* a bit each, the lowest first */
	uint32_t rank_bytes, name_count;
	const char *names;              /* of their tensors, one after the other, each ended by NUL */
};
#define PT_CONTAINER_ROUNDS 8           /* under way at once, one file */

struct pt_container {
	int refs;                       /* atomic */
	struct pt_repo *repo;           /* not owned */
	uint64_t node;                  /* its namespace node */
	struct pt_blob_ref blob;
	uint64_t blob_bytes;
	uint64_t size;                  /* of the file; bundles: 0 */
	enum pt_format format;
	bool bundle;
	bool bare;                      /* a bare tensor (not in a dict) without a name of its own */
	bool verbatim;                  /* one plain blob is the file; literals, of a torch file, are a copy of what is before its first payload */
	uint32_t object_count, segment_count, tensor_count;
	struct pt_container_object *objects;
	struct pt_container_segment *segments;
	struct pt_container_tensor *tensors;
	char *names;
	uint64_t *numbers;
	const uint8_t *literals;        /* in data */
	uint64_t literal_bytes;
	struct pt_container_round rounds[PT_CONTAINER_ROUNDS];  /* of a bundle, the latest last; pointers into data */
	uint32_t round_count;
	uint8_t *data;                  /* the blob */
};

/* Reads the container that this node (as read) holds. -ESTALE: it has been replaced. -EIO damaged. */
int pt_container_load(struct pt_repo *repo, const struct pt_node *node, struct pt_container **ret_c);
/* The same, but 1: its record is damaged or missing, as the sentence says. It stays so, which -EIO of a store that is away need not. */
int pt_container_try(struct pt_repo *repo, const struct pt_node *node, struct pt_container **ret_c);
/* From the blob's bytes, which it takes over on success. -EIO. */
int pt_container_decode(uint8_t *data, size_t len, struct pt_container **ret_c);
struct pt_container *pt_container_ref(struct pt_container *c);
void pt_container_unref(struct pt_container *c);                        /* NULL is fine */
/* File bytes; the container's blob is pinned by the caller. Bytes read (short only at the end) or -errno. Thread-safe. Not for bundles. */
int64_t pt_container_read(struct pt_container *c, void *buf, uint64_t len, uint64_t off);
/* Where a read that begins at off had best end: at most max bytes later, and not in the middle of a chunk that has a checksum, for that would be read twice. */
uint64_t pt_container_cut(const struct pt_container *c, uint64_t off, uint64_t max);
/* While its blob is pinned: chunks that a read has verified are not verified again. How many objects are held, for the release: a failure only costs time. */
uint32_t pt_container_hold(struct pt_container *c);
void pt_container_release(struct pt_container *c, uint32_t held);
/* The file is one blob, byte for byte from its first to its last: it can be read where the store has it. */
bool pt_container_stored(const struct pt_container *c, struct pt_blob_ref *ret_blob);
/* Of such a file: verifies what [off, off+len) lies in, as pt_object_check. */
int pt_container_check(struct pt_container *c, uint64_t off, uint64_t len);
/* Of such a file, held: all of it has been verified, when its blob's file had this stamp (pt_object_whole). */
bool pt_container_whole(struct pt_container *c, uint64_t stamp);
/* Of such a file: if the blob has been changed since its chunks were verified, they are verified again. */
void pt_container_renew(struct pt_container *c);
/* Tensor i; name and shape are valid as long as c. */
void pt_container_tensor(const struct pt_container *c, uint32_t i, struct pt_parse_tensor *ret_t);
/* Tensor i as a manifest of its own for pt_view_of_*; *ret_lies: as pt_container_tensor, but how it lies in the manifest's object, which begins and ends where the tensor
 * does. */
int pt_container_manifest(const struct pt_container *c, uint32_t i, struct pt_manifest **ret_m, struct pt_parse_tensor *ret_lies);
/* Reads all of one object and checks its hashes, as pt_object_verify. Its blob is pinned. */
int pt_container_verify(const struct pt_container *c, uint32_t object, void (*progress)(void *ctx, uint64_t bytes), void *ctx);

/* Its only tensor, if that is all of the only object: what can be referred to in place of the file. */
bool pt_container_single(const struct pt_container *c, struct pt_parse_tensor *ret_t, struct pt_object *ret_object);

/* ---- writing (container_write.c) ---- */
struct pt_container_writer;

/* dir_key: the key of the directory, for the objects' metadata. */
int pt_container_writer_create(struct pt_repo *repo, const char *dir_key, struct pt_container_writer **ret_w);
/* The file's bytes in order; NULL: zeros. They are stored as they come, once the header has. -EINVAL, -EFBIG, -EOPNOTSUPP: no file that can be a container (the sentence says
 * why); other failures are the store's. Errors stay. */
int pt_container_writer_feed(struct pt_container_writer *w, const void *data, uint64_t len);
uint64_t pt_container_writer_fed(const struct pt_container_writer *w);
/* Is what came so far a whole tensor file that is not sealed yet? More bytes may follow, and make it none. */
bool pt_container_writer_complete(const struct pt_container_writer *w);
/* Can what came so far be a tensor file? false once feeding has failed for what the bytes are. */
bool pt_container_writer_hopeful(const struct pt_container_writer *w);
/* The whole file has been fed: its blobs are sealed. -EINVAL: incomplete. */
int pt_container_writer_seal(struct pt_container_writer *w);
/* After seal: the node (a file, as read; its times and attributes as wanted) becomes the container. -EAGAIN: read the node again and repeat. */
int pt_container_writer_publish(struct pt_container_writer *w, struct pt_node *node);
/* Reads back what has been fed, for a file that turned out to be none: sealed as far as it came. Feeding is over. fn gets the bytes in order. */
typedef int pt_container_out_fn(void *ctx, const void *data, uint64_t len);
int pt_container_writer_replay(struct pt_container_writer *w, pt_container_out_fn *fn, void *ctx);
void pt_container_writer_free(struct pt_container_writer *w);           /* drops what was not published; NULL is fine */

/* A bundle's blob for these keys (components below the directory) in this format. pickle: empty for a flat file. rounds: what pt_bundle_round_append has made of some. */
int pt_bundle_encode(enum pt_format format, const char *const *names, uint32_t count, const struct pt_buf *pickle, const struct pt_buf *rounds, struct pt_buf *ret_blob);
/* names: one after the other as in the round, or, if that has NULL, these. */
void pt_bundle_round_append(struct pt_buf *rounds, const struct pt_container_round *r, const char *const *names);
/* What of errors says "not this kind of file" rather than "the store failed". */
static inline bool pt_container_error_is_content(int rc)
{
	return rc == -22 /* EINVAL */ || rc == -27 /* EFBIG */ || rc == -95 /* EOPNOTSUPP */ || rc == -75 /* EOVERFLOW */;
}

/* ---- the blob's bytes (container_code.c) ---- */
struct pt_container_image {             /* what a writer gathers */
	enum pt_format format;
	bool bundle, bare, verbatim;
	uint64_t size;
	struct pt_buf objects, segments, tensors, names, numbers;       /* arrays of the structs above; names NUL-terminated */
	struct pt_buf literals, rounds;
};

void pt_container_image_done(struct pt_container_image *im);
int pt_container_encode(const struct pt_container_image *im, struct pt_buf *ret_blob);

#endif
