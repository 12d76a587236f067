/* format/parse.h - push parsers: a tensor file goes in, in pieces of any size; tensors and their bytes come out.
 *
 * The parser tells its sink of every storage and tensor before the first payload byte, then hands payload bytes on, in order
 * within a storage. Memory is bounded by the header (safetensors 100 MB, pickle 64 MB, npy 64 KiB), never by the file. Nothing in a pickle is
 * executed or looked up; globals outside a short list are refused by name. Pure: no I/O, no threads. */
#ifndef PT_FORMAT_PARSE_H
#define PT_FORMAT_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/format.h"
#include "format/obj.h"
#include "layout/box.h"

/* A tensor as a strided window of one storage. */
struct pt_parse_tensor {
	const char *name;               /* state-dict path joined with "."; "" for a bare tensor. Valid during the call */
	enum pt_dtype dtype;
	struct pt_shape shape;
	uint32_t storage;               /* index, in order of announcement */
	uint64_t storage_off;           /* bytes into the storage */
	bool contiguous;                /* row-major, so its bytes are [storage_off, storage_off + bytes) of the storage */
	uint64_t stride[PT_DIMS_MAX];   /* elements, when not contiguous (fp4: bytes of pairs) */
	const struct pt_obj *obj;       /* obj format: the decoded header, else NULL */
};

struct pt_parse_sink {
	void *ctx;
	/* All of these return 0 or -errno; an error stops the parser with it. */
	int (*storage)(void *ctx, uint32_t storage, uint64_t bytes);
	int (*tensor)(void *ctx, const struct pt_parse_tensor *t);
	/* Everything is announced; payload bytes follow (if any). */
	int (*header_done)(void *ctx);
	/* Bytes [off, off+len) of a storage; data NULL: that many zero bytes. Only storages with bytes > 0. */
	int (*data)(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len);
	/* The file's last byte has been seen and all checks passed. */
	int (*complete)(void *ctx);
};

/* What the caller knows about a file that does not say it itself. */
struct pt_parse_hint {
	enum pt_dtype dtype;            /* PT_DTYPE_INVALID: not known. bin needs it; npy <V2 and <V1 use it */
	bool has_shape;
	struct pt_shape shape;          /* bin */
	uint64_t file_size;             /* 0: not known */
};

struct pt_parser;

/* format: what to expect, or PT_FORMAT_COUNT: recognise by content (bin, too, when nothing else matches and the hint gives dtype and shape; PT_FORMAT_BIN forces it).
 * sink and hint are copied. */
int pt_parser_create(enum pt_format format, const struct pt_parse_sink *sink, const struct pt_parse_hint *hint, struct pt_parser **ret_p);
void pt_parser_free(struct pt_parser *p);
/* Next len bytes of the file; data NULL: zeros (a hole in a sparse copy). 0 or the error that the parser now holds for good:
 * EINVAL malformed or refused, EFBIG over a limit, EOPNOTSUPP a dtype ptio has not, ENOMEM, or what the sink returned. */
int pt_parser_feed(struct pt_parser *p, const void *data, uint64_t len);
uint64_t pt_parser_fed(const struct pt_parser *p);              /* bytes so far */
bool pt_parser_complete(const struct pt_parser *p);
/* The format recognised, PT_FORMAT_COUNT before that. */
enum pt_format pt_parser_format(const struct pt_parser *p);
/* Says in the sentence what is missing when the stream ends here (-EINVAL), 0 when complete. */
int pt_parser_end(struct pt_parser *p);

/* Row-major copy of a strided tensor: reads from a storage held in memory or mapped, writes elements [first, first+n) to out.
 * Elements are those of the strides: fp4 counts bytes of pairs. The window lies within the tensor. */
void pt_gather_strided(const void *storage, const struct pt_parse_tensor *t, uint64_t first_elem, uint64_t elem_count, void *out);
/* Where the bytes of a tensor that lies strided end in its storage: behind the last one that any element reaches; storage_off when it has none. false: beyond 2^64. */
bool pt_gather_reach(const struct pt_parse_tensor *t, uint64_t *ret_end);

#endif
