/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One type's calls of cuBLAS against plain C. The including file defines REAL; T(), which makes the type's names; and
 * ASUM() to GEMM(), which call the library in the form of its header. The numbers are so short that all sums are exact.
 */

static void T(vectors)(void)
{
	enum { N = 777, INCX = 2, INCY = 3 };
	static REAL x[N * INCX], y[N * INCY], out[N * INCY];
	REAL *dx, *dy, asum = 0, dot = 0, sum = 0, product = 0;

	for (int i = 0; i < N * INCX; i++)
		x[i] = (REAL)number(i);
	for (int i = 0; i < N * INCY; i++)
		y[i] = (REAL)number(10000 + i);
	dx = to_device(x, sizeof(x));
	dy = to_device(y, sizeof(y));
	for (int i = 0; i < N; i++) {
		sum += x[i * INCX] < 0 ? -x[i * INCX] : x[i * INCX];
		product += x[i * INCX] * y[i * INCY];
	}
	ASUM(N, dx, INCX, asum);
	DOT(N, dx, INCX, dy, INCY, dot);
	CHECK(asum == sum && dot == product);

	AXPY(N, (REAL)1.5, dx, INCX, dy, INCY);
	SCAL(N / 2, (REAL)-0.5, dy, INCY);
	for (int i = 0; i < N; i++)
		y[i * INCY] = (y[i * INCY] + (REAL)1.5 * x[i * INCX]) * (REAL)(i < N / 2 ? -0.5 : 1);
	from_device(out, dy, sizeof(out));
	CHECK(!memcmp(out, y, sizeof(y))); /* with the elements between them */

	COPY(N, dy, INCY, dx, INCX);
	for (int i = 0; i < N; i++)
		x[i * INCX] = y[i * INCY];
	from_device(out, dx, sizeof(x));
	CHECK(!memcmp(out, x, sizeof(x)));

	/* Every third of the host's to every second of the device's, and back in a row. */
	OK(cublasSetVector(N, sizeof(REAL), y + 1, INCY, dx + 1, INCX));
	memset(out, 0, sizeof(out));
	OK(cublasGetVector(N, sizeof(REAL), dx + 1, INCX, out, 1));
	for (int i = 0; i < N; i++)
		CHECK(out[i] == y[1 + i * INCY] && (i == 0 || out[N - 1 + i] == 0));
	OK(cudaFree(dx));
	OK(cudaFree(dy));
}

/* A device's matrix with `ld` numbers a column, and the host's that it came from, which has `rows`. */
static REAL *T(matrix)(REAL *host, int rows, int columns, int ld, int first)
{
	REAL *device = device_memory(sizeof(REAL) * (size_t)ld * columns);

	for (int i = 0; i < rows * columns; i++)
		host[i] = (REAL)number(first + i);
	OK(cudaMemset(device, 0xff, sizeof(REAL) * (size_t)ld * columns)); /* NaN between the columns */
	OK(cublasSetMatrix(rows, columns, sizeof(REAL), host, rows, device, ld));
	return device;
}

static void T(matrix_vector)(bool transposed)
{
	enum { M = 61, N = 45, LD = 70 };
	static REAL a[M * N], x[M], y[M], out[M];
	int terms = transposed ? M : N, results = transposed ? N : M;
	REAL *da = T(matrix)(a, M, N, LD, 0), *dx = T(matrix)(x, terms, 1, M, 4000),
	     *dy = T(matrix)(y, results, 1, M, 5000);

	GEMV(transposed, M, N, (REAL)2, da, LD, dx, 1, (REAL)-0.5, dy, 1);
	OK(cublasGetVector(results, sizeof(REAL), dy, 1, out, 1));
	for (int i = 0; i < results; i++) {
		REAL sum = 0;

		for (int j = 0; j < terms; j++)
			sum += (transposed ? a[i * M + j] : a[j * M + i]) * x[j];
		CHECK(out[i] == 2 * sum - y[i] / 2);
	}
	OK(cudaFree(da));
	OK(cudaFree(dx));
	OK(cudaFree(dy));
}

static void T(matrix_matrix)(bool ta, bool tb)
{
	enum { M = 37, N = 29, K = 53, LD = 64 };
	static REAL a[M * K], b[K * N], c[M * N], out[M * N];
	REAL *da = T(matrix)(a, ta ? K : M, ta ? M : K, LD, 0), *db = T(matrix)(b, tb ? N : K, tb ? K : N, LD, 3000),
	     *dc = T(matrix)(c, M, N, LD, 6000);

	GEMM(ta, tb, M, N, K, (REAL)-1.5, da, LD, db, LD, (REAL)0.25, dc, LD);
	OK(cublasGetMatrix(M, N, sizeof(REAL), dc, LD, out, M));
	for (int i = 0; i < M * N; i++) {
		int row = i % M, column = i / M;
		REAL sum = 0;

		for (int k = 0; k < K; k++)
			sum += (ta ? a[row * K + k] : a[k * M + row]) * (tb ? b[k * N + column] : b[column * K + k]);
		CHECK(out[i] == (REAL)-1.5 * sum + c[i] / 4);
	}
	OK(cudaFree(da));
	OK(cudaFree(db));
	OK(cudaFree(dc));
}

static void T(all)(void)
{
	T(vectors)();
	for (int i = 0; i < 4; i++) {
		if (i < 2)
			T(matrix_vector)(i == 1);
		T(matrix_matrix)(i & 1, i & 2);
	}
}

#undef REAL
#undef T
#undef F
