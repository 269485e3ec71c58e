/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS against plain C: blas [LIBRARY [ROUNDS [PART]]]. LIBRARY: what to open (libcublas.so.13); NVIDIA's own must
 * pass too. PART: one of those below.
 */
#include "blas.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-functions.h"

struct setting now;
void *blas_handle;
static void *library;
static char called[64];

void blas_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s (%s scalars): not so: %s\n", file, line, called,
		now.device_scalars ? "device's" : "host's", what);
	exit(1);
}

bool blas_has(const char *name)
{
	return dlsym(library, name);
}

void *blas_function(const char *name)
{
	char *to = called;
	bool narrow = *name == '~', plain = narrow || *name == '=';
	void *f;

	to = stpcpy(to, "cublas");
	for (name += plain; *name; name++) {
		if (*name == '*')
			*to++ = now.e->letter;
		else if (*name == '^')
			to = stpcpy(to, (const char *[]){"S", "D", "Sc", "Dz"}[now.e - elements]);
		else if (*name == '.')
			*to++ = (char)(now.e->letter + 'a' - 'A');
		else
			*to++ = *name;
	}
	to = stpcpy(to, plain ? "" : "_v2");
	strcpy(to, now.wide && !narrow ? "_64" : "");
	f = dlsym(library, called);
	CHECK(f);
	return f;
}

/* ---- operands ---- */

struct operand operand_new(int64_t length)
{
	struct operand o = {.e = now.e, .length = length};
	CUdeviceptr address;

	o.now = malloc(sizeof(cplx) * (size_t)length);
	o.before = malloc(sizeof(cplx) * (size_t)length);
	CHECK(o.now && o.before && !cuMemAlloc_v2(&address, (size_t)length * o.e->size));
	o.address = address;
	for (int64_t i = 0; i < length; i++)
		o.now[i] = random_number();
	operand_write(&o);
	return o;
}

struct operand vector_new(int64_t n, int64_t increment)
{
	return operand_new((n > 0 ? (n - 1) * llabs(increment) + 1 : 0) + 2);
}

void operand_write(struct operand *o)
{
	char *bytes = malloc((size_t)o->length * o->e->size + 4);

	CHECK(bytes);
	for (int64_t i = 0; i < o->length; i++) {
		number_store(o->e, bytes, i, o->now[i]);
		o->now[i] = number_load(o->e, bytes, i);
	}
	CHECK(!cuMemcpyHtoD_v2(o->address, bytes, (size_t)o->length * o->e->size));
	memcpy(o->before, o->now, sizeof(cplx) * (size_t)o->length);
	free(bytes);
}

void operand_read(struct operand *o)
{
	char *bytes = malloc((size_t)o->length * o->e->size + 4);

	CHECK(bytes && !cuMemcpyDtoH_v2(bytes, o->address, (size_t)o->length * o->e->size));
	for (int64_t i = 0; i < o->length; i++)
		o->before[i] = number_load(o->e, bytes, i);
	free(bytes);
}

void operand_check(struct operand *o, double scale, const char *what)
{
	operand_read(o);
	for (int64_t i = 0; i < o->length; i++) {
		if (number_is_close(o->e, o->before[i], o->now[i], scale))
			continue;
		fprintf(stderr, "element %lld of %lld: %g%+gi, not %g%+gi\n", (long long)i, (long long)o->length,
			creal(o->before[i]), cimag(o->before[i]), creal(o->now[i]), cimag(o->now[i]));
		blas_fail(__FILE__, __LINE__, what);
	}
}

void operand_free(struct operand *o)
{
	CHECK(!cuMemFree_v2(o->address));
	free(o->now);
	free(o->before);
}

int64_t at(int64_t i, int64_t n, int64_t increment)
{
	return increment < 0 ? (i - (n - 1)) * increment : i * increment;
}

#define ARRAYS 8
#define ARRAY 16

uint64_t address_array(const uint64_t *addresses, int64_t count)
{
	static CUdeviceptr arrays;
	static unsigned int next;
	CUdeviceptr here;

	CHECK(count <= ARRAY && (arrays || !cuMemAlloc_v2(&arrays, ARRAYS * ARRAY * 8)));
	here = arrays + next++ % ARRAYS * ARRAY * 8;
	CHECK(!count || !cuMemcpyHtoD_v2(here, addresses, (size_t)count * 8));
	return here;
}

/* ---- scalars and results ---- */

#define SLOTS 16
static CUdeviceptr slots; /* in device memory, 16 bytes each; the result's is behind them */
static uint64_t host_result[2];

static const void *place(const void *value)
{
	static uint64_t host[SLOTS][2];
	static unsigned int next;
	unsigned int i = next++ % SLOTS;

	memcpy(host[i], value, 16);
	if (!now.device_scalars)
		return host[i];
	CHECK(!cuMemcpyHtoD_v2(slots + 16 * i, value, 16));
	return (void *)(uintptr_t)(slots + 16 * i);
}

const void *scalar(cplx value)
{
	char bytes[32] = {0};

	number_store(now.e, bytes, 0, value);
	return place(bytes);
}

