/* net/resolve.c - see resolve.h. The thread is detached, since nobody can end a look-up; what it and the one who asked share goes with the last of both. */
#include "net/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

struct pt_resolve {
	char *hosts;
	int wake_fd;                    /* its own */
	int refs;                       /* atomic */
	bool ended;                     /* atomic; the rest is set by then */
	struct pt_addr *addrs;
	size_t count;
};

static void unref(struct pt_resolve *r)
{
	if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (r->wake_fd >= 0)
		close(r->wake_fd);
	free(r->addrs);
	free(r->hosts);
	free(r);
}

static void *look_up(void *arg)
{
	struct pt_resolve *r = arg;
	uint64_t one = 1;
	ssize_t n;

	if (pt_addr_resolve(r->hosts, &r->addrs, &r->count) < 0)
		r->addrs = NULL;
	__atomic_store_n(&r->ended, true, __ATOMIC_RELEASE);
	n = write(r->wake_fd, &one, sizeof(one));
	(void)n;
	unref(r);
	return NULL;
}

int pt_resolve_start(const char *hosts, int wake_fd, struct pt_resolve **ret_resolve)
{
	struct pt_resolve *r = pt_calloc(1, sizeof(*r));
	pthread_t thread;
	int rc;

	if (!r)
		return pt_fail_nomem();
	r->refs = 2;
	r->hosts = pt_strdup(hosts);
	r->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 0);
	rc = !r->hosts || r->wake_fd < 0 ? ENOMEM : 0;
	if (!rc) {
		rc = pt_thread_start(&thread, look_up, r);
	}
	if (rc) {
		r->refs = 1;
		unref(r);
		return pt_fail(rc, "cannot look up host names: %s", strerror(rc));
	}
	pthread_detach(thread);
	*ret_resolve = r;
	return 0;
}

bool pt_resolve_take(struct pt_resolve *r, struct pt_addr **ret_addrs, size_t *ret_count)
{
	if (!__atomic_load_n(&r->ended, __ATOMIC_ACQUIRE))
		return false;
	*ret_addrs = r->addrs;
	*ret_count = r->count;
	r->addrs = NULL;
	unref(r);
	return true;
}

void pt_resolve_drop(struct pt_resolve *r)
{
	if (r)
		unref(r);
}
