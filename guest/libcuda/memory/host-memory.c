/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/host-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/log.h"
#include "common/own-descriptor.h"
#include "core/node.h"
#include "guest/client/fork-guard.h"
#include "guest/client/section.h"
#include "memory/memory.h"

#define PAGE 4096ull
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
/* F_SEAL_EXEC, which older headers lack: the kernel adds it if vm.memfd_noexec says so. */
#define NO_EXECUTION 0x20

/* The page behind the memory. */
struct description {
	char magic[24];
	int32_t type, id;
	uint64_t bytes;
};

static const char magic[sizeof(((struct description *)0)->magic)] = "vcuda host memory 1";

struct libcuda_host_memory {
	struct vcuda_own_descriptor file;
	uint64_t bytes;
	struct libcuda_host_memory *next;
};

/* All host memory, for forks. A thread that changes the list holds off forks (guest/client/fork-guard.h). */
static struct libcuda_host_memory *all;

/* ---- nodes ---- */

bool libcuda_host_memory_has_place(const CUmemLocation *where)
{
	return where->type == CU_MEM_LOCATION_TYPE_HOST ||
	       (where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && libcuda_node_is_here(where->id));
}

/* New pages of the file come from the node where it has some left. A kernel without nodes has no such call. */
static void prefer_node(int fd, uint64_t bytes, int node)
{
	unsigned long mask[LIBCUDA_NODES / (8 * sizeof(unsigned long))] = {0};
	const unsigned int bits = 8 * sizeof(mask[0]);
	void *p = client_fork_map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);

	if (p == MAP_FAILED)
		return;
	mask[(unsigned int)node / bits] = 1ul << (unsigned int)node % bits;
	syscall(SYS_mbind, p, bytes, MPOL_PREFERRED, mask, LIBCUDA_NODES + 1, 0);
	munmap(p, bytes);
}

/* ---- forks ---- */

