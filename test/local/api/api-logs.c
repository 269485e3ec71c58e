/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's log for programs. */
#include "test/local/api.h"

#include <unistd.h>

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const void *prop);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t at, CUmemGenericAllocationHandle memory,
			    size_t offset, size_t size, unsigned long long flags);

static unsigned int told;

static void count_refusals(void *data, CUlogLevel level, char *message, size_t length)
{
	told += level == CU_LOG_LEVEL_ERROR && strlen(message) == length && strstr(message, data) != NULL;
}

void api_logs(void)
{
	static char name[] = "cuMulticastCreate", buffer[4096], file[4096], path[] = "/tmp/vcuda-logs-XXXXXX";
	CUlogsCallbackHandle callback;
	CUlogIterator start, again;
	size_t size = sizeof(buffer);
	FILE *f;

	CHECK(close(mkstemp(path)) == 0);
	OK(cuLogsCurrent(&start, 0));
	OK(cuLogsCurrent(&start, 1));
	GIVES(cuLogsRegisterCallback(NULL, NULL, &callback), CUDA_ERROR_INVALID_VALUE);
	OK(cuLogsRegisterCallback(count_refusals, name, &callback));
	again = start;
	OK(cuLogsDumpToMemory(&again, buffer, &size, 0));
	CHECK(size == 0 && !*buffer);
	OK(cuLogsDumpToMemory(&again, buffer, &size, 1));
	CHECK(size == 0 && again == start);
	/* a refusal is said once */
	GIVES(cuMulticastCreate(NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuMulticastCreate(NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(told == 1);
	size = 0;
	GIVES(cuLogsDumpToMemory(&again, buffer, &size, 0), CUDA_ERROR_INVALID_VALUE);
	size = 10;
	GIVES(cuLogsDumpToMemory(&again, buffer, &size, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(size == 0 && again == start);
	size = sizeof(buffer);
	OK(cuLogsDumpToMemory(&again, buffer, &size, 0));
	CHECK(size == strlen(buffer) && strstr(buffer, name) && buffer[size - 1] == '\n' && again == start + 1);
	OK(cuLogsDumpToFile(&start, path, 0));
	f = fopen(path, "r");
	CHECK(f && fread(file, 1, sizeof(file), f) == size && !memcmp(file, buffer, size) && start == again);
	fclose(f);
	remove(path);
	OK(cuLogsUnregisterCallback(callback));
	GIVES(cuLogsUnregisterCallback(callback), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMulticastBindMem(0, 0, 0, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(told == 1);
	size = sizeof(buffer);
	OK(cuLogsDumpToMemory(NULL, buffer, &size, 0));
	CHECK(strstr(buffer, name) && strstr(buffer, "cuMulticastBindMem"));
}
