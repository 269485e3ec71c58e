/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's cuFFT. */
#include "check.h"

#include <complex.h>
#include <cufft.h>

/* One value of the transform by its definition. */
static double complex transform(const float complex *x, int n, int k)
{
	double complex sum = 0;

	for (int j = 0; j < n; j++)
		sum += x[j] * cexp(-2 * M_PI * I * ((long)j * k % n) / n);
	return sum;
}

/* Forward against the definition, back against the start. */
static void one_dimension(int n, int batch)
{
	float complex *x = malloc(sizeof(*x) * n * batch), *y = malloc(sizeof(*y) * n * batch);
	double bound = 1e-6 * sqrt(n) * (log2(n) + 4);
	cufftComplex *d;
	cufftHandle plan;

	for (int i = 0; i < n * batch; i++)
		x[i] = (float)number(i) + (float)number(3 * i + 1) * I;
	d = to_device(x, sizeof(*x) * n * batch);
	OK(cufftPlan1d(&plan, n, CUFFT_C2C, batch));
	OK(cufftExecC2C(plan, d, d, CUFFT_FORWARD));
	from_device(y, d, sizeof(*y) * n * batch);
	for (int b = 0; b < batch; b++)
		for (int k = 0; k < n; k += 1 + n / 64)
			CHECK(cabs(y[b * n + k] - transform(x + b * n, n, k)) < bound);
	OK(cufftExecC2C(plan, d, d, CUFFT_INVERSE));
	from_device(y, d, sizeof(*y) * n * batch);
	for (int i = 0; i < n * batch; i++)
		CHECK(cabsf(y[i] / n - x[i]) < bound);
	OK(cufftDestroy(plan));
	OK(cudaFree(d));
	free(x);
	free(y);
}

/* Real, double precision, two dimensions. */
static void two_dimensions(void)
{
	enum { ROWS = 24, COLUMNS = 20, HALF = COLUMNS / 2 + 1 };
	double x[ROWS * COLUMNS];
	double complex y[ROWS * HALF];
	cufftDoubleComplex *d = device_memory(sizeof(y));
	cufftHandle plan;
	double *from;

	for (int i = 0; i < ROWS * COLUMNS; i++)
		x[i] = number(i);
	from = to_device(x, sizeof(x));
	OK(cufftPlan2d(&plan, ROWS, COLUMNS, CUFFT_D2Z));
	OK(cufftExecD2Z(plan, from, d));
	from_device(y, d, sizeof(y));
	for (int u = 0; u < ROWS; u++)
		for (int v = 0; v < HALF; v++) {
			double complex sum = 0;

			for (int i = 0; i < ROWS * COLUMNS; i++)
				sum += x[i] * cexp(-2 * M_PI * I *
						   ((double)(u * (i / COLUMNS)) / ROWS +
						    (double)(v * (i % COLUMNS)) / COLUMNS));
			CHECK(cabs(sum - y[u * HALF + v]) < 1e-10);
		}
	OK(cufftDestroy(plan));
}

int main(void)
{
	one_dimension(256, 3);
	one_dimension(1000, 2);
	one_dimension(97, 2); /* a prime */
	two_dimensions();
	printf("cufft: passed\n");
	return 0;
}
