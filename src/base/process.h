/* base/process.h - which process this is, without asking the kernel each time, and what it may have. */
#ifndef PT_BASE_PROCESS_H
#define PT_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* As getpid(), also in a child of fork(). Not in one made by clone(2) past the C library. */
pid_t pt_process_id(void);
/* As many descriptors as this process may allow itself. -EMFILE: they are fewer than it needs; the sentence says what to do. */
int pt_process_raise_files(uint64_t least);
/* Whether this process has a capability (linux/capability.h), in its own user namespace at least. */
bool pt_process_is_capable(int capability);

#endif
