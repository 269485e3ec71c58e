/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of exported memory that outlive what exported it. Runs natively, too: the part that the first argument
 * names, or all parts that need no other argument.
 *
 * Where a part says "next?" it waits for a line on its standard input, or the end of that: who runs it on a vcudad sees
 * to it that workers of processes that have ended are gone, or that the memory is counted as it should.
 */
#ifndef TEST_LOCAL_EXPORTS_H
#define TEST_LOCAL_EXPORTS_H

#include "../api.h"

#define TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static inline void *as_handle(int fd)
{
	return (void *)(intptr_t)fd;
}

/* exports.c. The memory has `bytes` bytes, a multiple of the granularity. */
void next(void);
void start(void);
size_t granule(void);
CUmemGenericAllocationHandle make(size_t bytes);
CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes, int device);
void unmap(CUdeviceptr p, size_t bytes);
void fill(CUdeviceptr p, size_t bytes, uint32_t first);
void expect(CUdeviceptr p, size_t bytes, uint32_t first);
int export(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle import(int fd);

/* Runs `run` in another process, which sends back `count` descriptors and ends: by itself, or by SIGKILL. */
void in_another(void (*run)(int to, uint32_t argument), uint32_t argument, bool killed, int *fds, unsigned int count);

/* The program itself as another process, with the descriptor as its third argument. Returns its exit status. */
int run_again(char *part, int fd);

/* keep.c */
void exporter_exits(void);
void exporter_is_killed(void);
void taken_by_pidfd(void);
void taken_later(const char *fd);
void exported_twice(void);
void exporter_released(void);
void another_device(void);
void pool_exporter_exits(void);
void last_close(void);
void last_mapping(void);
void counted(void);

/* refuse.c */
void limited(const char *most);
void elsewhere(const char *other);
void refused(const char *fd);
void show(void);
void forge(const char *contents);

#endif
