/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda top`: the daemons of this user and their guest processes, again and again. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "control.h"

#define REFRESH_S 2

/* To the upper left corner, and nothing below it. */
#define CLEAR "\033[H\033[J"

static int usage(FILE *out)
{
	fputs("usage: vcuda top [--once] [--json] [--control PATH]\n"
	      "\n"
	      "Shows the daemons (vcudad) of this user every 2 s, with quotas and guest processes. PROCESS is the "
	      "process\n"
	      "in the guest, WORKER the process of this host that serves it, MEMORY the RAM of that worker, DEVICE "
	      "its\n"
	      "memory on the software GPU, PINNED guest memory that the worker has,\n"
	      "QUEUE commands that it has not taken (bytes), LOGLOST what the log did not "
	      "take.\n"
	      "\n"
	      "  --once          once, and end\n"
	      "  --json          a line of JSON each time\n"
	      "  --control PATH  the daemon whose control socket this is (vcudad --control)\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

struct choice {
	bool once, json;
	const char *control;
};

static bool show(const struct choice *choice)
{
	struct control_daemons found;
	bool good = control_find(&found, choice->control);

	if (choice->json) {
		control_print_json(&found);
	} else {
		if (!choice->once && isatty(STDOUT_FILENO))
			fputs(CLEAR, stdout);
		if (found.count)
			control_print_table(&found, true);
		else if (good)
			cli_message("no vcudad of this user runs");
	}
	control_free(&found);
	return good && !fflush(stdout) && !ferror(stdout);
}

int cli_top(const struct cli_paths *paths, int argc, char **argv)
{
	static const struct option options[] = {
		{"once", no_argument, NULL, 'o'},
		{"json", no_argument, NULL, 'j'},
		{"control", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct choice choice = {0};
	bool good;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (option == '?')
			return usage(stderr);
		if (option == 'c')
			choice.control = optarg;
		choice.once |= option == 'o';
		choice.json |= option == 'j';
	}
	if (argv[optind])
		return usage(stderr);
	for (good = show(&choice); !choice.once && !ferror(stdout); good = show(&choice))
		sleep(REFRESH_S);
	return good ? 0 : CLI_FAILED;
}
