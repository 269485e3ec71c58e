/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's cuSOLVER, on NVIDIA's cuBLAS or ours: a system of equations through an LU decomposition, singular values. */
#include "check.h"

#include <cusolverDn.h>

static void equations(cusolverDnHandle_t solver)
{
	enum { N = 64 };
	double a[N * N], b[N], x[N], *da, *db, *work;
	int *pivots = device_memory(sizeof(int) * N), *info = device_memory(sizeof(int)), bytes, status;

	for (int i = 0; i < N * N; i++)
		a[i] = number(i) + (i % (N + 1) ? 0 : N);
	for (int i = 0; i < N; i++)
		b[i] = i;
	da = to_device(a, sizeof(a));
	db = to_device(b, sizeof(b));
	OK(cusolverDnDgetrf_bufferSize(solver, N, N, da, N, &bytes));
	work = device_memory(sizeof(double) * bytes);
	OK(cusolverDnDgetrf(solver, N, N, da, N, work, pivots, info));
	from_device(&status, info, sizeof(status));
	CHECK(status == 0);
	OK(cusolverDnDgetrs(solver, CUBLAS_OP_N, N, 1, da, N, pivots, db, N, info));
	from_device(x, db, sizeof(x));
	for (int row = 0; row < N; row++) {
		double sum = -b[row];

		for (int column = 0; column < N; column++)
			sum += a[column * N + row] * x[column];
		CHECK(fabs(sum) < 1e-10);
	}
}

static void singular_values(cusolverDnHandle_t solver)
{
	enum { M = 12, N = 9 };
	double a[M * N], u[M * M], vt[N * N], values[N], *da, *work, *du, *dvt, *dvalues;
	int *info = device_memory(sizeof(int)), elements, status;

	for (int i = 0; i < M * N; i++)
		a[i] = number(i);
	da = to_device(a, sizeof(a));
	du = device_memory(sizeof(u));
	dvt = device_memory(sizeof(vt));
	dvalues = device_memory(sizeof(values));
	OK(cusolverDnDgesvd_bufferSize(solver, M, N, &elements));
	work = device_memory(sizeof(double) * elements);
	OK(cusolverDnDgesvd(solver, 'A', 'A', M, N, da, M, dvalues, du, M, dvt, N, work, elements, NULL, info));
	from_device(&status, info, sizeof(status));
	CHECK(status == 0);
	from_device(u, du, sizeof(u));
	from_device(vt, dvt, sizeof(vt));
	from_device(values, dvalues, sizeof(values));
	for (int column = 0; column < N; column++) {
		CHECK(values[column] >= 0 && (!column || values[column] <= values[column - 1]));
		for (int row = 0; row < M; row++) {
			double sum = -a[column * M + row];

			for (int k = 0; k < N; k++)
				sum += u[k * M + row] * values[k] * vt[column * N + k];
			CHECK(fabs(sum) < 1e-10);
		}
	}
}

int main(void)
{
	cusolverDnHandle_t solver;

	OK(cusolverDnCreate(&solver));
	equations(solver);
	singular_values(solver);
	OK(cusolverDnDestroy(solver));
	printf("cusolver: passed\n");
	return 0;
}
