/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's cache for compilers: keys, the folder, and errors where an entry cannot be kept. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "guest/libcuda/core/init.h"
#include "guest/libcuda/module/compute-cache.h"
#include "protocol/machine-code.h"
#include "test/unit/folder.h"

#define CHECK_END() _exit(1)
#include "test/check.h"

struct vcuda_host_info libcuda_host = {.backend = "cuda"};

_Atomic bool libcuda_ready = true;

/* A session that lives. */
static struct vcuda_shm shm;
static struct client_transport transport = {.shm = &shm};
struct client_session client_session = {.transport = &transport};

int client_session_lose(int error)
{
	return error;
}

_Thread_local struct libcuda_thread *libcuda_thread_cached;

struct libcuda_thread *libcuda_thread_begin(void)
{
	static struct libcuda_thread thread;

	return libcuda_thread_cached = &thread;
}

void (*libcuda_hook_note)(const char *format, ...);

/* Where the cache is and how large is decided once a process: each scenario is one, and a failed check ends it. */

static void in_process(void (*scenario)(void))
{
	int status = -1;

	if (!fork()) {
		alarm(600);
		scenario();
		_exit(0);
	}
	wait(&status);
	assert_int_equal(status, 0);
}

static void place(void)
{
	unsetenv("CUDA_CACHE_DISABLE");
	unsetenv("CUDA_CACHE_MAXSIZE");
	unsetenv("VCUDA_NVRTC");
	setenv("CUDA_CACHE_PATH", folder, 1);
}

/* ---- as NVRTC calls it ---- */

struct job {
	uint32_t stage;
	const char *input;
	uint32_t size;
	const char *options, *host, *build;
	uint32_t architecture, flag;
};

#define CODE "BC\xc0\xde code"
#define TEXT "// PTX of something"

static const struct job translate = {2, CODE, sizeof(CODE), "-arch=compute_90", "HOST64", "today", 90, 0},
			assemble = {1, CODE, sizeof(CODE), "-arch=sm_90", "HOST64", "today", 90, 0},
			from_text = {1, TEXT, sizeof(TEXT), "-arch=sm_90", "HOST64", "today", 90, 0};

static struct libcuda_compute_key *key_of(struct job j)
{
	struct libcuda_compute_key *key = (void *)-1;
	CUresult result =
		libcuda_compute_key(&key, j.stage, j.input, j.size, j.options, j.host, j.build, j.architecture, j.flag);

	CHECK((result == CUDA_SUCCESS) == (key != NULL));
	return key;
}

static bool keep(struct libcuda_compute_key *key, const char *text)
{
	CUresult result = libcuda_compute_store(key, 0, text, (uint32_t)strlen(text));

	CHECK(libcuda_compute_key_free(key) == CUDA_SUCCESS);
	return result == CUDA_SUCCESS;
}

/* The text of a key's entry, to compare: "" without an entry. */
static const char *found(struct libcuda_compute_key *key)
{
	static char text[64];
	void *data = (void *)-1;
	uint32_t size = 77;

	memset(text, 0, sizeof(text));
	if (libcuda_compute_load(key, 0, &data, &size) == CUDA_SUCCESS) {
		CHECK(size && size < sizeof(text));
		memcpy(text, data, size);
		CHECK(libcuda_compute_free(data) == CUDA_SUCCESS);
	} else {
		CHECK(!data && !size);
	}
	CHECK(libcuda_compute_key_free(key) == CUDA_SUCCESS);
	return text;
}

static unsigned count_files(const char *path)
{
	DIR *list = opendir(path);
	struct dirent *d;
	unsigned count = 0;

	while (list && (d = readdir(list)))
		count += d->d_name[0] != '.';
	if (list)
		closedir(list);
	return count;
}

/* ---- keys ---- */

