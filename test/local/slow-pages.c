/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: fallocate(), with which libcuda takes the pages that it exchanges, is slow, or fails, or the program
 * closes the descriptor meanwhile. The file that VCUDA_TEST_PAGES names has the numbers below, and the test changes
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct numbers {
	int32_t naps;           /* microseconds for each call */
	int32_t before_failure; /* calls that succeed */
	int32_t failures;       /* calls that fail then */
	int32_t closes;         /* not 0: these calls find their descriptor closed */
};

static volatile struct numbers *numbers;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("VCUDA_TEST_PAGES");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*numbers), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		abort();
	close(fd);
	numbers = p;
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	if (numbers->naps)
		usleep((useconds_t)numbers->naps);
	if (numbers->before_failure) {
		numbers->before_failure--;
	} else if (numbers->failures) {
		numbers->failures--;
		errno = ENOSPC;
		if (!numbers->closes)
			return -1;
		close(fd);
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}
