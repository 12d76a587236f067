/* base/thread.h - threads of our own. */
#ifndef PT_BASE_THREAD_H
#define PT_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create(), but the thread takes no signals: they are the program's, which waits for them elsewhere. 0, or an errno (positive). */
int pt_thread_start(pthread_t *ret_thread, void *(*run)(void *ctx), void *ctx);

#endif