static void scenario_keys(void)
{
	struct job others[7];

	CHECK(!*found(key_of(from_text)));
	CHECK(keep(key_of(from_text), "result"));
	CHECK(!strcmp(found(key_of(from_text)), "result"));
	for (unsigned n = 0; n < 7; n++)
		others[n] = from_text;
	others[0].stage = 3;
	others[1].size--;
	others[2].options = "-arch=sm_90 -g";
	others[3].host = "HOST6";
	others[4].build = "4today";
	others[5].architecture = 100;
	others[6].flag = 1;
	for (unsigned n = 0; n < 7; n++)
		CHECK(!*found(key_of(others[n])));
	/* the boundary between two parts is in the key */
	others[3].build = "4today";
	CHECK(!*found(key_of(others[3])));
	CHECK(!strcmp(found(key_of(from_text)), "result"));
}

/* Machine code that is named by intermediate code: how that was translated counts as well. */
static void scenario_stages(void)
{
	struct job otherwise = translate, code = translate;

	otherwise.options = "-arch=compute_90 -ftz=1";
	CHECK(keep(key_of(translate), "PTX"));
	CHECK(keep(key_of(assemble), "machine code"));
	CHECK(keep(key_of(otherwise), "PTX, ftz"));
	CHECK(!*found(key_of(assemble)));
	CHECK(!strcmp(found(key_of(translate)), "PTX"));
	CHECK(!strcmp(found(key_of(assemble)), "machine code"));
	CHECK(!strcmp(found(key_of(otherwise)), "PTX, ftz"));
	/* nothing was translated since it was assembled, or something else was */
	CHECK(!*found(key_of(assemble)));
	CHECK(!key_of(assemble));
	code.size--;
	CHECK(!*found(key_of(code)));
	CHECK(!key_of(assemble));
	CHECK(!*found(key_of(code)));
	code.stage = 1;
	code.options = assemble.options;
	CHECK(!*found(key_of(code)));
	/* text names its machine code alone */
	CHECK(keep(key_of(from_text), "of text"));
	CHECK(!strcmp(found(key_of(from_text)), "of text"));
}

/* ---- where nothing runs machine code ---- */

/* Whether the entry for machine code is this text with its end. */
static bool finds_text(struct libcuda_compute_key *key, const char *text)
{
	void *data;
	uint32_t size;
	bool same;

	CHECK(key && libcuda_compute_load(key, 0, &data, &size) == CUDA_SUCCESS);
	same = size == strlen(VCUDA_FOR_MACHINE_CODE) + strlen(text) + 1 &&
	       !memcmp(data, VCUDA_FOR_MACHINE_CODE, strlen(VCUDA_FOR_MACHINE_CODE)) &&
	       !strcmp((const char *)data + strlen(VCUDA_FOR_MACHINE_CODE), text);
	CHECK(libcuda_compute_free(data) == CUDA_SUCCESS && libcuda_compute_key_free(key) == CUDA_SUCCESS);
	return same;
}

static void *translate_elsewhere(void *unused)
{
	CHECK(!strcmp(found(key_of(translate)), "PTX"));
	CHECK(finds_text(key_of(assemble), "PTX"));
	return NULL;
}

static void scenario_text(void)
{
	struct job otherwise = translate;
	pthread_t thread;

	/* an entry for devices that run it */
	CHECK(keep(key_of(translate), "PTX"));
	CHECK(keep(key_of(assemble), "machine code"));
	CHECK(keep(key_of(from_text), "of text"));
	strcpy(libcuda_host.backend, "cpu");
	CHECK(!strcmp(found(key_of(translate)), "PTX"));
	CHECK(finds_text(key_of(assemble), "PTX"));
	otherwise.options = "-arch=compute_90 -ftz=1";
	CHECK(keep(key_of(otherwise), "PTX, ftz"));
	CHECK(!pthread_create(&thread, NULL, translate_elsewhere, NULL) && !pthread_join(thread, NULL));
	CHECK(finds_text(key_of(assemble), "PTX, ftz"));
	CHECK(!strcmp(found(key_of(translate)), "PTX"));
	CHECK(finds_text(key_of(assemble), "PTX"));
	/* nvJitLink's: it looks into it */
	CHECK(!strcmp(found(key_of(from_text)), "of text"));
	/* nothing came of the translation: the one before it does not count */
	CHECK(keep(key_of(otherwise), "PTX, ftz"));
	otherwise.options = "-arch=compute_90 -ftz=2";
	CHECK(!*found(key_of(otherwise)));
	CHECK(!*found(key_of(assemble)));
	/* a process that asks for machine code gets it, and the entries of others stay */
	setenv("VCUDA_NVRTC", "cubin", 1);
	CHECK(!strcmp(found(key_of(translate)), "PTX"));
	CHECK(!strcmp(found(key_of(assemble)), "machine code"));
	CHECK(!strcmp(found(key_of(from_text)), "of text"));
}

