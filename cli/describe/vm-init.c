/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda vm init`: a script does the work; this tells it where the parts are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/vm.h"

/* The driver's sources with what they include: beside the scripts of an installation, or in the build folder. */
static void find_driver(const struct cli_paths *paths, char *folder, size_t size)
{
	char self[PATH_MAX], file[2 * PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	snprintf(folder, size, "%s/../guest/driver", paths->scripts);
	snprintf(file, sizeof(file), "%s/dkms.conf", folder);
	if (access(file, R_OK))
		snprintf(folder, size, "%s/../guest/driver", self);
}

int cli_vm_init(char **argv)
{
	char script[PATH_MAX + 32], driver[PATH_MAX + 32], self[PATH_MAX];
	struct cli_paths paths;

	cli_paths_find(&paths);
	snprintf(script, sizeof(script), "%s/image-init.sh", paths.scripts);
	find_driver(&paths, driver, sizeof(driver));
	if (!realpath("/proc/self/exe", self)) {
		cli_message("vm init: /proc/self/exe: %s", strerror(errno));
		return CLI_FAILED;
	}
	setenv("VCUDA_INIT_COMMAND", self, 1);
	setenv("VCUDA_INIT_LIBRARIES", paths.guest_lib, 1);
	setenv("VCUDA_INIT_LIBDIR", VCUDA_LIBDIR, 1);
	setenv("VCUDA_INIT_DRIVER", driver, 1);
	argv[0] = script;
	execv(script, argv);
	cli_message("vm init: %s: %s. It is in the package virtio-cuda-host", script, strerror(errno));
	return CLI_FAILED;
}
