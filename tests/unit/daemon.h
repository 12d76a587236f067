/* tests/unit/daemon.h - real ptiod processes for tests, which end with the test's process. */
#ifndef TESTS_UNIT_DAEMON_H
#define TESTS_UNIT_DAEMON_H

#include <stdint.h>
#include <sys/types.h>

struct daemon {
	pid_t pid;
	uint16_t port, http_port;
	char hosts[64];                 /* "127.0.0.1:PORT" */
	char log[300];
};

/* Starts one and waits until it is ready. port 0: any. args: more arguments, NULL-terminated, or NULL. Its log is in dir. */
void daemon_start(struct daemon *d, const char *dir, const char *store, uint16_t port, const char *const *args);
/* The same with --listen and port only as args say; the port is that of the first address. */
void daemon_start_first(struct daemon *d, const char *dir, const char *store, const char *const *args);
/* By signal; returns its wait status. */
int daemon_stop(struct daemon *d, int signal);
/* The secret file of a folder; made if it is not there. Kept until the process ends. */
const char *daemon_secret(const char *dir);
/* hosts of the daemon that this process runs for the folder; started at the first call, on `store` (NULL: the folder). */
const char *daemon_for(const char *dir, const char *store);
/* GET path from its HTTP port, which must be on; body in buf. Returns the status. */
int daemon_http(const struct daemon *d, const char *path, char *buf, size_t room);
/* A value of /metrics. */
uint64_t daemon_metric(const struct daemon *d, const char *name);
/* Waits until it has this value. */
void daemon_metric_wait(const struct daemon *d, const char *name, uint64_t value);
int daemon_log_has(const struct daemon *d, const char *text);

#endif