static void scenario_text_without_cache(void)
{
	strcpy(libcuda_host.backend, "cpu");
	CHECK(!keep(key_of(translate), "PTX"));
	CHECK(finds_text(key_of(assemble), "PTX"));
	CHECK(!*found(key_of(translate)));
}

static void *assemble_elsewhere(void *unused)
{
	return key_of(assemble);
}

static void scenario_threads(void)
{
	pthread_t thread;
	void *key = (void *)-1;

	CHECK(keep(key_of(translate), "PTX"));
	CHECK(!pthread_create(&thread, NULL, assemble_elsewhere, NULL) && !pthread_join(thread, &key));
	CHECK(!key);
	CHECK(keep(key_of(assemble), "machine code"));
}

static void scenario_mistakes(void)
{
	struct libcuda_compute_key *key = key_of(from_text), *none = (void *)-1;
	uint32_t size = 1;
	void *data;

	CHECK(libcuda_compute_key(NULL, 1, TEXT, 4, "", "", "", 90, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(libcuda_compute_key(&none, 1, NULL, 4, "", "", "", 90, 0) == CUDA_ERROR_INVALID_VALUE && !none);
	CHECK(libcuda_compute_key(&none, 1, TEXT, 0, "", "", "", 90, 0) == CUDA_ERROR_INVALID_VALUE && !none);
	CHECK(libcuda_compute_key(&none, 1, TEXT, 4, NULL, NULL, NULL, 90, 0) == CUDA_SUCCESS && none);
	CHECK(libcuda_compute_key_free(none) == CUDA_SUCCESS);
	CHECK(libcuda_compute_store(key, 0, "x", 1) == CUDA_SUCCESS);
	CHECK(libcuda_compute_store(key, 1, "x", 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(libcuda_compute_store(key, 0, NULL, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(libcuda_compute_store(NULL, 0, "x", 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(libcuda_compute_load(key, 1, &data, &size) == CUDA_ERROR_INVALID_VALUE && !data && !size);
	CHECK(libcuda_compute_load(NULL, 0, &data, &size) == CUDA_ERROR_INVALID_VALUE);
	CHECK(libcuda_compute_load(key, 0, NULL, &size) == CUDA_ERROR_INVALID_VALUE);
	CHECK(libcuda_compute_free(NULL) == CUDA_SUCCESS && libcuda_compute_key_free(NULL) == CUDA_SUCCESS);
	CHECK(!strcmp(found(key), "x"));
}

/* ---- where, and how much ---- */

static void scenario_kept(void)
{
	CHECK(!strcmp(found(key_of(from_text)), "result") || keep(key_of(from_text), "result"));
}

static void scenario_found(void)
{
	CHECK(!strcmp(found(key_of(from_text)), "result"));
}

static void scenario_no_key(void)
{
	CHECK(!key_of(from_text));
}

static void scenario_no_room(void)
{
	CHECK(!*found(key_of(from_text)));
	CHECK(!keep(key_of(from_text), "result"));
	CHECK(!*found(key_of(from_text)));
}

/* The first ones go: 100 entries of 100 bytes and more do not fit. */
static void scenario_many(void)
{
	char text[] = "..................................................", input[16];
	struct job j = from_text;

	for (int n = 0; n < 100; n++) {
		j.size = (uint32_t)snprintf(input, sizeof(input), "// %d", n);
		j.input = input;
		CHECK(keep(key_of(j), text));
	}
	CHECK(!strcmp(found(key_of(j)), text));
}

static void keys(void **state)
{
	(void)state;
	place();
	in_process(scenario_keys);
	in_process(scenario_stages);
	in_process(scenario_threads);
	in_process(scenario_mistakes);
}

static void text(void **state)
{
	(void)state;
	place();
	in_process(scenario_text);
	setenv("CUDA_CACHE_DISABLE", "1", 1);
	in_process(scenario_text_without_cache);
}

static void places(void **state)
{
	static const char *const variables[] = {"CUDA_CACHE_PATH", "VCUDA_CACHE", "XDG_CACHE_HOME", "HOME"},
				 *const folders[] = {"vcuda", "compute", "vcuda/compute", ".cache/vcuda/compute"};
	char start[96], path[160];

	(void)state;
	place();
	for (int n = 0; n < 4; n++)
		setenv(variables[n], "not/absolute", 1);
	in_process(scenario_no_key);
	for (int n = 3; n >= 0; n--) {
		snprintf(start, sizeof(start), "%s/%d", folder, n);
		setenv(variables[n], start, 1);
		in_process(scenario_kept);
		in_process(scenario_found);
		snprintf(path, sizeof(path), "%s/%s", start, folders[n]);
		assert_int_equal(count_files(path), 1);
	}
	for (int n = 0; n < 4; n++)
		unsetenv(variables[n]);
	in_process(scenario_no_key);
	setenv("CUDA_CACHE_PATH", "/proc/self", 1);
	in_process(scenario_no_room);
	/* another user who can write to the folder could choose the code that this process executes */
	place();
	in_process(scenario_kept);
	snprintf(path, sizeof(path), "%s/vcuda", folder);
	assert_int_equal(chmod(path, 0777), 0);
	in_process(scenario_no_room);
}

static void limits(void **state)
{
	char path[96];
	unsigned kept;

	(void)state;
	snprintf(path, sizeof(path), "%s/vcuda", folder);
	place();
	setenv("CUDA_CACHE_DISABLE", "1", 1);
	in_process(scenario_no_key);
	assert_int_equal(access(path, F_OK), -1);
	setenv("CUDA_CACHE_DISABLE", "0", 1);
	setenv("CUDA_CACHE_MAXSIZE", "0", 1);
	in_process(scenario_no_key);
	setenv("CUDA_CACHE_MAXSIZE", "150", 1);
	in_process(scenario_no_room);
	assert_int_equal(count_files(path), 0);
	setenv("CUDA_CACHE_MAXSIZE", "200000", 1);
	in_process(scenario_many);
	kept = count_files(path);
	assert_true(kept > 10 && kept < 40);
	/* a value that is no number has no effect */
	setenv("CUDA_CACHE_MAXSIZE", "200000x", 1);
	in_process(scenario_many);
	assert_int_equal(count_files(path), 100);
}

/* A file that is not what was written is no result. */
static void damage(void **state)
{
	char command[256];

	(void)state;
	place();
	in_process(scenario_kept);
	snprintf(command, sizeof(command), "printf y | dd of=$(ls %s/vcuda/*) bs=1 seek=90 conv=notrunc 2>/dev/null",
		 folder);
	assert_int_equal(system(command), 0);
	in_process(scenario_kept);
	in_process(scenario_found);
	snprintf(command, sizeof(command), "printf yy | dd of=$(ls %s/vcuda/*) bs=1 seek=90 2>/dev/null", folder);
	assert_int_equal(system(command), 0);
	in_process(scenario_kept);
	in_process(scenario_found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(keys, set_up, tear_down),
		cmocka_unit_test_setup_teardown(text, set_up, tear_down),
		cmocka_unit_test_setup_teardown(places, set_up, tear_down),
		cmocka_unit_test_setup_teardown(limits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damage, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