const void *real_scalar(double value)
{
	char bytes[16] = {0};
	float single = (float)value;

	memcpy(bytes, now.e->is_double ? (void *)&value : &single, now.e->is_double ? 8 : 4);
	return place(bytes);
}

/* Room for a few numbers; the next ones take other places. */
#define ROOMS 16
#define ROOM 128
static CUdeviceptr rooms;

void *numbers(const cplx *values, int count, bool real)
{
	static _Alignas(16) char host[ROOMS][ROOM];
	static unsigned int next;
	char *room = host[next++ % ROOMS];
	float single;

	memset(room, 0, ROOM);
	for (int i = 0; i < count && !real; i++)
		number_store(now.e, room, i, values[i]);
	for (int i = 0; i < count && real; i++) {
		double value = creal(values[i]);

		single = (float)value;
		memcpy(room + i * (now.e->is_double ? 8 : 4), now.e->is_double ? (void *)&value : &single,
		       now.e->is_double ? 8 : 4);
	}
	if (!now.device_scalars)
		return room;
	CHECK(!cuMemcpyHtoD_v2(rooms + (CUdeviceptr)(room - host[0]), room, ROOM));
	return (void *)(uintptr_t)(rooms + (CUdeviceptr)(room - host[0]));
}

cplx number_at(const void *where, int i, bool real)
{
	char room[ROOM];
	float single;
	double value;

	if (now.device_scalars)
		CHECK(!cuMemcpyDtoH_v2(room, (CUdeviceptr)(uintptr_t)where, ROOM));
	else
		memcpy(room, where, ROOM);
	if (!real)
		return number_load(now.e, room, i);
	memcpy(&single, room + i * 4, 4);
	memcpy(&value, room + (i < ROOM / 8 ? i * 8 : 0), 8);
	return now.e->is_double ? value : single;
}

void *result_room(void)
{
	static const uint64_t ones[2] = {UINT64_MAX, UINT64_MAX};

	memcpy(host_result, ones, 16);
	CHECK(!cuMemcpyHtoD_v2(slots + 16 * SLOTS, ones, 16));
	return now.device_scalars ? (void *)(uintptr_t)(slots + 16 * SLOTS) : host_result;
}

static void fetch_result(void)
{
	if (now.device_scalars)
		CHECK(!cuMemcpyDtoH_v2(host_result, slots + 16 * SLOTS, 16));
}

cplx result_value(bool real)
{
	float single;
	double value;

	fetch_result();
	if (!real)
		return number_load(now.e, host_result, 0);
	memcpy(&single, host_result, 4);
	memcpy(&value, host_result, 8);
	return now.e->is_double ? value : single;
}

int64_t result_index(void)
{
	int32_t narrow;

	fetch_result();
	memcpy(&narrow, host_result, 4);
	return now.wide ? (int64_t)host_result[0] : narrow;
}

/* ---- all of it ---- */

bool blas_is_software(void)
{
	char name[256];

	CHECK(!cuDeviceGetName(name, sizeof(name), 0));
	return strstr(name, "Software") != NULL;
}

static bool is_theirs;

bool blas_may_lack(void)
{
	return is_theirs || !blas_is_software();
}

static void start(const char *name)
{
	CUcontext context;
	CUstream stream;
	int (*create)(void **), (*set_stream)(void *, CUstream);

	CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	is_theirs = strchr(name, '/');
	library = dlopen(name, RTLD_NOW);
	if (!library)
		blas_fail(__FILE__, __LINE__, dlerror());
	create = (int (*)(void **))dlsym(library, "cublasCreate_v2");
	set_stream = (int (*)(void *, CUstream))dlsym(library, "cublasSetStream_v2");
	CHECK(create && set_stream && !create(&blas_handle) && blas_handle);
	CHECK(!cuStreamCreate(&stream, 0) && !set_stream(blas_handle, stream));
	CHECK(!cuMemAlloc_v2(&slots, 16 * (SLOTS + 1)) && !cuMemAlloc_v2(&rooms, ROOMS * ROOM));
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {{"level-1", test_level_1},     {"level-2", test_level_2},   {"level-3", test_level_3},
	     {"rotations", test_rotations}, {"matrices", test_matrices}, {"batches", test_batches},
	     {"types", test_types},         {"factors", test_factors}};

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 12;
	int (*set_mode)(void *, int);

	start(argc > 1 ? argv[1] : "libcublas.so.13");
	set_mode = (int (*)(void *, int))dlsym(library, "cublasSetPointerMode_v2");
	CHECK(set_mode);
	for (int i = 0; i < rounds * 8; i++) {
		/* Before CUDA 12 there are no _64. */
		now = (struct setting){&elements[i & 3], i & 4, i & 8 && blas_has("cublasSaxpy_v2_64")};
		CHECK(!set_mode(blas_handle, now.device_scalars));
		for (size_t j = 0; j < sizeof(parts) / sizeof(parts[0]); j++)
			if (argc < 4 || !strcmp(argv[3], parts[j].name))
				parts[j].run();
	}
	printf("blas: passed\n");
	return 0;
}
