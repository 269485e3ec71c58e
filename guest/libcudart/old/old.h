/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs of older toolkits see otherwise. One set of objects makes every libcudart: what differs is a number
 * (cudart_version), and which form of a function a name stands for. A form is named after the last library that has it
 * under the plain name: cudaMemAdvise_12. names.txt says which library has which.
 */
#ifndef CUDART_OLD_H
#define CUDART_OLD_H

#include "runtime.h"

/* Of the library: 12090 and the like. Generated. */
extern const int cudart_version;

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
