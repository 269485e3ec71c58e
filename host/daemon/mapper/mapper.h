/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapper of a worker of a VM (protocol/ipc/mapper.h) as the daemon sees it. The kernel tells the daemon the
 * arguments of each mmap() of the mapper, and the daemon decides by them alone: it reads nothing of the worker's
 * memory.
 */
#ifndef VCUDA_DAEMON_MAPPER_H
#define VCUDA_DAEMON_MAPPER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "loop/loop.h"
#include "mapper/grants.h"

struct daemon_mapper {
	struct daemon_loop *loop;
	struct daemon_source socket_source, listener_source;
	int socket, listener; /* -1: none */
	FILE *maps;           /* the worker's address space, NULL: not come yet */
	bool made;            /* the worker has or had one */
	bool runs;            /* the mapper may touch the worker's memory */
	bool idle;            /* each mmap() that was allowed has returned */
	bool (*may_map)(struct daemon_mapper *mapper, const struct daemon_grant *wanted);
	/*
	 * The mapper has ended; or it breaks the rules, and `why`, for "worker N ...", is not NULL. May be called
	 * again.
	 */
	void (*ended)(struct daemon_mapper *mapper, const char *why);
};

/* Whether the kernel offers all that a mapper needs (Linux 5.9). */
bool daemon_mapper_is_possible(void);

/* No mapper: none is made, and daemon_mapper_close() does nothing. */
void daemon_mapper_init(struct daemon_mapper *mapper);

/* *theirs, the caller's to close, is for the worker, and above VCUDA_MAPPER_FD. 0 or -errno. */
int daemon_mapper_open(struct daemon_mapper *mapper, struct daemon_loop *loop, int *theirs);

/*
 * Gives it the RAM, once: for each region the descriptors VCUDA_MAPPER_WRITABLE and VCUDA_MAPPER_READ_ONLY. 0 or
 * -errno.
 */
int daemon_mapper_give(struct daemon_mapper *mapper, const int *fds, unsigned int count);

/*
 * Whether no RAM is mapped in [address, address + length), nor will be by an mmap() that was allowed before. True of no
 * range after the worker's end.
 */
bool daemon_mapper_has_unmapped(const struct daemon_mapper *mapper, uint64_t address, uint64_t length);

/* Closes vcudad's end. A mapper that has no RAM yet then ends. */
void daemon_mapper_close(struct daemon_mapper *mapper);

#endif
