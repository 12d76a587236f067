/* manifest/checked.h - per process: objects that are pinned, their checksums, and which of their chunks have been verified since, or found damaged. Thread-safe. */
#ifndef PT_MANIFEST_CHECKED_H
#define PT_MANIFEST_CHECKED_H

#include "manifest/record.h"

struct pt_repo;
struct pt_checked;

/* One object; shared by all who hold it. */
struct pt_checked_object;

int pt_checked_create(struct pt_checked **ret_checked);
void pt_checked_free(struct pt_checked *checked);
/* Each get wants a put. What has been verified is remembered after the last one, of the objects that were put last, in PT_CHECKED_KEPT_BYTES of memory, and counts
 * again if the engine says then that the bytes are still the same (pt_data_stamp). Smaller objects than PT_CHECKED_KEPT_MIN are sooner hashed than looked at, but where that is asked for (renew). -ENOMEM; -EIO: no
 * object has so many bytes, or others say that it has another number of them. */
#define PT_CHECKED_KEPT_BYTES ((uint64_t)8 << 20)
#define PT_CHECKED_KEPT_MIN ((uint64_t)64 << 10)
int pt_checked_get(struct pt_checked *checked, const struct pt_object *object, struct pt_checked_object **ret_object);
void pt_checked_put(struct pt_checked *checked, struct pt_checked_object *object);
/* As _put, by id. */
void pt_checked_drop(struct pt_checked *checked, const struct pt_id *id);
/* Before its chunks are asked for or read: finds out whether what is remembered still counts, and, with PT_VERIFY_TOUCH, whether any process of this machine has verified all of it
 * (pt_data_proved). What is found of bytes that are read after it is told with its number. */
uint64_t pt_checked_begin(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob);
/* As _begin, also when others have begun: of a blob that has been changed since then nothing counts as verified any more. */
uint64_t pt_checked_renew(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob);
/* The chunk's XXH3-64; loads the checksums at first use. -EIO. */
int pt_checked_hash(struct pt_repo *repo, struct pt_checked_object *object, uint64_t chunk, uint64_t *ret_hash);
bool pt_checked_test(const struct pt_checked_object *object, uint64_t chunk);
/* All of its chunks have been, when the blob had this stamp. */
bool pt_checked_whole(struct pt_checked *checked, struct pt_checked_object *object, uint64_t stamp);
/* Nothing if the blob has been found changed since `begun`. The last chunk of all tells the engine (pt_data_prove). */
void pt_checked_set(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob, uint64_t chunk, uint64_t begun);
/* Tells it (again) if all chunks are. */
void pt_checked_tell(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob, uint64_t begun);
/* Damage that was seen once is not served to a read that a checksum would not cover. Until the last put. The engine is told (pt_data_doubt). */
bool pt_checked_is_bad(const struct pt_checked_object *object, uint64_t chunk);
void pt_checked_set_bad(struct pt_repo *repo, struct pt_checked_object *object, const struct pt_blob_ref *blob, uint64_t chunk);
void pt_checked_set_good(struct pt_checked_object *object, uint64_t chunk);

#endif
