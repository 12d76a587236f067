/* base/error.h - failures: an errno for programs, a sentence for people.
 *
 * A function that fails returns -errno and leaves one sentence in the calling thread. Whoever detects the
 * failure writes the sentence: it names the thing that is wrong and what to do about it. Callers pass the
 * code on and leave the sentence alone, or put context in front of it with pt_fail_context(). */
#ifndef PT_BASE_ERROR_H
#define PT_BASE_ERROR_H

#define PT_FAIL_SENTENCE_MAX 1024

/* Records the sentence for this thread, as one printable line, and returns -err. err > 0. Preserves errno. */
int pt_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts "context: " in front of this thread's sentence; returns rc unchanged. */
int pt_fail_context(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

/* -ENOMEM with its sentence. */
int pt_fail_nomem(void) __attribute__((cold));

/* This thread's last sentence; "" when there is none. Valid until the thread's next failure. */
const char *pt_fail_sentence(void);
void pt_fail_clear(void);

/* Tells the compiler that a failure is never 0, so that it can see which outputs are set. */
static inline int pt_fail_negative(int rc)
{
	if (rc >= 0)
		__builtin_unreachable();
	return rc;
}

#define pt_fail(...) pt_fail_negative(pt_fail(__VA_ARGS__))
#define pt_fail_nomem() pt_fail_negative(pt_fail_nomem())

#endif
