/* tools/ptiod/settings.c - the daemon's options: one table for the command line and the configuration file. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/snapshots.h"
#include "tools/ptiod/server.h"

enum kind { FLAG, TEXT, LIST, SECONDS, NUMBER };

struct setting {
	const char *name;
	enum kind kind;
	size_t offset;
	const char *value;              /* what stands for the value in the help */
	const char *help;
	int64_t min, max;
};

#define AT(field) offsetof(struct options, field)

/* man/ptiod.1 lists these; a lint compares them. */
static const struct setting settings[] = {
	{ "listen", LIST, AT(listen), "HOST:PORT", "accept clients here; may be given again (default 127.0.0.1:7846)", 0, 0 },
	{ "secret-file", TEXT, AT(secret_file), "FILE", "the secret that clients must share", 0, 0 },
	{ "insecure", FLAG, AT(insecure), NULL, "no secret; on loopback addresses only", 0, 0 },
	{ "tls", FLAG, AT(tls), NULL, "encrypt, with the secret as key; clients need it too", 0, 0 },
	{ "read-only", FLAG, AT(read_only), NULL, "refuse all changes", 0, 0 },
	{ "no-create", FLAG, AT(no_create), NULL, "do not make a dir: store that is not there", 0, 0 },
	{ "http", TEXT, AT(http), "HOST:PORT", "serve /metrics and /healthz here", 0, 0 },
	{ "log", TEXT, AT(log_file), "FILE", "log there instead of to standard error; SIGHUP opens it anew", 0, 0 },
	{ "rdma", TEXT, AT(rdma), "auto|yes|no", "serve reads and uploads by RDMA at the first address to listen on (default auto: if it is a device's)", 0, 0 },
	{ "rdma-device", TEXT, AT(rdma_device), "NAME", "the RDMA device to serve by; the first address to listen on chooses it else", 0, 0 },
	{ "rdma-port", TEXT, AT(rdma_port), "N", "its port, counted from 1 (default any)", 0, 0 },
	{ "rdma-gid", TEXT, AT(rdma_gid), "N", "index of the port's GID (default: the first that is an address of the kind listened on)", 0, 0 },
	{ "arena", TEXT, AT(arena), "SIZE", "memory for objects that are read by RDMA; uploads take a quarter as much again (default 256M)", 0, 0 },
	{ "reserve", TEXT, AT(reserve), "SIZE", "memory that a mem: store has ready for uploads, of its size (default 1G; 0: none)", 0, 0 },
	{ "workers", NUMBER, AT(workers), "N", "threads that use the store (default 8)", 1, 64 },
	{ "max-clients", NUMBER, AT(clients_max), "N", "clients at once (default 1024)", 1, 65536 },
	{ "lease", SECONDS, AT(lease_ttl_ns), "SECONDS", "how long a client that is cut off keeps what it reads (default 30)", 1, 86400 },
	{ "drain", SECONDS, AT(drain_ns), "SECONDS", "how long SIGTERM waits for requests and uploads (default 10)", 0, 86400 },
	{ "gc", SECONDS, AT(gc_ns), "SECONDS", "how often garbage is collected, 0: never (default 60)", 0, 86400 },
	{ "snapshots", SECONDS, AT(snapshots_ns), "SECONDS", "how often the index of a dir: store is copied for ptio fsck, 0: never (default 900)", 0, 604800 },
	{ "config", TEXT, AT(config), "FILE", "read options from FILE: a line each, name = value", 0, 0 },
	{ "help", FLAG, AT(help), NULL, "say this", 0, 0 },
	{ "version", FLAG, AT(version), NULL, "say the version", 0, 0 },
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

void settings_usage(void)
{
	printf("usage: ptiod STORE [option...]\n\nExports the store to other machines. STORE: /PATH, dir:PATH or mem:SIZE.\n\n");
	for (size_t i = 0; i < SETTINGS; i++) {
		char left[48];

		snprintf(left, sizeof(left), "--%s%s%s", settings[i].name, settings[i].value ? " " : "", settings[i].value ? settings[i].value : "");
		printf("  %-26s %s\n", left, settings[i].help);
	}
}

static const struct setting *find(const char *name, size_t len)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (strlen(settings[i].name) == len && memcmp(settings[i].name, name, len) == 0)
			return &settings[i];
	return NULL;
}

static int number(const struct setting *s, const char *value, int64_t *ret)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (errno || end == value || *end || n < s->min || n > s->max)
		return pt_fail(EINVAL, "%s wants a number from %lld to %lld, not \"%s\"", s->name, (long long)s->min, (long long)s->max, value);
	*ret = n;
	return 0;
}

