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
	char file[2 * PATH_MAX];

	snprintf(folder, size, "%s/../guest/driver", paths->scripts);
	snprintf(file, sizeof(file), "%s/dkms.conf", folder);
	if (access(file, R_OK))
		snprintf(folder, size, "%s/../guest/driver", paths->directory);
}

int cli_vm_init(char **argv)
{
	char script[PATH_MAX + 32], driver[PATH_MAX + 32];
	struct cli_paths paths;

	cli_paths_find(&paths);
	snprintf(script, sizeof(script), "%s/image-init.sh", paths.scripts);
	find_driver(&paths, driver, sizeof(driver));
	if (!*paths.self) {
		cli_message("vm init: the path of this program is not known: is /proc there?");
		return CLI_FAILED;
	}
	setenv("VCUDA_INIT_COMMAND", paths.self, 1);
	setenv("VCUDA_INIT_LIBRARIES", paths.guest_lib, 1);
	setenv("VCUDA_INIT_LIBDIR", VCUDA_LIBDIR, 1);
	setenv("VCUDA_INIT_DRIVER", driver, 1);
	argv[0] = script;
	execv(script, argv);
	cli_message("vm init: %s: %s. It is in the package virtio-cuda-host", script, strerror(errno));
	return CLI_FAILED;
}
