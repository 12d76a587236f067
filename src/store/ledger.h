/* store/ledger.h - which blobs of a folder have been verified on this machine since it was booted, by whichever process, and what their files were like then.
 *
 * A file of records (docs/SPEC-store.md "What has been verified") that processes append to. It is a help and no more: where it cannot be read or written, nothing in it counts, or
 * nothing is added, and no call fails for it. Nothing is opened before it is first asked. Thread-safe; of one process, a child of fork() leaves it alone. */
#ifndef PT_STORE_LEDGER_H
#define PT_STORE_LEDGER_H

#include "store/data.h"

struct pt_ledger;

#define PT_LEDGER_DIR "verified"
#define PT_LEDGER_RECORD 40
#define PT_LEDGER_BYTES_MAX ((uint64_t)8 << 20)
#define PT_LEDGER_SWEEP_MIN ((uint64_t)256 << 10)       /* smaller files are left as they are */

/* dirfd: of the folder, the caller's. boot: the machine's boot, which names the file; NULL: this one. -ENOMEM. */
int pt_ledger_create(int dirfd, const char *boot, struct pt_ledger **ret_ledger);
void pt_ledger_free(struct pt_ledger *l);                               /* NULL is fine */
/* All of the blob has been verified when its file had this stamp (base/file_state.h). */
bool pt_ledger_has(struct pt_ledger *l, const struct pt_blob_ref *ref, uint64_t stamp);
void pt_ledger_add(struct pt_ledger *l, const struct pt_blob_ref *ref, uint64_t stamp);
/* Damage was found in it: what was added of it counts no more, for no process. */
void pt_ledger_withdraw(struct pt_ledger *l, const struct pt_blob_ref *ref);
/* Removes files of other boots, and writes this one's anew when most of it is about blobs that are gone (lives says which are not), or it is full. */
typedef bool pt_ledger_lives_fn(void *ctx, const struct pt_blob_ref *ref);
void pt_ledger_sweep(struct pt_ledger *l, pt_ledger_lives_fn *lives, void *ctx);
/* Records that were added by this process, and those that could not be. */
void pt_ledger_counts(struct pt_ledger *l, uint64_t *ret_added, uint64_t *ret_failed);

#endif
