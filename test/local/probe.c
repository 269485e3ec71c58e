/* SPDX-License-Identifier: Apache-2.0 */
#include "test/local/probe.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_LINES 400

static struct {
	char name[128];
	unsigned int probes, failed, failures;
	bool has_failed;
} now;

/* A program that does not end is ended so: the name tells where it waited. */
static void ended(int signal)
{
	static const char text[] = ": ended while it ran\n";

	if (write(STDOUT_FILENO, now.name, strlen(now.name)) < 0 || write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(127);
	_exit(128 + signal);
}

void probe_begin(const char *name, const char *variant)
{
	if (!now.probes)
		signal(SIGTERM, ended);
	snprintf(now.name, sizeof(now.name), "%s %s", name, variant);
	now.probes++;
	now.has_failed = false;
}

void probe_expect(bool holds, const char *file, int line, const char *what, long value)
{
	if (holds)
		return;
	if (!now.has_failed)
		now.failed++;
	now.has_failed = true;
	if (now.failures++ < MOST_LINES)
		printf("%s: %s:%d: %s: %ld\n", now.name, strrchr(file, '/') + 1, line, what, value);
	fflush(stdout);
}

unsigned int probe_failed(void)
{
	return now.failed;
}

int probe_end(const char *program)
{
	printf("%s: %u probes, %u failed\n", program, now.probes, now.failed);
	return now.failed ? 1 : 0;
}
