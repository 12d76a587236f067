/* base/process.c - the process's id, kept until fork() makes another process. */
#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

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
