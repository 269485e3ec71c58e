/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of each device. */
#include "devices.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID_BYTES 16
#define TEXT_BYTES 96

static void format(const CUuuid *uuid, char text[TEXT_BYTES])
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(text, TEXT_BYTES, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* NVML knows the same UUID by the bus id. */
static void compare_with_nvml(void *nvml, const char *id, const CUuuid *uuid)
{
	int (*by_id)(const char *, void **) =
		(int (*)(const char *, void **))dlsym(nvml, "nvmlDeviceGetHandleByPciBusId_v2");
	int (*uuid_of)(void *, char *, unsigned int) =
		(int (*)(void *, char *, unsigned int))dlsym(nvml, "nvmlDeviceGetUUID");
	char text[TEXT_BYTES], theirs[TEXT_BYTES];
	void *handle;

	CHECK(by_id && uuid_of);
	format(uuid, text);
	OK(by_id(id, &handle));
	OK(uuid_of(handle, theirs, sizeof(theirs)));
	CHECK(!strcmp(text, theirs));
}

static void *open_nvml(void)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void) = nvml ? (int (*)(void))dlsym(nvml, "nvmlInit_v2") : NULL;
	int (*count)(unsigned int *) = nvml ? (int (*)(unsigned int *))dlsym(nvml, "nvmlDeviceGetCount_v2") : NULL;
	unsigned int n = 0;

	CHECK(init && count);
	OK(init());
	OK(count(&n));
	CHECK((int)n >= device_count);
	return nvml;
}

void identity(void)
{
	char ids[MOST][ID_BYTES], name[TEXT_BYTES];
	CUuuid uuids[MOST];
	CUdevice dev;
	size_t bytes;
	void *nvml;
	int bus;

	open_devices();
	nvml = open_nvml();
	for (int i = 0; i < device_count; i++) {
		OK(cuDeviceGet(&dev, i));
		OK(cuDeviceGetName(name, sizeof(name), dev));
		OK(cuDeviceTotalMem_v2(&bytes, dev));
		CHECK(*name && bytes);
		OK(cuDeviceGetUuid_v2(&uuids[i], dev));
		OK(cuDeviceGetPCIBusId(ids[i], ID_BYTES, dev));
		OK(cuDeviceGetByPCIBusId(&dev, ids[i]));
		CHECK(dev == i);
		OK(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
		CHECK(bus == (int)strtol(strchr(ids[i], ':') + 1, NULL, 16));
		use(i);
		OK(cuCtxGetDevice(&dev));
		CHECK(dev == i);
		compare_with_nvml(nvml, ids[i], &uuids[i]);
		for (int j = 0; j < i; j++)
			CHECK(strcmp(ids[i], ids[j]) && memcmp(&uuids[i], &uuids[j], sizeof(uuids[i])) &&
			      devices[i].context != devices[j].context);
	}
	GIVES(cuDeviceGet(&dev, 77), CUDA_ERROR_INVALID_DEVICE);
}

/* The UUIDs of a new process's devices with such a value of CUDA_VISIBLE_DEVICES; NULL: without it. */
static int see(const char *value, CUuuid *uuids)
{
	struct seen {
		int count;
		CUuuid uuids[MOST];
	} *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, n;
	pid_t child;

	CHECK(seen != MAP_FAILED);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(!(value ? setenv("CUDA_VISIBLE_DEVICES", value, 1) : unsetenv("CUDA_VISIBLE_DEVICES")));
		OK(cuInit(0));
		OK(cuDeviceGetCount(&seen->count));
		for (int i = 0; i < seen->count && i < MOST; i++)
			OK(cuDeviceGetUuid_v2(&seen->uuids[i], i));
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	n = seen->count;
	memcpy(uuids, seen->uuids, sizeof(seen->uuids));
	munmap(seen, sizeof(*seen));
	return n;
}

static bool is_same(const CUuuid *a, const CUuuid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

void visible(void)
{
	CUuuid all[MOST], some[MOST];
	char one[TEXT_BYTES], other[TEXT_BYTES], both[2 * TEXT_BYTES];

	CHECK(see(NULL, all) >= 2);
	CHECK(see("1", some) == 1 && is_same(&some[0], &all[1]));
	CHECK(see("1,0", some) == 2 && is_same(&some[0], &all[1]) && is_same(&some[1], &all[0]));
	format(&all[0], one);
	format(&all[1], other);
	CHECK(see(other, some) == 1 && is_same(&some[0], &all[1]));
	snprintf(both, sizeof(both), "%s,%s", other, one);
	CHECK(see(both, some) == 2 && is_same(&some[0], &all[1]) && is_same(&some[1], &all[0]));
	/* Another process sees the same UUIDs, also after this one has ended. */
	CHECK(see(NULL, some) >= 2 && is_same(&some[0], &all[0]) && is_same(&some[1], &all[1]));
}
