/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of the mapper. The mapper runs with the thread-local storage of the worker's first thread, so the code calls
 * no function of a library, and is built without instrumentation.
 */
#include "memory/mapper-task.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "protocol/ipc/channel.h"
#include "protocol/ipc/mapper.h"

#define MAX_RAM (2 * VCUDA_CHANNEL_MAX_FDS)

/* The mapper's descriptors, beside those of RAM. */
#define SOCKET 0
#define MAPS 1

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long fourth __asm__("r10") = d;
	register long fifth __asm__("r8") = e;
	register long sixth __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	return result;
}

static long call3(long number, long a, long b, long c)
{
	return call(number, a, b, c, 0, 0, 0);
}

_Noreturn static void end(int status)
{
	for (;;)
		call3(SYS_exit_group, status, 0, 0);
}

static void require(bool succeeded)
{
	if (!succeeded)
		end(1);
}

/* ---- before the first request ---- */

/* The end of the worker's first thread ends the mapper. */
static void follow(pid_t worker)
{
	call3(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0);
	require(call3(SYS_getppid, 0, 0, 0) == worker);
	call3(SYS_prctl, PR_SET_NAME, (long)"vcuda-mapper", 0);
}

static void keep_descriptors(int maps)
{
	require(call3(SYS_dup3, VCUDA_MAPPER_FD, SOCKET, O_CLOEXEC) == SOCKET);
	require(call3(SYS_dup3, maps, MAPS, O_CLOEXEC) == MAPS);
	require(!call3(SYS_close_range, VCUDA_MAPPER_FIRST_RAM, UINT_MAX, 0));
}

/* The kernel gives the lowest free numbers, in order: these are what vcudad expects. */
static void receive_ram(void)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * MAX_RAM)];
		struct cmsghdr first;
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	long bytes = call3(SYS_recvmsg, SOCKET, (long)&h, MSG_CMSG_CLOEXEC);
	const int *fds = (const int *)CMSG_DATA(&control.first);

	if (bytes <= 0)
		end(0);
	require(h.msg_controllen >= CMSG_LEN(sizeof(int)) && !(h.msg_flags & MSG_CTRUNC));
	for (size_t i = 0; CMSG_LEN(sizeof(int) * (i + 1)) <= control.first.cmsg_len; i++)
		require(fds[i] == VCUDA_MAPPER_FIRST_RAM + (int)i);
}

static long install(struct sock_filter *filter, unsigned short length, unsigned int flags)
{
	struct sock_fprog program = {.len = length, .filter = filter};

	return call3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, (long)&program);
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

/* Returns the listener. */
static long have_vcudad_decide(void)
{
	struct sock_filter filter[] = {
		LOAD(nr),
		IF_EQUAL(SYS_mmap, 1, 0),
		IF_EQUAL(VCUDA_MAPPER_IS_IDLE, 0, 1),
		RETURN(SECCOMP_RET_USER_NOTIF),
		RETURN(SECCOMP_RET_ALLOW),
	};

	return install(filter, sizeof(filter) / sizeof(filter[0]), SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

/* This filter does not relax the first one: a notification goes before "allow". */
static long allow_nothing_else(void)
{
	struct sock_filter filter[] = {
		LOAD(arch),
		IF_EQUAL(AUDIT_ARCH_X86_64, 0, 5),
		LOAD(nr),
		IF_EQUAL(SYS_mmap, 4, 0),
		IF_EQUAL(VCUDA_MAPPER_IS_IDLE, 3, 0),
		IF_EQUAL(SYS_futex, 2, 0),
		IF_EQUAL(SYS_exit_group, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		RETURN(SECCOMP_RET_ALLOW),
	};

	return install(filter, sizeof(filter) / sizeof(filter[0]), 0);
}

static void give(int listener)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 2)];
		struct cmsghdr first;
	} control = {
		.first = {.cmsg_len = CMSG_LEN(sizeof(int) * 2), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int *fds = (int *)CMSG_DATA(&control.first);

	fds[0] = listener;
	fds[1] = MAPS;
	require(call3(SYS_sendmsg, SOCKET, (long)&h, MSG_NOSIGNAL) == 1);
	call3(SYS_close, listener, 0, 0);
	call3(SYS_close, MAPS, 0, 0);
}

static void submit_to_vcudad(void)
{
	long listener;

	require(!call3(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0));
	listener = have_vcudad_decide();
	require(listener >= 0);
	give((int)listener);
	require(!allow_nothing_else());
}

/* ---- requests ---- */

static int map(const struct worker_mapper_request *r)
{
	int prot = r->writable ? PROT_READ | PROT_WRITE : PROT_READ;
	uint64_t address = r->address;

	for (unsigned int i = 0; i < r->count; i++) {
		const struct worker_mapping_extent *e = &r->extents[i];
		int fd = r->writable ? VCUDA_MAPPER_WRITABLE(e->file) : VCUDA_MAPPER_READ_ONLY(e->file);
		long at = call(SYS_mmap, (long)address, (long)e->length, prot, MAP_SHARED | MAP_FIXED, fd,
			       (long)e->offset);

		if (at < 0 && at > -4096)
			return (int)at;
		address += e->length;
	}
	return 0;
}

int worker_mapper_task(void *argument)
{
	struct worker_mapper_request *r = argument;

	follow(r->worker);
	keep_descriptors(r->maps);
	receive_ram();
	submit_to_vcudad();
	for (uint32_t served = 0;;) {
		while (atomic_load(&r->asked) == served)
			call(SYS_futex, (long)&r->asked, FUTEX_WAIT_PRIVATE, served, 0, 0, 0);
		r->status = map(r);
		call3(VCUDA_MAPPER_IS_IDLE, 0, 0, 0);
		atomic_store(&r->answered, ++served);
		call3(SYS_futex, (long)&r->answered, FUTEX_WAKE_PRIVATE, 1);
	}
}
