/* net/resolve.h - host names to addresses without waiting: the resolver may take its time, and has a thread of its own for it. */
#ifndef PT_NET_RESOLVE_H
#define PT_NET_RESOLVE_H

#include "net/addr.h"

struct pt_resolve;

/* Begins to look up hosts (pt_addr_resolve). wake_fd: an eventfd that is written to when it has ended; it may be closed before. -ENOMEM, -EAGAIN. */
int pt_resolve_start(const char *hosts, int wake_fd, struct pt_resolve **ret_resolve);
/* Whether it has ended; then it is gone, and *ret_addrs is the caller's to free, or NULL where nothing was found. */
bool pt_resolve_take(struct pt_resolve *resolve, struct pt_addr **ret_addrs, size_t *ret_count);
/* Gives it up, without waiting for it. NULL is fine. */
void pt_resolve_drop(struct pt_resolve *resolve);

#endif
