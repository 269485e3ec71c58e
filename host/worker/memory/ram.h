/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VM's RAM, all of it, mapped into the worker and registered with the back end, so that devices copy from and to
 * guest memory where it lies. Only where the operator wants that (vcudad --register-ram).
 *
 * Registered is it in pieces, in the background, begun when the guest first asks; what is registered belongs to a
 * context, the one in which that was, and must be registered again once that has ended. Thread-safe.
 */
#ifndef VCUDA_RAM_H
#define VCUDA_RAM_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct vcuda_backend_ops;

/* No copy may go over the border between two pieces, which are registered one by one: addresses that this divides. */
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

/* Around whatever may end a context: what is registered in it is in nobody's use, and no more of it is registered. */
void worker_ram_close(CUcontext context);
/* `ended`: that context, if it is this one, has none of it any more. */
void worker_ram_reopen(CUcontext context, bool ended);

#endif
