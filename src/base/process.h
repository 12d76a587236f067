/* base/process.h - which process this is, without asking the kernel each time. */
#ifndef PT_BASE_PROCESS_H
#define PT_BASE_PROCESS_H

#include <sys/types.h>

/* As getpid(), also in a child of fork(). Not in one made by clone(2) past the C library. */
pid_t pt_process_id(void);

#endif
