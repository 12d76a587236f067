/* base/process.c - the process's id, kept until fork() makes another process, and its limits. */
#include "base/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/error.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool watched;                    /* set once: whoever forks has the id forgotten in the child */
static _Atomic pid_t kept;              /* 0: not known */

static void forget(void)
{
	atomic_store(&kept, 0);
}

static void watch(void)
{
	watched = pthread_atfork(NULL, NULL, forget) == 0;
}

pid_t pt_process_id(void)
{
	pid_t pid = atomic_load_explicit(&kept, memory_order_relaxed);

	if (pid)
		return pid;
	pthread_once(&once, watch);
	pid = getpid();
	if (watched)
		atomic_store(&kept, pid);
	return pid;
}

int pt_process_raise_files(uint64_t least)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return 0;
	if (r.rlim_cur < r.rlim_max) {
		struct rlimit all = { r.rlim_max, r.rlim_max };

		if (setrlimit(RLIMIT_NOFILE, &all) == 0)
			r = all;
	}
	if (r.rlim_cur < least)
		return pt_fail(EMFILE, "this process may have only %llu files open, and needs %llu: raise that limit (ulimit -n, or LimitNOFILE= of a systemd unit)", (unsigned long long)r.rlim_cur,
			       (unsigned long long)least);
	return 0;
}

bool pt_process_is_capable(int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}
