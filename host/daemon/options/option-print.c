/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options as a help text and as a configuration file. */
#include "options/option-table.h"

#include <string.h>

#define HELP_COLUMN 26
#define HELP_WIDTH 110
#define CONFIG_WIDTH 100

/* Prints `text` in lines of at most `width` columns. All but the first begin with `margin`; the first is at `column`.
 */
static void print_wrapped(FILE *out, const char *text, const char *margin, size_t column, size_t width)
{
	size_t at = column, left = strlen(margin);
	bool first = true;

	while (*text) {
		size_t length = strcspn(text, " \n");

		if (!first && at + 1 + length > width) {
			fprintf(out, "\n%s", margin);
			at = left;
			first = true;
		}
		at += (size_t)fprintf(out, "%s%.*s", first ? "" : " ", (int)length, text);
		first = false;
		text += length;
		if (*text == '\n') {
			fprintf(out, "\n%s", margin);
			at = left;
			first = true;
		}
		text += *text != '\0';
	}
	fputc('\n', out);
}

/* With the default that vcudad begins with, if it can be given as a value. */
static void describe(const struct daemon_option *option, const struct daemon_options *defaults, char *text, size_t size)
{
	char value[DAEMON_VALUE_BYTES];

	if (option->argument && option->type && option->type->get(defaults, option, value))
		snprintf(text, size, "%s (default: %s)", option->text, value);
	else
		snprintf(text, size, "%s", option->text);
}

void daemon_options_print_help(FILE *out)
{
	char margin[HELP_COLUMN + 1], text[DAEMON_VALUE_BYTES + 600];
	struct daemon_options defaults;

	daemon_options_default(&defaults);
	snprintf(margin, sizeof(margin), "%*s", HELP_COLUMN, "");
	fputs("Usage: vcudad [--vhost-socket PATH] [--socket PATH] [options]\n"
	      "\n"
	      "Lends this host's CUDA devices to one VM, or to programs of this host. It starts one worker per guest "
	      "process.\n"
	      "\n",
	      out);
	for (const struct daemon_option *option = daemon_option_table; option->name; option++) {
		int length = fprintf(out, "  --%s%s%s", option->name, option->argument ? " " : "",
				     option->argument ? option->argument : "");

		if (length > HELP_COLUMN - 2)
			fprintf(out, "\n%s", margin);
		else
			fprintf(out, "%*s", HELP_COLUMN - length, "");
		describe(option, &defaults, text, sizeof(text));
		print_wrapped(out, text, margin, HELP_COLUMN, HELP_WIDTH);
	}
}

void daemon_options_print_config(FILE *out, const struct daemon_options *options, const bool given[DAEMON_OPTIONS_MOST])
{
	char text[DAEMON_VALUE_BYTES + 600], value[DAEMON_VALUE_BYTES];
	struct daemon_options defaults;

	daemon_options_default(&defaults);
	fputs("# Options of vcudad. Lines behind \"#\" show defaults; without a value there is none.\n", out);
	for (const struct daemon_option *option = daemon_option_table; option->name; option++) {
		bool set = given[option - daemon_option_table];

		if (option->only_command_line)
			continue;
		describe(option, &defaults, text, sizeof(text));
		fputs("\n# ", out);
		print_wrapped(out, text, "# ", 2, CONFIG_WIDTH);
		if (!option->type->get(set ? options : &defaults, option, value))
			*value = '\0';
		fprintf(out, "%s%s =%s%s\n", set ? "" : "#", option->name, *value ? " " : "", value);
	}
}
