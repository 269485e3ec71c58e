/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "architecture.h"
#include "device/arena.h"
#include "device/group-limits.h"
#include "common/log.h"
#include "device/memory.h"
#include "device/schedule.h"
#include "device/time-limit.h"
#include "kernel.h"

#define MAX_WORKERS 1024

static struct softgpu_device device;
static bool initialised; /* atomic */

/* A number with an optional K, M or G behind it; 0 if the text is invalid. */
static uint64_t parse_bytes(const char *text)
{
	static const char units[] = "KMG";
	unsigned long long n;
	const char *unit;
	char *end;

	n = strtoull(text, &end, 10);
	if (end == text || *text == '-')
		return 0;
	if (*end == '\0')
		return n;
	unit = strchr(units, *end & ~0x20);
	if (!unit || end[1])
		return 0;
	for (; unit >= units; unit--) {
		if (n > UINT64_MAX >> 10)
			return 0;
		n <<= 10;
	}
	return n;
}

static uint64_t half_of_memory(void)
{
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t cap = softgpu_memory_limit("");

	return (ram < cap ? ram : cap) / 2;
}

static void choose_count(void)
{
	const char *text = getenv("VCUDA_CPU_DEVICES");

	device.count = vcuda_cpu_devices(text);
	if (device.count)
		return;
	vcuda_log("VCUDA_CPU_DEVICES=%s is not used: " VCUDA_CPU_DEVICES_ADVICE, text);
	device.count = 1;
}

static void choose_memory(void)
{
	const char *text = getenv("VCUDA_CPU_MEMORY");
	uint64_t bytes = text ? parse_bytes(text) : 0;

	/* Devices of more than 2 TiB together would not find their addresses; 1 MiB holds the smallest module. */
	if (text && (bytes < 1u << 20 || bytes > (1ull << 41) / device.count)) {
		vcuda_log("VCUDA_CPU_MEMORY=%s is not used: give bytes from 1M to %uG, e.g. VCUDA_CPU_MEMORY=4G", text,
			  2048 / device.count);
		bytes = 0;
	}
	device.memory = (bytes ? bytes : half_of_memory() / device.count) / 4096 * 4096;
}

/*
 * The blocks that a multiprocessor holds have 2 MiB of stacks and some of shared memory. The rest is local memory: one
 * block of 1024 threads may have 256 KiB each.
 */
#define BLOCK_MEMORY (256ull << 20)
#define BLOCK_MEMORY_OF_THREAD (16ull << 20)

static void choose_block_memory(void)
{
	const char *text = getenv("VCUDA_CPU_BLOCK_MEMORY");
	uint64_t bytes = text ? parse_bytes(text) : 0;

	if (text && (bytes < 16u << 20 || bytes > 1ull << 41)) {
		vcuda_log("VCUDA_CPU_BLOCK_MEMORY=%s is not used: give bytes from 16M to 2048G, "
			  "e.g. VCUDA_CPU_BLOCK_MEMORY=512M",
			  text);
		bytes = 0;
	}
	device.block_memory = bytes ? bytes : BLOCK_MEMORY + device.threads * BLOCK_MEMORY_OF_THREAD;
	ptx_limit_memory(device.block_memory);
}

static unsigned int allowed_cpus(void)
{
	cpu_set_t set;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned int)CPU_COUNT(&set);
	return online > 0 ? (unsigned int)online : 1;
}

static unsigned int usable_cpus(void)
{
	unsigned int allowed = allowed_cpus();
	uint64_t limit = softgpu_cpu_limit("");

	return limit < allowed ? (unsigned int)limit : allowed;
}

static void choose_threads(void)
{
	const char *text = getenv("VCUDA_CPU_THREADS");
	uint64_t n = text ? parse_bytes(text) : 0;

	if (text && (n < 1 || n > MAX_WORKERS)) {
		vcuda_log("VCUDA_CPU_THREADS=%s is not used: give a number from 1 to %d", text, MAX_WORKERS);
		n = 0;
	}
	device.threads = n ? (unsigned int)n : usable_cpus();
	if (device.threads > MAX_WORKERS)
		device.threads = MAX_WORKERS;
}

