/* tests/unit/daemon.c - starting, asking and stopping ptiod. Readiness comes by the service manager's protocol, the port from the log. */
#include "unit/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit/store_support.h"

#define READY_MS 60000

static int ready_socket(const char *dir, char *ret_path, size_t room)
{
	static unsigned int number;
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0);
	MUST(snprintf(ret_path, room, "%s/ready-%d-%u", dir, (int)getpid(), number++) < (int)sizeof(sun.sun_path));
	memcpy(sun.sun_path, ret_path, strlen(ret_path));
	MUST(bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0);
	return fd;
}

const char *daemon_secret(const char *dir)
{
	static char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s.secret", dir);
	if (access(path, R_OK) == 0)
		return path;
	umask(077);
	f = fopen(path, "w");
	MUST(f);
	fprintf(f, "a secret that only tests know\n");
	fclose(f);
	return path;
}

static char *read_log(const struct daemon *d)
{
	char *text = calloc(1, 1 << 20);
	int fd = open(d->log, O_RDONLY);

	MUST(text);
	if (fd >= 0) {
		MUST(read(fd, text, (1 << 20) - 1) >= 0);
		close(fd);
	}
	return text;
}

int daemon_log_has(const struct daemon *d, const char *text)
{
	char *log = read_log(d);
	int has = strstr(log, text) != NULL;

	free(log);
	return has;
}

/* The port of the last line "listening on ...:PORT (kind". */
static uint16_t port_of(const char *log, const char *kind)
{
	const char *line = log, *at = NULL;
	char end[32];

	snprintf(end, sizeof(end), " (%s", kind);
	while ((line = strstr(line, "listening on "))) {
		const char *stop = strstr(line, end), *newline = strchr(line, '\n');

		if (stop && newline && stop < newline) {
			while (stop[-1] != ':')
				stop--;
			at = stop;
		}
		line++;
	}
	return at ? (uint16_t)atoi(at) : 0;
}

static void become(const char *dir, const char *store, int port, const char *const *args, const char *log, const char *ready)
{
	const char *build = getenv("PTIO_BUILD");
	const char *argv[32];
	char program[512], listen_on[32], secret[320];
	int n = 0, fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (fd >= 0)
		dup2(fd, STDERR_FILENO);
	setenv("NOTIFY_SOCKET", ready, 1);
	unsetenv("PTIO_FAULTS");
	snprintf(program, sizeof(program), "%s/tools/ptiod/ptiod", build ? build : ".");
	snprintf(listen_on, sizeof(listen_on), "127.0.0.1:%d", port);
	snprintf(secret, sizeof(secret), "%s", daemon_secret(dir));
	argv[n++] = program;
	argv[n++] = store ? store : dir;
	if (port >= 0) {
		argv[n++] = "--listen";
		argv[n++] = listen_on;
	}
	argv[n++] = "--secret-file";
	argv[n++] = secret;
	while (args && *args && n < 30) {
		if (strncmp(*args, "PTIO_FAULTS=", 12) == 0)
			setenv("PTIO_FAULTS", *args++ + 12, 1);
		else if (strcmp(*args, "--insecure") == 0)
			argv[4] = *args++, argv[5] = argv[--n], n = 5;
		else
			argv[n++] = *args++;
	}
	argv[n] = NULL;
	execv(program, (char *const *)argv);
	fprintf(stderr, "cannot run %s: %s\n", program, strerror(errno));
	_exit(127);
}

static void start_at(struct daemon *d, const char *dir, const char *store, int port, const char *const *args)
{
	char ready[108], line[64] = "", *log;
	struct pollfd p;

	memset(d, 0, sizeof(*d));
	snprintf(d->log, sizeof(d->log), "%s.log", dir);
	daemon_secret(dir);
	mkdir(dir, 0700);
	{
		char beside[256];

		/* Not inside: a store's folder holds what is the store's. */
		snprintf(beside, sizeof(beside), "%.200s.run", dir);
		mkdir(beside, 0700);
		p.fd = ready_socket(beside, ready, sizeof(ready));
	}
	p.events = POLLIN;
	fflush(NULL);
	d->pid = fork();
	MUST(d->pid >= 0);
	if (d->pid == 0)
		become(dir, store, port, args, d->log, ready);
	for (int waited = 0; poll(&p, 1, 50) == 0; waited += 50) {
		int status;

		if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
			log = read_log(d);
			ck_abort_msg("ptiod ended with status 0x%x: %s", status, log);
		}
		MUST(waited < READY_MS);
	}
	MUST(recv(p.fd, line, sizeof(line) - 1, 0) > 0);
	MUST(strcmp(line, "READY=1") == 0);
	close(p.fd);
	unlink(ready);
	log = read_log(d);
	d->port = port_of(log, "tcp");
	d->http_port = port_of(log, "http");
	MUST(d->port);
	free(log);
	snprintf(d->hosts, sizeof(d->hosts), "127.0.0.1:%u", d->port);
}

void daemon_start(struct daemon *d, const char *dir, const char *store, uint16_t port, const char *const *args)
{
	start_at(d, dir, store, port, args);
}

void daemon_start_first(struct daemon *d, const char *dir, const char *store, const char *const *args)
{
	start_at(d, dir, store, -1, args);
}

int daemon_stop(struct daemon *d, int signal_number)
{
	int status = 0;

	if (!d->pid)
		return 0;
	MUST(kill(d->pid, signal_number) == 0);
	MUST(waitpid(d->pid, &status, 0) == d->pid);
	d->pid = 0;
	return status;
}

const char *daemon_for(const char *dir, const char *store)
{
	static struct daemon daemon;
	static char for_dir[300];
	static pid_t by;

	if (by != getpid() || strcmp(for_dir, dir) != 0) {
		daemon_start(&daemon, dir, store, 0, NULL);
		snprintf(for_dir, sizeof(for_dir), "%s", dir);
		by = getpid();
	}
	return daemon.hosts;
}

int daemon_http(const struct daemon *d, const char *path, char *buf, size_t room)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(d->http_port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char request[200];
	size_t got = 0;
	ssize_t n;
	int status;
	char *body;

	MUST(d->http_port && fd >= 0 && connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	MUST(send(fd, request, strlen(request), 0) == (ssize_t)strlen(request));
	while (got < room - 1 && (n = recv(fd, buf + got, room - 1 - got, 0)) > 0)
		got += (size_t)n;
	close(fd);
	buf[got] = '\0';
	MUST(sscanf(buf, "HTTP/1.1 %d", &status) == 1);
	body = strstr(buf, "\r\n\r\n");
	MUST(body);
	memmove(buf, body + 4, strlen(body + 4) + 1);
	return status;
}

uint64_t daemon_metric(const struct daemon *d, const char *name)
{
	static char text[32768];
	char line[100];
	const char *at;

	MUST(daemon_http(d, "/metrics", text, sizeof(text)) == 200);
	snprintf(line, sizeof(line), "\nptiod_%s ", name);
	at = strstr(text, line);
	MUST(at);
	return strtoull(at + strlen(line), NULL, 10);
}

void daemon_metric_wait(const struct daemon *d, const char *name, uint64_t value)
{
	for (int waited = 0; daemon_metric(d, name) != value; waited += 20) {
		if (waited > READY_MS)
			ck_abort_msg("ptiod's %s stays %llu, not %llu", name, (unsigned long long)daemon_metric(d, name), (unsigned long long)value);
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
}
