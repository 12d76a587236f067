/* net/rdma_device.h - which RDMA device, port and GID to use, by name. On RoCE a GID is an address, and the connection manager chooses device, port and GID by
 * the address that one binds to; so names become an address. */
#ifndef PT_NET_RDMA_DEVICE_H
#define PT_NET_RDMA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct pt_rdma_where {
	char device[64];                /* "": any; then the others are not given either */
	uint32_t port;                  /* 0: any */
	int32_t gid;                    /* index in the port's table; -1: any that the peer's kind of address fits */
};

/* From the texts of options; NULL or "" is not given. -EINVAL: no number, or a port or GID without a device. */
int pt_rdma_where_parse(const char *device, const char *port, const char *gid, struct pt_rdma_where *ret_where);
/* The address of what is named, with port 0. family: that of the peer (AF_INET, AF_INET6), or AF_UNSPEC. -ENODEV: there is no such device, port or GID, or it
 * has no address of this family (the sentence names what there is); -EOPNOTSUPP: built without RDMA. */
int pt_rdma_where_address(const struct pt_rdma_where *where, int family, struct sockaddr_storage *ret_sa, socklen_t *ret_len);

#endif
