/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files of vcudad: lines "option = value" with the names of the command line's options, without dashes.
 * Flags have the values yes and no. Lines that begin with "#" are comments.
 */
#ifndef VCUDA_CONFIG_FILE_H
#define VCUDA_CONFIG_FILE_H

#include <stdbool.h>

#include "options/option-table.h"

struct daemon_config {
	char *text;                              /* holds the strings of the options; the caller frees it */
	unsigned int lines[DAEMON_OPTIONS_MOST]; /* line of each option, from 1; 0: the option is missing */
};

/*
 * Sets `options` by the file, and prints a message for each mistake, which it counts in `mistakes`; an option with a
 * mistake has any value. A file that users other than root can write to is a mistake where this process is root's. Not
 * thread-safe.
 */
void daemon_config_read(struct daemon_config *config, const char *path, struct daemon_options *options,
			unsigned int *mistakes);

/* "PATH:LINE: kind: ..." to standard error; line 0: of the whole file. */
void daemon_config_say(const char *path, unsigned int line, const char *kind, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
