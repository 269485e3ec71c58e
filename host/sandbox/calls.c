/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traced: the software GPU with all programs of test/local, and NVIDIA's driver 580 on an H100 over contexts, modules,
 * linking, graphs, memory of several processes, printf, faults and exit. A keeper calls no driver.
 */
#include "host/sandbox/calls.h"

#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define COUNT(list) (unsigned int)(sizeof(list) / sizeof((list)[0]))
#define CALLS(...) ((const int[]){__VA_ARGS__, -1})
#define S(name) SCMP_SYS(name)
#define NO_DRIVER (CALLS_CPU | CALLS_COMPILER | CALLS_KEEPER)

const struct sandbox_calls sandbox_allowed[] = {
	/* Memory, but for mmap and mprotect, which have rules below. */
	{CALLS(S(munmap), S(brk), S(madvise), S(getrandom)), CALLS_EACH},
	/* Threads, and waiting. */
	{CALLS(S(futex), S(set_robust_list), S(rseq), S(exit), S(exit_group), S(gettid), S(getpid), S(sched_yield),
	       S(nanosleep), S(clock_nanosleep), S(clock_gettime), S(clock_getres), S(gettimeofday), S(getcpu),
	       S(restart_syscall)),
	 CALLS_EACH},
	/* The number of processors. */
	{CALLS(S(sched_getaffinity), S(sched_get_priority_max), S(sched_get_priority_min)), CALLS_EACH},
	/* Signals, with which the software GPU catches stray accesses of kernels. */
	{CALLS(S(rt_sigaction), S(rt_sigprocmask), S(rt_sigreturn), S(sigaltstack)), CALLS_EACH},
	/* Descriptors: rings' doorbells, the control channel, files of libraries and caches. Landlock limits names. */
	{CALLS(S(read), S(write), S(close), S(fcntl), S(pipe2), S(fstat), S(newfstatat), S(readlink), S(readlinkat)),
	 CALLS_EACH},
	{CALLS(S(readv), S(writev), S(pread64), S(pwrite64), S(lseek), S(dup), S(dup2), S(dup3), S(poll), S(ppoll),
	       S(eventfd2), S(open), S(openat), S(getdents64), S(stat), S(lstat), S(statx), S(statfs), S(fstatfs),
	       S(access), S(faccessat), S(faccessat2), S(getcwd)),
	 CALLS_ALL},
	/* A keeper's descriptors. */
	{CALLS(S(epoll_wait), S(epoll_pwait), S(epoll_ctl)), CALLS_KEEPER},
	/* Memory that processes share is files in memory. */
	{CALLS(S(memfd_create), S(ftruncate), S(fallocate)), CALLS_BOTH},
	/* Folders of compiled kernels. */
	{CALLS(S(mkdir), S(mkdirat), S(unlink), S(unlinkat), S(rename), S(renameat), S(renameat2), S(utimensat),
	       S(fchmod)),
	 CALLS_ALL},
	/* Sockets between workers of one guest; which families there are has a rule below. */
	{CALLS(S(bind), S(listen), S(accept4), S(connect), S(sendmsg), S(recvmsg), S(sendto), S(recvfrom),
	       S(getsockopt), S(setsockopt), S(getsockname), S(shutdown)),
	 CALLS_BOTH},
	/* Calls that describe this process and machine. */
	{CALLS(S(getuid), S(geteuid), S(getgid), S(getegid), S(getppid), S(uname), S(sysinfo), S(getrlimit),
	       S(getrusage), S(times)),
	 CALLS_ALL},
	/* NVIDIA's driver speaks to its kernel part by ioctl. Only the GPU's nodes can be opened. */
	{CALLS(S(ioctl)), CALLS_CUDA},
	/* Our libcuda.so.1 as the driver, in a guest that lends its GPU on: it looks into exported descriptors. */
	{CALLS(S(tee)), CALLS_CUDA},
	/* NVIDIA's driver sets it before it makes files. */
	{CALLS(S(umask)), CALLS_CUDA},
	/* NVIDIA's driver asks for the NUMA node of host memory. */
	{CALLS(S(get_mempolicy)), CALLS_CUDA},
	/* Orders and results. No socket but those that are there, and a compiler's pairs. */
	{CALLS(S(sendmsg), S(recvmsg), S(sendto), S(recvfrom)), CALLS_COMPILER | CALLS_KEEPER},
	/* Processes that compile, and their end. Each of them has fewer calls (filter.c). */
	{CALLS(S(wait4), S(setrlimit), S(kill), S(tgkill), S(close_range)), CALLS_COMPILER},
};

const unsigned int sandbox_allowed_count = COUNT(sandbox_allowed);

/* A thread, which shares memory and signals with the others, in no new namespace. */
#define THREAD (CLONE_VM | CLONE_SIGHAND | CLONE_THREAD)
#define NEW_NAMESPACE                                                                                                  \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* The C library's fork(). */
#define FORK (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)

