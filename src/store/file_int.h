/* store/file_int.h - what the parts of the file data engine share: its handle and the names below its directory.
 *
 *   objects/<first 2 hex digits of the id>/<32 hex>.safetensors | .blob      sealed, never changed
 *   staging/<token>/<32 hex>.safetensors | .blob                             being written by the owner of the token
 *   pins/<token>                                                             see pins.h */
#ifndef PT_STORE_FILE_INT_H
#define PT_STORE_FILE_INT_H

#include <pthread.h>
#include <sys/types.h>

#include "store/data.h"
#include "store/fdcache.h"
#include "store/pins.h"
#include "store/token.h"
#include "store/write_way.h"

#define PT_FILE_NAME_LEN (PT_ID_HEX_LEN + 16)

#define PT_FILE_AROUND_BUFFERS 4

/* How bytes go around the kernel's cache (file_around.c). */
struct pt_file_around {
	struct pt_write_way way;
	pthread_mutex_t lock;           /* all below, and around_fd of what is staged; memory_align is read without it once it was asked for */
	bool asked;
	uint32_t memory_align;          /* of what the disk is written from; 0: there is no such way */
	uint32_t buffers;
	void *buffer[PT_FILE_AROUND_BUFFERS];
	uint64_t bytes;                 /* that went so; atomic */
};

struct pt_file_store {
	char *dir;
	pid_t pid;
	bool read_only;                 /* its filesystem is */
	int dirfd, objects, staging, pins_dir;          /* descriptors of the directories */
	struct pt_pins *pins;
	struct pt_fdcache *cache;
	pthread_mutex_t lock;           /* token */
	struct pt_token token;          /* our directory below staging/, made when first needed */
	struct pt_file_around around;
};

/* A blob that is being written. */
struct pt_file_staged {
	struct pt_blob_ref ref;
	int fd;
	int around_fd;                  /* O_DIRECT; -1: none yet */
};

/* "<32 hex>.safetensors" or "<32 hex>.blob". */
void pt_file_name(const struct pt_blob_ref *ref, char ret_name[PT_FILE_NAME_LEN]);
/* "xx/" and the name, below objects/. */
void pt_file_object_name(const struct pt_blob_ref *ref, char ret_name[PT_FILE_NAME_LEN + 3]);
bool pt_file_name_parse(const char *name, struct pt_blob_ref *ret_ref);
/* A sentence for a failed system call on a blob. err > 0. */
int pt_file_fail(const struct pt_file_store *f, const struct pt_blob_ref *ref, const char *what, int err);

/* file_read.c */
void pt_file_read(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done);
void pt_file_stat(void *h, const struct pt_blob_ref *ref, uint64_t *ret_bytes, struct pt_done *done);
int pt_file_stamp(void *h, const struct pt_blob_ref *ref, uint64_t *ret_stamp);
pt_fdcache_open_fn pt_file_open_blob;
int pt_file_fd_get(void *h, const struct pt_blob_ref *ref, int *ret_fd, void **ret_lent);
void pt_file_fd_put(void *h, void *lent);
/* file_write.c */
void pt_file_create(void *h, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob, struct pt_done *done);
void pt_file_write(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done);
void pt_file_seal(void *h, void *blob, uint64_t bytes, struct pt_done *done);
void pt_file_abort(void *h, void *blob);
/* Whole pieces of zeros are left out. off and the pieces are aligned alike. */
int pt_file_write_around_zeros(int fd, const uint8_t *p, uint64_t len, uint64_t off);
/* file_around.c */
void pt_file_around_init(struct pt_file_around *a);
void pt_file_around_done(struct pt_file_around *a);
/* false: the bytes are to go through the cache. */
bool pt_file_write_around(struct pt_file_store *f, struct pt_file_staged *s, const void *buf, uint64_t len, uint64_t off);
/* Of the processor, in this thread. */
uint64_t pt_file_thread_ns(void);
/* file_list.c */
void pt_file_list(void *h, pt_data_list_fn *fn, void *ctx, struct pt_done *done);
void pt_file_tidy(void *h);
void pt_file_sweep(void *h, uint64_t *ret_count, struct pt_done *done);

#endif
