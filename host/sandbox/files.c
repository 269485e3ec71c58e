/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock's rules for the files that a worker may reach. */
#include <errno.h>
#include <unistd.h>

#include "host/sandbox/worker-files.h"
#include "host/sandbox/landlock.h"
#include "host/sandbox/stages.h"

#define READ (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
#define WRITE (READ | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE)
#define KEEP                                                                                                           \
	(WRITE | LANDLOCK_MAKE_REG | LANDLOCK_MAKE_DIR | LANDLOCK_REMOVE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REFER)

static const uint64_t rights[WORKER_FILE_KINDS] = {
	[WORKER_FILE_LIBRARY] = READ,
	[WORKER_FILE_PROGRAM] = LANDLOCK_EXECUTE | LANDLOCK_READ_FILE,
	[WORKER_FILE_DATA] = READ,
	[WORKER_FILE_PROC] = READ,
	[WORKER_FILE_SELF] = READ,
	[WORKER_FILE_THREADS] = WRITE,
	[WORKER_FILE_DEVICE] = WRITE | LANDLOCK_IOCTL_DEV,
	[WORKER_FILE_KEEP] = KEEP,
	[WORKER_FILE_SHARED] = KEEP,
	[WORKER_FILE_SERVICE] = KEEP | LANDLOCK_MAKE_SOCK | LANDLOCK_MAKE_FIFO,
	/* Landlock does not limit connections. */
	[WORKER_FILE_SOCKET] = 0,
};

static int allow(void *ruleset, const struct worker_file *file)
{
	switch (file->kind) {
	case WORKER_FILE_PROC:
	case WORKER_FILE_SELF:
	case WORKER_FILE_THREADS:
		return landlock_allow_in_proc(*(int *)ruleset, file->path, rights[file->kind]);
	default:
		return landlock_allow(*(int *)ruleset, file->path, rights[file->kind]);
	}
}

static int allow_all(int ruleset, const struct sandbox_needs *needs)
{
	const struct worker_file_needs files = {.cpu = needs->cpu,
						.cuda = needs->cuda,
						.links = true,
						.program = "/proc/self/exe",
						.libraries = needs->libraries,
						.environment = (const char *const *)environ};
	int err = worker_files_visit(&files, allow, &ruleset);

	/* A worker that is started anew in this process lists the devices' files once more, under these rules. */
	if (!err && needs->cuda)
		err = landlock_allow(ruleset, "/dev", LANDLOCK_READ_DIR);
	return err;
}

int sandbox_limit_files(const struct sandbox_needs *needs)
{
	int ruleset = landlock_create(), err;

	if (ruleset < 0)
		return ruleset;
	err = needs ? allow_all(ruleset, needs) : 0;
	if (err) {
		close(ruleset);
		return err;
	}
	return landlock_enter(ruleset);
}
