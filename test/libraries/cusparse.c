/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's cuSPARSE: a tridiagonal matrix times a vector. */
#include "check.h"

#include <cusparse.h>

enum { N = 1000 };

static int rows[N + 1], columns[3 * N];
static float values[3 * N], x[N], y[N];

static int fill(void)
{
	int count = 0;

	for (int i = 0; i < N; i++) {
		rows[i] = count;
		for (int j = i ? i - 1 : 0; j <= i + 1 && j < N; j++) {
			columns[count] = j;
			values[count++] = (float)number(3 * i + j);
		}
		x[i] = (float)number(i);
	}
	rows[N] = count;
	return count;
}

int main(void)
{
	int count = fill();
	const float one = 1, zero = 0;
	cusparseDnVecDescr_t in, out;
	cusparseSpMatDescr_t matrix;
	cusparseHandle_t sparse;
	float *dy = device_memory(sizeof(y));
	size_t bytes;

	OK(cusparseCreate(&sparse));
	OK(cusparseCreateCsr(&matrix, N, N, count, to_device(rows, sizeof(rows)), to_device(columns, sizeof(columns)),
			     to_device(values, sizeof(values)), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
			     CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
	OK(cusparseCreateDnVec(&in, N, to_device(x, sizeof(x)), CUDA_R_32F));
	OK(cusparseCreateDnVec(&out, N, dy, CUDA_R_32F));
	OK(cusparseSpMV_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, in, &zero, out, CUDA_R_32F,
				   CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
	OK(cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, in, &zero, out, CUDA_R_32F,
			CUSPARSE_SPMV_ALG_DEFAULT, device_memory(bytes + 1)));
	from_device(y, dy, sizeof(y));
	for (int i = 0; i < N; i++) {
		float sum = 0;

		for (int k = rows[i]; k < rows[i + 1]; k++)
			sum += values[k] * x[columns[k]];
		CHECK(y[i] == sum);
	}
	OK(cusparseDestroy(sparse));
	printf("cusparse: passed\n");
	return 0;
}
