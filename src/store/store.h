/* store/store.h - opening a store by URI: a meta engine and a data engine together. */
#ifndef PT_STORE_STORE_H
#define PT_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/data.h"
#include "store/meta.h"

struct pt_store {
	struct pt_meta meta;
	struct pt_data data;
	char *uri;                      /* as given */
	char *dir;                      /* dir: stores; else NULL */
	int dirfd;                      /* of these: the directory, which it has the lock on (held.h); else -1 */
	bool durable;
	bool read_only;
};

struct pt_store_options {
	bool read_only;                 /* refuse every change; the store must exist */
	bool create;                    /* make a dir: store that is not there */
	const char *index;              /* of a dir: store that the caller has alone: another index in its directory, made if it is not there; NULL: the store's own */
	int index_dirfd;                /* with it: that directory, the caller's */
	bool force;                     /* allow a dir: store on NFS, 9p or FUSE */
	/* Fault layer stacked under both engines: "" or e.g. "data.read:error=EIO:after=3,meta.commit:delay_ms=200,data.seal:crash:after=1".
	 * NULL: from the environment PTIO_FAULTS. See store/fault.h. */
	const char *faults;
	uint64_t reserve_bytes;         /* memory that a mem: store has ready for what is written, of its size; 0: none */
	/* Of ptio:// stores. */
	const char *secret_file;        /* NULL: from the environment PTIO_SECRET_FILE, else none */
	bool tls;                       /* as also the environment PTIO_TLS=1 says */
	/* The RDMA device to use, its port and the index of its GID; NULL: from the environment PTIO_RDMA_DEVICE, PTIO_RDMA_PORT, PTIO_RDMA_GID, else
	 * the one that has the address PTIO_RDMA_BIND, else as routed. -ENODEV: there is no such. */
	const char *rdma_device, *rdma_port, *rdma_gid;
	int64_t timeout_ns;             /* after which what the daemon does not answer fails; 0: PTIO_TIMEOUT seconds, else 30 s */
};

/* URIs: "/path", "dir:/path", "mem:SIZE" (64M, 2G; a private in-memory index beside it), "ptio://host:port[,host:port]" (a ptiod; the first that answers),
 * "tcp://..." (the same, over TCP whatever else there is), "rdma://..." (reads by RDMA, or it does not open).
 * -EINVAL: not a URI ptio knows (names the forms); -ENOENT; -ENOTSUP: network filesystem without force; -EACCES: the daemon's
 * secret is another; -EIO: no daemon answers. A relative path is taken from the working directory. */
int pt_store_open(const char *uri, const struct pt_store_options *options, struct pt_store **ret_store);
void pt_store_close(struct pt_store *store);
/* "64M", "2GiB", "1000" to bytes. -EINVAL. */
int pt_size_parse(const char *text, uint64_t *ret_bytes);

#endif
