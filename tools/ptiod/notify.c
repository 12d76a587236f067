/* tools/ptiod/notify.c - the service manager's notification protocol: one datagram to the socket that NOTIFY_SOCKET names. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/ptiod/server.h"

void notify(const char *line)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	ssize_t n;
	int fd;

	if (len < 2 || len >= sizeof(sun.sun_path) || (*path != '/' && *path != '@'))
		return;
	memcpy(sun.sun_path, path, len);
	if (*path == '@')
		sun.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	n = sendto(fd, line, strlen(line), MSG_NOSIGNAL, (struct sockaddr *)&sun, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	(void)n;                        /* a manager that does not listen is its own business */
	close(fd);
}