/* value lives as long as the options. */
static int set(struct options *o, const struct setting *s, const char *value)
{
	void *at = (char *)o + s->offset;
	int64_t n = 0;
	int rc;

	switch (s->kind) {
	case FLAG:
		if (value && strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
			return pt_fail(EINVAL, "%s is yes or no, not \"%s\"", s->name, value);
		*(bool *)at = !value || strcmp(value, "yes") == 0;
		return 0;
	case TEXT:
		*(const char **)at = value;
		return 0;
	case LIST:
		if (o->listen_count == sizeof(o->listen) / sizeof(o->listen[0]))
			return pt_fail(EINVAL, "too many addresses to listen on");
		o->listen[o->listen_count++] = value;
		return 0;
	case SECONDS:
	case NUMBER:
		rc = number(s, value, &n);
		if (rc < 0)
			return rc;
		if (s->kind == SECONDS)
			*(int64_t *)at = n * NS_PER_S;
		else
			*(uint32_t *)at = (uint32_t)n;
		return 0;
	}
	return 0;
}

static int config_line(struct options *o, char *line)
{
	const struct setting *s;
	char *value, *end;
	size_t len;

	line += strspn(line, " \t");
	line[strcspn(line, "\r\n")] = '\0';
	if (!*line || *line == '#')
		return 0;
	len = strcspn(line, " \t=");
	value = line + len + strspn(line + len, " \t");
	if (*value != '=')
		return pt_fail(EINVAL, "\"%s\" is not \"name = value\"", line);
	value += 1 + strspn(value + 1, " \t");
	for (end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t'); end--)
		end[-1] = '\0';
	value = pt_strdup(value);       /* for the life of the program */
	if (!value)
		return pt_fail_nomem();
	if (len == 5 && memcmp(line, "store", 5) == 0) {
		if (!o->store)
			o->store = value;
		return 0;
	}
	s = find(line, len);
	if (!s || s->offset == AT(config) || s->offset == AT(help) || s->offset == AT(version))
		return pt_fail(EINVAL, "there is no option \"%.*s\"", (int)len, line);
	return set(o, s, value);
}

static int config_read(struct options *o, const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	unsigned int n = 0;
	int rc = 0;

	if (!f)
		return pt_fail(errno, "cannot open %s: %s", path, strerror(errno));
	while (rc == 0 && getline(&line, &room, f) >= 0) {
		n++;
		rc = config_line(o, line);
		if (rc < 0)
			pt_fail_context(rc, "%s, line %u", path, n);
	}
	free(line);
	fclose(f);
	return rc;
}

/* One argument, and its value from the next if it has one: how many were used. */
static int argument(struct options *o, char **argv)
{
	const struct setting *s;
	const char *name = argv[0] + 2, *value = strchr(name, '=');
	int rc;

	s = find(name, value ? (size_t)(value - name) : strlen(name));
	if (!s)
		return pt_fail(EINVAL, "there is no option %s; ptiod --help lists them", argv[0]);
	if (s->kind == FLAG) {
		rc = set(o, s, value ? value + 1 : NULL);
		return rc < 0 ? rc : 1;
	}
	if (!value && !argv[1])
		return pt_fail(EINVAL, "%s wants a value", argv[0]);
	rc = set(o, s, value ? value + 1 : argv[1]);
	return rc < 0 ? rc : value ? 1 : 2;
}

/* The file comes first, so that the command line has the last word. */
static int read_all(int argc, char **argv, struct options *o)
{
	int i, n;

	for (i = 1; i < argc; i++)
		if (strncmp(argv[i], "--config", 8) == 0 && (argv[i][8] == '=' || (!argv[i][8] && argv[i + 1]))) {
			n = config_read(o, argv[i][8] ? argv[i] + 9 : argv[i + 1]);
			if (n < 0)
				return n;
		}
	n = o->listen_count > 0;
	for (i = 1; i < argc;) {
		int used = 1;

		if (strncmp(argv[i], "--", 2) == 0) {
			/* Addresses on the command line replace those of the file. */
			if (strncmp(argv[i], "--listen", 8) == 0 && n) {
				o->listen_count = 0;
				n = 0;
			}
			used = argument(o, argv + i);
		} else if (i > 1 && o->store && o->store != argv[i] && strncmp(argv[i - 1], "--", 2) != 0) {
			used = pt_fail(EINVAL, "one store at a time: \"%s\" is too much", argv[i]);
		} else {
			o->store = argv[i];
		}
		if (used < 0)
			return used;
		i += used;
	}
	return 0;
}

static int check(const struct options *o)
{
	if (!o->store)
		return pt_fail(EINVAL, "no store; ptiod --help says how to use it");
	if (strstr(o->store, "://"))
		return pt_fail(EINVAL, "%s is served by another daemon already; give /PATH, dir:PATH or mem:SIZE", o->store);
	if (!o->secret_file && !o->insecure)
		return pt_fail(EINVAL, "no secret: give --secret-file FILE (make one with: openssl rand -hex 32 > FILE; chmod 600 FILE), or --insecure on loopback");
	if (o->secret_file && o->insecure)
		return pt_fail(EINVAL, "--insecure and --secret-file exclude each other");
	if (strcmp(o->rdma, "auto") != 0 && strcmp(o->rdma, "yes") != 0 && strcmp(o->rdma, "no") != 0)
		return pt_fail(EINVAL, "rdma is auto, yes or no, not \"%s\"", o->rdma);
	if (strcmp(o->rdma, "no") == 0 && (o->rdma_device || o->rdma_port || o->rdma_gid))
		return pt_fail(EINVAL, "an RDMA device is named, and rdma is no; leave one of them out");
	if (o->tls && o->insecure)
		return pt_fail(EINVAL, "--tls needs --secret-file, which is its key");
	return 0;
}

int settings_read(int argc, char **argv, struct options *o)
{
	int rc;

	*o = (struct options){ .lease_ttl_ns = 30 * NS_PER_S, .drain_ns = 10 * NS_PER_S, .gc_ns = 60 * NS_PER_S, .snapshots_ns = PT_SNAPSHOTS_EVERY_S * NS_PER_S, .workers = 8, .clients_max = 1024, .rdma = "auto", .arena = "256M", .reserve = "1G" };
	rc = read_all(argc, argv, o);
	if (rc == 0 && !o->help && !o->version)
		rc = check(o);
	if (rc < 0) {
		fprintf(stderr, "ptiod: %s\n", pt_fail_sentence());
		return 2;
	}
	if (!o->listen_count)
		o->listen[o->listen_count++] = "127.0.0.1";
	o->lease_margin_ns = o->lease_ttl_ns / 6 < 2 * NS_PER_S ? o->lease_ttl_ns / 6 : 2 * NS_PER_S;
	return 0;
}
