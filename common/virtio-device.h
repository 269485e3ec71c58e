/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this machine is a VM with our virtio device, by sysfs. Thread-safe. */
#ifndef VCUDA_VIRTIO_DEVICE_H
#define VCUDA_VIRTIO_DEVICE_H

enum vcuda_virtio_device {
	VCUDA_VIRTIO_NONE,      /* no such device, or no sysfs, as in some containers */
	VCUDA_VIRTIO_NO_DRIVER, /* the module virtio_cuda is not loaded */
	VCUDA_VIRTIO_DRIVER,    /* the module is loaded; without /dev/vcuda it has refused the device */
};

enum vcuda_virtio_device vcuda_virtio_device(void);

#endif