const struct sandbox_call_rule sandbox_allowed_rules[] = {
	{S(clone), CALLS_EACH, 1, {SCMP_A0(SCMP_CMP_MASKED_EQ, THREAD | NEW_NAMESPACE | CLONE_PTRACE, THREAD)}},
	{S(clone), CALLS_COMPILER, 1, {SCMP_A0(SCMP_CMP_EQ, FORK)}},
	{S(socket), CALLS_BOTH, 1, {SCMP_A0(SCMP_CMP_EQ, AF_UNIX)}},
	/* Calls on this process only. */
	{S(prlimit64), CALLS_BOTH, 2, {SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0)}},
	{S(prlimit64), CALLS_COMPILER, 1, {SCMP_A0(SCMP_CMP_EQ, 0)}},
	/* For the calling thread only: the software GPU compiles at a lower priority. */
	{S(setpriority), CALLS_ALL, 2, {SCMP_A0(SCMP_CMP_EQ, PRIO_PROCESS), SCMP_A1(SCMP_CMP_EQ, 0)}},
	{S(getpriority), CALLS_ALL, 2, {SCMP_A0(SCMP_CMP_EQ, PRIO_PROCESS), SCMP_A1(SCMP_CMP_EQ, 0)}},
	/* With --sandbox=log: to hear of unknown calls, and to let them go on. */
	{S(ioctl), NO_DRIVER, 1, {SCMP_A1(SCMP_CMP_EQ, SECCOMP_IOCTL_NOTIF_RECV)}},
	{S(ioctl), NO_DRIVER, 1, {SCMP_A1(SCMP_CMP_EQ, SECCOMP_IOCTL_NOTIF_SEND)}},
	{S(prctl), CALLS_ALL, 1, {SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME)}},
	{S(prctl), CALLS_ALL, 1, {SCMP_A0(SCMP_CMP_EQ, PR_GET_NAME)}},
	/* For the calling thread only: the thread that waits for turns sleeps for short times (queue/turn.c). */
	{S(prctl), CALLS_CUDA, 1, {SCMP_A0(SCMP_CMP_EQ, PR_SET_TIMERSLACK)}},
	{S(prctl), CALLS_COMPILER, 1, {SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG)}},
	{S(seccomp), CALLS_COMPILER, 1, {SCMP_A0(SCMP_CMP_EQ, SECCOMP_SET_MODE_FILTER)}},
	{S(socketpair), CALLS_COMPILER, 1, {SCMP_A0(SCMP_CMP_EQ, AF_UNIX)}},
	/*
	 * Code: never writable as well. The loader maps it from files, the software GPU writes it and makes it
	 * executable then.
	 */
	{S(mmap), CALLS_EACH, 1, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)}},
	{S(mmap),
	 CALLS_ALL,
	 2,
	 {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC),
	  SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_TYPE, MAP_PRIVATE)}},
	{S(mprotect), CALLS_EACH, 1, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)}},
	{S(mprotect), CALLS_ALL, 1, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC)}},
};

const unsigned int sandbox_allowed_rule_count = COUNT(sandbox_allowed_rules);

const struct sandbox_calls sandbox_allowed_on_self = {CALLS(S(kill), S(tgkill)), CALLS_BOTH | CALLS_KEEPER};

const struct sandbox_refusal sandbox_refused[] = {
	/* The flags of clone3() are in memory, where no filter sees them. The C library falls back to clone(). */
	{S(clone3), ENOSYS, CALLS_EACH, 0, {{0}}},
	/* mremap() could move a mapping of guest memory. The C library falls back to a copy. */
	{S(mremap), ENOMEM, CALLS_EACH, 0, {{0}}},
	/* A library that looks for a network finds none. */
	{S(socket), EAFNOSUPPORT, CALLS_ALL, 1, {SCMP_A0(SCMP_CMP_NE, AF_UNIX)}},
	/* The C library asks whether a file is a terminal. */
	{S(ioctl), ENOTTY, NO_DRIVER, 1, {SCMP_A1(SCMP_CMP_EQ, TCGETS)}},
	/* NVIDIA's driver starts nvidia-modprobe where that is installed; vcudad has done so. */
	{S(clone), EAGAIN, CALLS_CUDA, 1, {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)}},
	/* NVIDIA's driver tries to create missing device nodes, and links to them in /dev/char. */
	{S(mknod), EPERM, CALLS_CUDA, 0, {{0}}},
	{S(mknodat), EPERM, CALLS_CUDA, 0, {{0}}},
	{S(chmod), EPERM, CALLS_CUDA, 0, {{0}}},
	{S(chown), EPERM, CALLS_CUDA, 0, {{0}}},
	{S(symlink), EPERM, CALLS_CUDA, 0, {{0}}},
	/* OpenBLAS places its memory. Processors and their memory are vcudad's to choose, and so are limits. */
	{S(mbind), EPERM, CALLS_BOTH, 0, {{0}}},
	{S(set_mempolicy), EPERM, CALLS_BOTH, 0, {{0}}},
	{S(sched_setaffinity), EPERM, CALLS_BOTH, 0, {{0}}},
	{S(prlimit64), EPERM, CALLS_BOTH, 1, {SCMP_A2(SCMP_CMP_NE, 0)}},
	{S(setrlimit), EPERM, CALLS_BOTH, 0, {{0}}},
};

const unsigned int sandbox_refused_count = COUNT(sandbox_refused);

const struct sandbox_forbidden sandbox_forbidden[] = {
	/* Descriptors that send signals to any process of the user when something can be read. */
	{S(fcntl), 1, F_SETOWN},
	{S(fcntl), 1, F_SETOWN_EX},
	{S(fcntl), 1, F_SETSIG},
	{S(ioctl), 1, FIOSETOWN},
	{S(ioctl), 1, SIOCSPGRP},
	/* Text that a terminal takes for its user's. */
	{S(ioctl), 1, TIOCSTI},
	{S(ioctl), 1, TIOCLINUX},
};

const unsigned int sandbox_forbidden_count = COUNT(sandbox_forbidden);
