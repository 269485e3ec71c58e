/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of programs that a test disturbs. The test reads a CUDA error as exit status 3 and a last line "CALL: CUDA
 * error NUMBER" on stdout. These programs end with exit status 2 for a wrong result.
 */
#ifndef TEST_LOCAL_CUDA_ERROR_H
#define TEST_LOCAL_CUDA_ERROR_H

#include <stdio.h>
#include <stdlib.h>

#include "protocol/cuda-abi.h"

static inline void no_cuda_error(CUresult result, const char *call)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("%s: CUDA error %d\n", call, (int)result);
	exit(3);
}

#define OK(call) no_cuda_error(call, #call)

#endif
