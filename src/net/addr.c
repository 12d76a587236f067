/* net/addr.c - parsing and resolving host:port, and sockets on them. */
#include "net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/wire.h"

#define ADDRS_MAX 64

/* One "host:port", cut in place. */
static int split(char *text, const char **ret_host, const char **ret_port)
{
	char *colon, *end;

	if (*text == '[') {
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':') || end == text + 1)
			return -EINVAL;
		*end = '\0';
		*ret_host = text + 1;
		*ret_port = end[1] ? end + 2 : NULL;
	} else {
		colon = strchr(text, ':');
		if (colon && strchr(colon + 1, ':'))
			return -EINVAL;
		if (colon)
			*colon = '\0';
		*ret_host = text;
		*ret_port = colon ? colon + 1 : NULL;
	}
	if (!**ret_host || (*ret_port && !**ret_port))
		return -EINVAL;
	for (const char *p = *ret_port; p && *p; p++)
		if (*p < '0' || *p > '9' || p - *ret_port >= 5)
			return -EINVAL;
	return *ret_port && strtoul(*ret_port, NULL, 10) > 65535 ? -EINVAL : 0;
}

static int resolve_one(const char *given, char *text, struct pt_addr *addrs, size_t room, size_t *count)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	char standard[8];
	const char *host, *port;
	int rc = split(text, &host, &port);

	if (rc < 0)
		return pt_fail(EINVAL, "\"%s\" is not HOST:PORT; write 10.0.0.1:%d, name:%d or [fe80::1]:%d", given, PT_WIRE_PORT, PT_WIRE_PORT,
			       PT_WIRE_PORT);
	snprintf(standard, sizeof(standard), "%d", PT_WIRE_PORT);
	rc = getaddrinfo(host, port ? port : standard, &hints, &list);
	if (rc)
		return pt_fail(EIO, "cannot find the address of %s: %s", given, gai_strerror(rc));
	for (struct addrinfo *a = list; a && *count < room; a = a->ai_next) {
		if ((a->ai_family != AF_INET && a->ai_family != AF_INET6) || a->ai_addrlen > sizeof(addrs->sa))
			continue;
		memcpy(&addrs[*count].sa, a->ai_addr, a->ai_addrlen);
		addrs[*count].len = a->ai_addrlen;
		snprintf(addrs[*count].text, sizeof(addrs->text), "%s", given);
		++*count;
	}
	freeaddrinfo(list);
	return 0;
}

int pt_addr_resolve(const char *hosts, struct pt_addr **ret_addrs, size_t *ret_count)
{
	char text[PT_ADDR_TEXT_MAX], given[PT_ADDR_TEXT_MAX];
	struct pt_addr *addrs;
	size_t count = 0;
	int rc = 0, first = 0;

	addrs = pt_calloc(ADDRS_MAX, sizeof(*addrs));
	if (!addrs)
		return pt_fail_nomem();
	for (const char *p = hosts;; p++) {
		size_t len = strcspn(p, ",");

		if (len >= sizeof(text)) {
			rc = pt_fail(EINVAL, "a host name of %zu bytes is too long", len);
			break;
		}
		snprintf(text, sizeof(text), "%.*s", (int)len, p);
		snprintf(given, sizeof(given), "%s", text);
		rc = resolve_one(given, text, addrs, ADDRS_MAX, &count);
		if (rc == -EIO && !first)
			first = rc;
		if (rc < 0 && rc != -EIO)
			break;
		rc = 0;
		p += len;
		if (!*p)
			break;
	}
	if (rc == 0 && count == 0)
		rc = first ? first : pt_fail(EIO, "%s has no address that can be used", hosts);
	if (rc < 0) {
		free(addrs);
		return rc;
	}
	*ret_addrs = addrs;
	*ret_count = count;
	return 0;
}

bool pt_addr_is_loopback(const struct pt_addr *addr)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&addr->sa;
	const struct sockaddr_in *four = (const struct sockaddr_in *)&addr->sa;

	if (addr->sa.ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	return addr->sa.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

void pt_addr_format(const struct sockaddr *sa, char *ret_text, size_t room)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *four = (const struct sockaddr_in *)sa;

		inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
		snprintf(ret_text, room, "%s:%u", host, ntohs(four->sin_port));
	} else {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)sa;

		inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
		snprintf(ret_text, room, "[%s]:%u", host, ntohs(six->sin6_port));
	}
}

void pt_addr_tune(int fd)
{
	int one = 1, idle = 10, every = 5, count = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

int pt_addr_listen(const struct pt_addr *addr, int *ret_fd)
{
	int fd = socket(addr->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, rc;

	if (fd < 0)
		return pt_fail(errno, "cannot make a socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (addr->sa.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&addr->sa, addr->len) < 0 || listen(fd, 512) < 0) {
		rc = pt_fail(errno, "cannot listen on %s: %s", addr->text, strerror(errno));
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int pt_addr_connect(const struct pt_addr *addr, int *ret_fd)
{
	int fd = socket(addr->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return pt_fail(errno, "cannot make a socket: %s", strerror(errno));
	pt_addr_tune(fd);
	if (connect(fd, (const struct sockaddr *)&addr->sa, addr->len) < 0 && errno != EINPROGRESS) {
		rc = pt_fail(errno, "cannot connect: %s", strerror(errno));
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int pt_addr_connected(int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	return err ? pt_fail(err, "cannot connect: %s", strerror(err)) : 0;
}
