// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of other processes: who may change it, and which context the host knows such a process by.
 *
 * The rule for rights is that of ptrace(PTRACE_ATTACH) without the checks of security modules and PR_SET_DUMPABLE:
 * modules cannot call ptrace_may_access().
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/sched/task.h>

#include "virtio-cuda.h"

#define VCUDA_PROCESS_TIMEOUT (10 * HZ)

static bool vcuda_same_user(const struct cred *caller, const struct cred *target)
{
	return uid_eq(caller->uid, target->uid) && uid_eq(caller->uid, target->euid) &&
	       uid_eq(caller->uid, target->suid) && gid_eq(caller->gid, target->gid) &&
	       gid_eq(caller->gid, target->egid) && gid_eq(caller->gid, target->sgid);
}

/* 0, -ESRCH, -EPERM. */
static int vcuda_process_may_act(struct pid *pid)
{
	struct task_struct *task = get_pid_task(pid, PIDTYPE_TGID);
	const struct cred *target;
	bool may;

	if (!task)
		return -ESRCH;
	target = get_task_cred(task);
	may = vcuda_same_user(current_cred(), target) || ns_capable(target->user_ns, CAP_SYS_PTRACE);
	put_cred(target);
	put_task_struct(task);
	return may ? 0 : -EPERM;
}

/* Any context that the host knows: all contexts of a process share one state. 0: the process has none. */
static u64 vcuda_process_context(struct vcuda_device *device, const struct pid *pid)
{
	struct vcuda_context *context;
	unsigned long id;
	u64 found = 0;

	xa_lock_irq(&device->contexts);
	xa_for_each(&device->contexts, id, context)
		if (context->owner == pid && READ_ONCE(context->state) == VCUDA_CONTEXT_OPEN &&
		    !READ_ONCE(context->lost))
			found = context->id;
	xa_unlock_irq(&device->contexts);
	return found;
}

static int vcuda_process_ask(struct vcuda_device *device, u64 context, struct vcuda_process *args)
{
	struct vcuda_call *call = vcuda_call_new(device, VCUDA_CTL_STATE, vcuda_device_generation(device));
	int status;

	if (!call)
		return -ENOMEM;
	call->request.context = context;
	call->request.flags = args->action;
	call->request.length = args->milliseconds;
	vcuda_call_submit(call);
	status = vcuda_call_wait(call, VCUDA_PROCESS_TIMEOUT);
	if (!status) {
		args->state = call->reply.state;
		args->failure = call->reply.major;
	}
	vcuda_call_put(call);
	/* The process has ended. */
	if (status == -ENOENT)
		return -ESRCH;
	/* The host is slow, and not the process's work. */
	return status == -ETIMEDOUT ? -EIO : status;
}

int vcuda_process_act(struct vcuda_device *device, struct vcuda_process *args)
{
	struct pid *pid;
	u64 context;
	int status;

	if (args->action >= VCUDA_PROCESS_ACTIONS || args->reserved || args->pid <= 0)
		return -EINVAL;
	if (!vcuda_device_live(device))
		return -ENODEV;
	pid = find_get_pid(args->pid);
	if (!pid)
		return -ESRCH;
	status = vcuda_process_may_act(pid);
	context = status ? 0 : vcuda_process_context(device, pid);
	put_pid(pid);
	if (status)
		return status;
	return context ? vcuda_process_ask(device, context, args) : -ESRCH;
}
