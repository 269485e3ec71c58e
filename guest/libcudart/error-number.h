/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that programs of a library know its errors by. Before CUDA 10.1 they were not the driver's. */
#ifndef CUDART_ERROR_NUMBER_H
#define CUDART_ERROR_NUMBER_H

#include "runtime.h"
#include "version.h"

/* The first with the driver's numbers for errors. */
#define VERSION_ERRORS 10010
#define OLD_ERROR_UNKNOWN 30

int old_error(cudaError_t error);

/* -1: no error has that number. */
cudaError_t old_error_today(int number);

/* A number as this library's programs know it, and back. */
static inline cudaError_t cudart_number(cudaError_t error)
{
	return cudart_version < VERSION_ERRORS ? (cudaError_t)old_error(error) : error;
}

static inline cudaError_t cudart_error_of(cudaError_t number)
{
	return cudart_version < VERSION_ERRORS ? old_error_today((int)number) : number;
}

#endif
