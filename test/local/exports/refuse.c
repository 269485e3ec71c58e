/* SPDX-License-Identifier: Apache-2.0 */
#include "exports.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* The limit's number of exports succeeds, and one more is refused; after a close there is room for another one. */
void limited(const char *most)
{
	int count = atoi(most), *fds = calloc((size_t)count, sizeof(*fds)), fd;
	CUmemGenericAllocationHandle handle;

	CHECK(fds);
	start();
	handle = make(granule());
	for (int n = 0; n < count; n++)
		fds[n] = export(handle);
	GIVES(cuMemExportToShareableHandle(&fd, handle, TYPE, 0), CUDA_ERROR_OUT_OF_MEMORY);
	close(fds[0]);
	while (cuMemExportToShareableHandle(&fd, handle, TYPE, 0) == CUDA_ERROR_OUT_OF_MEMORY)
		usleep(1000);
	OK(cuMemRelease(import(fd)));
	for (int n = 1; n < count; n++)
		close(fds[n]);
	close(fd);
	/* and so many allocations, whether descriptors hold them or not */
	for (int n = 1; n < count; n++)
		close(export(make(granule())));
	GIVES(cuMemExportToShareableHandle(&fd, make(granule()), TYPE, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemRelease(handle));
	close(export(make(granule())));
	free(fds);
}

/* The same descriptor in a process of the vcudad that serves the socket `other`. */
void elsewhere(const char *other)
{
	int fd;

	start();
	fd = export(make(granule()));
	OK(cuMemRelease(import(fd)));
	CHECK(setenv("VCUDA_SOCKET", other, 1) == 0);
	CHECK(run_again("refused", fd) == 0);
	OK(cuMemRelease(import(fd)));
}

void refused(const char *fd)
{
	CUmemGenericAllocationHandle handle;

	start();
	GIVES(cuMemImportFromShareableHandle(&handle, as_handle(atoi(fd)), TYPE), CUDA_ERROR_INVALID_VALUE);
	/* and its own are as before */
	OK(cuMemRelease(import(export(make(granule())))));
}

/* Looks into the pipe: another process may do so at the same time. */
static void read_pipe(int fd, void *contents, size_t bytes)
{
	int ends[2];

	CHECK(pipe(ends) == 0);
	CHECK(tee(fd, ends[1], bytes, 0) == (ssize_t)bytes);
	CHECK(read(ends[0], contents, bytes) == (ssize_t)bytes);
	close(ends[0]);
	close(ends[1]);
}

/* Prints what a descriptor names, and keeps it until it is told to go on. */
void show(void)
{
	uint8_t contents[64];
	int fd;

	start();
	fd = export(make(granule()));
	/* In a VM it is a file. */
	if (pread(fd, contents, sizeof(contents), 0) < 0)
		read_pipe(fd, contents, sizeof(contents));
	for (size_t n = 0; n < sizeof(contents); n++)
		printf("%02x", contents[n]);
	printf("\n");
	next();
	OK(cuMemRelease(import(fd)));
}

/* A file with what a descriptor of another VM or daemon names is none of ours. */
void forge(const char *contents)
{
	uint8_t bytes[64];
	int fd = memfd_create("forged", 0);
	char number[16];

	for (size_t n = 0; n < sizeof(bytes); n++) {
		char two[3] = {contents[2 * n], contents[2 * n + 1], 0};

		CHECK(two[0] && two[1]);
		bytes[n] = (uint8_t)strtoul(two, NULL, 16);
	}
	CHECK(write(fd, bytes, sizeof(bytes)) == sizeof(bytes));
	snprintf(number, sizeof(number), "%d", fd);
	refused(number);
}
