/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that workers of one host give to one another. What is offered is a file in memory; its handle, which guest
 * processes pass on as they like, holds two random numbers: the name of the socket where the offering worker hands the
 * file out, and a key. Who does not know the key gets nothing: knowing a handle is the permission, as with CUDA's own.
 */
#ifndef VCUDA_CPU_SHARE_H
#define VCUDA_CPU_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda-abi.h"

enum cpu_share_kind { CPU_SHARE_MEMORY = 1, CPU_SHARE_EVENT, CPU_SHARE_ALLOCATION };

struct cpu_share_handle {
	uint8_t magic[8];
	uint8_t server[16], key[16];
	uint8_t zero[24];
};

/* A new file of zeroes that can never shrink under those who map it; -1: none. */
int cpu_share_file(uint64_t bytes);

/* Offers `bytes` of a file until cpu_share_withdraw(); the descriptor is taken over. False: not possible. */
bool cpu_share_offer(enum cpu_share_kind kind, uint64_t bytes, int fd, struct cpu_share_handle *handle);
void cpu_share_withdraw(const struct cpu_share_handle *handle);

/* Whether this worker offers it, or once did. */
bool cpu_share_is_own(const struct cpu_share_handle *handle);

/*
 * What a worker offers under a handle, which anybody may have made up. Not with the lock held: it may wait for another.
 */
CUresult cpu_share_take(const struct cpu_share_handle *handle, enum cpu_share_kind kind, uint64_t *bytes, int *fd);

#endif
