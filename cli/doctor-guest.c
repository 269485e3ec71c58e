/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that has its CUDA devices from elsewhere: a VM by its virtio device, a container by vcudad's socket. */
#include "doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/virtio-device.h"

/* NOT_ASKED: this is no VM with the device. */
static enum doctor_verdict check_device(void)
{
	enum vcuda_virtio_device device;

	if (!access("/dev/vcuda", R_OK | W_OK)) {
		doctor_say(FOUND, "/dev/vcuda", NULL,
			   "this is a VM with virtio-cuda: programs need only LD_LIBRARY_PATH");
		return CAN_WORK;
	}
	if (errno == EACCES) {
		doctor_say(MISSING, "/dev/vcuda", "Give your user access to it.",
			   "it is there, but you may not open it");
		return CANNOT_WORK;
	}
	device = vcuda_virtio_device();
	if (device == VCUDA_VIRTIO_NONE) {
		doctor_say(FOUND, "/dev/vcuda", NULL, "none: this is no VM with virtio-cuda, and need not be");
		return NOT_ASKED;
	}
	if (device == VCUDA_VIRTIO_DRIVER)
		doctor_say(MISSING, "/dev/vcuda",
			   "`dmesg | grep virtio_cuda` says why. Most often the VM's memory is not shared: start QEMU "
			   "with share=on.",
			   "the VM has the device, whose driver is loaded and does not use it");
	else
		doctor_say(MISSING, "/dev/vcuda",
			   "modprobe virtio-cuda. The package virtio-cuda-dkms builds it (doc/howto/install.md).",
			   "the VM has the device, whose driver is not loaded");
	return CANNOT_WORK;
}

static bool daemon_listens(void)
{
	const char *given = getenv("VCUDA_SOCKET");
	char path[300];

	return given && *given ? cli_is_listening(given) : cli_socket_find(path, sizeof(path));
}

enum doctor_verdict doctor_guest(const struct cli_paths *paths)
{
	enum doctor_verdict device = check_device();
	char file[PATH_MAX + 32], line[1024];

	if (device == CANNOT_WORK || (device == NOT_ASKED && !daemon_listens()))
		return device;
	snprintf(file, sizeof(file), "%s/libcuda.so.1", paths->guest_lib);
	if (doctor_driver(file, line, sizeof(line))) {
		doctor_say(FOUND, "programs", NULL, "they have %s", line);
		return CAN_WORK;
	}
	doctor_say(MISSING, "programs", "The lines of virtio-cuda above, or the log of vcudad, say why.", "%s",
		   *line ? line : "no answer within 30 seconds, or a crash");
	return CANNOT_WORK;
}
