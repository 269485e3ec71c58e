/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda config`: vcudad knows its options, checks configuration files and prints them. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(FILE *out)
{
	fputs("usage: vcuda config check [FILE|FOLDER...]\n"
	      "       vcuda config show [FILE]\n"
	      "\n"
	      "Checks and shows configuration files of vcudad. Such a file has lines OPTION = VALUE, with the options "
	      "of "
	      "`vcudad\n"
	      "--help` without dashes, and comments behind \"#\". The unit vcudad@NAME reads /etc/vcuda/NAME.conf, and "
	      "vcudad.service\n"
	      "reads /etc/vcuda/local.conf.\n"
	      "\n"
	      "check reads the files, and those of folders that end in .conf (all that the units read, unless told). "
	      "It "
	      "prints\n"
	      "FILE:LINE: and what is wrong; two VMs with one socket, and minimums of memory that do not fit together, "
	      "among it.\n"
	      "What this machine does not have now is a warning. The exit status is 1 if there is a mistake.\n"
	      "show prints all options as such a file. Options that FILE does not set are comments with their "
	      "defaults.\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

/* Returns only if vcudad cannot be started. */
static int run_daemon(const struct cli_paths *paths, char **arguments)
{
	arguments[0] = (char *)paths->daemon;
	execv(paths->daemon, arguments);
	if (errno == ENOENT)
		cli_message("there is no vcudad here (%s): hosts have configuration files, guests have none",
			    paths->daemon);
	else
		cli_message("cannot run %s: %s", paths->daemon, strerror(errno));
	return CLI_FAILED;
}

static int check(const struct cli_paths *paths, int count, char **files)
{
	/* The program, its option, "--", the files, NULL. */
	char **arguments = calloc((size_t)count + 4, sizeof(*arguments));

	if (!arguments)
		return CLI_FAILED;
	arguments[1] = "--check-config";
	arguments[2] = "--";
	memcpy(arguments + 3, files, (size_t)count * sizeof(*files));
	return run_daemon(paths, arguments);
}

/* "./" before the name of a file that begins with a dash, which means to vcudad that the file need not exist. */
static int show(const struct cli_paths *paths, const char *file)
{
	char path[PATH_MAX + 2] = "";
	char *arguments[] = {NULL, "--print-config", file ? "--config" : NULL, path, NULL};

	if (file)
		snprintf(path, sizeof(path), "%s%s", *file == '-' ? "./" : "", file);
	return run_daemon(paths, arguments);
}

int cli_config(const struct cli_paths *paths, int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";
	bool is_check = !strcmp(command, "check");

	for (int n = 1; n < argc && n <= 2; n++)
		if (!strcmp(argv[n], "--help") || !strcmp(argv[n], "-h"))
			return usage(stdout);
	if ((!is_check && strcmp(command, "show")) || (!is_check && argc > 3))
		return usage(stderr);
	return is_check ? check(paths, argc - 2, argv + 2) : show(paths, argc > 2 ? argv[2] : NULL);
}
