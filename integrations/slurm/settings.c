/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

/* The value of the argument `name`, or NULL: `argument` is another one. */
static const char *value_of(const char *argument, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(argument, name, length) && argument[length] == '=' ? argument + length + 1 : NULL;
}

/* A number with K, M, G or T behind it, as vcudad's options have. */
static bool read_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	unsigned int shift = 0;

	errno = 0;
	*bytes = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
	if (errno || !*bytes)
		return false;
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
	}
	if (*end || *bytes > UINT64_MAX >> shift >> 10)
		return false;
	*bytes <<= shift;
	return true;
}

static bool read_slices(const char *text, unsigned int *slices)
{
	char *end;
	unsigned long number = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;

	if (!number || number > SETTINGS_MOST_SLICES || *end)
		return false;
	*slices = (unsigned int)number;
	return true;
}

/* A setting that is a text; false: the argument is none of these. */
static bool take_text(struct settings *settings, const char *argument)
{
	const struct {
		const char *name, **place;
	} texts[] = {{"user", &settings->user},
		     {"config", &settings->config},
		     {"vcudad", &settings->vcudad},
		     {"libraries", &settings->libraries}};
	const char *value;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		value = value_of(argument, texts[i].name);
		if (value) {
			*texts[i].place = value;
			return *value;
		}
	}
	return false;
}

static int refuse(const char *argument, const char *text)
{
	slurm_error("vcuda: plugstack.conf: %s: %s", argument, text);
	return -1;
}

static int take(struct settings *settings, const char *argument)
{
	const char *value = value_of(argument, "slices");

	if (value)
		return read_slices(value, &settings->slices) ? 0
							     : refuse(argument, "slices is a number from 1 to 1000");
	value = value_of(argument, "slice-memory");
	if (value)
		return read_size(value, &settings->slice_memory)
			       ? 0
			       : refuse(argument, "slice-memory is a number of bytes, such as 10G");
	return take_text(settings, argument)
		       ? 0
		       : refuse(argument, "the arguments are slices, slice-memory, user, config, vcudad and libraries, "
					  "each with \"=\" and a value");
}

int settings_read(struct settings *settings, int argc, char **argv)
{
	*settings = (struct settings){.user = "vcuda",
				      .config = VCUDA_SYSCONFDIR "/vcuda/slurm.conf",
				      .vcudad = VCUDA_BINDIR "/vcudad",
				      .libraries = VCUDA_GUEST_LIBDIR};
	for (int i = 0; i < argc; i++)
		if (take(settings, argv[i]))
			return -1;
	if (settings->slices && settings->slice_memory)
		return 0;
	return refuse("vcuda", "slices and slice-memory are missing");
}
