/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of NVTX. NVTX is a set of headers: each library that uses them looks for a tool in the file that
 * NVTX_INJECTION64_PATH names, and calls its InitializeInjectionNvtx2(). `vcuda run` names this library there. The
 * layouts are those of NVTX version 3. Domains and strings that are registered stay until the process ends.
 */
#include <stddef.h>

#include "trace/nvtx.h"
#include "trace/profile.h"

#define TABLE_CALLBACKS 1

typedef void (*any_function)(void);

struct callbacks {
	size_t bytes;
	/* `table`: of pointers to the places of functions. */
	int (*get_functions)(int module, any_function ***table, unsigned int *count);
};

enum module { MODULE_CORE = 1, MODULE_CUDA, MODULE_CUDART = 4, MODULE_CORE2, MODULE_SYNC };

/* `parameters`: eight bytes each, as the structures of CUPTI have them. `result` is NULL where there is none. */
static void tell(enum vcuda_nvtx_function function, const uint64_t *parameters, const void *result)
{
	const struct vcuda_profile_sink *sink =
		libcuda_profile_watched() & VCUDA_PROFILE_NVTX ? libcuda_profile_sink() : NULL;

	if (sink)
		sink->nvtx(function, parameters, result);
}

#define P(pointer) ((uint64_t)(uintptr_t)(pointer))
#define TELL(function, result, ...) tell(VCUDA_NVTX_##function, (const uint64_t[]){__VA_ARGS__}, result)

/* ---- ranges and marks ---- */

#define MARK(function, type, name)                                                                                     \
	static void function(type message)                                                                             \
	{                                                                                                              \
		libcuda_nvtx_mark(NULL, name(message));                                                                \
		TELL(function, NULL, P(message));                                                                      \
	}
#define START(function, type, name)                                                                                    \
	static uint64_t function(type message)                                                                         \
	{                                                                                                              \
		uint64_t id = libcuda_nvtx_start(NULL, name(message));                                                 \
                                                                                                                       \
		TELL(function, &id, P(message));                                                                       \
		return id;                                                                                             \
	}
#define PUSH(function, type, name)                                                                                     \
	static int function(type message)                                                                              \
	{                                                                                                              \
		int level = libcuda_nvtx_push(NULL, name(message));                                                    \
                                                                                                                       \
		TELL(function, &level, P(message));                                                                    \
		return level;                                                                                          \
	}

MARK(MarkA, const char *, libcuda_nvtx_copy)
MARK(MarkW, const wchar_t *, libcuda_nvtx_copy_wide)
MARK(MarkEx, const void *, libcuda_nvtx_name)
START(RangeStartA, const char *, libcuda_nvtx_copy)
START(RangeStartW, const wchar_t *, libcuda_nvtx_copy_wide)
START(RangeStartEx, const void *, libcuda_nvtx_name)
PUSH(RangePushA, const char *, libcuda_nvtx_copy)
PUSH(RangePushW, const wchar_t *, libcuda_nvtx_copy_wide)
PUSH(RangePushEx, const void *, libcuda_nvtx_name)

static void RangeEnd(uint64_t id)
{
	libcuda_nvtx_end(id);
	TELL(RangeEnd, NULL, id);
}

static int RangePop(void)
{
	int level = libcuda_nvtx_pop(NULL);

	TELL(RangePop, &level, 0);
	return level;
}

static void DomainMarkEx(const void *domain, const void *attributes)
{
	libcuda_nvtx_mark(domain, libcuda_nvtx_name(attributes));
	TELL(DomainMarkEx, NULL, P(domain), P(attributes));
}

static uint64_t DomainRangeStartEx(const void *domain, const void *attributes)
{
	uint64_t id = libcuda_nvtx_start(domain, libcuda_nvtx_name(attributes));

	TELL(DomainRangeStartEx, &id, P(domain), P(attributes));
	return id;
}

static void DomainRangeEnd(const void *domain, uint64_t id)
{
	libcuda_nvtx_end(id);
	TELL(DomainRangeEnd, NULL, P(domain), id);
}

static int DomainRangePushEx(const void *domain, const void *attributes)
{
	int level = libcuda_nvtx_push(domain, libcuda_nvtx_name(attributes));

	TELL(DomainRangePushEx, &level, P(domain), P(attributes));
	return level;
}

static int DomainRangePop(const void *domain)
{
	int level = libcuda_nvtx_pop(domain);

	TELL(DomainRangePop, &level, P(domain));
	return level;
}

/* ---- what is made ---- */

/* A function that gives an allocated copy of a text as the handle. The handle of a domain is its name. */
#define REGISTER(function, type, copy)                                                                                 \
	static void *function(const void *domain, type text)                                                           \
	{                                                                                                              \
		void *handle = copy(text);                                                                             \
                                                                                                                       \
		TELL(function, &handle, P(domain), P(text));                                                           \
		return handle;                                                                                         \
	}
