/* tools/ptiod/main.c - ptiod: starts with the store, stops with the last request. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "manifest/repo.h"
#include "ptio/version.h"
#include "store/snapshots.h"
#include "tools/ptiod/server.h"

#define FILES_LEAST 256                 /* descriptors: the store's, and one or more for each client */

/* Buffers of a MiB come and go: they stay in the heap, where they do not have to be faulted in each time. */
static void keep_heap(void)
{
	mallopt(M_MMAP_THRESHOLD, 8 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	mallopt(M_ARENA_MAX, 2);        /* each would keep its own */
}

/* Signals come through the loop's descriptor, to no thread. */
static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int open_log(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);

	if (fd < 0)
		return pt_fail(errno, "cannot open the log %s: %s", path, strerror(errno));
	dup2(fd, STDERR_FILENO);
	close(fd);
	return 0;
}

static void server_init(struct server *s, struct options *o)
{
	memset(s, 0, sizeof(*s));
	s->options = o;
	s->epoll_fd = s->wake_fd = s->signal_fd = s->http_fd = -1;
	TAILQ_INIT(&s->conns);
	TAILQ_INIT(&s->dead);
	LIST_INIT(&s->sessions);
	TAILQ_INIT(&s->todo);
	TAILQ_INIT(&s->back);
	TAILQ_INIT(&s->watching);
	pthread_mutex_init(&s->work_lock, NULL);
	pthread_cond_init(&s->work_cond, NULL);
	pthread_mutex_init(&s->back_lock, NULL);
	pthread_mutex_init(&s->watch_lock, NULL);
	pthread_cond_init(&s->watch_cond, NULL);
}

static void snapshot_failed(const char *sentence)
{
	pt_log(PT_LOG_WARN, "snapshot of the index: %s", sentence);
}

static int server_open(struct server *s)
{
	struct options *o = s->options;
	struct pt_store_options store = { .read_only = o->read_only, .create = !o->no_create };
	int rc = 0;

	if (o->log_file)
		rc = open_log(o->log_file);
	if (rc == 0 && o->secret_file)
		rc = pt_secret_load(o->secret_file, &s->secret);
	if (rc == 0 && o->tls)
		rc = pt_tls_create(&s->secret, true, &s->tls);
	if (rc == 0)
		rc = pt_size_parse(o->reserve, &store.reserve_bytes);
	if (rc == 0)
		rc = pt_random_bytes(&s->next_epoch, sizeof(s->next_epoch));
	if (rc == 0)
		rc = pt_id_random(&s->instance);
	if (rc == 0)
		rc = pt_store_open(o->store, &store, &s->store);
	if (rc < 0)
		return rc;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->epoll_fd < 0 || s->wake_fd < 0)
		return pt_fail(errno, "cannot make a descriptor: %s", strerror(errno));
	rc = workers_start(s);
	if (rc == 0)
		rc = watch_start(s);
	if (rc == 0)
		rc = collect_start(s);
	if (rc == 0)
		rc = pt_snapshots_start(s->store, o->snapshots_ns, snapshot_failed, &s->snapshots);
	return rc;
}

static void server_done(struct server *s)
{
	collect_stop(s);
	pt_snapshots_stop(s->snapshots);
	watch_stop(s);
	workers_stop(s);
	sessions_done(s);
	span_stop(s);
	if (s->http_fd >= 0)
		close(s->http_fd);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	if (s->repo)
		pt_repo_close(s->repo);
	else
		pt_store_close(s->store);
	pt_tls_free(s->tls);
	pt_secret_wipe(&s->secret);
}

int main(int argc, char **argv)
{
	static struct server server;
	static struct options options;
	int rc = settings_read(argc, argv, &options);

	if (rc)
		return rc;
	if (options.help) {
		settings_usage();
		return 0;
	}
	if (options.version) {
		printf("ptiod %s\n", ptio_version());
		return 0;
	}
	pt_log_setup("ptiod", PT_LOG_INFO, 0);
	keep_heap();
	block_signals();
	server_init(&server, &options);
	rc = pt_process_raise_files(FILES_LEAST);
	if (rc == 0)
		rc = server_open(&server);
	if (rc == 0) {
		if (!server.store->durable)
			pt_log(PT_LOG_WARN, "%s is not durable: what is stored ends with this process", options.store);
		if (options.insecure)
			pt_log(PT_LOG_WARN, "no secret: every user of this machine may read and change the store");
		rc = server_listen(&server);
	}
	if (rc == 0) {
		notify("READY=1");
		rc = server_run(&server);
	}
	if (rc < 0)
		pt_log(PT_LOG_ERROR, "%s", pt_fail_sentence());
	server_done(&server);
	return rc < 0 ? 1 : 0;
}
