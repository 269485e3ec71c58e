/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/sandbox/stages.h"

/* The highest value: processes with it are ended first. */
#define FIRST_VICTIM "1000"

/* A worker that was started anew in this process has it, and could not write there any more. */
static bool has_score(int fd)
{
	char text[16];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	return atoi(text) == atoi(FIRST_VICTIM);
}

int sandbox_be_first_victim(void)
{
	int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC), err = 0;
	bool has = fd >= 0 && has_score(fd);

	if (fd >= 0)
		close(fd);
	if (has)
		return 0;
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, FIRST_VICTIM, strlen(FIRST_VICTIM)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/*
 * Drops all but `kept` from the capabilities that a program started by this process could have. Errors without
 * CAP_SETPCAP are ignored.
 */
static void empty_bounding_set(uint64_t kept)
{
	for (int capability = 0; capability < 64; capability++)
		if (!(kept >> capability & 1) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) && errno == EINVAL)
			return;
}

/*
 * Root's worker may have to read libraries in a folder that only another user may enter, a build in a home folder say:
 * it keeps CAP_DAC_READ_SEARCH where Landlock says what it may read.
 */
int sandbox_drop_privileges(bool keep_reading)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};
	uint32_t kept;

	if (syscall(SYS_capget, &header, data))
		return -errno;
	kept = keep_reading ? data[0].permitted & 1u << CAP_DAC_READ_SEARCH : 0;
	empty_bounding_set(kept);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	data[0] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
	data[1] = (struct __user_cap_data_struct){0};
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}
