// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files that hold an object that a worker has exported under a name. The host keeps the object until the last file is
 * closed, in any process. Each file sends HOLD, and DROP at its end. After a reset the host has forgotten the names,
 * and the files hold nothing.
 *
 * The contents are the library's, for the library of the process that gets the file: 64 bytes to be read.
 */
#include <linux/anon_inodes.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "virtio-cuda.h"

#define VCUDA_HOLD_TIMEOUT (30 * HZ)

/* The states of the wait for the answer to HOLD. If the waiter has left, the answer ends the export. */
enum { VCUDA_HOLD_AWAITED, VCUDA_HOLD_ANSWERED, VCUDA_HOLD_LEFT };

struct vcuda_export {
	struct vcuda_call *drop;	/* made before HOLD, so that the end never needs memory; has the device */
	struct completion answered;
	struct vcuda_user *user;
	atomic_t state;
	int status;
	u8 contents[sizeof_field(struct vcuda_hold, contents)];
};

static ssize_t vcuda_export_read(struct file *file, char __user *user, size_t length, loff_t *offset)
{
	const struct vcuda_export *export = file->private_data;

	return simple_read_from_buffer(user, length, offset, export->contents, sizeof(export->contents));
}

static void vcuda_export_free(struct vcuda_export *export, bool held)
{
	if (held)
		vcuda_call_submit(export->drop);
	vcuda_call_put(export->drop);
	vcuda_user_put_export(export->user);
	kfree(export);
}

static int vcuda_export_release(struct inode *inode, struct file *file)
{
	vcuda_export_free(file->private_data, true);
	return 0;
}

static const struct file_operations vcuda_export_operations = {
	.owner = THIS_MODULE,
	.read = vcuda_export_read,
	.release = vcuda_export_release,
	.llseek = noop_llseek,
};

static struct vcuda_call *vcuda_export_call(struct vcuda_context *context, u32 type, const struct vcuda_hold *args)
{
	struct vcuda_call *call = vcuda_call_new(context->device, type, context->generation);

	if (!call)
		return NULL;
	call->request.context = context->id;
	call->request.address = args->name[0];
	call->request.length = args->name[1];
	return call;
}

/* In a work. If the waiter has left, an object that the host holds is dropped; after a refusal there is none. */
static void vcuda_export_answered(struct vcuda_call *call)
{
	struct vcuda_export *export = call->owner;

	export->status = call->status;
	if (atomic_cmpxchg(&export->state, VCUDA_HOLD_AWAITED, VCUDA_HOLD_ANSWERED) == VCUDA_HOLD_AWAITED)
		complete(&export->answered);
	else
		vcuda_export_free(export, !call->status);
}

/* Waits for the host's answer. *left: none came (-EINTR: killed, -ETIMEDOUT), and the answer will end the export. */
static int vcuda_export_wait(struct vcuda_export *export, bool *left)
{
	long rest = wait_for_completion_killable_timeout(&export->answered, VCUDA_HOLD_TIMEOUT);

	if (rest <= 0) {
		*left = atomic_cmpxchg(&export->state, VCUDA_HOLD_AWAITED, VCUDA_HOLD_LEFT) == VCUDA_HOLD_AWAITED;
		if (*left)
			return rest ? -EINTR : -ETIMEDOUT;
		wait_for_completion(&export->answered);
	}
	return export->status;
}

/* As vcuda_export_wait(). */
static int vcuda_export_hold(struct vcuda_context *context, const struct vcuda_hold *args, struct vcuda_export *export,
			     bool *left)
{
	struct vcuda_call *call = vcuda_export_call(context, VCUDA_CTL_HOLD, args);

	if (!call)
		return -ENOMEM;
	call->finish = vcuda_export_answered;
	call->owner = export;
	vcuda_call_submit(call);
	vcuda_call_put(call);
	return vcuda_export_wait(export, left);
}

/* Returns the export, or an ERR_PTR(). */
static struct vcuda_export *vcuda_export_new(struct vcuda_context *context, const struct vcuda_hold *args)
{
	struct vcuda_export *export = kzalloc(sizeof(*export), GFP_KERNEL_ACCOUNT);
	int status = -ENOMEM;

	if (!export)
		return ERR_PTR(status);
	init_completion(&export->answered);
	memcpy(export->contents, args->contents, sizeof(export->contents));
	export->drop = vcuda_export_call(context, VCUDA_CTL_DROP, args);
	if (!export->drop)
		goto free;
	export->user = vcuda_user_get_export();
	if (!IS_ERR(export->user))
		return export;
	status = PTR_ERR(export->user);
	vcuda_call_put(export->drop);
free:
	kfree(export);
	return ERR_PTR(status);
}

/* Returns the file, or an ERR_PTR(). Requests stay in order: a DROP does not overtake its HOLD. */
static struct file *vcuda_export_file(struct vcuda_context *context, const struct vcuda_hold *args)
{
	struct vcuda_export *export = vcuda_export_new(context, args);
	struct file *file;
	bool left = false;
	int status;

	if (IS_ERR(export))
		return ERR_CAST(export);
	status = vcuda_export_hold(context, args, export, &left);
	if (left)
		return ERR_PTR(status);
	if (status) {
		vcuda_export_free(export, false);
		return ERR_PTR(status);
	}
	file = anon_inode_getfile("[vcuda]", &vcuda_export_operations, export, O_RDONLY | O_CLOEXEC);
	if (IS_ERR(file))
		vcuda_export_free(export, true);
	else
		file->f_mode |= FMODE_PREAD;
	return file;
}

int vcuda_export(struct vcuda_context *context, struct vcuda_hold __user *user)
{
	int status = vcuda_context_usable(context);
	struct vcuda_hold args;
	struct file *file;

	if (status)
		return status;
	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if (args.reserved)
		return -EINVAL;
	args.fd = get_unused_fd_flags(O_CLOEXEC);
	if (args.fd < 0)
		return args.fd;
	file = vcuda_export_file(context, &args);
	status = PTR_ERR_OR_ZERO(file);
	if (!status && copy_to_user(user, &args, sizeof(args))) {
		fput(file);
		status = -EFAULT;
	}
	if (status)
		put_unused_fd(args.fd);
	else
		fd_install(args.fd, file);
	return status;
}
