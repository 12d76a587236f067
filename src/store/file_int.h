/* store/file_int.h - what the parts of the file data engine share: its handle and the names below its directory.
 *
 *   objects/<first 2 hex digits of the id>/<32 hex>.safetensors | .blob      sealed, never changed
 *   staging/<token>/<32 hex>.safetensors | .blob                             being written by the owner of the token
 *   verified/<boot>                                                          see ledger.h
 *   pins/<token>                                                             see pins.h */
#ifndef PT_STORE_FILE_INT_H
#define PT_STORE_FILE_INT_H

#include <pthread.h>
#include <sys/types.h>

#include "store/data.h"
#include "store/fdcache.h"
#include "store/ledger.h"
#include "store/pins.h"
#include "store/token.h"

#define PT_FILE_NAME_LEN (PT_ID_HEX_LEN + 16)

struct pt_file_store {
	char *dir;
	pid_t pid;
	bool read_only;                 /* its filesystem is */
	int dirfd, objects, staging, pins_dir;          /* descriptors of the directories */
	struct pt_pins *pins;
	struct pt_fdcache *cache;
	struct pt_ledger *ledger;
	pthread_mutex_t lock;           /* token */
	struct pt_token token;          /* our directory below staging/, made when first needed */
};

/* "<32 hex>.safetensors" or "<32 hex>.blob". */
void pt_file_name(const struct pt_blob_ref *ref, char ret_name[PT_FILE_NAME_LEN]);
/* The folder below objects/ that a sealed blob is in, with O_PATH, and its name there. -ENOENT: there is none, and so no such blob; what pt_folder_open fails with. what: is to be
 * done with the blob, for the sentence. */
int pt_file_bucket(const struct pt_file_store *f, const struct pt_blob_ref *ref, const char *what, char ret_name[PT_FILE_NAME_LEN], int *ret_fd);
/* Whether it is there. */
bool pt_file_is_there(const struct pt_file_store *f, const struct pt_blob_ref *ref);
bool pt_file_name_parse(const char *name, struct pt_blob_ref *ret_ref);
/* A sentence for a failed system call on a blob. err > 0. */
int pt_file_fail(const struct pt_file_store *f, const struct pt_blob_ref *ref, const char *what, int err);

/* file_read.c */
void pt_file_read(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done);
void pt_file_stat(void *h, const struct pt_blob_ref *ref, uint64_t *ret_bytes, struct pt_done *done);
int pt_file_stamp(void *h, const struct pt_blob_ref *ref, uint64_t *ret_stamp);
pt_fdcache_open_fn pt_file_open_blob;
/* As pt_fdcache_get; a file of which another has taken the name is not it. */
int pt_file_get_named(struct pt_file_store *f, const struct pt_blob_ref *ref, struct pt_fdcache_file **ret_file);
int pt_file_fd_get(void *h, const struct pt_blob_ref *ref, int *ret_fd, void **ret_lent);
void pt_file_fd_put(void *h, void *lent);
/* file_proof.c */
bool pt_file_proved(void *h, const struct pt_blob_ref *ref, uint64_t stamp);
void pt_file_prove(void *h, const struct pt_blob_ref *ref, uint64_t stamp);
void pt_file_hashed(void *h, void *blob);
void pt_file_doubt(void *h, const struct pt_blob_ref *ref);
void pt_file_proof_counts(void *h, uint64_t *ret_told, uint64_t *ret_failed);
void pt_file_proof_sweep(struct pt_file_store *f);
/* file_write.c */
void pt_file_create(void *h, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob, struct pt_done *done);
void pt_file_write(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done);
void pt_file_seal(void *h, void *blob, uint64_t bytes, struct pt_done *done);
void pt_file_abort(void *h, void *blob);
/* file_list.c */
void pt_file_list(void *h, pt_data_list_fn *fn, void *ctx, struct pt_done *done);
void pt_file_tidy(void *h, const struct pt_blob_ref *ref);
void pt_file_sweep(void *h, uint64_t *ret_count, struct pt_done *done);

#endif
