/* manifest/describe.h - what an object says of itself, without the index: its header and metadata (docs/SPEC-store.md "Objects"). */
#ifndef PT_MANIFEST_DESCRIBE_H
#define PT_MANIFEST_DESCRIBE_H

#include "manifest/repo.h"

struct pt_described {
	char key[PT_KEY_MAX + 1];       /* when it was written */
	/* Ready for pt_commit_part but for checksums, owner and time. The split rule is not told: balanced, unless only the other one owns the box (pt_described_split). */
	struct pt_part part;
	struct pt_shape extent;         /* of the payload */
};

/* bytes: of the blob. -EIO: the header is not one that an object of this size and id has; -ENOENT, -ENOMEM. Thread-safe. */
int pt_object_describe(struct pt_data *data, const struct pt_blob_ref *blob, uint64_t bytes, struct pt_described *ret_d);
/* The header alone: its text, of a blob with that much payload; fills what is zero in *d but for where the payload is. -EIO. */
int pt_described_decode(const struct pt_blob_ref *blob, const char *text, size_t len, uint64_t payload, struct pt_described *d);
/* Its box is the one that the part owns by this rule; always of those that nothing splits, and of tp shards. */
bool pt_described_split(const struct pt_described *d, enum pt_split split);

#endif
