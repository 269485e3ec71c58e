/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that this module builds on: 6.1 and later. */
#ifndef VCUDA_COMPAT_H
#define VCUDA_COMPAT_H

#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/version.h>
#include <linux/virtio_config.h>

static inline int vcuda_find_vqs(struct virtio_device *vdev, unsigned int count, struct virtqueue *vqs[],
				 vq_callback_t *callbacks[], const char * const names[])
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
	struct virtqueue_info info[8] = {};
	unsigned int i;

	if (count > ARRAY_SIZE(info))
		return -EINVAL;
	for (i = 0; i < count; i++) {
		info[i].name = names[i];
		info[i].callback = callbacks[i];
	}
	return virtio_find_vqs(vdev, count, vqs, info, NULL);
#else
	return virtio_find_vqs(vdev, count, vqs, callbacks, names, NULL);
#endif
}

static inline void vcuda_vma_set_flags(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static inline void vcuda_vma_clear_flags(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_clear(vma, flags);
#else
	vma->vm_flags &= ~flags;
#endif
}

/* The bus of a device: a pointer to what is constant since 6.4. */
typedef typeof(((struct device *)NULL)->bus) vcuda_bus;

/* True at the first page of a section of memory that can be plugged. A kernel without sections plugs none. */
static inline bool vcuda_section_begins(unsigned long pfn)
{
#ifdef CONFIG_SPARSEMEM
	return !(pfn % PAGES_PER_SECTION);
#else
	return false;
#endif
}

/*
 * Before 6.2 a long-term pin for reading does not break copy-on-write: the process's next write would go to another
 * page than the one the device reads. There, pages that may be written are pinned for writing.
 */
#define VCUDA_PIN_READ_NEEDS_WRITE (LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0))

#endif
