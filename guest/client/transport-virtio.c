/* SPDX-License-Identifier: Apache-2.0 */
/* Through /dev/vcuda of a VM (guest/driver/uapi.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/log.h"
#include "common/own-descriptor.h"
#include "fork-guard.h"
#include "ring/ring.h"
#include "transport.h"
#include "guest/driver/uapi.h"
#include "protocol/wire.h"

/* Huge pages make extents fewer and longer, so that one request to the host maps more. */
#define HUGE_PAGE (2u << 20)

struct virtio_transport {
	struct client_transport base;
	struct vcuda_own_descriptor device;
};

static struct virtio_transport *of(struct client_transport *t)
{
	return (struct virtio_transport *)t;
}

/* Whether the error may come from another file under the device's number: only then the file needs a check. */
static bool may_be_another_file(int error)
{
	return error == EBADF || error == ENOTTY || error == EINVAL || error == ENODEV || error == EOPNOTSUPP;
}

static int do_ioctl(struct client_transport *t, unsigned long request, void *argument)
{
	const struct vcuda_own_descriptor *device = &of(t)->device;
	int err = ioctl(device->fd, request, argument) < 0 ? -errno : 0;

	if (!err || !may_be_another_file(-err) || vcuda_own_descriptor_is_there(device))
		return err;
	vcuda_own_descriptor_say(device);
	return -EBADF;
}

static int open_device(struct vcuda_own_descriptor *device, const char *path)
{
	int fd, err, guarded = vcuda_own_descriptor_guard();

	fd = open(path, O_RDWR | O_CLOEXEC);
	err = fd < 0 ? -errno : vcuda_own_descriptor_take(device, fd);
	vcuda_own_descriptor_unguard(guarded);
	return err;
}

static int virtio_open(struct client_transport **transport, const char *where)
{
	struct vcuda_open o = {
		.major = VCUDA_PROTOCOL_MAJOR,
		.minor = VCUDA_PROTOCOL_MINOR,
		.shm_bytes = VCUDA_SHM_BYTES,
		.wake_offset = VCUDA_WAKE_OFFSET,
	};
	struct virtio_transport *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->base.ops = &client_transport_virtio;
	err = open_device(&t->device, where ? where : VCUDA_DEVICE_PATH);
	if (err)
		goto free_transport;
	do {
		err = do_ioctl(&t->base, VCUDA_IOC_OPEN, &o);
	} while (err == -EINTR);
	t->base.host_major = o.major;
	t->base.host_minor = o.minor;
	t->base.direct = o.flags & VCUDA_OPEN_DIRECT;
	if (err) {
		/* The caller names both versions. */
		if (err == -EPROTONOSUPPORT)
			*transport = &t->base;
		goto close_device;
	}
	t->base.shm = client_fork_map(NULL, VCUDA_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t->device.fd);
	if (t->base.shm == MAP_FAILED) {
		err = -errno;
		goto close_device;
	}
	*transport = &t->base;
	return 0;

close_device:
	vcuda_own_descriptor_close(&t->device);
	if (*transport)
		return err;
free_transport:
	free(t);
	return err;
}

static int virtio_doorbell(struct client_transport *t)
{
	return do_ioctl(t, VCUDA_IOC_DOORBELL, NULL) == -EBADF ? -EBADF : 0;
}

static int virtio_wait(struct client_transport *t, uint32_t seen, uint32_t timeout_us)
{
	struct vcuda_wait w = {.seen = seen, .timeout_us = timeout_us};

	return do_ioctl(t, VCUDA_IOC_WAIT, &w);
}

static int pin_with(struct client_transport *t, void *address, size_t bytes, uint32_t flags)
{
	struct vcuda_pin p = {
		.address = (uintptr_t)address,
		.length = bytes,
		.flags = flags,
	};
	int err;

	do {
		err = do_ioctl(t, VCUDA_IOC_PIN, &p);
	} while (err == -EINTR);
	return err;
}

static int pin(struct client_transport *t, void *address, size_t bytes, bool writable)
{
	return pin_with(t, address, bytes, writable ? VCUDA_PIN_WRITABLE : 0);
}

static int unpin(struct client_transport *t, void *address, size_t bytes)
{
	struct vcuda_unpin u = {.address = (uintptr_t)address, .length = bytes};
	int err;

	do {
		err = do_ioctl(t, VCUDA_IOC_UNPIN, &u);
	} while (err == -EINTR);
	return err;
}

static int back_to_reservation(void *address, size_t bytes)
{
	void *p = mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	return p == MAP_FAILED ? -errno : 0;
}

static int virtio_mapping_create(struct client_transport *t, void *address, size_t bytes)
{
	int err;

	if (client_fork_map(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1) ==
	    MAP_FAILED)
		return -errno;
	if (bytes >= HUGE_PAGE)
		madvise(address, bytes, MADV_HUGEPAGE);
	err = pin(t, address, bytes, true);
	if (err)
		back_to_reservation(address, bytes);
	return err;
}

static int virtio_mapping_register(struct client_transport *t, void *address, size_t bytes, bool writable,
				   enum client_mapping_release *pages)
{
	*pages = CLIENT_MAPPING_KEEP_PAGES;
	return pin(t, address, bytes, writable);
}

static int virtio_mapping_release(struct client_transport *t, void *address, size_t bytes,
				  enum client_mapping_release pages)
{
	int err = unpin(t, address, bytes);

	if (pages == CLIENT_MAPPING_REMOVE_PAGES && !err)
		err = back_to_reservation(address, bytes);
	return err;
}

static int virtio_direct_pin(struct client_transport *t, void *address, size_t bytes, bool writable)
{
	return pin_with(t, address, bytes, VCUDA_PIN_DIRECT | (writable ? VCUDA_PIN_WRITABLE : 0));
}

/* An older driver does not know the request; the file's number is above 2 as long as those are open. */
static int virtio_export_descriptor(struct client_transport *t, const uint64_t name[2], const uint8_t contents[64])
{
	struct vcuda_hold h = {.name = {name[0], name[1]}};
	int err, guarded = vcuda_own_descriptor_guard();

	memcpy(h.contents, contents, sizeof(h.contents));
	do {
		err = do_ioctl(t, VCUDA_IOC_HOLD, &h);
	} while (err == -EINTR);
	vcuda_own_descriptor_unguard(guarded);
	return err == -ENOTTY ? -EOPNOTSUPP : err ? err : h.fd;
}

static void virtio_forked(struct client_transport *t)
{
	vcuda_own_descriptor_close(&of(t)->device);
	vcuda_own_descriptor_forked();
}

const struct client_transport_ops client_transport_virtio = {
	.name = "virtio",
	/* An interrupt: 0.3 ms where QEMU emulates the processor. */
	.gpu_spin_ns = 10000000,
	.open = virtio_open,
	.doorbell = virtio_doorbell,
	.wait = virtio_wait,
	.mapping_create = virtio_mapping_create,
	.mapping_register = virtio_mapping_register,
	.mapping_release = virtio_mapping_release,
	.direct_pin = virtio_direct_pin,
	.direct_unpin = unpin,
	.export_descriptor = virtio_export_descriptor,
	.forked = virtio_forked,
};
