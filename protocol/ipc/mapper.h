/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapper: a process that shares the memory of a worker of a VM, but not its descriptors. Only the mapper has the
 * descriptors of the VM's RAM, and each of its mmap() calls waits for vcudad's word (a seccomp user notification).
 *
 * The worker makes the mapper before anything of a guest reaches it. Code in the worker can write to the mapper's
 * stack, so from then on the mapper's code is as hostile as the worker's; its system calls are not.
 *
 * The mapper's socket is descriptor VCUDA_MAPPER_FD of a new worker, SOCK_SEQPACKET, with two messages of one byte:
 * vcudad gives the descriptors of the RAM, the mapper gives {its listener, the worker's /proc/self/maps}. The mapper
 * keeps its end open, so that vcudad sees the end of the mapper: a process closes its descriptors after it has left its
 * memory.
 */
#ifndef VCUDA_MAPPER_H
#define VCUDA_MAPPER_H

#include <sys/syscall.h>

#define VCUDA_MAPPER_FD 6

/* The mapper's descriptors of a region of RAM (struct vcuda_channel_extent). They never change. */
#define VCUDA_MAPPER_FIRST_RAM 2
#define VCUDA_MAPPER_WRITABLE(region) (VCUDA_MAPPER_FIRST_RAM + 2 * (region))
#define VCUDA_MAPPER_READ_ONLY(region) (VCUDA_MAPPER_FIRST_RAM + 2 * (region) + 1)

/* The mapper makes this system call after the mmap() calls of a request, so that vcudad knows that they returned. */
#define VCUDA_MAPPER_IS_IDLE SYS_sched_yield

#endif
