/* SPDX-License-Identifier: Apache-2.0 */
#include "session/host-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURES false
#else
#define MEASURES true
#endif

static int status = -1;

bool worker_own_memory_open(void)
{
	if (!MEASURES)
		return false;
	if (status < 0)
		status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	if (status < 0)
		vcuda_log("cannot measure the memory of this worker: /proc/self/status: %s", strerror(errno));
	return status >= 0;
}

/* The field's value in KiB; 0: there is no such field. */
static uint64_t field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

uint64_t worker_own_memory(void)
{
	char text[4096];
	ssize_t n = pread(status, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return (field(text, "\nRssAnon:") + field(text, "\nVmSwap:")) << 10;
}
