/* manifest/audit.h - whether index and blobs agree: one look at all records in one snapshot, then at all blobs. Changes nothing; safe beside readers and writers. */
#ifndef PT_MANIFEST_AUDIT_H
#define PT_MANIFEST_AUDIT_H

#include "manifest/repo.h"

struct pt_audit {
	uint64_t records, directories, files, revisions, sets, objects, object_bytes;
	uint64_t waiting;               /* blobs that the next collection removes */
	uint64_t orphans, orphan_bytes; /* sealed, and no record names them */
	uint64_t staged, staged_bytes;  /* left behind by writers that have died */
	uint64_t problems;
};

/* One line, in the calling thread: what is wrong with what. */
typedef void pt_audit_problem_fn(void *ctx, const char *problem);
/* done of all: records, then objects. May be NULL. */
typedef void pt_audit_progress_fn(void *ctx, const char *what, uint64_t done);

/* -EIO: a record is damaged, so that the rest cannot be told; -ENOMEM, and what engines fail with. */
int pt_repo_audit(struct pt_repo *repo, pt_audit_problem_fn *problem, pt_audit_progress_fn *progress, void *ctx, struct pt_audit *ret_audit);

#endif
