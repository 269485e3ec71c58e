// SPDX-License-Identifier: GPL-2.0-only
/* /dev/vcuda. Data from user space is copied once, and checked here or in the function that gets it. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "virtio-cuda.h"

static int vcuda_file_open(struct inode *inode, struct file *file)
{
	struct vcuda_device *device = container_of(file->private_data, struct vcuda_device, misc);
	struct vcuda_context *context;

	if (!current->mm)
		return -EINVAL;
	if (!vcuda_device_live(device))
		return -ENODEV;
	context = vcuda_context_new(device);
	if (!context)
		return -ENOMEM;
	file->private_data = context;
	return stream_open(inode, file);
}

/*
 * The owner exits: its worker goes now, even if a child that it forked still holds the file. Threads that are still
 * in a call keep the table of files alive, so none is in this context.
 */
static int vcuda_file_flush(struct file *file, fl_owner_t id)
{
	struct vcuda_context *context = file->private_data;

	if ((current->flags & PF_EXITING) && task_tgid(current) == context->owner)
		vcuda_context_end(context);
	return 0;
}

static int vcuda_file_release(struct inode *inode, struct file *file)
{
	struct vcuda_context *context = file->private_data;

	vcuda_context_end(context);
	vcuda_context_put(context);
	return 0;
}

static int vcuda_file_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct vcuda_context *context = file->private_data;
	int status;

	if (current->mm != context->mm)
		return -EPERM;
	status = vcuda_context_usable(context);
	return status ? status : vcuda_share_map(&context->share, vma);
}

static long vcuda_ioctl_open(struct vcuda_context *context, void __user *user)
{
	struct vcuda_open args;
	int status;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	status = vcuda_context_open(context, &args);
	if ((!status || status == -EPROTONOSUPPORT) && copy_to_user(user, &args, sizeof(args)))
		return -EFAULT;
	return status;
}

static long vcuda_ioctl_pin(struct vcuda_context *context, void __user *user)
{
	struct vcuda_pin args;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	return vcuda_pin(context, &args);
}

static long vcuda_ioctl_unpin(struct vcuda_context *context, void __user *user)
{
	struct vcuda_unpin args;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	return vcuda_unpin(context, &args);
}

static long vcuda_ioctl_doorbell(struct vcuda_context *context)
{
	int status = vcuda_context_usable(context);

	return status ? status : vcuda_bell_ring(context->device, context->id);
}

static long vcuda_ioctl_wait(struct vcuda_context *context, void __user *user)
{
	struct vcuda_wait args;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	return vcuda_context_wait(context, &args);
}

static long vcuda_ioctl_process(struct vcuda_context *context, void __user *user)
{
	struct vcuda_process args;
	int status;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	status = vcuda_process_act(context->device, &args);
	return !status && copy_to_user(user, &args, sizeof(args)) ? -EFAULT : status;
}

static long vcuda_file_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct vcuda_context *context = file->private_data;
	void __user *user = (void __user *)argument;

	if (current->mm != context->mm)
		return -EPERM;
	switch (command) {
	case VCUDA_IOC_OPEN:
		return vcuda_ioctl_open(context, user);
	case VCUDA_IOC_PIN:
		return vcuda_ioctl_pin(context, user);
	case VCUDA_IOC_UNPIN:
		return vcuda_ioctl_unpin(context, user);
	case VCUDA_IOC_DOORBELL:
		return vcuda_ioctl_doorbell(context);
	case VCUDA_IOC_WAIT:
		return vcuda_ioctl_wait(context, user);
	case VCUDA_IOC_PROCESS:
		return vcuda_ioctl_process(context, user);
	case VCUDA_IOC_HOLD:
		return vcuda_export(context, user);
	default:
		return -ENOTTY;
	}
}

const struct file_operations vcuda_file_operations = {
	.owner = THIS_MODULE,
	.open = vcuda_file_open,
	.flush = vcuda_file_flush,
	.release = vcuda_file_release,
	.mmap = vcuda_file_mmap,
	.unlocked_ioctl = vcuda_file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};
