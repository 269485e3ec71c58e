/* SPDX-License-Identifier: Apache-2.0 */
#include "virtio-device.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define VIRTIO_ID_CUDA 38

static unsigned int id_in(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned int id = 0;

	if (file && fscanf(file, "%x", &id) != 1)
		id = 0;
	if (file)
		fclose(file);
	return id;
}

static bool has_device(void)
{
	glob_t found;
	bool has = false;

	if (glob("/sys/bus/virtio/devices/*/device", 0, NULL, &found))
		return false;
	for (size_t i = 0; i < found.gl_pathc && !has; i++)
		has = id_in(found.gl_pathv[i]) == VIRTIO_ID_CUDA;
	globfree(&found);
	return has;
}

enum vcuda_virtio_device vcuda_virtio_device(void)
{
	if (!has_device())
		return VCUDA_VIRTIO_NONE;
	return access("/sys/module/virtio_cuda", F_OK) ? VCUDA_VIRTIO_NO_DRIVER : VCUDA_VIRTIO_DRIVER;
}