static void set_limits(void)
{
	const struct softgpu_limits *limits = softgpu_architecture_limits(device.architecture);

	device.most_shared = (size_t)limits->block_shared_kib << 10;
	device.sm_shared = (size_t)limits->shared_kib << 10;
	device.reserved_shared = softgpu_architecture_reserved_shared(device.architecture);
	device.shared_unit = softgpu_architecture_shared_unit(device.architecture);
	device.sm_parts = softgpu_architecture_parts(device.architecture);
	device.sm_threads = limits->threads;
	device.sm_blocks = limits->blocks;
	device.sm_registers = (unsigned int)limits->registers_k << 10;
	device.block_registers = (unsigned int)limits->block_registers_k << 10;
}

static void choose_compute(void)
{
	const char *text = getenv("VCUDA_CPU_COMPUTE");
	int major, minor, length = 0;

	device.architecture = SOFTGPU_DEFAULT_ARCHITECTURE;
	if (!text)
		return;
	if (sscanf(text, "%d.%d%n", &major, &minor, &length) != 2 || text[length] || major < 3 || major > 99 ||
	    minor < 0 || minor > 9) {
		vcuda_log("VCUDA_CPU_COMPUTE=%s is not used: give a compute capability, e.g. VCUDA_CPU_COMPUTE=9.0",
			  text);
		return;
	}
	device.architecture = (unsigned int)(10 * major + minor);
}

__attribute__((visibility("default"))) void vcuda_cpu_limit_kernels(uint64_t seconds, void (*refused)(void))
{
	if (seconds > UINT64_MAX / 1000000000)
		return;
	device.time_limit_ns = seconds * 1000000000;
	device.time_refused = refused;
}

/* Seconds. */
static void choose_time_limit(void)
{
	const char *text = getenv("VCUDA_CPU_TIME_LIMIT");
	double seconds;
	char *end;

	if (!text || !*text)
		return;
	seconds = strtod(text, &end);
	if (end == text || *end || !(seconds >= 0 && seconds <= 1e6)) {
		vcuda_log("VCUDA_CPU_TIME_LIMIT=%s is not used: give seconds, e.g. VCUDA_CPU_TIME_LIMIT=10", text);
		return;
	}
	/* 0: no limit of its own. */
	if (seconds > 0 && (!device.time_limit_ns || seconds * 1e9 < (double)device.time_limit_ns))
		device.time_limit_ns = (uint64_t)(seconds * 1e9);
}

static void choose_bounds(void)
{
	const char *text = getenv("VCUDA_CPU_BOUNDS");

	if (!text || !*text || !strcmp(text, "pages"))
		return;
	if (!strcmp(text, "exact"))
		device.bounds = SOFTGPU_BOUNDS_EXACT;
	else if (!strcmp(text, "check"))
		device.bounds = SOFTGPU_BOUNDS_CHECK;
	else
		vcuda_log("VCUDA_CPU_BOUNDS=%s is not used: choose pages, exact or check", text);
	if (device.bounds == SOFTGPU_BOUNDS_CHECK)
		ptx_check_accesses();
}

static void choose_faults(void)
{
	const char *text = getenv("VCUDA_CPU_FAULTS");

	if (!text || !*text || !strcmp(text, "device"))
		return;
	if (!strcmp(text, "context"))
		device.one_context = true;
	else
		vcuda_log("VCUDA_CPU_FAULTS=%s is not used: choose device or context", text);
}

static void choose_code(void)
{
	const char *text = getenv("VCUDA_CPU_CODE");

	if (!text || !*text || !strcmp(text, "auto"))
		return;
	if (!strcmp(text, "ptx"))
		device.code = SOFTGPU_CODE_PTX;
	else if (!strcmp(text, "sass"))
		device.code = SOFTGPU_CODE_SASS;
	else
		vcuda_log("VCUDA_CPU_CODE=%s is not used: choose auto, ptx or sass", text);
}

/* The compiler reads it (ptx-version.c). */
static void check_compile(void)
{
	const char *text = getenv("VCUDA_CPU_COMPILE");

	if (text && *text && strcmp(text, "auto") && strcmp(text, "quick") && strcmp(text, "standalone") &&
	    strcmp(text, "optimised"))
		vcuda_log("VCUDA_CPU_COMPILE=%s is not used: choose auto, quick, standalone or optimised", text);
}

