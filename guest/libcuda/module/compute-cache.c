/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder is opened for each use: these are as rare as compilations, and a program that closes every descriptor it
 * does not know must not have us write elsewhere. Failures are no errors of the program and are told to the trace only.
 *
 * NVRTC (12.9 to 13.2) names machine code by the intermediate code that it began with and by the assembler's options,
 * though the PTX between them depends on --ftz, --prec-div, --prec-sqrt, --restrict and more. It has asked for the key
 * of that PTX just before, in the same call and so in the same thread: machine code has that key in its own, or none.
 *
 * The software GPU runs no machine code, and a program that compiles for the newest architecture that its NVRTC knows
 * would have nothing that can be loaded. There NVRTC finds in place of machine code the PTX that it would be made of,
 * which all calls that load code take as well. nvJitLink looks into what it finds and must have machine code: it is
 * told from NVRTC by what it starts from, which is text.
 */
#include "module/compute-cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cache.h"
#include "core/hooks.h"
#include "core/init.h"
#include "core/request.h"
#include "guest/client/session.h"
#include "module/sha256.h"
#include "protocol/machine-code.h"

/* Changes when the key's own composition does. */
#define KEY_FORMAT 1
#define DEFAULT_BYTES (1ull << 30)
#define MAX_BYTES (4ull << 30)

struct libcuda_compute_key {
	struct vcuda_cache_key key;
	bool translation; /* belongs to the text that the thread assembles next */
	char *text;       /* found in place of machine code; NULL: nothing is */
};

static const struct vcuda_cache_kind kind = {.magic = {'v', 'c', 'u', 'd', 'a', 'c', 'm', 'p'},
					     .digest = libcuda_sha256};

/* ---- which folder ---- */

static char path[4096]; /* empty: there is no cache */
static uint64_t limit;
static pthread_key_t last_text; /* of the thread's last translation, once it is there */

static uint64_t wanted_bytes(void)
{
	const char *disable = secure_getenv("CUDA_CACHE_DISABLE"), *text = secure_getenv("CUDA_CACHE_MAXSIZE");
	unsigned long long bytes;
	char *end;

	if (disable && atoi(disable))
		return 0;
	if (!text || text[0] < '0' || text[0] > '9')
		return DEFAULT_BYTES;
	bytes = strtoull(text, &end, 10);
	if (*end)
		return DEFAULT_BYTES;
	return bytes < MAX_BYTES ? bytes : MAX_BYTES;
}

static void choose(void)
{
	static const struct {
		const char *variable, *folder;
	} places[] = {
		{"CUDA_CACHE_PATH", "vcuda"},
		{"VCUDA_CACHE", "compute"},
		{"XDG_CACHE_HOME", "vcuda/compute"},
		{"HOME", ".cache/vcuda/compute"},
	};
	const char *start = NULL;
	int n;

	pthread_key_create(&last_text, free);
	limit = wanted_bytes();
	for (size_t i = 0; limit && i < sizeof(places) / sizeof(places[0]); i++) {
		start = secure_getenv(places[i].variable);
		/* a relative one would be elsewhere after chdir() */
		if (!start || start[0] != '/')
			continue;
		n = snprintf(path, sizeof(path), "%s/%s", start, places[i].folder);
		if (n < 0 || (size_t)n >= sizeof(path))
			path[0] = 0;
		return;
	}
}

static struct vcuda_cache *open_cache(void)
{
	struct vcuda_cache *cache = path[0] ? vcuda_cache_open(path, &kind, limit) : NULL;

	if (!cache && path[0] && libcuda_hook_note)
		libcuda_hook_note("compute cache: %s: %s", path, strerror(errno));
	return cache;
}

static void note(const char *what, const struct libcuda_compute_key *key, size_t size)
{
	uint64_t number;

	if (!libcuda_hook_note)
		return;
	memcpy(&number, key->key.bytes, sizeof(number));
	libcuda_hook_note("compute cache: %s %016llx, %zu bytes", what, (unsigned long long)__builtin_bswap64(number),
			  size);
}

/* ---- keys ---- */

/* The thread's last translation, until it is assembled. */
static _Thread_local struct {
	bool known;
	uint8_t subject[LIBCUDA_SHA256_BYTES];
	struct libcuda_compute_key key;
} translated;

/* A length before each part, so that no two lists of parts are the same bytes. */
static void add(struct libcuda_sha256 *sha, const void *data, uint64_t size)
{
	libcuda_sha256_add(sha, &size, sizeof(size));
	libcuda_sha256_add(sha, data, size);
}

static void add_text(struct libcuda_sha256 *sha, const char *text)
{
	add(sha, text, text ? strlen(text) : 0);
}

/* PTX is text; intermediate code is marked as binary at its start. */
static bool is_text(const uint8_t *input, uint32_t size)
{
	for (uint32_t n = 0; n < size && n < 4; n++)
		if (!input[n] || input[n] >= 0x80)
			return false;
	return true;
}

