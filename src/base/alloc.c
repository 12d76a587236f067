/* base/alloc.c - the allocation functions and this thread's failure countdown. */
#include "base/alloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread int64_t allocs_left = -1;       /* allocations that still succeed; < 0: all do */

void pt_alloc_fail_after(int64_t n)
{
	allocs_left = n < 0 ? -1 : n;
}

static bool alloc_allowed(void)
{
	if (allocs_left < 0)
		return true;
	if (!allocs_left) {
		errno = ENOMEM;
		return false;
	}
	allocs_left--;
	return true;
}

void *pt_malloc(size_t size)
{
	return alloc_allowed() ? malloc(size ? size : 1) : NULL;
}

void *pt_calloc(size_t n, size_t size)
{
	if (!n || !size)
		n = size = 1;
	return alloc_allowed() ? calloc(n, size) : NULL;
}

void *pt_realloc(void *p, size_t size)
{
	return alloc_allowed() ? realloc(p, size ? size : 1) : NULL;
}

void *pt_reallocarray(void *p, size_t n, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(n, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return pt_realloc(p, total);
}

void *pt_memdup(const void *p, size_t len)
{
	void *copy = pt_malloc(len);

	if (copy && len)
		memcpy(copy, p, len);
	return copy;
}

char *pt_strdup(const char *s)
{
	return pt_memdup(s, strlen(s) + 1);
}

char *pt_asprintf(const char *fmt, ...)
{
	va_list args, again;
	char *text = NULL;
	int len;

	va_start(args, fmt);
	va_copy(again, args);
	len = vsnprintf(NULL, 0, fmt, args);
	if (len >= 0)
		text = pt_malloc((size_t)len + 1);
	if (text)
		vsnprintf(text, (size_t)len + 1, fmt, again);
	va_end(again);
	va_end(args);
	return text;
}
