/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVTX: ranges and marks of the program (nvtx.c), and the functions by which the program's library tells of them
 * (nvtx-functions.c). All functions are for any thread.
 */
#ifndef VCUDA_LIBCUDA_NVTX_H
#define VCUDA_LIBCUDA_NVTX_H

#include <stdint.h>
#include <wchar.h>

/* Before the functions below. */
void libcuda_nvtx_begin(void);

/* Allocated copies of texts: NULL gives an empty one. NULL: there is no memory. */
char *libcuda_nvtx_copy(const char *text);
char *libcuda_nvtx_copy_wide(const wchar_t *text);
/* The text of NVTX's attributes of an event. */
char *libcuda_nvtx_name(const void *attributes);

/*
 * The domain is its name, or NULL: the default one. Each takes `name` over, which may be NULL. Results are those of
 * NVTX: the identifier of a range, or how many ranges of the domain were pushed by the thread before.
 */
void libcuda_nvtx_mark(const void *domain, char *name);
uint64_t libcuda_nvtx_start(const void *domain, char *name);
void libcuda_nvtx_end(uint64_t id);
int libcuda_nvtx_push(const void *domain, char *name);
int libcuda_nvtx_pop(const void *domain);

#endif
