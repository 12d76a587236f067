/* tensor/api_int.h - what the files of the public API share: the handle, and turning public requests into internal ones. Internal to tensor/. */
#ifndef PT_TENSOR_API_INT_H
#define PT_TENSOR_API_INT_H

#include <pthread.h>

#include "ptio/ptio.h"
#include "tensor/tensor.h"

struct pt_region {
	uint8_t *addr;
	uint64_t len;
};

struct ptio {
	struct pt_repo *repo;
	pthread_mutex_t lock;           /* regions, region_count */
	struct pt_region *regions;      /* by address, disjoint */
	size_t region_count;
};

/* Bytes of a registered region from addr to its end; 0 when addr is in none. */
uint64_t pt_api_region_left(struct ptio *p, const void *addr);

/* -EINVAL: empty, too long, not UTF-8. */
int pt_api_key_check(const char *key);
int pt_api_request_read(const struct ptio_read_target *target, struct pt_request *ret_req);
/* from: the source is a full tensor object (api_write.c). */
int pt_api_request_write(const struct ptio_write *how, bool from, struct pt_request *ret_req);
void pt_api_axis_out(const struct pt_axis *a, struct ptio_axis *ret_axis);

/* The node of a key, for reading. -ENOENT. */
int pt_api_node(struct ptio *p, const char *key, uint64_t *ret_node);
/* A view that is pinned: whoever gets it unpins and unrefs (pt_api_view_close). */
int pt_api_view_open(struct ptio *p, const char *key, const struct pt_request *req, struct pt_view **ret_view);
void pt_api_view_close(struct pt_view *v);
/* Any file's bytes become key; used by put and by loading files. */
struct pt_api_source {
	const struct ptio_tensor *tensor;       /* or */
	const void *object;                     /* a tensor object of size bytes, or */
	uint64_t size;
	int fd;                                 /* a safetensors file; used when the others are NULL */
};
/* Finds or makes the node of a key and calls fn with it, again where the key was removed meanwhile; what was made for a call that fails goes with it. */
int pt_api_at_key(struct ptio *p, const char *key, int (*fn)(void *ctx, uint64_t node), void *ctx);
int pt_api_write(struct ptio *p, const char *key, const struct pt_api_source *src, const struct pt_request *req, bool put);
/* Feeds a whole source into an upload; on success it is complete. */
int pt_api_feed(struct pt_upload *u, const struct pt_api_source *src);
/* Opens an upload as the API does: for a new file of this process. */
int pt_api_upload_open(struct ptio *p, uint64_t node, const struct pt_api_source *src, const struct pt_request *req, bool put, struct pt_upload **ret_u);
/* -EINVAL unless it is a whole tensor object that this request may take. */
int pt_api_object_check(const void *object, uint64_t size, const struct pt_request *req);

#endif
