/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemHostRegister() of memory that the process shares with others already. */
#include "test/local/api.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHARED_PAGES 4
#define SHARED_WORDS (SHARED_PAGES * 1024)

/* Stores of a kernel to registered memory appear in each mapping of the file, and the other way round. */
static void share(int file, bool keep_open)
{
	uint32_t *all = mmap(NULL, SHARED_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	uint32_t *other = mmap(NULL, SHARED_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), *part;
	CUresult result;

	CHECK(all != MAP_FAILED && other != MAP_FAILED);
	if (!keep_open)
		close(file);
	for (int i = 0; i < SHARED_WORDS; i++)
		all[i] = (uint32_t)i;
	/* From the second page on: so it is seen where in the file a range is. */
	part = all + 1024;
	result = cuMemHostRegister_v2(part, 2048 * 4, CU_MEMHOSTREGISTER_DEVICEMAP);
	/* Without privileges no process can open a file that has no name and no descriptor. */
	if (result == CUDA_ERROR_NOT_SUPPORTED && !keep_open)
		return;
	OK(result);
	GIVES(cuMemHostRegister_v2(part, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	other[2000] = 5;
	api_step((CUdeviceptr)(uintptr_t)part, 7, 2048, NULL);
	OK(cuCtxSynchronize());
	for (uint32_t i = 0; i < SHARED_WORDS; i++) {
		uint32_t was = i == 2000 ? 5 : i;

		CHECK(other[i] == (i >= 1024 && i < 3072 ? was * 7 + 1 : was) && all[i] == other[i]);
	}
	OK(cuMemHostUnregister(part));
	GIVES(cuMemHostUnregister(part), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	/* The memory is still shared. */
	all[1024] = 99;
	CHECK(other[1024] == 99);
	OK(cuMemHostRegister_v2(part, 2048 * 4, 0));
	OK(cuMemHostUnregister(part));
	munmap(all, SHARED_PAGES * 4096);
	munmap(other, SHARED_PAGES * 4096);
	if (keep_open)
		close(file);
}

static int new_file(void)
{
	int file = memfd_create("api-memory", 0);

	CHECK(file >= 0 && ftruncate(file, SHARED_PAGES * 4096) == 0);
	return file;
}

void api_shared_memory(void)
{
	const char *name = "/vcuda-api-memory";
	char own[64];
	int file;

	share(new_file(), true);
	share(new_file(), false);
	/* An object with a name, by which it is found. */
	snprintf(own, sizeof(own), "%s-%d", name, (int)getpid());
	file = shm_open(own, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(file >= 0 && ftruncate(file, SHARED_PAGES * 4096) == 0);
	share(file, false);
	CHECK(shm_unlink(own) == 0);
}

/* Memory that only the device may read, and memory of another kind. */
void api_shared_memory_refused(void)
{
	int file = new_file();
	uint32_t *read_only = mmap(NULL, SHARED_PAGES * 4096, PROT_READ, MAP_SHARED, file, 0), *on_disk;
	char path[] = "api-memory-XXXXXX";

	CHECK(read_only != MAP_FAILED);
	GIVES(cuMemHostRegister_v2(read_only, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostRegister_v2(read_only, 4096, CU_MEMHOSTREGISTER_READ_ONLY));
	OK(cuMemHostUnregister(read_only));
	munmap(read_only, SHARED_PAGES * 4096);
	/* A file that became shorter than its mapping. */
	read_only = mmap(NULL, SHARED_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(read_only != MAP_FAILED && ftruncate(file, 4096) == 0);
	GIVES(cuMemHostRegister_v2(read_only, 8192, 0), CUDA_ERROR_INVALID_VALUE);
	munmap(read_only, SHARED_PAGES * 4096);
	close(file);
	file = mkstemp(path);
	CHECK(file >= 0 && unlink(path) == 0 && ftruncate(file, 4096) == 0);
	on_disk = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(on_disk != MAP_FAILED);
	/* Where the current folder is in memory this is as good as any other; natively it is up to the file system. */
	file = cuMemHostRegister_v2(on_disk, 4096, 0);
	CHECK(file == CUDA_SUCCESS || file == CUDA_ERROR_NOT_SUPPORTED);
}
