/* tools/main.c - ptio: the store from the command line, without a mount. Global options and the table of subcommands. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ptio/version.h"
#include "tools/cli.h"

const struct cli_command cli_commands[] = {
	{ "ls", "[-l] [-R] [-f] [PATH]", "list keys, layouts and files", cmd_ls },
	{ "stat", "PATH...", "what a tensor is made of, as JSON: layouts, revisions, what is missing", cmd_stat },
	{ "get", "[-o FILE] PATH", "read a view or a file (to standard output)", cmd_get },
	{ "put", "[-n] [--dtype=T --shape=N,...] FILE PATH", "write a tensor file to a view (- is standard input)", cmd_put },
	{ "rm", "[-r] [-f] PATH...", "remove a tensor, a scope of it, a file, or with -r all below a name", cmd_rm },
	{ "verify", "[-q] [PATH...]", "read every byte and check every hash", cmd_verify },
	{ "pending", "[--json] [--drop=SET] [PATH]", "sets that wait for parts, and which", cmd_pending },
	{ "wait", "--complete [--after=REV] [--timeout=SECONDS] PATH...", "wait until tensors are complete", cmd_wait },
	{ "warm", "[-q] PATH...", "read files of a mount (paths with the mountpoint) so that they are in memory for others", cmd_warm },
	{ "gc", "[--pending-older-than=SECONDS] [--orphans-older-than=SECONDS]", "remove what nothing names any more", cmd_gc },
	{ "fsck", "[--verify] [--rebuild [--dry-run]] [STORE]", "check that a store's directory is sound: index, objects, with --verify every byte; --rebuild a damaged index", cmd_fsck },
	{ NULL, NULL, NULL, NULL },
};

static const char usage_head[] =
	"usage: ptio [-s STORE] COMMAND [ARGUMENT...]\n"
	"\n"
	"  -s, --store=STORE   /path, ./path or dir:path of a store, or ptio://HOST:PORT (environment: PTIO_STORE)\n"
	"      --verify=MODE   check hashes on reads: off, whole or touch (environment: PTIO_VERIFY; default touch)\n"
	"      --secret-file=FILE  the secret of a ptio:// store (environment: PTIO_SECRET_FILE)\n"
	"      --tls           speak TLS with a ptio:// store (environment: PTIO_TLS=1)\n"
	"      --force         allow a store on a network filesystem\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this\n"
	"\n"
	"PATH is a name in the tree without the mountpoint, such as llama/wq/tp=1of4,dim=0/shard.npy.\n"
	"\n"
	"Commands:\n";

static void print_usage(FILE *out)
{
	fputs(usage_head, out);
	for (const struct cli_command *c = cli_commands; c->name; c++)
		fprintf(out, "  %s %s\n        %s\n", c->name, c->args, c->help);
}

static void print_command(FILE *out, const struct cli_command *c)
{
	fprintf(out, "usage: ptio [-s STORE] %s %s\n        %s\n", c->name, c->args, c->help);
}

int cli_usage(const char *command)
{
	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (strcmp(c->name, command) == 0)
			print_command(stderr, c);
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	enum { OPT_VERIFY = 256, OPT_FORCE, OPT_SECRET, OPT_TLS };
	static const struct option options[] = {
		{ "store", required_argument, NULL, 's' },
		{ "verify", required_argument, NULL, OPT_VERIFY },
		{ "force", no_argument, NULL, OPT_FORCE },
		{ "secret-file", required_argument, NULL, OPT_SECRET },
		{ "tls", no_argument, NULL, OPT_TLS },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct cli cli = { .store = getenv("PTIO_STORE"), .verify = getenv("PTIO_VERIFY") };
	int opt, status = CLI_USAGE;

	pt_log_setup("ptio", PT_LOG_WARN, 0);
	signal(SIGPIPE, SIG_IGN);
	/* "+": stop at the subcommand, whose options are its own */
	while ((opt = getopt_long(argc, argv, "+s:Vh", options, NULL)) != -1) {
		switch (opt) {
		case 's':
			cli.store = optarg;
			break;
		case OPT_VERIFY:
			cli.verify = optarg;
			break;
		case OPT_FORCE:
			cli.force = true;
			break;
		case OPT_SECRET:
			cli.secret_file = optarg;
			break;
		case OPT_TLS:
			cli.tls = true;
			break;
		case 'V':
			printf("ptio %s\n", ptio_version());
			return CLI_OK;
		case 'h':
			print_usage(stdout);
			return CLI_OK;
		default:
			print_usage(stderr);
			return CLI_USAGE;
		}
	}
	if (optind >= argc) {
		print_usage(stderr);
		return CLI_USAGE;
	}
	argv += optind;
	argc -= optind;
	optind = 0;             /* getopt starts afresh for the subcommand */
	for (const struct cli_command *c = cli_commands; c->name; c++) {
		if (strcmp(c->name, argv[0]) != 0)
			continue;
		if (argc > 1 && strcmp(argv[1], "--help") == 0) {
			print_command(stdout, c);
			return CLI_OK;
		}
		status = c->run(&cli, argc, argv);
		goto out;
	}
	if (strcmp(argv[0], "help") == 0) {
		print_usage(stdout);
		return CLI_OK;
	}
	fprintf(stderr, "ptio: no command called %s; ptio --help lists them\n", argv[0]);
out:
	pt_models_free(cli.models);
	pt_repo_close(cli.repo);
	if (fflush(stdout) != 0 && status == CLI_OK) {
		fprintf(stderr, "ptio: standard output: %s\n", strerror(errno));
		status = CLI_FAILED;
	}
	return status;
}
