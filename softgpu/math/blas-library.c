/* SPDX-License-Identifier: Apache-2.0 */
#include "math/blas-library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "math/blas-call.h"
#include "common/log.h"

#define LIBRARY "libopenblas.so.0"

/* As CBLAS numbers options: cuBLAS's and these. */
enum { COLUMN_MAJOR = 102, NO_TRANS = 111, UPPER = 121, LOWER = 122, NON_UNIT = 131, LEFT = 141 };

/* Functions that are called by hand, of each type. */
enum type { S, D, C, Z, TYPES };
enum function { GEMM, TRMM, TRSM, GEQRF, ORMQR, FUNCTIONS };

static const char *const names[TYPES][FUNCTIONS] = {
	{"cblas_sgemm", "cblas_strmm", "cblas_strsm", "sgeqrf_", "sormqr_"},
	{"cblas_dgemm", "cblas_dtrmm", "cblas_dtrsm", "dgeqrf_", "dormqr_"},
	{"cblas_cgemm", "cblas_ctrmm", "cblas_ctrsm", "cgeqrf_", "cunmqr_"},
	{"cblas_zgemm", "cblas_ztrmm", "cblas_ztrsm", "zgeqrf_", "zunmqr_"}};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static void *library;
static void (*functions[TYPES][FUNCTIONS])(void);

static void *load(void)
{
	void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!opened) {
		vcuda_log("no cuBLAS for programs: %s (Debian: libopenblas0-pthread)", dlerror());
		return NULL;
	}
	for (unsigned int t = 0; t < TYPES; t++) {
		for (unsigned int f = 0; f < FUNCTIONS; f++) {
			functions[t][f] = (void (*)(void))dlsym(opened, names[t][f]);
			if (functions[t][f])
				continue;
			vcuda_log("no cuBLAS for programs: " LIBRARY " has no %s", names[t][f]);
			dlclose(opened);
			return NULL;
		}
	}
	return opened;
}

CUresult softgpu_blas_open(void)
{
	void *found;

	pthread_mutex_lock(&lock);
	if (!tried)
		library = load();
	tried = true;
	found = library;
	pthread_mutex_unlock(&lock);
	return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void (*softgpu_blas_function(uint32_t number))(void)
{
	static void *_Atomic found[VCUDA_BLAS_LIMIT];
	void *function = found[number];

	if (!function) {
		function = dlsym(library, softgpu_blas_calls[number].symbol);
		found[number] = function;
	}
	return (void (*)(void))function;
}

static enum type type_of(unsigned int type)
{
	return type == VCUDA_BLAS_R_32F ? S : type == VCUDA_BLAS_R_64F ? D : type == VCUDA_BLAS_C_32F ? C : Z;
}

void softgpu_gemm(unsigned int type, int op_a, int op_b, int64_t m, int64_t n, int64_t k, const void *alpha,
		  const void *a, int64_t lda, const void *b, int64_t ldb, const void *beta, void *c, int64_t ldc)
{
	enum type t = type_of(type);
	void (*f)(void) = functions[t][GEMM];

#define GEMM_OF(scalar, x, y)                                                                                          \
	((void (*)(int, int, int, int, int, int, scalar, const void *, int, const void *, int, scalar, void *,         \
		   int))f)(COLUMN_MAJOR, NO_TRANS + op_a, NO_TRANS + op_b, (int)m, (int)n, (int)k, x, a, (int)lda, b,  \
			   (int)ldb, y, c, (int)ldc)

	if (t == S)
		GEMM_OF(float, *(const float *)alpha, *(const float *)beta);
	else if (t == D)
		GEMM_OF(double, *(const double *)alpha, *(const double *)beta);
	else
		GEMM_OF(const void *, alpha, beta);
}

/* trmm and trsm have the same parameters. */
static void triangle(enum function which, unsigned int type, int side, int uplo, int op, int diag, int64_t m, int64_t n,
		     const void *alpha, const void *a, int64_t lda, void *b, int64_t ldb)
{
	enum type t = type_of(type);
	void (*f)(void) = functions[t][which];

#define TRIANGLE_OF(scalar, x)                                                                                         \
	((void (*)(int, int, int, int, int, int, int, scalar, const void *, int, void *, int))f)(                      \
		COLUMN_MAJOR, LEFT + side, LOWER - uplo, NO_TRANS + op, NON_UNIT + diag, (int)m, (int)n, x, a,         \
		(int)lda, b, (int)ldb)

	if (t == S)
		TRIANGLE_OF(float, *(const float *)alpha);
	else if (t == D)
		TRIANGLE_OF(double, *(const double *)alpha);
	else
		TRIANGLE_OF(const void *, alpha);
}

void softgpu_trmm(unsigned int type, int side, int uplo, int op, int diag, int64_t m, int64_t n, const void *alpha,
		  const void *a, int64_t lda, void *b, int64_t ldb)
{
	triangle(TRMM, type, side, uplo, op, diag, m, n, alpha, a, lda, b, ldb);
}

void softgpu_trsm(unsigned int type, int side, int uplo, int op, int diag, int64_t m, int64_t n, const void *alpha,
		  const void *a, int64_t lda, void *b, int64_t ldb)
{
	triangle(TRSM, type, side, uplo, op, diag, m, n, alpha, a, lda, b, ldb);
}

/* LAPACK is Fortran: all are addresses, and the lengths of strings come last. */
void softgpu_geqrf(unsigned int type, int64_t m, int64_t n, void *a, int64_t lda, void *tau, void *room,
		   int64_t room_size)
{
	int rows = (int)m, columns = (int)n, ld = (int)lda, size = (int)room_size, info;

	((void (*)(int *, int *, void *, int *, void *, void *, int *, int *))functions[type_of(type)][GEQRF])(
		&rows, &columns, a, &ld, tau, room, &size, &info);
}

void softgpu_ormqr(unsigned int type, int op, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
		   const void *tau, void *c, int64_t ldc, void *room, int64_t room_size)
{
	const char *trans = !op ? "N" : vcuda_blas_is_complex(type) ? "C" : "T";
	int rows = (int)m, columns = (int)n, reflectors = (int)k, ld_a = (int)lda, ld_c = (int)ldc;
	int size = (int)room_size, info;

	((void (*)(const char *, const char *, int *, int *, int *, const void *, int *, const void *, void *, int *,
		   void *, int *, int *, size_t, size_t))functions[type_of(type)][ORMQR])(
		"L", trans, &rows, &columns, &reflectors, a, &ld_a, tau, c, &ld_c, room, &size, &info, 1, 1);
}
