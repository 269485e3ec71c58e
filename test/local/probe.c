/* SPDX-License-Identifier: Apache-2.0 */
#include "test/local/probe.h"

#include <stdio.h>
#include <string.h>

#define MOST_LINES 400

static struct {
	char name[128];
	unsigned int probes, failed, failures;
	bool has_failed;
} now;

void probe_begin(const char *name, const char *variant)
{
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
