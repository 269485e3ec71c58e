/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda vm list`, `vcuda vm kill`, `vcuda vm set`, `vcuda vm exports` and `vcuda vm free`. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "control.h"
#include "vm.h"

struct arguments {
	const char *control, *reason;
	bool json;
	char **rest; /* ends with NULL */
};

/* Options and what follows them; each command takes those of `accepted`. False: a usage error. */
static bool parse(int argc, char **argv, const char *accepted, struct arguments *arguments)
{
	static const struct option options[] = {
		{"control", required_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"reason", required_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	*arguments = (struct arguments){0};
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (!strchr(accepted, option))
			return false;
		if (option == 'c')
			arguments->control = optarg;
		else if (option == 'r')
			arguments->reason = optarg;
		else
			arguments->json = true;
	}
	arguments->rest = argv + optind;
	return true;
}

static int usage(int argc, char **argv)
{
	bool asked = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));

	fputs("usage: vcuda vm list [--json]\n"
	      "       vcuda vm kill [--reason TEXT] VM [PROCESS]\n"
	      "       vcuda vm set VM QUOTA=VALUE...\n"
	      "       vcuda vm exports [--json] VM\n"
	      "       vcuda vm free [--reason TEXT] VM [USER]\n"
	      "\n"
	      "list shows the daemons (vcudad) of this user, each with its VM or its local programs.\n"
	      "kill ends what the host runs for a guest process, or for all guest processes of the VM; the VM goes "
	      "on.\n"
	      "set changes a quota of a running daemon; `vcuda top` shows their names.\n"
	      "exports shows exported memory whose processes have ended, and that descriptors still hold.\n"
	      "free frees it, or only that of the programs of a local USER (a number). It can be imported no more; "
	      "what\n"
	      "processes have imported before stays theirs.\n"
	      "\n"
	      "VM is a name or a process id that the list shows, PROCESS a process id of the guest (`vcuda top`).\n"
	      "  --json          a line of JSON\n"
	      "  --reason TEXT   for the log\n"
	      "  --control PATH  the daemon whose control socket this is (vcudad --control)\n",
	      asked ? stdout : stderr);
	return asked ? 0 : CLI_FAILED;
}

int vm_list(int argc, char **argv)
{
	struct control_daemons found;
	struct arguments arguments;
	bool good;

	if (!parse(argc, argv, "cj", &arguments) || *arguments.rest)
		return usage(argc, argv);
	good = control_find(&found, arguments.control);
	if (arguments.json)
		control_print_json(&found);
	else if (found.count)
		control_print_table(&found, false);
	else if (good)
		cli_message("no vcudad of this user runs");
	control_free(&found);
	return good ? 0 : CLI_FAILED;
}

/* Sends one request to the daemon of that name; prints its answer. */
static bool send_request(const struct control_daemons *found, const char *name, const char *request)
{
	const struct control_daemon *daemon = control_choose(found, name);
	char *answer = daemon ? control_request(daemon->path, request) : NULL;

	if (!answer)
		return false;
	fputs(answer, stdout);
	free(answer);
	return true;
}

int vm_kill(int argc, char **argv)
{
	struct control_daemons found;
	struct arguments arguments;
	char request[600];
	bool good;

	if (!parse(argc, argv, "cr", &arguments) || !arguments.rest[0] || (arguments.rest[1] && arguments.rest[2]))
		return usage(argc, argv);
	snprintf(request, sizeof(request), "kill %s %s", arguments.rest[1] ? arguments.rest[1] : "all",
		 arguments.reason ? arguments.reason : "");
	control_find(&found, arguments.control);
	good = send_request(&found, arguments.rest[0], request);
	control_free(&found);
	return good ? 0 : CLI_FAILED;
}

int vm_exports(int argc, char **argv)
{
	const struct control_daemon *daemon;
	struct control_daemons found;
	struct arguments arguments;

	if (!parse(argc, argv, "cj", &arguments) || !arguments.rest[0] || arguments.rest[1])
		return usage(argc, argv);
	control_find(&found, arguments.control);
	daemon = control_choose(&found, arguments.rest[0]);
	if (daemon)
		control_print_exports(daemon, arguments.json);
	control_free(&found);
	return daemon ? 0 : CLI_FAILED;
}

int vm_free(int argc, char **argv)
{
	struct control_daemons found;
	struct arguments arguments;
	char request[600];
	bool good;

	if (!parse(argc, argv, "cr", &arguments) || !arguments.rest[0] || (arguments.rest[1] && arguments.rest[2]))
		return usage(argc, argv);
	snprintf(request, sizeof(request), "free %s %s", arguments.rest[1] ? arguments.rest[1] : "all",
		 arguments.reason ? arguments.reason : "");
	control_find(&found, arguments.control);
	good = send_request(&found, arguments.rest[0], request);
	control_free(&found);
	return good ? 0 : CLI_FAILED;
}

int vm_set(int argc, char **argv)
{
	struct control_daemons found;
	struct arguments arguments;
	char request[600];
	bool good = true;

	if (!parse(argc, argv, "c", &arguments) || !arguments.rest[0] || !arguments.rest[1])
		return usage(argc, argv);
	control_find(&found, arguments.control);
	for (char **pair = arguments.rest + 1; good && *pair; pair++) {
		const char *value = strchr(*pair, '=');

		if (!value) {
			cli_message("%s: give QUOTA=VALUE", *pair);
			good = false;
			break;
		}
		snprintf(request, sizeof(request), "set %.*s %s", (int)(value - *pair), *pair, value + 1);
		good = send_request(&found, arguments.rest[0], request);
	}
	control_free(&found);
	return good ? 0 : CLI_FAILED;
}
