/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR Apache-2.0 */
/*
 * /dev/vcuda: the interface of virtio-cuda.ko for the guest's libraries. Append-only.
 *
 * One open file description with OPEN done is one context: one worker on the host. It belongs to the mm that opened it;
 * calls from another process (a forked child) fail with EPERM. All calls are thread-safe. Closing frees everything.
 */
#ifndef VCUDA_UAPI_H
#define VCUDA_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define VCUDA_DEVICE_PATH "/dev/vcuda"

/*
 * Creates the context: `shm_bytes` (page multiple, <= 4 MiB) of zeroed shared memory, which mmap(fd, offset 0,
 * MAP_SHARED) maps, and a worker that maps the same pages. major and minor are the wire protocol's (protocol/wire.h),
 * in: the library's, out: the worker's, also when the call fails with EPROTONOSUPPORT. Errors: EBUSY (done already),
 * EPROTONOSUPPORT, ENODEV (no host, or lost), ENOMEM, ENOSPC (the host's limit of contexts), ETIMEDOUT, EINTR.
 */
struct vcuda_open {
	__u32 major, minor;
	__u64 shm_bytes;
	__u32 wake_offset;	/* in: where in the shared memory the wake word (u32) is, for WAIT */
	__u32 flags;		/* in: 0, or what an earlier OPEN gave, which means nothing; out: VCUDA_OPEN_* */
	__u64 context;		/* out: the context's number, for messages */
};

#define VCUDA_OPEN_DIRECT 0x1	/* VCUDA_PIN_DIRECT may be used */

/*
 * Pins [address, address + length) (page aligned) of this process and maps it into the worker at the same address.
 * Errors: EINVAL, EFAULT (not mapped, or not writable though VCUDA_PIN_WRITABLE), EEXIST (overlaps a pinned range),
 * EPERM (pin limit: raise RLIMIT_MEMLOCK or the module's max_pinned_mib), EADDRNOTAVAIL (the host cannot mirror this
 * address), ENOMEM, ENODEV.
 *
 * VCUDA_PIN_DIRECT: the range is not mapped into the worker, which only learns where its pages are, so that the process
 * can have them copied from and to (to: with VCUDA_PIN_WRITABLE) where they lie. More errors: EOPNOTSUPP (not offered,
 * or the VM has a balloon, which would exchange pages under the host), E2BIG (the pages are in so many pieces that it
 * is not worth while: fewer than VCUDA_DIRECT_PIECE bytes each on average).
 */
#define VCUDA_PIN_WRITABLE 0x1
#define VCUDA_PIN_DIRECT 0x2
#define VCUDA_DIRECT_PIECE 65536
struct vcuda_pin {
	__u64 address, length;
	__u32 flags;
	__u32 reserved;
};

/* Undoes a PIN of exactly this range; returns when the host can no longer touch the pages. Errors: ENOENT, ENODEV. */
struct vcuda_unpin {
	__u64 address, length;
};

/*
 * Sleeps while the wake word equals `seen`, at most timeout_us (0: no limit). Returns 0 when it differs (or at once if
 * it does already). Errors: ETIMEDOUT, EINTR, EPIPE (the worker is gone: the context is lost), ENODEV.
 */
struct vcuda_wait {
	__u32 seen;
	__u32 timeout_us;
};

/*
 * The state of a process that uses the device: `pid` as the caller's namespace numbers it. No OPEN is needed. `action`,
 * `state` and `failure` are control.h's: enum vcuda_process_action, enum vcuda_process_state perhaps with
 * VCUDA_PROCESS_STEP, and the errno of the last step. The call does not wait for the step to end. Errors: EINVAL, ESRCH
 * (the process has no context), EPERM (the caller may not trace the process), EBADFD (the process is in another state
 * than the action needs), EOPNOTSUPP (the host is older), ENODEV, EINTR.
 */
struct vcuda_process {
	__s32 pid;
	__u32 action;
	__u32 milliseconds;	/* limit for running work to end, <= VCUDA_PROCESS_MS_MAX */
	__u32 state;		/* out */
	__u32 failure;		/* out */
	__u32 reserved;
};

/*
 * Makes a file that holds the worker's object that was exported under `name`, until the last descriptor of the file is
 * closed, in any process. `contents` can be read from the file. Errors: EINVAL, ENOENT (nothing has that name),
 * EDQUOT (the host's limit is reached, or the module's max_exports), EOPNOTSUPP (the host is older), EMFILE, ENFILE,
 * ENOMEM, EPIPE, ENODEV, EINTR, ETIMEDOUT.
 */
struct vcuda_hold {
	__u64 name[2];
	__u8 contents[64];
	__s32 fd;		/* out: closed on exec */
	__u32 reserved;
};

#define VCUDA_IOC_OPEN _IOWR('V', 0x01, struct vcuda_open)
#define VCUDA_IOC_PIN _IOW('V', 0x02, struct vcuda_pin)
#define VCUDA_IOC_UNPIN _IOW('V', 0x03, struct vcuda_unpin)
#define VCUDA_IOC_DOORBELL _IO('V', 0x04)
#define VCUDA_IOC_WAIT _IOW('V', 0x05, struct vcuda_wait)
#define VCUDA_IOC_PROCESS _IOWR('V', 0x06, struct vcuda_process)
#define VCUDA_IOC_HOLD _IOWR('V', 0x07, struct vcuda_hold)

#endif
