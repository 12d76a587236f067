/* store/fault.h - faults on purpose, stacked between the checked wrapper and any engine.
 *
 * A spec is a comma-separated list of rules OP:ACTION[:after=N][:times=M], OP being an operation ("data.read", "meta.commit",
 * "data.*"), ACTION one of error=ERRNAME, delay_ms=N, short (a data.read that claims the bytes end early: -EIO), corrupt (one bit of what
 * data.read returns is flipped), crash (the process ends at once by SIGKILL, before the operation), crash-after (after it, before it is
 * reported). after=N: the first N calls go through; times=M: then M calls are hit, later ones go through (default: all). */
#ifndef PT_STORE_FAULT_H
#define PT_STORE_FAULT_H

#include "store/data.h"
#include "store/meta.h"

/* Wrap an engine in place; on success m or d is the faulty engine, which owns the one below. "" is no-op. -EINVAL: malformed spec. */
int pt_fault_meta_stack(struct pt_meta *m, const char *spec);
int pt_fault_data_stack(struct pt_data *d, const char *spec);

#endif
