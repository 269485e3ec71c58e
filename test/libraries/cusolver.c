/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's cuSOLVER: a system of equations through an LU decomposition. */
#include "check.h"

#include <cusolverDn.h>

int main(void)
{
	enum { N = 64 };
	double a[N * N], b[N], x[N], *da, *db, *work;
	int *pivots = device_memory(sizeof(int) * N), *info = device_memory(sizeof(int)), bytes, status;
	cusolverDnHandle_t solver;

	for (int i = 0; i < N * N; i++)
		a[i] = number(i) + (i % (N + 1) ? 0 : N);
	for (int i = 0; i < N; i++)
		b[i] = i;
	da = to_device(a, sizeof(a));
	db = to_device(b, sizeof(b));
	OK(cusolverDnCreate(&solver));
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
	OK(cusolverDnDestroy(solver));
	printf("cusolver: passed\n");
	return 0;
}
