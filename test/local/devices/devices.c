/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices [PART]...: runs the parts, or all but `quota`, each in a process of its own. Natively it needs two devices
 * that reach each other. Status 77: there is one device.
 */
#include "devices.h"

#include <sys/wait.h>
#include <unistd.h>

static const struct part {
	const char *name;
	void (*run)(void);
	bool is_optional;
} parts[] = {
	{.name = "identity", .run = identity},
	{.name = "visible", .run = visible},
	{.name = "memory", .run = memory},
	{.name = "threads", .run = threads},
	{.name = "copies", .run = copies},
	{.name = "managed", .run = managed},
	{.name = "pools", .run = pools},
	{.name = "pools-closed", .run = pools_closed},
	{.name = "mappings", .run = mappings},
	{.name = "mappings-closed", .run = mappings_closed},
	{.name = "mappings-read-only", .run = mappings_read_only},
	{.name = "peer-codes", .run = peer_codes},
	{.name = "peer-access", .run = peer_access},
	{.name = "peer-never", .run = peer_never},
	{.name = "peer-ended", .run = peer_ended},
	{.name = "sharing", .run = sharing},
	{.name = "events", .run = events},
	{.name = "cooperative", .run = cooperative},
	{.name = "several-launches", .run = several_launches},
	{.name = "graphs", .run = graphs},
	{.name = "quota", .run = quota, .is_optional = true},
};

/* Whether the part passed. */
static bool run(const struct part *part)
{
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		part->run();
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (status)
		printf("devices: %s failed (status 0x%x)\n", part->name, (unsigned int)status);
	return !status;
}

static bool is_wanted(int argc, char **argv, const struct part *part)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], part->name))
			return true;
	return argc == 1 && !part->is_optional;
}

static void count(void)
{
	int n;

	OK(cuInit(0));
	OK(cuDeviceGetCount(&n));
	exit(n);
}

int main(int argc, char **argv)
{
	unsigned int ran = 0;
	pid_t child = fork();
	int status, failed = 0;

	CHECK(child >= 0);
	if (!child)
		count();
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	if (WEXITSTATUS(status) < 2) {
		printf("devices: skipped, there is one device\n");
		return 77;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!is_wanted(argc, argv, &parts[i]))
			continue;
		failed |= !run(&parts[i]);
		ran++;
	}
	if (!failed && ran)
		printf("devices: passed, %d devices\n", WEXITSTATUS(status));
	return failed || !ran;
}
