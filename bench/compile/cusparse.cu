/* SPDX-License-Identifier: Apache-2.0 */
/* cuSPARSE: a triangular system with several right sides (SpSM). */
#include <cusparse.h>

#include "check.h"

#define ROWS 512
#define SIDES 8

static void check_sparse(cusparseStatus_t status, int line)
{
	if (status == CUSPARSE_STATUS_SUCCESS)
		return;
	fprintf(stderr, "line %d: cuSPARSE error %d\n", line, (int)status);
	exit(1);
}
#define SPARSE(call) check_sparse(call, __LINE__)

int main(void)
{
	int *starts = managed<int>(ROWS + 1), *columns = managed<int>(2 * ROWS), count = 0;
	float *values = managed<float>(2 * ROWS), *right = managed<float>(ROWS * SIDES), *solved = managed<float>(ROWS * SIDES);
	const float one = 1;
	cusparseHandle_t handle;
	cusparseSpMatDescr_t matrix;
	cusparseDnMatDescr_t b, x;
	cusparseSpSMDescr_t system;
	cusparseFillMode_t fill = CUSPARSE_FILL_MODE_LOWER;
	cusparseDiagType_t diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
	size_t bytes;
	void *work;

	/* Each row has 2 on the diagonal and 1 to the left of it. */
	for (int row = 0; row < ROWS; row++) {
		starts[row] = count;
		if (row) {
			columns[count] = row - 1;
			values[count++] = 1;
		}
		columns[count] = row;
		values[count++] = 2;
	}
	starts[ROWS] = count;
	for (int n = 0; n < ROWS * SIDES; n++)
		right[n] = n % 17;
	SPARSE(cusparseCreate(&handle));
	SPARSE(cusparseCreateCsr(&matrix, ROWS, ROWS, count, starts, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
				 CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
	SPARSE(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof(fill)));
	SPARSE(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof(diagonal)));
	SPARSE(cusparseCreateDnMat(&b, ROWS, SIDES, ROWS, right, CUDA_R_32F, CUSPARSE_ORDER_COL));
	SPARSE(cusparseCreateDnMat(&x, ROWS, SIDES, ROWS, solved, CUDA_R_32F, CUSPARSE_ORDER_COL));
	SPARSE(cusparseSpSM_createDescr(&system));
	SPARSE(cusparseSpSM_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, b, x,
				       CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, system, &bytes));
	CHECK(cudaMalloc(&work, bytes));
	SPARSE(cusparseSpSM_analysis(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, b, x,
				     CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, system, work));
	SPARSE(cusparseSpSM_solve(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, b, x,
				  CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, system));
	CHECK(cudaDeviceSynchronize());
	for (int side = 0; side < SIDES; side++)
		for (int row = 0; row < ROWS; row++) {
			float before = row ? solved[side * ROWS + row - 1] : 0, left = 2 * solved[side * ROWS + row] + before;

			expect(left > right[side * ROWS + row] - 1e-2f && left < right[side * ROWS + row] + 1e-2f, "solution");
		}
	return 0;
}
