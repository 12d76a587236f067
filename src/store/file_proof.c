/* store/file_proof.c - the file engine's memory of what has been verified: the state of a blob's file, and the ledger of the states that were found right. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/file_state.h"
#include "base/hash.h"
#include "base/process.h"
#include "store/file_int.h"

/* One that nothing else has: what is seen of a file while its times tell nothing counts for nobody else. */
static uint64_t stamp_once(const struct pt_blob_ref *ref)
{
	static _Atomic uint64_t serial;
	uint8_t b[sizeof(ref->id.b) + 8];

	memcpy(b, ref->id.b, sizeof(ref->id.b));
	pt_put_le64(b + sizeof(ref->id.b), atomic_fetch_add(&serial, 1));
	return pt_hash64(b, sizeof(b)) | 1;
}

int pt_file_stamp(void *h, const struct pt_blob_ref *ref, uint64_t *ret_stamp)
{
	struct pt_file_store *f = h;
	struct pt_fdcache_file *file;
	struct pt_file_state state;
	int rc;

	rc = pt_file_get_named(f, ref, &file);
	if (rc < 0)
		return rc;
	rc = pt_file_state_get(file->fd, &state);
	if (rc == 0)
		*ret_stamp = pt_file_state_stamp(&state);
	else if (rc == -EAGAIN)
		*ret_stamp = stamp_once(ref);
	else
		pt_file_fail(f, ref, "look at", -rc);
	pt_fdcache_put(f->cache, file);
	return rc == -EAGAIN ? 0 : rc;
}

bool pt_file_proved(void *h, const struct pt_blob_ref *ref, uint64_t stamp)
{
	struct pt_file_store *f = h;

	return pt_ledger_has(f->ledger, ref, stamp);
}

void pt_file_prove(void *h, const struct pt_blob_ref *ref, uint64_t stamp)
{
	struct pt_file_store *f = h;

	if (f->pid == pt_process_id())
		pt_ledger_add(f->ledger, ref, stamp);
}

void pt_file_doubt(void *h, const struct pt_blob_ref *ref)
{
	struct pt_file_store *f = h;

	if (f->pid == pt_process_id())
		pt_ledger_withdraw(f->ledger, ref);
}

void pt_file_proof_counts(void *h, uint64_t *ret_told, uint64_t *ret_failed)
{
	struct pt_file_store *f = h;

	pt_ledger_counts(f->ledger, ret_told, ret_failed);
}

static bool is_there(void *ctx, const struct pt_blob_ref *ref)
{
	return pt_file_is_there(ctx, ref);
}

void pt_file_proof_sweep(struct pt_file_store *f)
{
	if (!f->read_only && f->pid == pt_process_id())
		pt_ledger_sweep(f->ledger, is_there, f);
}
