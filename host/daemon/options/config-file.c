/* SPDX-License-Identifier: Apache-2.0 */
#include "options/config-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MOST (1u << 20)

void daemon_config_say(const char *path, unsigned int line, const char *kind, const char *format, ...)
{
	va_list values;

	fprintf(stderr, "%s:", path);
	if (line)
		fprintf(stderr, "%u:", line);
	fprintf(stderr, " %s: ", kind);
	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	fputc('\n', stderr);
}

static char *trim(char *text)
{
	char *end;

	text += strspn(text, " \t\r");
	end = text + strlen(text);
	while (end > text && strchr(" \t\r", end[-1]))
		end--;
	*end = '\0';
	return text;
}

struct place {
	const char *path;
	unsigned int line;
	unsigned int *mistakes;
};

#define mistake(place, ...)                                                                                            \
	((*(place)->mistakes)++, daemon_config_say((place)->path, (place)->line, "error", __VA_ARGS__))

/* False, with errno: it is another thing. */
static bool is_file(int fd)
{
	struct stat s;

	if (fstat(fd, &s))
		return false;
	errno = S_ISDIR(s.st_mode) ? EISDIR : EINVAL;
	return S_ISREG(s.st_mode);
}

/* Options name programs and limits: root's vcudad takes them from root's files only. False: logged, with a remedy. */
static bool is_roots(const struct place *place, int fd)
{
	struct stat s;

	if (geteuid() || fstat(fd, &s))
		return true;
	if (s.st_uid)
		mistake(place,
			"the file belongs to user %u, and root's vcudad takes a file of root only: chown root %s",
			s.st_uid, place->path);
	else if (s.st_mode & (S_IWGRP | S_IWOTH))
		mistake(place, "users other than root can write to the file (mode %04o): chmod go-w %s",
			s.st_mode & 07777, place->path);
	else
		return true;
	return false;
}

/* The whole file with a NUL behind it, or NULL with errno. */
static char *read_all(FILE *file)
{
	char *text = malloc(FILE_MOST + 1);
	size_t length = text ? fread(text, 1, FILE_MOST + 1, file) : 0;

	if (text && (ferror(file) || length > FILE_MOST || memchr(text, 0, length))) {
		if (!ferror(file))
			errno = EINVAL;
		free(text);
		text = NULL;
	}
	if (text) {
		char *shorter = realloc(text, length + 1);

		text = shorter ? shorter : text;
		text[length] = '\0';
	}
	return text;
}

/* The same of the file of that place; NULL, having said why. */
static char *read_whole(const struct place *place)
{
	/* Opening a pipe does not wait. */
	int fd = open(place->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	FILE *file = fd >= 0 && is_file(fd) ? fdopen(fd, "r") : NULL;
	char *text = NULL;

	if (!file || is_roots(place, fd)) {
		text = file ? read_all(file) : NULL;
		if (!text)
			mistake(place, "%s", errno == EINVAL ? "no text of at most 1 MiB" : strerror(errno));
	}
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	return text;
}

static void refuse_name(const struct place *place, const char *name)
{
	const struct daemon_option *known = daemon_option_find(name), *nearest = daemon_option_nearest(name);

	if (known)
		mistake(place, "%s is an option of the command line only", name);
	else if (nearest)
		mistake(place, "vcudad has no option %s: do you mean %s?", name, nearest->name);
	else
		mistake(place,
			"vcudad has no option %s: each line has one of `vcudad --help`, without dashes, such as "
			"\"max-contexts = 16\"",
			name);
}

static void set(struct daemon_config *config, const struct place *place, struct daemon_options *options, char *name,
		char *value)
{
	const struct daemon_option *option = daemon_option_find(name);
	char advice[DAEMON_ADVICE_BYTES];
	unsigned int *line;

	if (!option || option->only_command_line) {
		refuse_name(place, name);
		return;
	}
	line = &config->lines[option - daemon_option_table];
	if (*line)
		mistake(place, "%s is in line %u already", name, *line);
	else if (!option->type->set(options, option, value, advice))
		mistake(place, "%s = %s: %s", name, value, advice);
	*line = place->line;
}

void daemon_config_read(struct daemon_config *config, const char *path, struct daemon_options *options,
			unsigned int *mistakes)
{
	struct place place = {.path = path, .mistakes = mistakes};
	char *rest;

	*config = (struct daemon_config){.text = read_whole(&place)};
	rest = config->text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *value;

		place.line++;
		line = trim(line);
		if (!*line || *line == '#')
			continue;
		value = strchr(line, '=');
		if (!value) {
			mistake(&place,
				"there is no \"=\": give a line such as \"max-contexts = 16\", or \"verbose = yes\"");
			continue;
		}
		*value = '\0';
		set(config, &place, options, trim(line), trim(value + 1));
	}
}