/* The present clock of the first CPU, kHz, as a virtual machine reports it. 0: unknown. */
static int current_clock(void)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	double mhz = 0;
	char line[256];

	while (f && !mhz && fgets(line, sizeof(line), f))
		if (sscanf(line, "cpu MHz : %lf", &mhz) != 1)
			mhz = 0;
	if (f)
		fclose(f);
	return mhz > 0 && mhz < 1e6 ? (int)(mhz * 1000) : 0;
}

/* kHz, or 0 where the system does not say. */
static int clock_rate(void)
{
	int rate = 0;
	FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");

	if (!f)
		return current_clock();
	if (fscanf(f, "%d", &rate) != 1)
		rate = 0;
	fclose(f);
	return rate;
}

/* The largest cache of the first CPU, bytes. */
static int cache_size(void)
{
	int kib, largest = 0;
	char path[80];

	for (int i = 0; i < 8; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
		f = fopen(path, "re");
		if (!f)
			break;
		if (fscanf(f, "%dK", &kib) == 1 && kib > largest && kib < 1 << 20)
			largest = kib;
		fclose(f);
	}
	return largest << 10;
}

static void choose(void)
{
	device.clock_khz = clock_rate();
	device.cache_bytes = cache_size();
	choose_count();
	choose_memory();
	choose_threads();
	choose_block_memory();
	choose_compute();
	set_limits();
	choose_time_limit();
	choose_bounds();
	choose_faults();
	choose_code();
	check_compile();
	snprintf(device.name, sizeof(device.name), "vCUDA Software GPU (%u core%s)", device.threads,
		 device.threads == 1 ? "" : "s");
}

const struct softgpu_device *softgpu_device(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose);
	return &device;
}

bool softgpu_initialised(void)
{
	return __atomic_load_n(&initialised, __ATOMIC_ACQUIRE);
}

CUresult softgpu_device_check(CUdevice dev)
{
	if (!softgpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	return dev >= 0 && dev < (int)softgpu_device()->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/*
 * Before the process has threads that read the environment: OpenBLAS starts no threads of its own. Large products are
 * cut into pieces for the device's threads, so that no more threads run than the operator wants.
 */
static void limit_openblas(void)
{
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

CUresult softgpu_cuInit(unsigned Flags)
{
	uint64_t start, length;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	limit_openblas();
	softgpu_arena_range(&start, &length);
	if (length == 0)
		return CUDA_ERROR_NO_DEVICE; /* the log says why */
	if (!softgpu_workers_start() || !softgpu_time_limit_start()) {
		vcuda_log("cannot start a thread to run kernels on; raise the limit of processes (ulimit -u)");
		return CUDA_ERROR_NO_DEVICE;
	}
	__atomic_store_n(&initialised, true, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

/* The driver whose functions and behaviour this back end follows. */
CUresult softgpu_cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = CUDA_VERSION;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuDeviceGetCount(int *count)
{
	if (!softgpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)softgpu_device()->count;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuDeviceGet(CUdevice *dev, int ordinal)
{
	CUresult result = softgpu_device_check(ordinal);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dev)
		return CUDA_ERROR_INVALID_VALUE;
	*dev = ordinal;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "%s", softgpu_device()->name);
	return CUDA_SUCCESS;
}

/* Devices of other processes have the same: no process has two devices of one number. */
CUresult softgpu_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	static const unsigned char bytes[16] = {0x76, 0x63, 0x75, 0x64, 0x61, 0x2d, 0x80, 0x63,
						0x90, 0x75, 0x2d, 0x73, 0x6f, 0x66, 0x74, 0x30};
	CUresult result = softgpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(uuid->bytes, bytes, sizeof(uuid->bytes));
	uuid->bytes[15] = (char)(bytes[15] + dev);
	return CUDA_SUCCESS;
}

CUresult softgpu_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);
	uint64_t left;

	if (result != CUDA_SUCCESS)
		return result;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	softgpu_lock();
	*bytes = softgpu_memory_size(dev, &left);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	return pi ? softgpu_attribute(attrib, dev, pi) : CUDA_ERROR_INVALID_VALUE;
}

/* The device is on no bus: the address that the attributes give as well. A bus of its own tells devices apart. */
CUresult softgpu_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	char id[] = "0000:00:00.0";
	CUresult result = softgpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pciBusId || len < (int)sizeof(id))
		return CUDA_ERROR_INVALID_VALUE;
	id[6] = (char)('0' + dev);
	memcpy(pciBusId, id, sizeof(id));
	return CUDA_SUCCESS;
}
