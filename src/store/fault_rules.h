/* store/fault_rules.h - the rules of a fault spec (fault.h), and what they say about one call. */
#ifndef PT_STORE_FAULT_RULES_H
#define PT_STORE_FAULT_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct pt_fault_rules;

/* What to do about one call. */
struct pt_fault_verdict {
	int err;                        /* fail with this; 0: go on */
	bool is_short;
	bool corrupt;
	bool crash_after;
};

/* -EINVAL: malformed, or an operation that no engine has; -ENOMEM. */
int pt_fault_rules_parse(const char *spec, struct pt_fault_rules **ret_rules);
void pt_fault_rules_free(struct pt_fault_rules *r);
/* Counts the call ("data.read"), sleeps what the rules say, ends the process if they say so; else *ret_verdict. Thread-safe.
 * Returns 0, or -err with the sentence of the failure to report instead of calling the engine. */
int pt_fault_rules_apply(struct pt_fault_rules *r, const char *op, struct pt_fault_verdict *ret_verdict);
/* Ends the process by SIGKILL, as a crash would. */
void pt_fault_crash(void) __attribute__((noreturn));

#endif
