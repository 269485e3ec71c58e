/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt against plain C: blas-lt [LIBRARY [ROUNDS [PART]]]. LIBRARY: what to open (libcublasLt.so.13); one with a
 * path is NVIDIA's own, which must pass too. PART: one of those below.
 */
#include "blas-lt.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-functions.h"

struct setting now;
struct lt_functions lt;
void *lt_handle, *lt_stream;
static bool is_theirs;

void blas_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s scalars: not so: %s\n", file, line, now.device_scalars ? "device's" : "host's",
		what);
	exit(1);
}

bool blas_is_software(void)
{
	char name[256];

	CHECK(!cuDeviceGetName(name, sizeof(name), 0));
	return strstr(name, "Software") != NULL;
}

bool lt_may_lack(void)
{
	return is_theirs || !blas_is_software();
}

int lt_status(int status)
{
	return !status && lt_may_lack() && cuCtxSynchronize() ? 7 : status;
}

/* ---- matrices ---- */

cplx *lt_at(const struct lt_matrix *m, int64_t which, int64_t i, int64_t j)
{
	return &m->now[which * m->stride + (m->by_rows ? i * m->ld + j : j * m->ld + i)];
}

cplx lt_op(const struct lt_matrix *m, int op, int64_t which, int64_t i, int64_t j)
{
	cplx value = op ? *lt_at(m, which, j, i) : *lt_at(m, which, i, j);

	return op == 2 ? conj(value) : value;
}

static void set_layout(struct lt_matrix *m)
{
	int order = m->by_rows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL, batch = (int)m->batch;

	CHECK(!lt.MatrixLayoutCreate(&m->layout, m->e->type, (uint64_t)m->rows, (uint64_t)m->columns, m->ld));
	CHECK(!lt.MatrixLayoutSetAttribute(m->layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order)));
	CHECK(!lt.MatrixLayoutSetAttribute(m->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)));
	CHECK(!lt.MatrixLayoutSetAttribute(m->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->stride,
					   sizeof(m->stride)));
}

struct lt_matrix lt_matrix_new(char letter, bool by_rows, int64_t rows, int64_t columns, int64_t batch)
{
	const struct element *before = now.e;
	int64_t length = by_rows ? columns : rows, runs = by_rows ? rows : columns;
	struct lt_matrix m = {.e = element_of(letter), .by_rows = by_rows, .rows = rows, .columns = columns};
	CUdeviceptr address;
	char *bytes;

	/* Multiples of 16 bytes are what NVIDIA's kernels like. */
	m.batch = batch;
	m.ld = (length + 15) / 16 * 16 + 16 * random_below(2);
	m.stride = batch > 1 ? m.ld * runs + 16 * random_below(2) : 0;
	m.length = (batch - 1) * m.stride + m.ld * runs + 16;
	m.now = malloc(sizeof(cplx) * (size_t)m.length);
	bytes = malloc((size_t)m.length * m.e->size);
	CHECK(m.now && bytes && !cuMemAlloc_v2(&address, (size_t)m.length * m.e->size));
	m.address = address;
	now.e = m.e;
	for (int64_t i = 0; i < m.length; i++) {
		number_store(m.e, bytes, i, random_number());
		m.now[i] = number_load(m.e, bytes, i);
	}
	now.e = before;
	CHECK(!cuMemcpyHtoD_v2(address, bytes, (size_t)m.length * m.e->size));
	free(bytes);
	set_layout(&m);
	return m;
}

cplx *lt_read(const struct lt_matrix *m)
{
	char *bytes = malloc((size_t)m->length * m->e->size);
	cplx *there = malloc(sizeof(cplx) * (size_t)m->length);

	CHECK(bytes && there && !cuCtxSynchronize());
	CHECK(!cuMemcpyDtoH_v2(bytes, m->address, (size_t)m->length * m->e->size));
	for (int64_t i = 0; i < m->length; i++)
		there[i] = number_load(m->e, bytes, i);
	free(bytes);
	return there;
}

void lt_check(const struct lt_matrix *m, double scale, double error, const char *what)
{
	cplx *there = lt_read(m);

	for (int64_t i = 0; i < m->length; i++) {
		if (number_is_close(m->e, there[i], m->now[i], scale) || cabs(there[i] - m->now[i]) <= error)
			continue;
		fprintf(stderr, "%c, %lld x %lld, ld %lld, by %s, element %lld of %lld: %g%+gi, not %g%+gi\n",
			m->e->letter, (long long)m->rows, (long long)m->columns, (long long)m->ld,
			m->by_rows ? "rows" : "columns", (long long)i, (long long)m->length, creal(there[i]),
			cimag(there[i]), creal(m->now[i]), cimag(m->now[i]));
		blas_fail(__FILE__, __LINE__, what);
	}
	free(there);
}

