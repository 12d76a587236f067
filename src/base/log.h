/* base/log.h - one line a message to standard error or syslog; programs call it, the library only at debug level.
 * Preserves errno. Thread-safe. */
#ifndef PT_BASE_LOG_H
#define PT_BASE_LOG_H

enum pt_log_level { PT_LOG_ERROR, PT_LOG_WARN, PT_LOG_INFO, PT_LOG_DEBUG };

void pt_log_setup(const char *program, enum pt_log_level max, int to_syslog);
void pt_log(enum pt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
