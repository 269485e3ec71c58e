/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetExportTable: tables of functions that NVIDIA's own runtime and libraries ask the driver for, by UUID. Only what
 * they were seen to call does something; every other slot refuses. A table's first slot holds its size in bytes, except
 * in CONTEXT_LOCAL_STORAGE.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/request.h"
#include "module/compute-cache.h"
#include "core/device.h"
#include "core/hooks.h"
#include "module/enumerate.h"
#include "private/checkpoint-command.h"
#include "private/md2.h"
#include "stream/stream.h"
#include "core/storage.h"
#include "protocol/cuda-functions.h"

typedef void *slot;

#define FUNCTION(f) ((slot)(f))
#define SIZE(table) ((slot)sizeof(table))

static CUresult refuse(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- the runtime's interface, contexts ---- */

static CUresult primary_handle(CUcontext *context, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	*context = libcuda_context_handle(libcuda_context_primary(dev));
	return *context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Runtimes before CUDA 12 load what programs register as modules, by the wrapper of the fat binary; the rest was always
 * 0. */
static CUresult load_registered(CUmodule *module, const void *wrapper, void *unknown1, void *unknown2, size_t unknown3)
{
	return cuModuleLoadFatBinary(module, wrapper);
}

/* Runtimes call this when the program unregisters the wrapper. They have unloaded the module before. */
static CUresult forget_registered(const void *wrapper)
{
	return CUDA_SUCCESS;
}

/* Runtimes of CUDA 13.2 call it without arguments once the driver is initialized, and end if it fails. */
static CUresult begin_runtime(void)
{
	return libcuda_require_init();
}

static const slot cudart_interface[13] = {
	SIZE(cudart_interface),  FUNCTION(refuse), FUNCTION(primary_handle),  FUNCTION(refuse),
	FUNCTION(refuse),        FUNCTION(refuse), FUNCTION(load_registered), FUNCTION(forget_registered),
	FUNCTION(refuse),        FUNCTION(refuse), FUNCTION(refuse),          FUNCTION(refuse),
	FUNCTION(begin_runtime),
};

static CUresult current(CUcontext *context)
{
	CUresult result = libcuda_require_init();

	if (result == CUDA_SUCCESS)
		*context = libcuda_context_handle(libcuda_context_current());
	return result;
}

static const slot tools_tls[4] = {SIZE(tools_tls), FUNCTION(refuse), FUNCTION(current), FUNCTION(refuse)};

static const slot context_local_storage[4] = {
	FUNCTION(libcuda_storage_put),
	FUNCTION(libcuda_storage_delete),
	FUNCTION(libcuda_storage_get),
	FUNCTION(refuse),
};

/* Sets whether the context is of a special kind, with another one as its base. No context is. */
static CUresult check_context(CUcontext context, unsigned int *flag, CUcontext *base)
{
	if (flag)
		*flag = 0;
	return CUDA_SUCCESS;
}

static CUresult check_nothing(void)
{
	return CUDA_SUCCESS;
}

static const slot context_checks[4] = {SIZE(context_checks), FUNCTION(refuse), FUNCTION(check_context),
				       FUNCTION(check_nothing)};

/* ---- hooks of profilers ---- */

static void callbacks_by_function(void **enabled, size_t *count)
{
	*enabled = libcuda_runtime_switches;
	*count = LIBCUDA_RUNTIME_FUNCTIONS;
}

/* By domain: all off. */

static void callbacks_by_domain(void **enabled, size_t *count)
{
	static uint32_t off[64];

	*enabled = off;
	*count = sizeof(off) / sizeof(off[0]);
}

static CUresult context_number(CUcontext context, uint64_t *number)
{
	struct libcuda_context *c = context ? libcuda_context_find(context) : libcuda_context_current();

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	*number = c->number;
	return CUDA_SUCCESS;
}

static CUresult callback_stream_number(CUcontext context, CUstream stream, uint64_t *number)
{
	*number = libcuda_stream_number(libcuda_context_find(context), stream);
	return CUDA_SUCCESS;
}

static const slot callback_hooks[7] = {
	SIZE(callback_hooks),
	FUNCTION(libcuda_runtime_callback),
	FUNCTION(callbacks_by_function),
	FUNCTION(callback_stream_number),
	FUNCTION(context_number),
	FUNCTION(refuse),
	FUNCTION(callbacks_by_domain),
};

/* ---- the runtime asks whether driver and runtime were made for each other ---- */

static CUresult integrity(uint32_t version, uint64_t time, uint64_t out[2]);

static const slot integrity_check[3] = {SIZE(integrity_check), FUNCTION(integrity), FUNCTION(refuse)};

struct integrity_message {
	uint32_t driver_version, version, pid, thread;
	const void *cudart_interface, *integrity_check, *integrity;
	uint64_t time;
};

struct integrity_device {
	CUuuid uuid;
	int32_t domain, bus, device;
};

#define MAX_INTEGRITY_DEVICES 64

static CUresult integrity(uint32_t version, uint64_t time, uint64_t out[2])
{
	static const uint8_t key[LIBCUDA_MD2_BYTES] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
						       0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f};
	CUresult cuDriverGetVersion(int *);
	struct {
		struct integrity_message m;
		struct integrity_device devices[MAX_INTEGRITY_DEVICES];
	} all = {
		.m =
			{
				.version = version,
				.pid = (uint32_t)getpid(),
				.thread = (uint32_t)pthread_self(),
				.cudart_interface = cudart_interface,
				.integrity_check = integrity_check,
				.integrity = FUNCTION(integrity),
				.time = time,
			},
	};
	int count = libcuda_device_count(), driver_version;
	uint8_t digest[LIBCUDA_MD2_BYTES];

	if (version % 10 < 2) {
		out[0] = version % 10 ? 0x1841181c03cb675c : 0x3341181c03cb675c;
		out[1] = 0x8ed383aa1f4cd1e8;
		return CUDA_SUCCESS;
	}
	cuDriverGetVersion(&driver_version);
	all.m.driver_version = (uint32_t)driver_version;
	for (int i = 0; i < count && i < MAX_INTEGRITY_DEVICES; i++)
		all.devices[i] = (struct integrity_device){
			.uuid = libcuda_device_info_of(i)->uuid,
			.domain = libcuda_device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
			.bus = libcuda_device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
			.device = libcuda_device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
		};
	libcuda_hmac_md2(key, &all, sizeof(all.m) + (size_t)count * sizeof(all.devices[0]), digest);
	memcpy(out, digest, sizeof(digest));
	return CUDA_SUCCESS;
}

/* ---- for cuBLAS ---- */

/* An object that represents a stream: its handle. */
static CUresult stream_object(CUcontext context, CUstream stream, void **object, int per_thread)
{
	*object = per_thread ? LIBCUDA_PER_THREAD(stream) : stream;
	return CUDA_SUCCESS;
}

static CUresult stream_number(CUcontext context, void *object, uint64_t *number)
{
	CUresult cuStreamGetId(CUstream, unsigned long long *);
	unsigned long long id;
	CUresult result = cuStreamGetId(object, &id);

	if (result == CUDA_SUCCESS)
		*number = id;
	return result;
}

#define TOOLS_CONTEXT_SLOTS 56

static const slot *tools_context(void)
{
	static slot table[TOOLS_CONTEXT_SLOTS];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	if (!table[0]) {
		for (int i = 1; i < TOOLS_CONTEXT_SLOTS; i++)
			table[i] = FUNCTION(refuse);
		table[4] = FUNCTION(context_number);
		table[39] = FUNCTION(stream_number);
		table[51] = FUNCTION(stream_object);
		table[0] = SIZE(table);
	}
	pthread_mutex_unlock(&lock);
	return table;
}

/* Groups of processors: cuBLASLt crashes if the table is missing, and does without if it refuses. */
static const slot processor_map[8] = {
	SIZE(processor_map), FUNCTION(refuse), FUNCTION(refuse), FUNCTION(refuse),
	FUNCTION(refuse),    FUNCTION(refuse), FUNCTION(refuse), FUNCTION(refuse),
};

/* ---- for CUPTI, which without this does not report its version, which JAX needs. No tool works nevertheless ----
 */

static const slot tools[4] = {SIZE(tools), FUNCTION(refuse), FUNCTION(refuse), FUNCTION(refuse)};

/* ---- for cuFFT ---- */

/* Returns a truth value, and no CUresult: cuFFT reads it so. */
static int each_function(CUcontext context, CUmodule module, void (*take)(void *data, CUfunction function), void *data)
{
	return libcuda_for_each_function(module, take, data) == CUDA_SUCCESS;
}

static const slot module_functions[8] = {
	SIZE(module_functions), FUNCTION(refuse), FUNCTION(refuse), FUNCTION(refuse),
	FUNCTION(refuse),       FUNCTION(refuse), FUNCTION(refuse), FUNCTION(each_function),
};

/* ---- what NVRTC and nvJitLink ask ---- */

/* Were there no last slot, data that was loaded would be freed through another table. */
static const slot compute_cache[7] = {
	SIZE(compute_cache),
	FUNCTION(libcuda_compute_key),
	FUNCTION(libcuda_compute_key_free),
	FUNCTION(libcuda_compute_load),
	FUNCTION(libcuda_compute_store),
	FUNCTION(refuse),
	FUNCTION(libcuda_compute_free),
};

/* ---- the program cuda-checkpoint ---- */

static const slot checkpoint_command[8] = {
	SIZE(checkpoint_command), FUNCTION(refuse), FUNCTION(refuse), FUNCTION(refuse),
	FUNCTION(refuse),         FUNCTION(refuse), FUNCTION(refuse), FUNCTION(libcuda_checkpoint_command),
};

static const struct {
	uint8_t uuid[16];
	const void *table; /* NULL: tools_context() */
} tables[] = {
	{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9},
	 cudart_interface},
	{{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66},
	 callback_hooks},
	{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc}, tools_tls},
	{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93},
	 context_local_storage},
	{{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e},
	 context_checks},
	{{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2},
	 integrity_check},
	{{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2}, NULL},
	{{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca},
	 processor_map},
	{{0x7c, 0xb6, 0x3f, 0x9b, 0x9c, 0xa4, 0x8e, 0x42, 0xa4, 0x84, 0xbe, 0xb6, 0x6e, 0x6a, 0xed, 0x7f}, tools},
	{{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e},
	 module_functions},
	{{0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28},
	 compute_cache},
	{{0x69, 0xa2, 0x8e, 0x9f, 0x24, 0x49, 0x8b, 0x47, 0xb0, 0x30, 0xc5, 0xda, 0x33, 0x0e, 0xa4, 0xe9},
	 checkpoint_command},
	{VCUDA_PROFILE_TABLE_UUID, &libcuda_profile_table},
};

/* Works before cuInit. */
VCUDA_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *uuid)
{
	if (!table || !uuid)
		return CUDA_ERROR_INVALID_VALUE;
	*table = NULL;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !*table; i++)
		if (!memcmp(tables[i].uuid, uuid->bytes, sizeof(uuid->bytes)))
			*table = tables[i].table ? tables[i].table : tools_context();
	return *table ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
