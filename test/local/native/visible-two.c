/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The effect of CUDA_VISIBLE_DEVICES on the driver of a machine with two devices. The program opens the library by its
 * name and so runs natively as well.
 *
 * usage: visible-two FILE
 *
 * FILE has lines `[VALUE] CODE DEVICE...`: a value of the variable, what cuInit() answers, and the devices that there
 * are then, by their numbers without the variable. In a value %A and %B are the UUIDs of devices 0 and 1 with "GPU-",
 * %b is the second one's without it, %P the shortest beginning of it that is no beginning of the first one's, \t a tab.
 * Exit status 0: every line is so. Each other one is printed.
 */
#include "test/local/native/native.h"

enum { UUID = 36, MOST = 8 };

struct answer {
	int code, count;
	char uuids[MOST][UUID + 1];
};

static void ask(const void *value, void *answer)
{
	struct answer *a = answer;
	CUuuid uuid;

	if (value)
		setenv("CUDA_VISIBLE_DEVICES", value, 1);
	a->count = 0;
	a->code = CALL(cuInit, 0);
	if (!a->code)
		a->code = CALL(cuDeviceGetCount, &a->count);
	for (int i = 0; i < a->count && i < MOST; i++) {
		char *at = a->uuids[i];

		if (CALL(cuDeviceGetUuid_v2, &uuid, i))
			_exit(1);
		for (int k = 0; k < 16; k++)
			at += sprintf(at, "%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "",
				      (unsigned char)uuid.bytes[k]);
	}
}

static int shortest_prefix(const struct answer *all)
{
	int n = 0;

	while (all->uuids[0][n] == all->uuids[1][n])
		n++;
	return n + 1;
}

static void fill_in(const char *pattern, const struct answer *all, char *value)
{
	while (*pattern) {
		char name = *pattern == '%' || *pattern == '\\' ? pattern[1] : 0;

		if (name == 't')
			*value++ = '\t';
		else if (name == 'A' || name == 'B')
			value += sprintf(value, "GPU-%s", all->uuids[name == 'B']);
		else if (name == 'b')
			value += sprintf(value, "%s", all->uuids[1]);
		else if (name == 'P')
			value += sprintf(value, "GPU-%.*s", shortest_prefix(all), all->uuids[1]);
		else
			*value++ = *pattern;
		pattern += name ? 2 : 1;
	}
	*value = 0;
}

static void compare(const char *line, const struct answer *all)
{
	const char *end = strrchr(line, ']');
	char pattern[256], value[512], got[256];
	struct answer a;
	int at;

	snprintf(pattern, sizeof(pattern), "%.*s", (int)(end - line - 1), line + 1);
	fill_in(pattern, all, value);
	if (!in_child(ask, value, &a, sizeof(a)))
		a = (struct answer){.code = -1};
	at = snprintf(got, sizeof(got), "[%s] %d", pattern, a.code);
	for (int i = 0; i < a.count; i++)
		at += snprintf(got + at, sizeof(got) - (size_t)at, " %d", strcmp(a.uuids[i], all->uuids[0]) ? 1 : 0);
	expect_text("CUDA_VISIBLE_DEVICES", got, line);
}

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	struct answer all;
	char line[256];

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (!cuda || !file || !in_child(ask, NULL, &all, sizeof(all)) || all.count != 2) {
		fprintf(stderr, "usage: visible-two FILE; a CUDA driver, and two devices\n");
		return 2;
	}
	for (next_line(file, line, sizeof(line)); *line; next_line(file, line, sizeof(line)))
		compare(line, &all);
	printf("%d probes, %d different\n", probes, different);
	return !probes || different;
}
