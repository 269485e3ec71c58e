// SPDX-License-Identifier: GPL-2.0-only
/*
 * virtio-cuda: the device's life. Probe, HELLO, removal, suspend and shutdown.
 *
 * The transport offers one interrupt (INTx), so that callbacks share it and run one after another.
 */
#include <linux/cc_platform.h>
#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>

#include "version.h"
#include "virtio-cuda.h"

#define VCUDA_HELLO_TIMEOUT (10 * HZ)

struct workqueue_struct *vcuda_workqueue;

/* There is one /dev/vcuda. */
static atomic_t vcuda_devices = ATOMIC_INIT(0);

static void vcuda_device_free(struct kref *ref)
{
	struct vcuda_device *device = container_of(ref, struct vcuda_device, ref);

	xa_destroy(&device->contexts);
	kfree(device->events);
	kfree(device->bells);
	kfree(device);
}

struct vcuda_device *vcuda_device_get(struct vcuda_device *device)
{
	kref_get(&device->ref);
	return device;
}

void vcuda_device_put(struct vcuda_device *device)
{
	kref_put(&device->ref, vcuda_device_free);
}

u64 vcuda_device_generation(struct vcuda_device *device)
{
	return READ_ONCE(device->generation);
}

bool vcuda_device_live(struct vcuda_device *device)
{
	return READ_ONCE(device->live);
}

static struct vcuda_device *vcuda_device_new(struct virtio_device *vdev)
{
	struct vcuda_device *device = kzalloc(sizeof(*device), GFP_KERNEL);

	if (!device)
		return NULL;
	kref_init(&device->ref);
	spin_lock_init(&device->lock);
	INIT_LIST_HEAD(&device->backlog);
	INIT_LIST_HEAD(&device->in_flight);
	INIT_LIST_HEAD(&device->quarantine);
	xa_init_flags(&device->contexts, XA_FLAGS_LOCK_IRQ);
	init_waitqueue_head(&device->bell_space);
	device->vdev = vdev;
	device->bus = vdev->dev.bus;
	device->generation = 1;
	device->misc.minor = MISC_DYNAMIC_MINOR;
	device->misc.name = "vcuda";
	device->misc.mode = 0666;
	device->misc.fops = &vcuda_file_operations;
	device->events = kcalloc(VCUDA_EVENT_BUFFERS, sizeof(*device->events), GFP_KERNEL);
	device->bells = kcalloc(VCUDA_QUEUE_SIZE, sizeof(*device->bells), GFP_KERNEL);
	if (!device->events || !device->bells) {
		vcuda_device_put(device);
		return NULL;
	}
	return device;
}

/* The host maps the guest-physical addresses that the driver names: nothing may translate or encrypt in between. */
static int vcuda_device_check(struct virtio_device *vdev)
{
	struct vcuda_config config = {};

	if (!virtio_has_feature(vdev, VIRTIO_F_VERSION_1)) {
		dev_err(&vdev->dev, "a legacy device cannot be used\n");
		return -ENODEV;
	}
	virtio_cread_bytes(vdev, 0, &config, sizeof(config));
	if (le64_to_cpu((__force __le64)config.magic) != VCUDA_CONFIG_MAGIC) {
		dev_info(&vdev->dev, "virtio id %u without the CUDA magic: not ours\n", VCUDA_VIRTIO_ID);
		return -ENODEV;
	}
	if (virtio_has_feature(vdev, VIRTIO_F_ACCESS_PLATFORM) || cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT)) {
		dev_err(&vdev->dev, "guests behind an IOMMU or with encrypted memory are not supported\n");
		return -EOPNOTSUPP;
	}
	if (le32_to_cpu((__force __le32)config.major) != VCUDA_CONTROL_MAJOR) {
		dev_err(&vdev->dev, "the host speaks control version %u.%u, this driver %u.%u: install the driver that belongs to the host's version\n",
			config.major, config.minor, VCUDA_CONTROL_MAJOR, VCUDA_CONTROL_MINOR);
		return -EPROTONOSUPPORT;
	}
	return 0;
}

