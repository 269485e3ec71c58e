/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of libnvidia-ml.so.1 on the software GPU: nvml-parts PART [VALUE] */
#include <string.h>

#include "parts.h"

static const struct {
	const char *name;
	void (*run)(void);
	void (*run_with)(const char *value);
} parts[] = {
	{"arguments", arguments, NULL}, {"handles", handles, NULL}, {"topology", topology, NULL}, {"busy", busy, NULL},
	{"lists", NULL, lists},         {"quota", NULL, quota},     {"hold", NULL, hold},         {"host", NULL, host},
	{"sessions", sessions, NULL},   {"sysfs", NULL, sysfs},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(argv[1], parts[i].name) || (argc > 2) != !parts[i].run)
			continue;
		if (parts[i].run)
			parts[i].run();
		else
			parts[i].run_with(argv[2]);
		printf("%s: passed\n", argv[1]);
		return 0;
	}
	return 2;
}
