/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that begin and end the library's sessions beside others that ask, and children that are forked meanwhile. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"

#define ROUNDS 20
#define FORKS 10
/* Far less than the descriptions of as many hosts. */
#define MOST_GROWTH (1u << 20)

static char name[96], version[96];
static _Atomic bool ends;

static void check_text(R result, const char *text, const char *expected)
{
	CHECK(result == NVML_ERROR_UNINITIALIZED || (result == NVML_SUCCESS && !strcmp(text, expected)));
}

static void *ask_always(void *unused)
{
	char text[96];
	R result;
	D device;

	while (!ends) {
		usleep(50);
		result = nvmlDeviceGetHandleByIndex_v2(0, &device);
		if (result == NVML_SUCCESS)
			check_text(nvmlDeviceGetName(device, text, sizeof(text)), text, name);
		check_text(nvmlSystemGetDriverVersion(text, sizeof(text)), text, version);
	}
	return unused;
}

static void *open_always(void *unused)
{
	while (!ends) {
		OK(nvmlInit_v2());
		OK(nvmlShutdown());
	}
	return unused;
}

static void fork_once(void)
{
	char text[96];
	int status;
	D device;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		OK(nvmlInit_v2());
		OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
		OK(nvmlDeviceGetName(device, text, sizeof(text)));
		CHECK(!strcmp(text, name));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
}

void sessions(void)
{
	pthread_t asking, opening;
	size_t before;
	D device;

	OK(nvmlInit_v2());
	OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
	OK(nvmlDeviceGetName(device, name, sizeof(name)));
	OK(nvmlSystemGetDriverVersion(version, sizeof(version)));
	OK(nvmlShutdown());
	CHECK(!pthread_create(&asking, NULL, ask_always, NULL));
	before = mallinfo2().uordblks;
	for (int i = 0; i < ROUNDS; i++) {
		OK(nvmlInit_v2());
		OK(nvmlShutdown());
	}
	CHECK(mallinfo2().uordblks < before + MOST_GROWTH);
	CHECK(!pthread_create(&opening, NULL, open_always, NULL));
	for (int i = 0; i < FORKS; i++)
		fork_once();
	ends = true;
	CHECK(!pthread_join(asking, NULL) && !pthread_join(opening, NULL));
}
