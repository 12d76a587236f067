/* store/fault_rules.c - see fault_rules.h. */
#include "store/fault_rules.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

enum action { ERROR, DELAY, SHORT, CORRUPT, CRASH, CRASH_AFTER };

struct rule {
	struct rule *next;
	const char *op;                 /* of op_names; or NULL: the whole group */
	const char *group;              /* "meta." or "data."; NULL: op */
	enum action action;
	int err;
	uint64_t delay_ms;
	uint64_t after;
	uint64_t times;                 /* UINT64_MAX: all */
	_Atomic uint64_t calls;         /* seen so far */
};

struct pt_fault_rules {
	struct rule *first;
};

static const char *const op_names[] = {
	"meta.get", "meta.scan", "meta.commit", "meta.watch", "meta.space", "meta.sync", "meta.snapshot",
	"data.create", "data.write", "data.seal", "data.abort", "data.read", "data.map", "data.stat", "data.remove",
	"data.list", "data.pin", "data.unpin", "data.pinned", "data.space", "data.sync", "data.sweep",
};

static int fail_spec(const char *rule, const char *why)
{
	return pt_fail(EINVAL, "fault rule \"%s\": %s; write OP:ACTION[:after=N][:times=M], as in data.read:error=EIO:after=3", rule, why);
}

static int parse_number(const char *s, uint64_t *ret_n)
{
	unsigned long long n;
	char *end;

	errno = 0;
	if (*s < '0' || *s > '9')
		return -EINVAL;
	n = strtoull(s, &end, 10);
	if (errno || *end)
		return -EINVAL;
	*ret_n = n;
	return 0;
}

static int parse_errno(const char *name)
{
	for (int err = 1; err < 134; err++) {
		const char *known = strerrorname_np(err);

		if (known && strcmp(known, name) == 0)
			return err;
	}
	return 0;
}

static int parse_op(struct rule *r, const char *rule, const char *op)
{
	if (strcmp(op, "meta.*") == 0)
		r->group = "meta.";
	else if (strcmp(op, "data.*") == 0)
		r->group = "data.";
	else
		for (size_t i = 0; i < sizeof(op_names) / sizeof(op_names[0]); i++)
			if (strcmp(op_names[i], op) == 0)
				r->op = op_names[i];
	return r->op || r->group ? 0 : fail_spec(rule, "no engine has this operation");
}

static int parse_action(struct rule *r, const char *rule, const char *action)
{
	bool reads = r->op && strcmp(r->op, "data.read") == 0;

	if (strncmp(action, "error=", 6) == 0) {
		r->action = ERROR;
		r->err = parse_errno(action + 6);
		return r->err ? 0 : fail_spec(rule, "no such error name");
	}
	if (strncmp(action, "delay_ms=", 9) == 0) {
		r->action = DELAY;
		return parse_number(action + 9, &r->delay_ms) == 0 && r->delay_ms <= 3600000 ?
		       0 : fail_spec(rule, "the delay is not a number of milliseconds up to an hour");
	}
	if (strcmp(action, "crash") == 0) {
		r->action = CRASH;
		return 0;
	}
	if (strcmp(action, "crash-after") == 0) {
		r->action = CRASH_AFTER;
		return 0;
	}
	if (strcmp(action, "short") == 0)
		r->action = SHORT;
	else if (strcmp(action, "corrupt") == 0)
		r->action = CORRUPT;
	else
		return fail_spec(rule, "no such action");
	return reads ? 0 : fail_spec(rule, "only data.read can be short or corrupt");
}

static int parse_rule(struct rule *r, const char *text)
{
	char *copy = pt_strdup(text);
	char *save = NULL;
	const char *part;
	int n = 0;
	int rc = 0;

	if (!copy)
		return pt_fail_nomem();
	r->times = UINT64_MAX;
	for (part = strtok_r(copy, ":", &save); part && rc == 0; part = strtok_r(NULL, ":", &save), n++) {
		if (n == 0)
			rc = parse_op(r, text, part);
		else if (n == 1)
			rc = parse_action(r, text, part);
		else if (strncmp(part, "after=", 6) == 0)
			rc = parse_number(part + 6, &r->after) == 0 ? 0 : fail_spec(text, "after= wants a number");
		else if (strncmp(part, "times=", 6) == 0)
			rc = parse_number(part + 6, &r->times) == 0 ? 0 : fail_spec(text, "times= wants a number");
		else
			rc = fail_spec(text, "unknown part");
	}
	if (rc == 0 && n < 2)
		rc = fail_spec(text, "an operation and an action are needed");
	free(copy);
	return rc;
}

int pt_fault_rules_parse(const char *spec, struct pt_fault_rules **ret_rules)
{
	struct pt_fault_rules *r = pt_calloc(1, sizeof(*r));
	struct rule **at;
	char *copy = pt_strdup(spec);
	char *save = NULL;
	int rc = 0;

	if (!r || !copy) {
		rc = pt_fail_nomem();
		goto out;
	}
	at = &r->first;
	for (char *text = strtok_r(copy, ",", &save); text && rc == 0; text = strtok_r(NULL, ",", &save)) {
		struct rule *rule = pt_calloc(1, sizeof(*rule));

		if (!rule) {
			rc = pt_fail_nomem();
			break;
		}
		*at = rule;
		at = &rule->next;
		rc = parse_rule(rule, text);
	}
	if (rc == 0) {
		*ret_rules = r;
		r = NULL;
	}
out:
	free(copy);
	pt_fault_rules_free(r);
	return rc;
}

void pt_fault_rules_free(struct pt_fault_rules *r)
{
	if (!r)
		return;
	while (r->first) {
		struct rule *rule = r->first;

		r->first = rule->next;
		free(rule);
	}
	free(r);
}

void pt_fault_crash(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static bool is_hit(struct rule *rule, const char *op)
{
	uint64_t n;

	if (rule->group ? strncmp(rule->group, op, strlen(rule->group)) != 0 : strcmp(rule->op, op) != 0)
		return false;
	n = atomic_fetch_add(&rule->calls, 1);
	return n >= rule->after && n - rule->after < rule->times;
}

int pt_fault_rules_apply(struct pt_fault_rules *r, const char *op, struct pt_fault_verdict *ret_verdict)
{
	struct pt_fault_verdict v = { 0 };

	for (struct rule *rule = r->first; rule; rule = rule->next) {
		struct timespec pause_time;

		if (!is_hit(rule, op))
			continue;
		switch (rule->action) {
		case ERROR:
			v.err = rule->err;
			break;
		case DELAY:
			pause_time.tv_sec = (time_t)(rule->delay_ms / 1000);
			pause_time.tv_nsec = (long)(rule->delay_ms % 1000 * 1000000);
			while (nanosleep(&pause_time, &pause_time) < 0 && errno == EINTR)
				continue;
			break;
		case SHORT:
			v.is_short = true;
			break;
		case CORRUPT:
			v.corrupt = true;
			break;
		case CRASH:
			pt_fault_crash();
		case CRASH_AFTER:
			v.crash_after = true;
			break;
		}
	}
	*ret_verdict = v;
	if (v.err)
		return pt_fail(v.err, "%s failed on purpose (%s), by a fault rule", op, strerrorname_np(v.err));
	if (v.is_short)
		return pt_fail(EIO, "%s came up short on purpose, by a fault rule", op);
	return 0;
}
