/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/client/driver-version.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"

static int wanted; /* 0: nothing */

static void read_wanted(void)
{
	const char *text = getenv("VCUDA_DRIVER_VERSION");
	int major, minor, length = 0;

	if (!text || !*text)
		return;
	if (sscanf(text, "%2d.%1d%n", &major, &minor, &length) != 2 || text[length] || major < 1 || minor < 0)
		vcuda_log("VCUDA_DRIVER_VERSION=%s is not used: give a version of CUDA, e.g. "
			  "VCUDA_DRIVER_VERSION=12.9",
			  text);
	else
		wanted = 1000 * major + 10 * minor;
}

static void warn(int real)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&warned))
		vcuda_log(
			"VCUDA_DRIVER_VERSION: programs are told %d.%d, but there is no more than %d.%d: calls and PTX "
			"of newer versions fail",
			wanted / 1000, wanted % 1000 / 10, real / 1000, real % 1000 / 10);
}

int client_driver_version(int ours, int host)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int real = host && host < ours ? host : ours;

	pthread_once(&once, read_wanted);
	if (wanted > real)
		warn(real);
	return wanted ? wanted : real;
}
