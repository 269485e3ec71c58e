/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All RAM of the VM, mapped into the worker and registered with the back end, so that devices copy from and to guest
 * memory without staging. Only with vcudad --register-ram.
 *
 * RAM is registered in pieces, in the background, from the guest's first request on. A registration belongs to the
 * context in which it was made, and is repeated after the end of that context. Thread-safe.
 */
#ifndef VCUDA_RAM_H
#define VCUDA_RAM_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct vcuda_backend_ops;

/* Pieces are registered one by one, at multiples of this address. No copy may cross a border of pieces. */
#define WORKER_RAM_PIECE (256ull << 20)

/* The operator wants it. Called before there are files. */
void worker_ram_want(void);
bool worker_ram_is_wanted(void);

/* The files of RAM, by the numbers that extents have. They stay open. */
void worker_ram_files(const int *fds, unsigned int count);

/*
 * Our address of a part of a file. All files are mapped with the first that is asked for. 0; -EOPNOTSUPP: not wanted;
 * -EINVAL: no such part; -errno of mmap(), each time.
 */
int worker_ram_find(unsigned int file, uint64_t offset, uint64_t length, char **address);

/* Whether all is registered. Begins that in the current context, if it has not begun and can be done. */
bool worker_ram_is_ready(const struct vcuda_backend_ops *ops);

/* Around a copy: until the end of it nothing is unregistered. False: not registered (any more). */
bool worker_ram_use(void);
void worker_ram_leave(void);

/* Around calls that may end a context: between the two no copy uses its registrations, and no piece is registered. */
void worker_ram_close(CUcontext context);
/* `ended`: the context has ended, and its registrations with it. */
void worker_ram_reopen(CUcontext context, bool ended);

#endif
