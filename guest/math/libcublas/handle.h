/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of cuBLAS, whose whole state is in the guest, and calls. A call goes to the worker as one command, which is
 * queued unless its result goes to host memory. Programs have the types of NVIDIA's headers; here a handle is a pointer
 * and an enumeration an int.
 */
#ifndef CUBLAS_HANDLE_H
#define CUBLAS_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/blas-abi.h"
#include "protocol/blas-rotations.h"
#include "protocol/cuda-functions.h"
#include "status.h"

enum { BLAS_POINTER_HOST, BLAS_POINTER_DEVICE };

struct blas_handle {
	CUcontext context;
	CUstream stream;
	int pointer_mode, atomics_mode, math_mode, sm_count;
	int environment_mode, emulation_strategy; /* kept for queries only: no variable changes the computation */
	void *workspace;                          /* the program's; unused: the host's library has its own */
	size_t workspace_bytes;
};

/* A call under way: begin, the parameters in order, end. */
struct blas_call {
	struct blas_handle *handle;
	unsigned int function, count;
	bool wide;
	int status; /* of the arguments so far */
	void *result;
	unsigned int result_type;
	int *info;
	uint64_t words[VCUDA_BLAS_MAX_WORDS];
};

void blas_begin(struct blas_call *call, void *handle, unsigned int function, bool wide);
void blas_word(struct blas_call *call, uint64_t word);
/* Adds a parameter of `numbers` numbers of a type. */
void blas_scalar(struct blas_call *call, const void *scalar, unsigned int type, unsigned int numbers);
/* The same, for which NULL is a 0 in host memory. */
void blas_optional_scalar(struct blas_call *call, const void *scalar, unsigned int type, unsigned int numbers);
void blas_result(struct blas_call *call, void *result, unsigned int type);
void blas_info(struct blas_call *call, int *info);
/* Sends the call. Returns the function's status. */
int blas_end(struct blas_call *call);

/* Routines that need no worker where the numbers are the host's. */
bool blas_is_local(const struct blas_handle *handle);
int blas_local_rotg(const struct blas_handle *handle, int type, void *a, void *b, void *c, void *s);
int blas_local_rotmg(const struct blas_handle *handle, int type, void *d1, void *d2, void *x1, const void *y1,
		     void *param);

/* ---- logger.c ---- */

/* A line that a function was called, if the program wants such. */
void blas_log_call(const char *name, int status);

/* ---- generated for each version of the library ---- */

extern const int cublas_version;

#endif
