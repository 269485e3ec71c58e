/* SPDX-License-Identifier: Apache-2.0 */
/* The list of files that a worker may reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/sandbox/worker-files.h"
#include "test/unit/folder.h"

static struct {
	char text[200][2][512];
	enum worker_file_kind kinds[200];
	int count;
} listed;

static int note(void *unused, const struct worker_file *file)
{
	int n = listed.count++;

	(void)unused;
	assert_true(n < 200);
	listed.kinds[n] = file->kind;
	snprintf(listed.text[n][0], sizeof(listed.text[n][0]), "%s", file->path);
	snprintf(listed.text[n][1], sizeof(listed.text[n][1]), "%s", file->place);
	return 0;
}

static void list(const char *variable, bool links)
{
	const char *const none[] = {NULL}, *const environment[] = {variable, NULL};
	const struct worker_file_needs needs = {.cpu = true,
						.cuda = true,
						.links = links,
						.program = "/opt/vcuda/worker",
						.libraries = none,
						.environment = environment};

	listed.count = 0;
	assert_int_equal(worker_files_visit(&needs, note, NULL), 0);
}

/* The path of the file that has the place; NULL: none. */
static const char *at(const char *place, enum worker_file_kind kind)
{
	for (int i = 0; i < listed.count; i++)
		if (!strcmp(listed.text[i][1], place) && listed.kinds[i] == kind)
			return listed.text[i][0];
	return NULL;
}

static void places(void **state)
{
	(void)state;
	list("LD_LIBRARY_PATH=/a//b/./c/../d/:/../e;f::/g/..", false);
	assert_string_equal(at("/a/b/d", WORKER_FILE_LIBRARY), "/a//b/./c/../d/");
	assert_non_null(at("/e", WORKER_FILE_LIBRARY));
	assert_non_null(at("/", WORKER_FILE_LIBRARY));
	assert_non_null(at("/opt/vcuda/worker", WORKER_FILE_PROGRAM));
	assert_int_equal(chdir("/usr"), 0);
	list("LD_LIBRARY_PATH=f", false);
	assert_string_equal(at("/usr/f", WORKER_FILE_LIBRARY), "f");
}

static void links(void **state)
{
	char variable[300], path[300], place[300];

	(void)state;
	snprintf(path, sizeof(path), "%s/lib", folder);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/lib/libone.so.1", folder);
	assert_int_equal(symlink("../other/libone.so.1.2", path), 0);
	snprintf(variable, sizeof(variable), "LD_LIBRARY_PATH=%s/lib", folder);
	snprintf(place, sizeof(place), "%s/other/libone.so.1.2", folder);
	list(variable, true);
	assert_string_equal(at(place, WORKER_FILE_LIBRARY), path);
	list(variable, false);
	assert_null(at(place, WORKER_FILE_LIBRARY));
}

static void caches(void **state)
{
	char variable[300], place[300];

	(void)state;
	snprintf(variable, sizeof(variable), "VCUDA_CACHE=%s/a", folder);
	snprintf(place, sizeof(place), "%s/a/kernels", folder);
	list(variable, false);
	assert_non_null(at(place, WORKER_FILE_KEEP));
	assert_int_equal(access(place, W_OK), 0);
	list("VCUDA_CACHE=not/absolute", false);
	for (int i = 0; i < listed.count; i++)
		assert_int_not_equal(listed.kinds[i], WORKER_FILE_KEEP);
	list("VCUDA_SOCKET=/run/x", false);
	assert_non_null(at("/run/x", WORKER_FILE_SOCKET));
}

static void folders(void **state)
{
	const char *const *list = worker_library_folders("/build/host/worker/vcuda-worker");

	(void)state;
	assert_string_equal(list[0], "/build/host/worker/");
	assert_string_equal(list[1], "/build/host/worker/../../softgpu/");
	assert_null(worker_library_folders("nowhere")[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places),
		cmocka_unit_test_setup_teardown(links, set_up, tear_down),
		cmocka_unit_test_setup_teardown(caches, set_up, tear_down),
		cmocka_unit_test(folders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
