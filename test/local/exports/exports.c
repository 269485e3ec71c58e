/* SPDX-License-Identifier: Apache-2.0 */
#include "exports.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../send-file.h"

void next(void)
{
	char line[16];

	printf("next?\n");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin))
		CHECK(line[0] == '\n');
}

void start(void)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
}

static CUmemAllocationProp prop_of(int device)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = TYPE,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

size_t granule(void)
{
	CUmemAllocationProp prop = prop_of(0);
	size_t bytes;

	OK(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	return bytes;
}

CUmemGenericAllocationHandle make(size_t bytes)
{
	CUmemAllocationProp prop = prop_of(0);
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes, int device)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr p;

	OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
	OK(cuMemMap(p, bytes, 0, handle, 0));
	OK(cuMemSetAccess(p, bytes, &access, 1));
	return p;
}

void unmap(CUdeviceptr p, size_t bytes)
{
	OK(cuMemUnmap(p, bytes));
	OK(cuMemAddressFree(p, bytes));
}

void fill(CUdeviceptr p, size_t bytes, uint32_t first)
{
	uint32_t *data = malloc(bytes);

	CHECK(data);
	for (size_t n = 0; n < bytes / 4; n++)
		data[n] = first + (uint32_t)n * 2654435761u;
	OK(cuMemcpyHtoD_v2(p, data, bytes));
	free(data);
}

void expect(CUdeviceptr p, size_t bytes, uint32_t first)
{
	uint32_t *data = calloc(1, bytes);

	CHECK(data);
	OK(cuMemcpyDtoH_v2(data, p, bytes));
	for (size_t n = 0; n < bytes / 4; n++)
		CHECK(data[n] == first + (uint32_t)n * 2654435761u);
	free(data);
}

int export(CUmemGenericAllocationHandle handle)
{
	int fd;

	OK(cuMemExportToShareableHandle(&fd, handle, TYPE, 0));
	CHECK(fd > 2);
	return fd;
}

CUmemGenericAllocationHandle import(int fd)
{
	CUmemGenericAllocationHandle handle;

	OK(cuMemImportFromShareableHandle(&handle, as_handle(fd), TYPE));
	return handle;
}

void in_another(void (*run)(int to, uint32_t argument), uint32_t argument, bool killed, int *fds, unsigned int count)
{
	int ends[2], status;
	pid_t pid;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(ends[0]);
		start();
		run(ends[1], argument);
		if (killed)
			raise(SIGKILL);
		exit(0);
	}
	close(ends[1]);
	for (unsigned int n = 0; n < count; n++) {
		fds[n] = receive_file(ends[0]);
		CHECK(fds[n] >= 0);
	}
	close(ends[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WIFEXITED(status) && !WEXITSTATUS(status));
}

int run_again(char *part, int fd)
{
	char number[16];
	char *arguments[] = {"exports", part, number, NULL};
	int status;
	pid_t pid;

	snprintf(number, sizeof(number), "%d", fd);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		fcntl(fd, F_SETFD, 0);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execv("/proc/self/exe", arguments);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const struct part {
	const char *name;
	void (*run)(void);
	bool by_itself;
} parts[] = {
	{"exits", exporter_exits, true},  {"killed", exporter_is_killed, true},
	{"pidfd", taken_by_pidfd, true},
	{"twice", exported_twice, true},  {"released", exporter_released, true},
	{"device", another_device, true}, {"pool", pool_exporter_exits, true},
	{"close", last_close, true},      {"mapping", last_mapping, true},
	{"counted", counted, false},      {"show", show, false},
};

static const struct part_with_argument {
	const char *name;
	void (*run)(const char *argument);
} parts_with_argument[] = {
	{"later", taken_later}, {"limited", limited}, {"elsewhere", elsewhere}, {"refused", refused}, {"forge", forge}};

/* Each in a process of its own, which has not initialised CUDA: parts fork. */
static void run_part(const struct part *part)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		part->run();
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status) {
		fprintf(stderr, "exports: %s failed (%d)\n", part->name, status);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	bool found = false;

	for (size_t n = 0; n < sizeof(parts) / sizeof(parts[0]) && argc < 3; n++)
		if (argc == 2 ? !strcmp(argv[1], parts[n].name) : parts[n].by_itself) {
			run_part(&parts[n]);
			found = true;
		}
	for (size_t n = 0; n < sizeof(parts_with_argument) / sizeof(parts_with_argument[0]) && argc == 3; n++)
		if (!strcmp(argv[1], parts_with_argument[n].name)) {
			parts_with_argument[n].run(argv[2]);
			found = true;
		}
	if (!found)
		return 2;
	printf("exports: passed\n");
	return 0;
}
