/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the routines: blas-guest.c, which is generated, has the functions. */
#include <string.h>

#include "handle.h"

void blas_begin(struct blas_call *call, void *handle, unsigned int function, bool wide)
{
	call->handle = handle;
	call->function = function;
	call->count = 0;
	call->wide = wide;
	call->status = handle ? BLAS_SUCCESS : BLAS_NOT_INITIALIZED;
	call->result = NULL;
	call->info = NULL;
}

void blas_word(struct blas_call *call, uint64_t word)
{
	call->words[call->count++] = word;
}

static bool by_address(const struct blas_call *call)
{
	return call->handle && call->handle->pointer_mode == BLAS_POINTER_DEVICE;
}

void blas_scalar(struct blas_call *call, const void *scalar, unsigned int type, unsigned int numbers)
{
	uint64_t *words = &call->words[call->count];
	unsigned int reserved = numbers > 2 ? numbers : 2;

	call->count += reserved;
	memset(words, 0, reserved * sizeof(*words));
	if (!scalar && !call->status)
		call->status = BLAS_INVALID_VALUE;
	else if (by_address(call))
		words[0] = (uint64_t)(uintptr_t)scalar;
	else if (scalar)
		memcpy(words, scalar, vcuda_blas_bytes(type) * numbers);
}

void blas_optional_scalar(struct blas_call *call, const void *scalar, unsigned int type, unsigned int numbers)
{
	static const double zero[2];

	blas_scalar(call, scalar || by_address(call) ? scalar : zero, type, numbers);
}

void blas_result(struct blas_call *call, void *result, unsigned int type)
{
	call->result = result;
	call->result_type = type;
	if (!result && !call->status)
		call->status = BLAS_INVALID_VALUE;
	blas_word(call, by_address(call) ? (uint64_t)(uintptr_t)result : 0);
}

void blas_info(struct blas_call *call, int *info)
{
	call->info = info;
	if (!info && !call->status)
		call->status = BLAS_INVALID_VALUE;
}

bool blas_is_local(const struct blas_handle *handle)
{
	return handle && handle->pointer_mode == BLAS_POINTER_HOST;
}

int blas_local_rotg(const struct blas_handle *handle, int type, void *a, void *b, void *c, void *s)
{
	(void)handle;
	if (!a || !b || !c || !s)
		return BLAS_INVALID_VALUE;
	vcuda_blas_rotg(type, a, b, c, s);
	return BLAS_SUCCESS;
}

int blas_local_rotmg(const struct blas_handle *handle, int type, void *d1, void *d2, void *x1, const void *y1,
		     void *param)
{
	(void)handle;
	if (!d1 || !d2 || !x1 || !y1 || !param)
		return BLAS_INVALID_VALUE;
	vcuda_blas_rotmg(type, d1, d2, x1, y1, param);
	return BLAS_SUCCESS;
}

static unsigned int flags_of(const struct blas_call *call)
{
	return (call->handle->pointer_mode == BLAS_POINTER_DEVICE ? VCUDA_BLAS_DEVICE : 0) |
	       (call->wide ? VCUDA_BLAS_WIDE : 0) | (call->handle->atomics_mode ? VCUDA_BLAS_ATOMICS : 0) |
	       (unsigned int)call->handle->math_mode << VCUDA_BLAS_MATH_SHIFT;
}

static int send_and_wait(struct blas_call *call)
{
	const struct vcuda_blas_family *f = vcuda_blas_routines[call->function].family;
	uint64_t value[VCUDA_BLAS_VALUE_WORDS];
	CUresult result =
		cuVcudaBlasValue(call->handle->stream, call->function, flags_of(call), call->count, call->words, value);

	if (result == CUDA_SUCCESS)
		memcpy(call->result, value,
		       call->wide && f->gives_index ? sizeof(int64_t) : vcuda_blas_bytes(call->result_type));
	return blas_status(result);
}

/* The status that the call's arguments give, before it is sent. */
static int check(struct blas_call *call)
{
	const struct vcuda_blas_routine *r = &vcuda_blas_routines[call->function];
	int status = call->status ? call->status : vcuda_blas_check(r, call->words);

	if (call->info && call->handle)
		*call->info = status == BLAS_INVALID_VALUE ? -r->family->check(call->words) : 0;
	return status;
}

int blas_end(struct blas_call *call)
{
	int status = check(call);

	if (!status)
		status = blas_enter(call->handle->context);
	if (!status && call->result && !by_address(call))
		status = send_and_wait(call);
	else if (!status)
		status = blas_status(
			cuVcudaBlas(call->handle->stream, call->function, flags_of(call), call->count, call->words));
	blas_log_call(vcuda_blas_routines[call->function].name, status);
	return status;
}
