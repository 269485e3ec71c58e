/* SPDX-License-Identifier: Apache-2.0 */
/* Files in an address space, as the kernel answers, and as a text that is read. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/daemon/mapper/procmap.h"
#include "test/check.h"

#define PAGE 4096ull

static FILE *maps(void)
{
	FILE *file = fopen("/proc/self/maps", "re");

	CHECK(file);
	return file;
}

/* A file of text, of which the kernel answers nothing, as an old kernel would of the true one. */
static FILE *text(void)
{
	FILE *from = maps(), *to = tmpfile();
	char line[8192];

	CHECK(to);
	while (fgets(line, sizeof(line), from))
		fputs(line, to);
	fclose(from);
	return to;
}

static void test(FILE *(*open)(void))
{
	int memfd = memfd_create("a file", MFD_CLOEXEC);
	char *area = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = (uintptr_t)area;
	FILE *file;

	CHECK(memfd >= 0 && !ftruncate(memfd, PAGE) && area != MAP_FAILED);
	file = open();
	CHECK(daemon_procmap_has_no_file(file, start, 16 * PAGE));
	fclose(file);
	CHECK(mmap(area + 8 * PAGE, PAGE, PROT_NONE, MAP_SHARED | MAP_FIXED, memfd, 0) != MAP_FAILED);
	file = open();
	CHECK(!daemon_procmap_has_no_file(file, start, 16 * PAGE));
	CHECK(!daemon_procmap_has_no_file(file, start + 8 * PAGE, PAGE));
	CHECK(!daemon_procmap_has_no_file(file, start, 9 * PAGE));
	CHECK(daemon_procmap_has_no_file(file, start, 8 * PAGE));
	CHECK(daemon_procmap_has_no_file(file, start + 9 * PAGE, 7 * PAGE));
	fclose(file);
	munmap(area, 16 * PAGE);
	close(memfd);
}

static void test_process_that_ended(void)
{
	FILE *file = fopen("/dev/null", "re");

	CHECK(file && !daemon_procmap_has_no_file(file, PAGE, PAGE));
	fclose(file);
}

int main(void)
{
	test(maps);
	test(text);
	test_process_that_ended();
	return 0;
}
