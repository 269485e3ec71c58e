/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of vcudad: one table for the command line, configuration files, `vcudad --help` and `vcudad
 * --print-config`. A new option is one entry of the table, and its member of struct daemon_options.
 */
#ifndef VCUDA_OPTION_TABLE_H
#define VCUDA_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "options/options.h"

#define DAEMON_ADVICE_BYTES 160
#define DAEMON_VALUE_BYTES 4200 /* of a value as text, a path among them */

struct daemon_option;

/* Converts the text of a value to a member of struct daemon_options, and back. */
struct daemon_option_type {
	/* `value` stays the caller's and must live as long as `options`. False: `advice` says which values are
	 * possible. */
	bool (*set)(struct daemon_options *options, const struct daemon_option *option, const char *value,
		    char advice[DAEMON_ADVICE_BYTES]);
	/* False: the option has no value, such as a quota without a limit. */
	bool (*get)(const struct daemon_options *options, const struct daemon_option *option,
		    char text[DAEMON_VALUE_BYTES]);
};

struct daemon_option {
	const char *name, *argument; /* argument: NULL for a flag */
	const char *text;            /* for the help; "\n" begins a line. Defaults that are values are added */
	const struct daemon_option_type *type; /* NULL: options.c acts on it */
	size_t offset;                         /* of the member */
	uint64_t low, high;                    /* of numbers and sizes; low is the number of a quota */
	bool only_command_line;                /* no configuration file has it */
};

#define DAEMON_OPTIONS_MOST 64

/* All options. The last entry has no name (NULL). */
extern const struct daemon_option daemon_option_table[];

/* NULL: no option has this name. */
const struct daemon_option *daemon_option_find(const char *name);

/* The option for configuration files with the name most similar to `name`; NULL: no name is similar. */
const struct daemon_option *daemon_option_nearest(const char *name);

/* option-type.c */
extern const struct daemon_option_type daemon_type_text, daemon_type_path, daemon_type_flag, daemon_type_number,
	daemon_type_octal, daemon_type_size, daemon_type_quota, daemon_type_name, daemon_type_backend,
	daemon_type_sandbox, daemon_type_worker_user, daemon_type_warm_device, daemon_type_cpus, daemon_type_cache;

/* option-print.c: the text of `vcudad --help`, and a configuration file in which options that are not `given` are
 * comments. */
void daemon_options_print_help(FILE *out);
void daemon_options_print_config(FILE *out, const struct daemon_options *options,
				 const bool given[DAEMON_OPTIONS_MOST]);

#endif