/* After HELLO: the VMM tells the host of the guest's memory, and so of its page size, no earlier than DRIVER_OK. */
static int vcuda_device_limits(struct vcuda_device *device)
{
	struct vcuda_config config = {};
	u32 shift;

	virtio_cread_bytes(device->vdev, 0, &config, sizeof(config));
	shift = le32_to_cpu((__force __le32)config.page_shift);
	if (shift < PAGE_SHIFT || shift > PMD_SHIFT) {
		dev_err(&device->vdev->dev, "the host's pages of 2^%u bytes are not supported\n", shift);
		return -EINVAL;
	}
	device->limits.page_shift = shift;
	device->limits.max_contexts = le32_to_cpu((__force __le32)config.max_contexts);
	device->limits.max_mapping_bytes = le64_to_cpu((__force __le64)config.max_mapping_bytes);
	device->limits.direct = le32_to_cpu((__force __le32)config.flags) & VCUDA_CONFIG_DIRECT;
	return 0;
}

static int vcuda_takes_pages(struct device *dev, void *unused)
{
	u32 id = dev_to_virtio(dev)->id.device;

	return id == VIRTIO_ID_BALLOON || id == VIRTIO_ID_MEM;
}

/*
 * The host's GPU uses the pages that the RAM had when it was registered. Memory that a balloon or virtio-mem device
 * gave to the host and took back has new pages: direct copies would reach the old ones. So a VM that has, or had, such
 * a device makes no direct copies; one may be plugged in at any time. Called by files, whose device may be unplugged
 * meanwhile.
 */
bool vcuda_device_offers_direct(struct vcuda_device *device)
{
	if (!device->limits.direct)
		return false;
	if (!READ_ONCE(device->had_balloon)) {
		if (!bus_for_each_dev(device->bus, NULL, NULL, vcuda_takes_pages))
			return true;
		WRITE_ONCE(device->had_balloon, true);
	}
	pr_info_once("vcuda: the VM has, or had, a memory balloon or virtio-mem device: large copies do not go directly, though the host offers that\n");
	return false;
}

/* Tells the host that a driver starts: whatever an earlier one had is dropped. */
static int vcuda_device_hello(struct vcuda_device *device)
{
	struct vcuda_call *call = vcuda_call_new(device, VCUDA_CTL_HELLO, device->generation);
	int status;

	if (!call)
		return -ENOMEM;
	call->request.major = VCUDA_CONTROL_MAJOR;
	call->request.minor = VCUDA_CONTROL_MINOR;
	vcuda_call_submit(call);
	status = vcuda_call_wait(call, VCUDA_HELLO_TIMEOUT);
	if (status == -ETIMEDOUT)
		dev_err(&device->vdev->dev, "the host does not answer: vcudad's log says why. Most often the VM's memory is not shared (share=on)\n");
	else if (status == -EPROTONOSUPPORT)
		dev_err(&device->vdev->dev, "the host speaks control version %u.%u, this driver %u.%u\n",
			call->reply.major, call->reply.minor, VCUDA_CONTROL_MAJOR, VCUDA_CONTROL_MINOR);
	else if (status)
		dev_err(&device->vdev->dev, "the host refused the driver: error %d\n", status);
	vcuda_call_put(call);
	return status;
}

/* True if that was a change. */
static bool vcuda_device_set_live(struct vcuda_device *device, bool live)
{
	unsigned long flags;
	bool changed;

	spin_lock_irqsave(&device->lock, flags);
	changed = device->live != live;
	WRITE_ONCE(device->live, live);
	spin_unlock_irqrestore(&device->lock, flags);
	return changed;
}

/*
 * Ends the generation. Nothing enters the queues from the first step on; once the reset has completed, the host has
 * let go of all pages, which frees what calls and contexts held. Does nothing to a device that was stopped already.
 */
static void vcuda_device_stop(struct vcuda_device *device)
{
	if (!vcuda_device_set_live(device, false))
		return;
	virtio_reset_device(device->vdev);
	vcuda_control_reset(device);
	vcuda_context_lose_all(device, -ENODEV);
	wake_up_all(&device->bell_space);
	device->vdev->config->del_vqs(device->vdev);
	flush_workqueue(vcuda_workqueue);
}

static int vcuda_device_start(struct vcuda_device *device)
{
	static vq_callback_t *callbacks[VCUDA_QUEUES] = {
		[VCUDA_QUEUE_CONTROL] = vcuda_control_callback,
		[VCUDA_QUEUE_EVENT] = vcuda_event_callback,
		[VCUDA_QUEUE_DOORBELL] = vcuda_bell_callback,
	};
	static const char * const names[VCUDA_QUEUES] = {
		[VCUDA_QUEUE_CONTROL] = "control",
		[VCUDA_QUEUE_EVENT] = "event",
		[VCUDA_QUEUE_DOORBELL] = "doorbell",
	};
	int status;

	status = vcuda_find_vqs(device->vdev, VCUDA_QUEUES, device->queues, callbacks, names);
	if (status) {
		dev_err(&device->vdev->dev, "the device's %u queues cannot be set up (has QEMU num_vqs=%u for it?): error %d\n",
			VCUDA_QUEUES, VCUDA_QUEUES, status);
		return status;
	}
	virtio_device_ready(device->vdev);
	vcuda_device_set_live(device, true);
	status = vcuda_event_start(device);
	if (!status)
		status = vcuda_device_hello(device);
	if (!status)
		status = vcuda_device_limits(device);
	if (status)
		vcuda_device_stop(device);
	return status;
}

