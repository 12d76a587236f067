/* base/error.c - the calling thread's last sentence. */
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static __thread char sentence[PT_FAIL_SENTENCE_MAX];

/* A sentence may be built from the old one, so it is formatted aside first. */
static void sentence_set(const char *fmt, va_list args)
{
	char text[PT_FAIL_SENTENCE_MAX];

	vsnprintf(text, sizeof(text), fmt, args);
	pt_text_clean(text);            /* names come from files and paths, and sentences go to logs and terminals */
	memcpy(sentence, text, strlen(text) + 1);
}

int (pt_fail)(int err, const char *fmt, ...)
{
	int saved = errno;
	va_list args;

	assert(err > 0);
	va_start(args, fmt);
	sentence_set(fmt, args);
	va_end(args);
	errno = saved;
	return -err;
}

int pt_fail_context(int rc, const char *fmt, ...)
{
	int saved = errno;
	char text[PT_FAIL_SENTENCE_MAX];
	size_t len, keep;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pt_text_clean(text);
	len = strlen(text);
	if (len + 2 < sizeof(sentence)) {
		keep = strlen(sentence);
		if (keep > sizeof(sentence) - 1 - len - 2)
			keep = sizeof(sentence) - 1 - len - 2;
		memmove(sentence + len + 2, sentence, keep);
		sentence[len + 2 + keep] = '\0';
		pt_text_clean(sentence + len + 2);      /* its last character may have been cut */
		memcpy(sentence, text, len);
		memcpy(sentence + len, ": ", 2);
	}
	errno = saved;
	return rc;
}

int (pt_fail_nomem)(void)
{
	return pt_fail(ENOMEM, "out of memory: free some, or raise the limit of this process");
}

const char *pt_fail_sentence(void)
{
	return sentence;
}

void pt_fail_clear(void)
{
	sentence[0] = '\0';
}
