/* SPDX-License-Identifier: Apache-2.0 */
/* The thread's last error. */
#include "error-number.h"

/* As the program gets it. */
static _Thread_local cudaError_t last_error;

cudaError_t cudart_record(cudaError_t error)
{
	cudaError_t number = cudart_number(error);

	if (error != cudaSuccess && error != cudaErrorNotReady)
		last_error = number;
	return number;
}

int cudart_fail(int error)
{
	return (int)cudart_record((cudaError_t)error);
}

/*
 * Forgets every error. One that leaves the context unusable comes back with the next call that reaches the driver: it
 * is the driver that remembers it.
 */
CUDART_API cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

CUDART_API cudaError_t cudaPeekAtLastError(void)
{
	return last_error;
}