/* VCUDA_NVRTC=cubin is for programs that do not load what they compile. */
static bool text_only(void)
{
	const char *wanted = secure_getenv("VCUDA_NVRTC");

	return libcuda_require_init() == CUDA_SUCCESS && !libcuda_host_is_gpu() &&
	       !(wanted && !strcmp(wanted, "cubin"));
}

static void set_last_text(char *text)
{
	free(pthread_getspecific(last_text));
	if (pthread_setspecific(last_text, text))
		free(text);
}

static bool make_key(struct libcuda_compute_key *key, uint32_t stage, const uint8_t subject[LIBCUDA_SHA256_BYTES],
		     const char *options, bool text)
{
	const uint32_t numbers[] = {KEY_FORMAT, stage};
	bool translates = stage == LIBCUDA_COMPUTE_TRANSLATE, follows = !translates && !text, known = translated.known;
	struct libcuda_sha256 sha;

	translated.known = false;
	if (follows && !(known && !memcmp(translated.subject, subject, LIBCUDA_SHA256_BYTES)))
		return false;
	libcuda_sha256_start(&sha);
	add(&sha, numbers, sizeof(numbers));
	add(&sha, subject, LIBCUDA_SHA256_BYTES);
	add_text(&sha, options);
	if (follows)
		add(&sha, translated.key.key.bytes, sizeof(translated.key.key.bytes));
	libcuda_sha256_end(&sha, key->key.bytes);
	key->translation = translates;
	if (translates) {
		set_last_text(NULL);
		translated.known = true;
		memcpy(translated.subject, subject, LIBCUDA_SHA256_BYTES);
		translated.key = *key;
	}
	return true;
}

CUresult libcuda_compute_key(struct libcuda_compute_key **key, uint32_t stage, const void *input, uint32_t size,
			     const char *options, const char *host, const char *build, uint32_t architecture,
			     uint32_t flag)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const uint32_t numbers[] = {architecture, flag};
	uint8_t subject[LIBCUDA_SHA256_BYTES];
	struct libcuda_sha256 sha;
	const char *last;
	bool for_text;

	if (!key)
		return CUDA_ERROR_INVALID_VALUE;
	*key = NULL;
	if (!input || !size)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_once(&once, choose);
	for_text = text_only();
	if (!path[0] && !for_text)
		return CUDA_ERROR_NOT_SUPPORTED;
	libcuda_sha256_start(&sha);
	add(&sha, numbers, sizeof(numbers));
	add(&sha, input, size);
	add_text(&sha, host);
	add_text(&sha, build);
	libcuda_sha256_end(&sha, subject);
	*key = calloc(1, sizeof(**key));
	if (!*key)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (make_key(*key, stage, subject, options, is_text(input, size))) {
		last = pthread_getspecific(last_text);
		if (for_text && stage == LIBCUDA_COMPUTE_ASSEMBLE && last && !is_text(input, size))
			(*key)->text = strdup(last);
		return CUDA_SUCCESS;
	}
	free(*key);
	*key = NULL;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult libcuda_compute_key_free(struct libcuda_compute_key *key)
{
	if (key)
		free(key->text);
	free(key);
	return CUDA_SUCCESS;
}

/* ---- entries ---- */

static CUresult give_text(const struct libcuda_compute_key *key, void **data, uint32_t *size)
{
	char *text;
	int length = asprintf(&text, "%s%s", VCUDA_FOR_MACHINE_CODE, key->text);

	if (length < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*data = text;
	/* with its end, which loading it as machine code needs and PTX that is asked for as such comes without */
	*size = (uint32_t)length + 1;
	note("gives PTX for", key, *size);
	return CUDA_SUCCESS;
}

CUresult libcuda_compute_load(const struct libcuda_compute_key *key, uintptr_t zero, void **data, uint32_t *size)
{
	struct vcuda_cache *cache;
	size_t found;

	if (!data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	*data = NULL;
	*size = 0;
	if (!key || zero)
		return CUDA_ERROR_INVALID_VALUE;
	if (key->text)
		return give_text(key, data, size);
	cache = open_cache();
	if (!cache)
		return CUDA_ERROR_NOT_FOUND;
	*data = vcuda_cache_load(cache, &key->key, &found);
	vcuda_cache_close(cache);
	if (*data && found <= UINT32_MAX) {
		*size = (uint32_t)found;
		if (key->translation)
			set_last_text(strndup(*data, found));
		note("found", key, found);
		return CUDA_SUCCESS;
	}
	note("has no", key, 0);
	free(*data);
	*data = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

CUresult libcuda_compute_store(const struct libcuda_compute_key *key, uintptr_t zero, const void *data, uint32_t size)
{
	struct vcuda_cache *cache;
	bool stored;

	if (!key || zero || !data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (key->translation)
		set_last_text(strndup(data, size));
	cache = open_cache();
	if (!cache)
		return CUDA_ERROR_NOT_SUPPORTED;
	stored = vcuda_cache_store(cache, &key->key, data, size);
	vcuda_cache_close(cache);
	note(stored ? "keeps" : "cannot keep", key, size);
	return stored ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult libcuda_compute_free(void *data)
{
	free(data);
	return CUDA_SUCCESS;
}
