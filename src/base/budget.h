/* base/budget.h - how much memory this process may have: the machine's, and what the control groups that it is in allow (version 2, or the memory controller of version 1).
 *
 * Whoever takes more than its group allows is killed by the kernel without a word, however much the machine has. */
#ifndef PT_BASE_BUDGET_H
#define PT_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PT_BUDGET_PATH 1024

/* Where the group of this process is. A process that is moved to another group meanwhile is not noticed. */
struct pt_budget {
	const char *root;               /* what /proc and all other paths are below; "" but in tests. The caller's */
	bool old;                       /* version 1 */
	bool bounded;                   /* there was a limit when it was found */
	size_t top;                     /* length of the hierarchy's own part of dir; 0: there are no groups */
	char dir[PT_BUDGET_PATH];       /* of our group, root included */
};

/* Never fails: what cannot be found out does not bound. */
void pt_budget_find(struct pt_budget *b, const char *root);
/* The lowest limit of our group and those above it, in bytes; UINT64_MAX: none. */
uint64_t pt_budget_group_limit(const struct pt_budget *b);
/* That, or all the machine's memory if it is less; 0: neither is known. */
uint64_t pt_budget_total(const struct pt_budget *b);
/* What is to be had without swapping and without being killed, in bytes, pages of files that can be dropped included; UINT64_MAX: nothing says. */
uint64_t pt_budget_available(const struct pt_budget *b);
/* The part of it that the groups say. */
uint64_t pt_budget_group_available(const struct pt_budget *b);

#endif
