/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request.h"

#include <pthread.h>

#include "core/output.h"
#include "core/thread.h"
#include "common/log.h"
#include "protocol/calls.h"

static const struct call_options no_options;

static CUresult result_of(int error)
{
	switch (error) {
	case CALL_NOT_CONNECTED:
		return CUDA_ERROR_NOT_INITIALIZED;
	case CALL_TOO_LARGE:
	case CALL_MALFORMED:
		return CUDA_ERROR_INVALID_VALUE;
	case CALL_UNKNOWN:
		return CUDA_ERROR_NOT_SUPPORTED;
	case CALL_NOT_DRAINED:
		return CUDA_ERROR_NOT_READY;
	default:
		return (CUresult)error;
	}
}

static struct libcuda_context *context_of(struct call_context *calls)
{
	return calls ? libcuda_context_of_calls(calls) : NULL;
}

CUresult libcuda_request_begin(struct client_call *call, const struct call_options *options, unsigned int op,
			       size_t bytes)
{
	struct libcuda_context *context = libcuda_request_context(options);
	const struct libcuda_mirror_ops *mirrors = libcuda_mirror_ops();

	/* begin() and submit() set the other members. */
	call->options = options ? options : &no_options;
	call->context = context ? &context->calls : NULL;
	call->thread = &libcuda_thread()->calls;
	call->queue = NULL;
	call->launches = op == VCUDA_OP_vcudaLaunchKernel || op == VCUDA_OP_vcudaGraphLaunch;
	if (mirrors && !call->options->internal)
		mirrors->before(op, context);
	return result_of(client_call_begin(call, op, bytes));
}

void libcuda_request_confirmed(struct libcuda_context *context)
{
	struct libcuda_thread *t = libcuda_thread();

	t->confirmed_context = context;
	t->confirmed_at = libcuda_ticks();
}

/* With the worker's answer. */
static void note_answer(const struct client_call *call)
{
	struct libcuda_context *context = context_of(call->context);

	if (context && vcuda_is_sticky((CUresult)call->result))
		atomic_store(&context->error, call->result);
	if (vcuda_call_table[call->op].waits && (call->result == CUDA_SUCCESS || call->result == CUDA_ERROR_NOT_READY))
		libcuda_request_confirmed(context);
}

CUresult libcuda_request_submit(struct client_call *call)
{
	int result = client_call_submit(call);

	if (call->sync && result == call->result)
		note_answer(call);
	return result_of(result);
}

CUresult libcuda_request_check(struct client_call *call)
{
	if (vcuda_reader_finished(&call->reader))
		return CUDA_SUCCESS;
	vcuda_log_once("the worker's answer to a call does not decode; host and guest may be of different builds");
	return CUDA_ERROR_UNKNOWN;
}

/* A thread that is cancelled while it writes output would keep the locks of the output and of stdout. */
static void follow_answer(const struct client_call *call, const struct libcuda_mirror_ops *mirrors)
{
	struct vcuda_shm *shm = client_call_shm();
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	/* Text that the worker printed before its answer precedes text that the application prints next. */
	if (libcuda_output_is_due(shm))
		libcuda_output_forward(shm);
	if (mirrors)
		mirrors->after(call->op, context_of(call->context), call->options->wait, (CUresult)call->result);
	pthread_setcancelstate(cancel_state, NULL);
}

void libcuda_request_end(struct client_call *call)
{
	const struct libcuda_mirror_ops *mirrors;

	client_call_end(call);
	if (!call->sync || call->options->internal)
		return;
	mirrors = libcuda_mirror_ops();
	if (mirrors || libcuda_output_is_due(client_call_shm()))
		follow_answer(call, mirrors);
}