#define CREATE(function, type, copy)                                                                                   \
	static void *function(type name)                                                                               \
	{                                                                                                              \
		void *handle = copy(name);                                                                             \
                                                                                                                       \
		TELL(function, &handle, P(name));                                                                      \
		return handle;                                                                                         \
	}

REGISTER(DomainRegisterStringA, const char *, libcuda_nvtx_copy)
REGISTER(DomainRegisterStringW, const wchar_t *, libcuda_nvtx_copy_wide)
CREATE(DomainCreateA, const char *, libcuda_nvtx_copy)
CREATE(DomainCreateW, const wchar_t *, libcuda_nvtx_copy_wide)

/* ---- what is only told ---- */

#define NAME(function, type)                                                                                           \
	static void function(type object, const void *name)                                                            \
	{                                                                                                              \
		TELL(function, NULL, P(object), P(name));                                                              \
	}
#define HANDLE(function)                                                                                               \
	static void function(const void *handle)                                                                       \
	{                                                                                                              \
		TELL(function, NULL, P(handle));                                                                       \
	}

NAME(NameCategoryA, uint32_t)
NAME(NameCategoryW, uint32_t)
NAME(NameOsThreadA, uint32_t)
NAME(NameOsThreadW, uint32_t)
NAME(NameCuDeviceA, uint32_t)
NAME(NameCuDeviceW, uint32_t)
NAME(NameCuContextA, const void *)
NAME(NameCuContextW, const void *)
NAME(NameCuStreamA, const void *)
NAME(NameCuStreamW, const void *)
NAME(NameCuEventA, const void *)
NAME(NameCuEventW, const void *)
NAME(NameCudaDeviceA, uint32_t)
NAME(NameCudaDeviceW, uint32_t)
NAME(NameCudaStreamA, const void *)
NAME(NameCudaStreamW, const void *)
NAME(NameCudaEventA, const void *)
NAME(NameCudaEventW, const void *)
HANDLE(DomainDestroy)

/* ---- the tables ---- */

#define F(at, function) [at] = (any_function)(function)

static const any_function core[] = {
	F(1, MarkEx),      F(2, MarkA),          F(3, MarkW),          F(4, RangeStartEx),   F(5, RangeStartA),
	F(6, RangeStartW), F(7, RangeEnd),       F(8, RangePushEx),    F(9, RangePushA),     F(10, RangePushW),
	F(11, RangePop),   F(12, NameCategoryA), F(13, NameCategoryW), F(14, NameOsThreadA), F(15, NameOsThreadW),
};

static const any_function cuda[] = {
	F(1, NameCuDeviceA), F(2, NameCuDeviceW), F(3, NameCuContextA), F(4, NameCuContextW),
	F(5, NameCuStreamA), F(6, NameCuStreamW), F(7, NameCuEventA),   F(8, NameCuEventW),
};

static const any_function cudart[] = {
	F(1, NameCudaDeviceA), F(2, NameCudaDeviceW), F(3, NameCudaStreamA),
	F(4, NameCudaStreamW), F(5, NameCudaEventA),  F(6, NameCudaEventW),
};

static const any_function core2[] = {
	F(1, DomainMarkEx),   F(2, DomainRangeStartEx),     F(3, DomainRangeEnd),         F(4, DomainRangePushEx),
	F(5, DomainRangePop), F(10, DomainRegisterStringA), F(11, DomainRegisterStringW), F(12, DomainCreateA),
	F(13, DomainCreateW), F(14, DomainDestroy),
};

/* The program's library may know fewer functions. */
static void subscribe(const struct callbacks *callbacks, enum module module, const any_function *ours, size_t count)
{
	any_function **table = NULL;
	unsigned int room = 0;

	if (!callbacks->get_functions(module, &table, &room) || !table)
		return;
	for (unsigned int i = 1; i < count && i < room; i++)
		if (ours[i] && table[i])
			*table[i] = ours[i];
}

#define SUBSCRIBE(module, table) subscribe(callbacks, module, table, sizeof(table) / sizeof((table)[0]))

bool libcuda_ranges_observe(const void *(*table_of)(uint32_t))
{
	const struct callbacks *callbacks = table_of(TABLE_CALLBACKS);

	if (!callbacks || callbacks->bytes < sizeof(*callbacks))
		return false;
	libcuda_nvtx_begin();
	SUBSCRIBE(MODULE_CORE, core);
	SUBSCRIBE(MODULE_CUDA, cuda);
	SUBSCRIBE(MODULE_CUDART, cudart);
	SUBSCRIBE(MODULE_CORE2, core2);
	return true;
}