static void after_fork_in_child(void)
{
	for (struct libcuda_host_memory *m = all; m; m = m->next)
		vcuda_own_descriptor_close(&m->file);
	all = NULL;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* ---- files ---- */

static CUresult error_of(int err, uint64_t bytes)
{
	if (err == -EMFILE || err == -ENFILE)
		return libcuda_pinned_error(err, 0, bytes);
	if (err == -ENOSPC || err == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	vcuda_log("cannot make or open %llu bytes of memory of the host: %s", (unsigned long long)bytes,
		  strerror(-err));
	return CUDA_ERROR_OPERATING_SYSTEM;
}

/*
 * Opens the file anew: what one process sets of an open file (the mark of own-descriptor.h) would be set for all that
 * have it.
 */
static int reopen(int fd)
{
	char path[40];
	int copy;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	copy = open(path, O_RDWR | O_CLOEXEC);
	return copy < 0 ? -errno : copy;
}

/* A new file; with `from`, the file of that descriptor. */
static int open_file(const int *from)
{
	int fd;

	if (from)
		return reopen(*from);
	fd = memfd_create("vcuda-host", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

/* While forks are held off. 0 or -errno. */
static int open_held(struct libcuda_host_memory *m, const int *from)
{
	int fd = open_file(from), err = fd < 0 ? fd : vcuda_own_descriptor_take(&m->file, fd);

	if (err)
		return err;
	m->next = all;
	all = m;
	return 0;
}

/* With its file, in the list. libcuda_host_memory_free() ends it. */
static CUresult new_memory(uint64_t bytes, const int *from, struct libcuda_host_memory **memory)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct libcuda_host_memory *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_once(&once, watch_forks);
	m->bytes = bytes;
	client_fork_hold();
	err = open_held(m, from);
	client_fork_release();
	if (err) {
		free(m);
		return error_of(err, bytes);
	}
	*memory = m;
	return CUDA_SUCCESS;
}

/* All the pages are there from now on. 0 or -errno, as of fill_file(). */
static int fill_pages(int fd, uint64_t bytes)
{
	int result;

	do {
		result = fallocate(fd, 0, 0, (off_t)(bytes + PAGE));
	} while (result && errno == EINTR);
	return result ? -errno : 0;
}

static int fill_file(int fd, const CUmemLocation *where, uint64_t bytes)
{
	struct description d = {.type = where->type, .id = where->id, .bytes = bytes};
	int err;

	memcpy(d.magic, magic, sizeof(magic));
	if (ftruncate(fd, (off_t)(bytes + PAGE)))
		return -errno;
	if (where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		prefer_node(fd, bytes, where->id);
	err = fill_pages(fd, bytes);
	if (err)
		return err;
	if (pwrite(fd, &d, sizeof(d), (off_t)bytes) != sizeof(d) || fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
		return -errno;
	return 0;
}

/* `err`: what became of its pages. */
static CUresult finish(struct libcuda_host_memory *made, int err, struct libcuda_host_memory **memory)
{
	CUresult result = err ? error_of(err, made->bytes) : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS)
		*memory = made;
	else
		libcuda_host_memory_free(made);
	return result;
}

static CUresult create_guarded(const CUmemLocation *where, uint64_t bytes, struct libcuda_host_memory **memory)
{
	struct libcuda_host_memory *made;
	CUresult result = new_memory(bytes, NULL, &made);

	return result == CUDA_SUCCESS ? finish(made, fill_file(made->file.fd, where, bytes), memory) : result;
}

/* In a process that is locked no thread is in between, and none has the guard's lock. */
static int begin_guarded(void)
{
	client_section_enter();
	return vcuda_own_descriptor_guard();
}

static void end_guarded(int guarded)
{
	vcuda_own_descriptor_unguard(guarded);
	client_section_leave();
}

/* The kernel would take all that there is before it says that it is too much. */
static bool is_less_than_machine(uint64_t bytes)
{
	struct sysinfo machine;

	return !sysinfo(&machine) && bytes <= (uint64_t)machine.totalram * machine.mem_unit;
}

CUresult libcuda_host_memory_create(const CUmemLocation *where, uint64_t bytes, struct libcuda_host_memory **memory)
{
	CUresult result;
	int guarded;

	if (!is_less_than_machine(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	guarded = begin_guarded();
	result = create_guarded(where, bytes, memory);
	end_guarded(guarded);
	return result;
}

void libcuda_host_memory_free(struct libcuda_host_memory *memory)
{
	struct libcuda_host_memory **at = &all;
	int guarded = begin_guarded();

	client_fork_hold();
	while (*at && *at != memory)
		at = &(*at)->next;
	if (*at)
		*at = memory->next;
	vcuda_own_descriptor_close(&memory->file);
	client_fork_release();
	end_guarded(guarded);
	free(memory);
}

/* Says so if not. */
static bool is_there(const struct libcuda_host_memory *memory)
{
	if (vcuda_own_descriptor_is_there(&memory->file))
		return true;
	vcuda_log_once("the descriptor of memory of cuMemCreate() was closed by the program, or is another file's now: "
		       "the memory can be neither mapped nor exported");
	return false;
}

CUresult libcuda_host_memory_export(const struct libcuda_host_memory *memory, int *fd)
{
	int copy, guarded;

	if (!is_there(memory))
		return CUDA_ERROR_OPERATING_SYSTEM;
	guarded = begin_guarded();
	copy = reopen(memory->file.fd);
	end_guarded(guarded);
	if (copy < 0)
		return error_of(copy, memory->bytes);
	*fd = copy;
	return CUDA_SUCCESS;
}

/* The description of a file that begins with `bytes` of memory. Memory of HOST is not shared. */
static bool describe(int fd, struct description *d)
{
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);

	if ((seals & ~NO_EXECUTION) != (SEALS | F_SEAL_SEAL) || fstat(fd, &file) || file.st_size <= (off_t)PAGE)
		return false;
	return pread(fd, d, sizeof(*d), file.st_size - (off_t)PAGE) == sizeof(*d) &&
	       !memcmp(d->magic, magic, sizeof(magic)) && d->bytes == (uint64_t)file.st_size - PAGE &&
	       d->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && d->id >= 0 && d->id < LIBCUDA_NODES;
}

static CUresult import_guarded(int fd, uint64_t bytes, struct libcuda_host_memory **memory)
{
	struct libcuda_host_memory *made;
	CUresult result = new_memory(bytes, &fd, &made);

	return result == CUDA_SUCCESS ? finish(made, fill_pages(made->file.fd, bytes), memory) : result;
}

CUresult libcuda_host_memory_import(int fd, CUmemLocation *where, uint64_t *bytes, struct libcuda_host_memory **memory)
{
	struct description d;
	CUresult result;
	int guarded;

	if (!describe(fd, &d))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_less_than_machine(d.bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	guarded = begin_guarded();
	result = import_guarded(fd, d.bytes, memory);
	end_guarded(guarded);
	*bytes = d.bytes;
	*where = (CUmemLocation){(CUmemLocationType)d.type, d.id};
	return result;
}

CUresult libcuda_host_memory_map(const struct libcuda_host_memory *memory, uint64_t address)
{
	void *p = (void *)address;

	if (!is_there(memory))
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (client_fork_map(p, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->file.fd) ==
	    MAP_FAILED)
		return error_of(-errno, memory->bytes);
	return CUDA_SUCCESS;
}
