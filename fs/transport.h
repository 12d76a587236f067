/* fs/transport.h - what .ptio/status.json and .ptio/metrics say of the way to a store on another machine. */
#ifndef PT_FS_TRANSPORT_H
#define PT_FS_TRANSPORT_H

#include <jansson.h>

#include "fs.h"

/* "local", "tcp", "tcp+tls" or "rdma": how objects are read now. */
const char *pt_fs_transport_name(const struct pt_fs *fs);
bool pt_fs_transport_is_remote(const struct pt_fs *fs);                 /* the store is a daemon's */
/* Whether the store is a daemon's, and it is not reached now. */
bool pt_fs_transport_is_down(const struct pt_fs *fs);
/* A member "remote" of root, for stores that a daemon exports. root may be NULL. */
void pt_fs_transport_status(const struct pt_fs *fs, json_t *root);
/* Its counters; none for a local store. */
void pt_fs_transport_text(const struct pt_fs *fs, void (*metric)(struct pt_buf *out, const char *name, const char *type, const char *help, uint64_t value),
			  struct pt_buf *out);

#endif
