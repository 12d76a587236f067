/* base/alloc.h - allocation with a countdown that tests use to make the n-th one fail. */
#ifndef PT_BASE_ALLOC_H
#define PT_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *pt_malloc(size_t size) __attribute__((malloc));
void *pt_calloc(size_t n, size_t size) __attribute__((malloc));
void *pt_realloc(void *p, size_t size);
/* realloc of n elements with an overflow check. */
void *pt_reallocarray(void *p, size_t n, size_t size);
char *pt_strdup(const char *s) __attribute__((malloc));
void *pt_memdup(const void *p, size_t len) __attribute__((malloc));
/* Returns NULL on failure. */
char *pt_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Tests: after n further allocations of this thread one fails, and all after it; n < 0 turns it off. */
void pt_alloc_fail_after(int64_t n);

#endif
