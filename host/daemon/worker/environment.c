/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/cache-folder.h"

/* "X=" is that variable, "X_" all that begin so. */
static const char *const passed_on[] = {
	"HOME=", "PATH=",   "TMPDIR=",       "LD_LIBRARY_PATH=", "XDG_",          "VCUDA_",
	"CUDA_", "NVIDIA_", "ASAN_OPTIONS=", "UBSAN_OPTIONS=",   "LSAN_OPTIONS=", "TSAN_OPTIONS="};

/* A worker that is a client itself is not saved with a program of its user's. */
static const char no_worker[] = "VCUDA_CHECKPOINT=";

static bool wanted(const char *variable)
{
	size_t i;

	if (!strncmp(variable, no_worker, strlen(no_worker)))
		return false;
	for (i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		if (!strncmp(variable, passed_on[i], strlen(passed_on[i])))
			return true;
	return false;
}

char **daemon_worker_environment(const struct daemon_options *options)
{
	const char *cache[DAEMON_CACHE_VARIABLES];
	size_t count = 0, kept = 0, i;
	char **result;

	daemon_cache_variables(options, cache);
	while (environ[count])
		count++;
	result = calloc(count + DAEMON_CACHE_VARIABLES + 1, sizeof(*result));
	for (i = 0; result && i < DAEMON_CACHE_VARIABLES && cache[i]; i++)
		result[kept++] = (char *)cache[i];
	for (i = 0; result && i < count; i++)
		if (wanted(environ[i]) && !(cache[0] && !strncmp(environ[i], "VCUDA_CACHE=", 12)))
			result[kept++] = environ[i];
	return result;
}
