/* manifest/wait.c - waiting for a revision: look, then wait for the index to change from what it was before the look. */
#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "base/io.h"
#include "manifest/internal.h"

int pt_manifest_wait(struct pt_repo *repo, uint64_t node, const char *scope, uint64_t after, int64_t timeout_ns, struct pt_manifest **ret_m)
{
	int64_t deadline_ns = pt_time_boot_ns(), left_ns;
	struct pt_manifest *m;
	uint64_t version;
	int rc;

	if (__builtin_add_overflow(deadline_ns, timeout_ns, &deadline_ns))
		deadline_ns = INT64_MAX;
	rc = pt_meta_watch(&repo->store->meta, UINT64_MAX, 0, &version);
	while (!rc) {
		rc = pt_manifest_get(repo, node, scope, &m);
		if (!rc && m->revision > after) {
			*ret_m = m;
			return 0;
		}
		if (!rc)
			pt_manifest_unref(m);
		if (rc < 0 && rc != -ENOENT)
			break;
		left_ns = deadline_ns - pt_time_boot_ns();
		if (left_ns <= 0)
			return pt_fail(ETIMEDOUT, "no revision after %" PRIu64 " was committed in time", after);
		rc = pt_meta_watch(&repo->store->meta, version, left_ns, &version);
	}
	return rc;
}
