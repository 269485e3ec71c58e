/* SPDX-License-Identifier: Apache-2.0 */
#include "process/backend-load.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/trace-point.h"
#include "common/share.h"
#include "host/backend-cuda/backend-cuda.h"
#include "host/backend-cuda/ipc.h"
#include "host/sandbox/worker-files.h"
#include "memory/mapping.h"
#include "process/compiler.h"
#include "session/ledger.h"
#include "protocol/ipc/layout.h"

#define CPU_LIBRARY "libvcuda-cpu.so"

const char *const *worker_backend_folders(void)
{
	static char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = 0;
	return worker_library_folders(self);
}

/* There, else wherever the loader looks. */
static void *open_cpu_library(void)
{
	char path[PATH_MAX + 128];
	void *library = NULL;

	for (const char *const *folder = worker_backend_folders(); *folder && !library; folder++) {
		snprintf(path, sizeof(path), "%s" CPU_LIBRARY, *folder);
		if (access(path, R_OK) == 0)
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return library ? library : dlopen(CPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

/* While the software GPU has no thread yet, and so no thread holds a lock of the compiler. */
static bool start_compiler(void *library, struct worker_mappings *mappings, char *why, size_t size)
{
	vcuda_compile compile = (vcuda_compile)dlsym(library, "vcuda_cpu_compile");
	void (*use)(const struct vcuda_compiler *) =
		(void (*)(const struct vcuda_compiler *))dlsym(library, "vcuda_cpu_compile_with");
	int err = compile && use ? worker_compiler_start(compile, mappings) : -ENOSYS;

	if (err) {
		snprintf(why, size, "cannot start the process that starts compilers: %s", strerror(-err));
		return false;
	}
	use(&worker_compiler);
	return true;
}

static void kernel_takes_too_long(void)
{
	worker_ledger_refused(VCUDA_LEDGER_KERNEL_SECONDS);
}

static bool load_cpu(struct worker_backend *backend, struct worker_mappings *mappings, void **handle, char *why,
		     size_t size)
{
	void *library = *handle = open_cpu_library();
	const struct vcuda_backend_ops *(*get)(void) = NULL;
	void (*meter)(const struct vcuda_meter *);
	void (*turns)(const struct vcuda_turns *);
	void (*limit_kernels)(uint64_t, void (*)(void));

	if (library)
		get = (const struct vcuda_backend_ops *(*)(void))dlsym(library, "vcuda_backend_cpu");
	if (!get) {
		snprintf(why, size, "%s", dlerror());
		return false;
	}
	backend->ops = get();
	backend->count_memory = (void (*)(_Atomic uint64_t *))dlsym(library, "vcuda_cpu_count_memory");
	backend->tell_work = (void (*)(_Atomic uint32_t *))dlsym(library, "vcuda_cpu_tell_work");
	meter = (void (*)(const struct vcuda_meter *))dlsym(library, "vcuda_cpu_meter");
	if (meter)
		meter(&worker_ledger_meter);
	limit_kernels = (void (*)(uint64_t, void (*)(void)))dlsym(library, "vcuda_cpu_limit_kernels");
	if (limit_kernels)
		limit_kernels(worker_ledger_process_limit(VCUDA_LEDGER_KERNEL_SECONDS), kernel_takes_too_long);
	turns = (void (*)(const struct vcuda_turns *))dlsym(library, "vcuda_cpu_turns");
	if (turns && worker_ledger_turns())
		turns(worker_ledger_turns());
	backend->set_image_bound = (void (*)(size_t))dlsym(library, "vcuda_cpu_set_image_bound");
	backend->share_scope = (void (*)(bool (*)(pid_t)))dlsym(library, "vcuda_cpu_share_scope");
	backend->share_keeper = (void (*)(vcuda_share_exchange *))dlsym(library, "vcuda_cpu_share_keeper");
	backend->release = (int (*)(int))dlsym(library, "vcuda_cpu_release");
	backend->restore = (int (*)(void))dlsym(library, "vcuda_cpu_restore");
	return start_compiler(library, mappings, why, size);
}

/*
 * Where NVIDIA's driver puts device memory: what mmap() gives in the worker's address layout, and a fixed range near 8
 * GiB. Measured with driver 580; both hold no memory of a guest process unless it asks for these very addresses.
 */
static void cuda_ranges(struct worker_backend *backend)
{
	backend->ranges[backend->range_count++] = (struct vcuda_address_range){0x200000000, 0x200000000};
	backend->ranges[backend->range_count++] = (struct vcuda_address_range){
		VCUDA_WORKER_MMAP_LOWEST,
		VCUDA_WORKER_MMAP_START + VCUDA_WORKER_MMAP_LENGTH - VCUDA_WORKER_MMAP_LOWEST};
}

static void cpu_range(struct worker_backend *backend, void *library)
{
	void (*get)(uint64_t *, uint64_t *) =
		(void (*)(uint64_t *, uint64_t *))dlsym(library, "vcuda_cpu_address_range");

	if (get)
		get(&backend->ranges[0].start, &backend->ranges[0].length);
	backend->range_count = get && backend->ranges[0].length;
}

static bool init(struct worker_backend *backend, char *why, size_t size)
{
	CUresult result;
	int count = 0;

	vcuda_trace_point("worker: back end is loaded");
	result = backend->ops->cuInit(0);
	vcuda_trace_point("worker: back end is initialised");
	if (result == CUDA_SUCCESS)
		result = backend->ops->cuDeviceGetCount(&count);
	if (result == CUDA_SUCCESS && count > 0)
		return true;
	snprintf(why, size, "the driver reports error %d and %d devices", (int)result, count);
	return false;
}

/* A nested worker takes the address ranges of device memory from its host. */
static void nested_ranges(struct worker_backend *backend, CUresult (*host)(vcuda_host_info *info))
{
	vcuda_host_info info;

	if (host(&info) != CUDA_SUCCESS)
		return;
	memcpy(backend->ranges, info.ranges, sizeof(backend->ranges));
	backend->range_count = info.range_count;
}

/* Workers see no socket of another vcudad but the one that VCUDA_SOCKET names (host/sandbox/worker-files.c). */
static void say_own_driver(char *why, size_t size)
{
	size_t n = strlen(why);

	snprintf(why + n, size - n,
		 "; it is virtio-cuda's own, which needs /dev/vcuda, or a socket that VCUDA_SOCKET names in "
		 "vcudad's environment");
}

/*
 * An installation has our driver on the loader's path, where vcudad's default socket would be the worker's own daemon,
 * or another one that computes on this host.
 */
static bool has_host(void)
{
	const char *given = getenv("VCUDA_SOCKET");

	return (given && *given) || !access("/dev/vcuda", F_OK);
}

static bool load_cuda(struct worker_backend *backend, struct worker_mappings *mappings, char *why, size_t size)
{
	CUresult (*host)(vcuda_host_info * info);

	backend->ops = backend_cuda(&host, &worker_ledger_meter, why, size);
	if (backend->ops && host)
		worker_mappings_nest(mappings);
	if (backend->ops && host && !has_host()) {
		snprintf(why, size, "the libcuda.so.1 that the loader finds has no host");
		say_own_driver(why, size);
		backend->ops = NULL;
		return false;
	}
	if (!backend->ops || !init(backend, why, size)) {
		if (backend->ops && host)
			say_own_driver(why, size);
		backend->ops = NULL;
		return false;
	}
	backend->takes_turns = worker_ledger_turns();
	if (backend->takes_turns && !backend->ops->cuCtxRecordEvent) {
		snprintf(why, size,
			 "the driver cannot share a GPU (vcudad --share or --overcommit): it has no cuCtxRecordEvent(), "
			 "which came with driver 555 (CUDA 12.5)");
		backend->ops = NULL;
		return false;
	}
	if (!backend->takes_turns &&
	    worker_ledger_process_limit(VCUDA_LEDGER_KERNEL_SECONDS) != VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT)
		vcuda_log("--max-kernel-time has no effect here: on a GPU it counts only with --share");
	if (host)
		nested_ranges(backend, host);
	else
		cuda_ranges(backend);
	backend->share_scope = vcuda_share_scope;
	backend->share_keeper = vcuda_share_set_keeper;
	backend->has_shared = backend_has_shared;
	return true;
}

bool worker_backend_load(struct worker_backend *backend, struct worker_mappings *mappings, const char *which)
{
	bool try_cuda = strcmp(which, "cpu") != 0, try_cpu = strcmp(which, "cuda") != 0;
	void *library;
	char cuda_why[300] = "not asked for", cpu_why[300] = "not asked for";

	*backend = (struct worker_backend){0};
	worker_ledger_join();
	if (try_cuda && load_cuda(backend, mappings, cuda_why, sizeof(cuda_why)))
		return true;
	if (try_cpu && load_cpu(backend, mappings, &library, cpu_why, sizeof(cpu_why))) {
		if (init(backend, cpu_why, sizeof(cpu_why))) {
			cpu_range(backend, library);
			return true;
		}
		backend->ops = NULL;
	}
	vcuda_log("no usable back end: cuda: %s; cpu: %s. 'vcuda doctor' says what to install", cuda_why, cpu_why);
	return false;
}
