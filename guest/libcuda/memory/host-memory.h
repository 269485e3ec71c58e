/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory behind a handle of cuMemCreate() in host memory: a file in memory of this process's, which other processes
 * can have too. The file ends with a page that describes it, so that it is known again where it is imported. Its size
 * is sealed. Thread-safe; nothing is left of it in a forked child.
 */
#ifndef VCUDA_HOST_MEMORY_H
#define VCUDA_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct libcuda_host_memory;

/* Whether the place exists: HOST always, HOST_NUMA if this machine has the node. */
bool libcuda_host_memory_has_place(const CUmemLocation *where);

/*
 * New memory of zeroes, all of it present: `bytes` is page aligned. CUDA_ERROR_OUT_OF_MEMORY, or
 * CUDA_ERROR_OPERATING_SYSTEM with a line in the log. libcuda_host_memory_free() ends it.
 */
CUresult libcuda_host_memory_create(const CUmemLocation *where, uint64_t bytes, struct libcuda_host_memory **memory);

/* No cancellation point: the thread is not cancelled in it. */
void libcuda_host_memory_free(struct libcuda_host_memory *memory);

/* A new descriptor of it for the application. Errors as above. */
CUresult libcuda_host_memory_export(const struct libcuda_host_memory *memory, int *fd);

/*
 * The memory behind such a descriptor, which stays the caller's, its place and its size. All of it is present. Another
 * process has made the file: the caller checks the size. CUDA_ERROR_INVALID_VALUE: it is another file, or says a place
 * that shared memory does not have; else errors as above.
 */
CUresult libcuda_host_memory_import(int fd, CUmemLocation *where, uint64_t *bytes, struct libcuda_host_memory **memory);

/* Maps it over what is at the address, readable and writable. Errors as above. */
CUresult libcuda_host_memory_map(const struct libcuda_host_memory *memory, uint64_t address);

#endif
