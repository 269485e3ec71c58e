/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exports of libvcuda-cpu.so. The worker opens the library with dlopen() only where the software GPU is used,
 * because the library contains LLVM.
 *
 * Every function may be called by any thread. A thread that launches kernels may compile them: give it a stack of the
 * usual 8 MiB.
 *
 * Environment, read once at the first use:
 *
 * VCUDA_CPU_DEVICES: devices, from 1 to 8 (default: 1)
 *
 * VCUDA_CPU_MEMORY: memory of each device in bytes, with K, M or G after the number (default: half of the machine's
 * memory in equal parts)
 *
 * VCUDA_CPU_BLOCK_MEMORY: bytes of local and shared memory and of stacks that all resident blocks have together
 * (default: 256M and 16M for each thread that runs kernels)
 *
 * VCUDA_CPU_COMPUTE: the compute capability that the device reports, e.g. 9.0 (default: 8.0). It decides which PTX
 * runs (architecture.h)
 *
 * VCUDA_CPU_THREADS: threads that run kernels, and multiprocessors that each device reports (default: the process's
 * CPUs)
 *
 * VCUDA_CPU_TIME_LIMIT: seconds that a kernel may run before it is stopped with CUDA_ERROR_LAUNCH_TIMEOUT, e.g. 2.5
 * (default: no limit)
 *
 * VCUDA_CPU_BOUNDS: pages: kernels may touch all of an allocation's 2 MiB granules, as on a GPU, whose memory is mapped
 * in such granules; exact: an access beside an allocation ends the kernel; check: each such access is logged, loads
 * give zeroes, stores are dropped, and code is slow (default: pages)
 *
 * VCUDA_CPU_CODE: auto: a program's PTX, and its machine code where there is no PTX; ptx: PTX alone; sass: machine code,
 * and PTX where there is none (default: auto)
 *
 * VCUDA_CPU_DUMP: an existing folder that gets the LLVM code and the object file of every kernel that is compiled
 */
#ifndef VCUDA_BACKEND_CPU_H
#define VCUDA_BACKEND_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "common/kernel-cache.h"
#include "protocol/compiler.h"
#include "protocol/turns.h"

struct vcuda_backend_ops;

const struct vcuda_backend_ops *vcuda_backend_cpu(void);

/*
 * The addresses that device memory is taken from, reserved by the first of this call and cuInit(). length 0: nothing
 * could be reserved.
 */
void vcuda_cpu_address_range(uint64_t *start, uint64_t *length);

/*
 * How many bytes the calling thread's next cuModuleLoadData() or cuLibraryLoadData() may read of its image. Without it
 * the image's own headers, or a PTX text's NUL, are trusted.
 */
void vcuda_cpu_set_image_bound(size_t bytes);

/*
 * Kernels are compiled by this compiler from now on; its processes call vcuda_cpu_compile(), a vcuda_compile. Called
 * before the first module is loaded. Without this call, kernels are compiled in this process without a limit.
 */
void vcuda_cpu_compile_with(const struct vcuda_compiler *compiler);
bool vcuda_cpu_compile(int module, const void *order, size_t order_bytes, void **result, size_t *result_bytes);

/*
 * A kernel may run for so many seconds, or for VCUDA_CPU_TIME_LIMIT if that is less. `refused` is called for each that
 * takes longer. Before cuInit().
 */
void vcuda_cpu_limit_kernels(uint64_t seconds, void (*refused)(void));

/*
 * From now on *to says which devices run something (protocol/cpu-devices.h). The calling process alone writes to it.
 * Before there is any work.
 */
void vcuda_cpu_tell_work(_Atomic uint32_t *to);

/* From now on work runs in the turns of the worker's VM. Before there is any work. */
void vcuda_cpu_turns(const struct vcuda_turns *to);

/*
 * Writes the contents of device memory to `fd`, an empty file, and returns the memory to the system. Memory that other
 * processes may have open stays. No work is under way, and none comes before vcuda_cpu_restore(). 0: the file belongs
 * to the back end until then; -errno: nothing has changed.
 */
int vcuda_cpu_release(int fd);

/* Reads device memory back, and closes the file. -errno: it could not be read, and may be asked for again. */
int vcuda_cpu_restore(void);

/* ---- `vcuda cache`: common/kernel-cache.h ---- */

vcuda_kernel_cache_look vcuda_cpu_cache_look;
vcuda_kernel_cache_file vcuda_cpu_cache_export, vcuda_cpu_cache_import;

#endif
