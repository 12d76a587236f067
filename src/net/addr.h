/* net/addr.h - host:port lists, listening and connecting sockets, both nonblocking. IPv4 and IPv6. */
#ifndef PT_NET_ADDR_H
#define PT_NET_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PT_ADDR_TEXT_MAX 300

struct pt_addr {
	struct sockaddr_storage sa;
	socklen_t len;
	char text[PT_ADDR_TEXT_MAX];            /* as given, for people */
};

/* "host:port[,host:port]", IPv6 in brackets; a port left out is PT_WIRE_PORT. Asks the resolver, which may take its time. A name that has several
 * addresses gives several. ret_addrs is the caller's to free. -EINVAL malformed, -EIO when none can be resolved. */
int pt_addr_resolve(const char *hosts, struct pt_addr **ret_addrs, size_t *ret_count);
bool pt_addr_is_loopback(const struct pt_addr *addr);
/* "1.2.3.4:5" or "[::1]:5". */
void pt_addr_format(const struct sockaddr *sa, char *ret_text, size_t room);
/* A listening socket. -EADDRINUSE, -EADDRNOTAVAIL, -EACCES. */
int pt_addr_listen(const struct pt_addr *addr, int *ret_fd);
/* Begins to connect: the socket becomes writable when it is decided, which pt_addr_connected() tells. */
int pt_addr_connect(const struct pt_addr *addr, int *ret_fd);
int pt_addr_connected(int fd);
/* Small messages at once, dead peers noticed; on every socket of ours. */
void pt_addr_tune(int fd);

#endif
