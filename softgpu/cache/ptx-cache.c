/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/sha2.h>

#include "common/log.h"
#include "cache/ptx-cache.h"

static void digest(const void *data, size_t size, uint8_t sum[VCUDA_CACHE_DIGEST_BYTES])
{
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, size, data);
	sha256_digest(&sha, VCUDA_CACHE_DIGEST_BYTES, sum);
}

static void warn(int error)
{
	vcuda_log("compiled kernels are not kept: %s", strerror(error));
}

static const struct vcuda_cache_kind kernels = {{'v', 'c', 'u', 'd', 'a', 'p', 't', 'x'}, digest, warn};

#define DEFAULT_MIB 1024

static uint64_t wanted_bytes(void)
{
	const char *text = getenv("VCUDA_CPU_CACHE");
	unsigned long long mib;
	char *end;

	if (!text || !*text)
		return (uint64_t)DEFAULT_MIB << 20;
	mib = strtoull(text, &end, 10);
	if (*end || text[0] < '0' || text[0] > '9' || mib > 1ull << 30) {
		vcuda_log("VCUDA_CPU_CACHE=%s is not used: give MiB, e.g. VCUDA_CPU_CACHE=200, or 0 for none", text);
		mib = DEFAULT_MIB;
	}
	return (uint64_t)mib << 20;
}

/* The folder of files that the project's other programs have fetched. */
static bool default_path(char *to, size_t size)
{
	const char *given = getenv("VCUDA_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;

	if (given && given[0] == '/')
		n = snprintf(to, size, "%s/kernels", given);
	else if (cache && cache[0] == '/')
		n = snprintf(to, size, "%s/vcuda/kernels", cache);
	else if (home && home[0] == '/')
		n = snprintf(to, size, "%s/.cache/vcuda/kernels", home);
	else
		return false;
	return n > 0 && (size_t)n < size;
}

static struct vcuda_cache *chosen;
static char path[4096];
static uint64_t limit;

static void choose(void)
{
	limit = wanted_bytes();
	if (!limit)
		return;
	if (!default_path(path, sizeof(path))) {
		vcuda_log("compiled kernels are not kept: neither XDG_CACHE_HOME nor HOME is set");
		path[0] = 0;
	} else if (!(chosen = vcuda_cache_open(path, &kernels, limit))) {
		vcuda_log("compiled kernels are not kept: %s: %s", path, strerror(errno));
	}
}

struct vcuda_cache *ptx_cache_default(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose);
	return chosen;
}

const char *ptx_cache_path(void)
{
	ptx_cache_default();
	return path;
}

uint64_t ptx_cache_limit(void)
{
	ptx_cache_default();
	return limit;
}