/* Also before kexec: a new kernel must not inherit pages that a GPU still writes. */
static int vcuda_reboot(struct notifier_block *block, unsigned long action, void *unused)
{
	struct vcuda_device *device = container_of(block, struct vcuda_device, reboot);

	vcuda_device_stop(device);
	return NOTIFY_DONE;
}

static int vcuda_probe(struct virtio_device *vdev)
{
	struct vcuda_device *device;
	int status = vcuda_device_check(vdev);

	if (status)
		return status;
	if (atomic_cmpxchg(&vcuda_devices, 0, 1)) {
		dev_err(&vdev->dev, "a guest can have one CUDA device, and has it\n");
		return -EBUSY;
	}
	device = vcuda_device_new(vdev);
	if (!device) {
		status = -ENOMEM;
		goto release;
	}
	vdev->priv = device;
	status = vcuda_device_start(device);
	if (status)
		goto put;
	device->reboot.notifier_call = vcuda_reboot;
	status = register_reboot_notifier(&device->reboot);
	if (status)
		goto stop;
	status = misc_register(&device->misc);
	if (status)
		goto unregister;
	dev_info(&vdev->dev, "ready: up to %u contexts\n", device->limits.max_contexts);
	return 0;
unregister:
	unregister_reboot_notifier(&device->reboot);
stop:
	vcuda_device_stop(device);
put:
	vdev->priv = NULL;
	vcuda_device_put(device);
release:
	atomic_set(&vcuda_devices, 0);
	return status;
}

/* Files may be open still (unplugging, unbinding): they keep the device object and get -ENODEV. */
static void vcuda_remove(struct virtio_device *vdev)
{
	struct vcuda_device *device = vdev->priv;

	misc_deregister(&device->misc);
	unregister_reboot_notifier(&device->reboot);
	vcuda_device_stop(device);
	vdev->priv = NULL;
	vcuda_device_put(device);
	atomic_set(&vcuda_devices, 0);
}

/* Contexts do not survive: the host's part of them goes with the reset, and their files report that. */
static int __maybe_unused vcuda_freeze(struct virtio_device *vdev)
{
	vcuda_device_stop(vdev->priv);
	return 0;
}

static int __maybe_unused vcuda_restore(struct virtio_device *vdev)
{
	return vcuda_device_start(vdev->priv);
}

static const struct virtio_device_id vcuda_ids[] = {
	{ VCUDA_VIRTIO_ID, VIRTIO_DEV_ANY_ID },
	{},
};
MODULE_DEVICE_TABLE(virtio, vcuda_ids);

static struct virtio_driver vcuda_driver = {
	.driver = {
		.name = KBUILD_MODNAME,
		.owner = THIS_MODULE,
	},
	.id_table = vcuda_ids,
	.probe = vcuda_probe,
	.remove = vcuda_remove,
#ifdef CONFIG_PM_SLEEP
	.freeze = vcuda_freeze,
	.restore = vcuda_restore,
#endif
};

static int __init vcuda_init(void)
{
	int status;

	BUILD_BUG_ON(sizeof(struct vcuda_config) != VCUDA_CONFIG_SIZE);
	vcuda_workqueue = alloc_workqueue("vcuda", WQ_UNBOUND, 0);
	if (!vcuda_workqueue)
		return -ENOMEM;
	status = register_virtio_driver(&vcuda_driver);
	if (status)
		destroy_workqueue(vcuda_workqueue);
	return status;
}

static void __exit vcuda_exit(void)
{
	unregister_virtio_driver(&vcuda_driver);
	destroy_workqueue(vcuda_workqueue);
}

module_init(vcuda_init);
module_exit(vcuda_exit);

MODULE_DESCRIPTION("CUDA for guests: contexts, pinned memory and doorbells over virtio");
MODULE_AUTHOR("The virtio-cuda authors");
MODULE_VERSION(VCUDA_VERSION);
MODULE_LICENSE("GPL");
