/* tensor/upload_int.h - the state of an upload, shared by upload.c (streams) and upload_begin.c (what is stored). Internal to tensor/. */
#ifndef PT_TENSOR_UPLOAD_INT_H
#define PT_TENSOR_UPLOAD_INT_H

#include "tensor/slice.h"
#include "tensor/spool.h"
#include "tensor/tensor.h"

/* Fed in order: OPEN -> BEGUN (the tensor is known, its object is being written) -> SEALED -> PUBLISHED; any -> FAILED, for good. */
enum upload_state { UPLOAD_OPEN, UPLOAD_BEGUN, UPLOAD_SEALED, UPLOAD_PUBLISHED, UPLOAD_FAILED };

struct pt_upload {
	enum upload_state state;
	int error;                      /* FAILED: -errno, and its sentence */
	char sentence[512];
	struct pt_repo *repo;           /* not owned */
	uint64_t node;
	struct pt_request req;          /* completed */
	struct pt_upload_options options;
	enum pt_written written;
	bool dim_defaulted;             /* nobody named the dimension: it does not define it for readers */
	bool object_only;               /* writer=.../shard: only a tensor object says where its slice belongs */
	enum pt_split split;
	struct pt_partition cut;        /* TP_* and WRITER */
	char scope[PT_LAYOUT_TEXT_MAX];
	struct pt_layout scope_axes;

	/* the file */
	struct pt_parser *parser;       /* made at the first byte */
	uint64_t storage_count;
	uint64_t tensor_count;
	struct pt_parse_tensor tensor;  /* the first; name and obj are not kept */
	uint64_t tensor_storage_bytes;
	struct pt_obj obj;              /* its header, if has_obj */
	bool has_obj;
	uint64_t *storage_bytes;        /* until the header is done */
	struct pt_spool spool;          /* when the tensor is not contiguous */

	/* the object */
	struct pt_object_writer *writer;
	struct pt_slice slice;
	struct pt_part part;
	struct pt_published published;
};

/* Decides what is stored for a tensor of the file (obj: its tensor object header, or NULL), and starts its object. */
int pt_upload_begin(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape, const struct pt_obj *obj);
/* The same, of an object that is there: its box, axes and place in the set, in u->part. -EXDEV: it is not all of the object. */
int pt_upload_begin_stored(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape, const struct pt_object *object);
/* All bytes are in: seals the object. */
int pt_upload_seal(struct pt_upload *u);

#endif
