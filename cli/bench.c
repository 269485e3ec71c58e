/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda bench`: the script in bench/ does the work; this tells it where the parts are. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cli_bench(const struct cli_paths *paths, int argc, char **argv)
{
	char script[PATH_MAX + 16];
	char *command[argc + 10];
	int count = 0;

	if (!*paths->self) {
		cli_message("bench: the path of this program is not known: is /proc there?");
		return CLI_FAILED;
	}
	snprintf(script, sizeof(script), "%s/bench.py", paths->bench);
	if (access(script, R_OK)) {
		cli_message("bench: %s: %s", script, strerror(errno));
		return CLI_FAILED;
	}
	command[count++] = "python3";
	command[count++] = "-B"; /* leaves nothing beside the scripts */
	command[count++] = script;
	command[count++] = "--parts";
	for (char *const *part = (char *[]){(char *)paths->self, (char *)paths->daemon, (char *)paths->guest_lib,
					    (char *)paths->bench_programs, VCUDA_VERSION, NULL};
	     *part; part++)
		command[count++] = *part;
	for (int i = 1; i <= argc; i++)
		command[count++] = argv[i];
	execvp("python3", command);
	cli_message("bench: cannot run python3: %s. It is in Debian's package python3.", strerror(errno));
	return CLI_FAILED;
}