void lt_matrix_free(struct lt_matrix *m)
{
	CHECK(!cuMemFree_v2(m->address) && !lt.MatrixLayoutDestroy(m->layout));
	free(m->now);
}

/* ---- what goes along ---- */

const void *lt_scalar(cplx value)
{
	static _Alignas(16) char host[16][16];
	static CUdeviceptr device;
	static unsigned int next;
	unsigned int i = next++ % 16;

	CHECK(device || !cuMemAlloc_v2(&device, sizeof(host)));
	memset(host[i], 0, sizeof(host[i]));
	number_store(now.e, host[i], 0, value);
	if (!now.device_scalars)
		return host[i];
	CHECK(!cuMemcpyHtoD_v2(device + 16 * i, host[i], 16));
	return (void *)(uintptr_t)(device + 16 * i);
}

void lt_set_desc(void *desc, int attribute, int64_t value)
{
	size_t size;

	CHECK(!lt.MatmulDescGetAttribute(desc, attribute, NULL, 0, &size) && size <= sizeof(value));
	CHECK(!lt.MatmulDescSetAttribute(desc, attribute, &value, size));
}

static void start(const char *name)
{
	void *library = dlopen(name, RTLD_NOW);
	CUcontext context;
	CUstream stream;

	if (!library)
		blas_fail(__FILE__, __LINE__, dlerror());
	CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
#define LOAD(function)                                                                                                 \
	lt.function = (__typeof__(lt.function))dlsym(library, "cublasLt" #function);                                   \
	CHECK(lt.function)
#define LOAD_OBJECT(object)                                                                                            \
	LOAD(object##Init_internal);                                                                                   \
	LOAD(object##Create);                                                                                          \
	LOAD(object##Destroy);                                                                                         \
	LOAD(object##SetAttribute);                                                                                    \
	LOAD(object##GetAttribute)
	LOAD_OBJECT(MatmulDesc);
	LOAD_OBJECT(MatrixLayout);
	LOAD_OBJECT(MatmulPreference);
	LOAD_OBJECT(MatrixTransformDesc);
	LOAD(Create);
	LOAD(Destroy);
	LOAD(GetVersion);
	LOAD(GetCudartVersion);
	LOAD(GetProperty);
	LOAD(GetStatusName);
	LOAD(GetStatusString);
	LOAD(HeuristicsCacheGetCapacity);
	LOAD(HeuristicsCacheSetCapacity);
	LOAD(MatmulAlgoGetHeuristic);
	LOAD(MatmulAlgoGetIds);
	LOAD(MatmulAlgoInit);
	LOAD(MatmulAlgoCheck);
	LOAD(MatmulAlgoCapGetAttribute);
	LOAD(MatmulAlgoConfigSetAttribute);
	LOAD(MatmulAlgoConfigGetAttribute);
	LOAD(Matmul);
	LOAD(MatrixTransform);
	LOAD(LoggerSetCallback);
	LOAD(LoggerSetLevel);
	LOAD(LoggerSetMask);
	LOAD(LoggerForceDisable);
	CHECK(!lt.Create(&lt_handle) && lt_handle && !cuStreamCreate(&stream, 0));
	lt_stream = stream;
	is_theirs = strchr(name, '/');
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {{"descriptors", test_lt_descriptors}, {"algorithms", test_lt_algorithms},
	     {"products", test_lt_products},       {"epilogues", test_lt_epilogues},
	     {"quarters", test_lt_quarters},       {"transforms", test_lt_transforms}};

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 12;

	start(argc > 1 ? argv[1] : "libcublasLt.so.13");
	for (int i = 0; i < rounds * 8; i++) {
		now = (struct setting){&elements[i & 3], i & 4, false};
		for (size_t j = 0; j < sizeof(parts) / sizeof(parts[0]); j++)
			if (argc < 4 || !strcmp(argv[3], parts[j].name))
				parts[j].run();
	}
	CHECK(!lt.Destroy(lt_handle));
	printf("blas-lt: passed\n");
	return 0;
}
