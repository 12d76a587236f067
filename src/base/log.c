/* base/log.c - one line a message. Set up once, before threads start. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define LOG_LINE_MAX 2048

static char log_program[64] = "ptio";
static atomic_int log_max = PT_LOG_WARN;
static atomic_int log_to_syslog;

static const int log_priority[] = { LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG };
static const char *const log_word[] = { "error: ", "warning: ", "", "debug: " };

void pt_log_setup(const char *program, enum pt_log_level max, int to_syslog)
{
	snprintf(log_program, sizeof(log_program), "%s", program);
	atomic_store(&log_max, (int)max);
	if (to_syslog)
		openlog(log_program, LOG_PID, LOG_DAEMON);
	atomic_store(&log_to_syslog, to_syslog);
}

void pt_log(enum pt_log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[LOG_LINE_MAX];
	size_t len, i;
	va_list args;
	int head = 0;

	if ((int)level > atomic_load_explicit(&log_max, memory_order_relaxed) || level > PT_LOG_DEBUG)
		return;
	if (!atomic_load(&log_to_syslog))
		head = snprintf(line, sizeof(line), "%s: %s", log_program, log_word[level]);
	va_start(args, fmt);
	vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, args);
	va_end(args);
	len = strlen(line);
	/* Names from outside must not forge lines. */
	for (i = 0; i < len; i++)
		if (line[i] == '\n' || line[i] == '\r')
			line[i] = ' ';
	if (atomic_load(&log_to_syslog)) {
		syslog(log_priority[level], "%s", line);
	} else {
		line[len++] = '\n';
		/* One write a line, so that threads never interleave; a closed standard error is no failure. */
		if (write(STDERR_FILENO, line, len) < 0)
			errno = saved;
	}
	errno = saved;
}
