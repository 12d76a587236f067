/* base/thread.h - threads of our own. */
#ifndef PT_BASE_THREAD_H
#define PT_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* As pthread_create(), but the thread takes no signals: they are the program's, which waits for them elsewhere. 0, or an errno (positive). */
int pt_thread_start(pthread_t *ret_thread, void *(*run)(void *ctx), void *ctx);
/* Locks it, unless that takes longer than ns. By the monotonic clock. */
bool pt_mutex_lock_within(pthread_mutex_t *mutex, int64_t ns);

#endif
