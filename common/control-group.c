/* SPDX-License-Identifier: Apache-2.0 */
#include "control-group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A hierarchy of groups: version 2 (controller NULL), or the one of version 1 that has the controller. */
struct hierarchy {
	const char *controller;
	char group[PATH_MAX]; /* the process's own; empty: it is in none */
};

/* A line of mountinfo. */
struct mount {
	const char *root, *point, *type, *options;
};

static FILE *open_below(const char *root, const char *name)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", root, name);

	return length > 0 && (size_t)length < sizeof(path) ? fopen(path, "re") : NULL;
}

/* Is the word in a list with commas? */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; list; list = strchr(list, ','), list += !!list)
		if (!strncmp(list, word, length) && (!list[length] || list[length] == ','))
			return true;
	return false;
}

/* "NUMBER:CONTROLLERS:GROUP", without controllers in version 2. */
static void parse_group(char *line, struct hierarchy *h)
{
	char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!group)
		return;
	*group++ = '\0';
	controllers++;
	group[strcspn(group, "\n")] = '\0';
	if (h->controller ? has_word(controllers, h->controller) : !*controllers)
		snprintf(h->group, sizeof(h->group), "%s", group);
}

static void read_group(const char *root, struct hierarchy *h)
{
	FILE *f = open_below(root, "proc/self/cgroup");
	size_t room = 0;
	char *line = NULL;

	while (f && getline(&line, &room, f) > 0)
		parse_group(line, h);
	free(line);
	if (f)
		fclose(f);
}

/* Blanks and backslashes of a path are written in octal. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		bool escaped = from[0] == '\\' && strspn(from + 1, "01234567") >= 3;

		*to = escaped ? (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0')) : *from;
		from += escaped ? 4 : 1;
	}
	*to = '\0';
}

/* "ID PARENT DEVICE ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS" */
static bool parse_mount(char *line, struct mount *m)
{
	char *fields[8] = {NULL}, *rest = strstr(line, " - "), *save;

	if (!rest)
		return false;
	*rest = '\0';
	for (int n = 0; n < 5; n++)
		fields[n] = strtok_r(n ? NULL : line, " ", &save);
	for (int n = 5; n < 8; n++)
		fields[n] = strtok_r(n > 5 ? NULL : rest + 3, " \n", &save);
	if (!fields[4] || !fields[7])
		return false;
	unescape(fields[3]);
	unescape(fields[4]);
	*m = (struct mount){.root = fields[3], .point = fields[4], .type = fields[5], .options = fields[7]};
	return true;
}

/* The group's path in a mount of the hierarchy: "" or what begins with a slash. NULL: the mount does not show it. */
static const char *path_in_mount(const struct hierarchy *h, const struct mount *m)
{
	size_t above = strcmp(m->root, "/") ? strlen(m->root) : 0;

	if (strcmp(m->type, h->controller ? "cgroup" : "cgroup2"))
		return NULL;
	if (h->controller && !has_word(m->options, h->controller))
		return NULL;
	if (strncmp(h->group, m->root, above) || (h->group[above] && h->group[above] != '/'))
		return NULL;
	return h->group + above;
}

static bool visit_mount(const char *root, const struct hierarchy *h, char *line, vcuda_group_visit *visit,
			void *argument)
{
	struct mount m;
	const char *path = parse_mount(line, &m) ? path_in_mount(h, &m) : NULL;
	char folder[PATH_MAX];
	int length;

	if (!path)
		return true;
	length = snprintf(folder, sizeof(folder), "%s%s%s", root, m.point, path);
	if (length < 0 || (size_t)length >= sizeof(folder))
		return true;
	return visit(argument, folder, strlen(root) + strlen(m.point));
}

void vcuda_group_each(const char *root, const char *controller, vcuda_group_visit *visit, void *argument)
{
	struct hierarchy h = {.controller = controller};
	size_t room = 0;
	char *line = NULL;
	FILE *f;

	read_group(root, &h);
	f = *h.group ? open_below(root, "proc/self/mountinfo") : NULL;
	while (f && getline(&line, &room, f) > 0)
		if (!visit_mount(root, &h, line, visit, argument))
			break;
	free(line);
	if (f)
		fclose(f);
}

/* ---- which way works ---- */

struct attempt {
	const char *file; /* a file that a usable group has, writable */
	char *folder;     /* own group, once a group could be made in it */
};

static bool is_writable(const char *folder, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) && !access(path, W_OK);
}

/* A process moves only between groups whose common parent it may write to: here the own group. */
static bool try_folder(void *argument, const char *folder, size_t top)
{
	struct attempt *attempt = argument;
	char group[PATH_MAX];
	bool works;

	if (!is_writable(folder, "cgroup.procs") ||
	    snprintf(group, sizeof(group), "%s/vcuda-try-%d", folder, getpid()) >= (int)sizeof(group) ||
	    mkdir(group, 0755))
		return true;
	works = is_writable(group, attempt->file);
	rmdir(group);
	if (works)
		strcpy(attempt->folder, folder);
	return !works;
}

bool vcuda_group_has(const char *controller, const char *file, char folder[PATH_MAX])
{
	struct attempt attempt = {.file = file, .folder = folder};

	*folder = '\0';
	vcuda_group_each("", controller, try_folder, &attempt);
	return *folder;
}

bool vcuda_group_works(enum vcuda_group_way way, char folder[PATH_MAX])
{
	if (way == VCUDA_GROUP_NONE)
		return false;
	return way == VCUDA_GROUP_V2 ? vcuda_group_has(NULL, "cgroup.kill", folder)
				     : vcuda_group_has("freezer", "freezer.state", folder);
}
