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
	case CALL_BAD_ANSWER:
		vcuda_log_once(
			"the worker's answer to a call does not decode; host and guest may be of different builds");
		return CUDA_ERROR_UNKNOWN;
	default:
		return (CUresult)error;
	}
}

static struct libcuda_context *context_of(struct call_context *calls)
{
	return calls ? libcuda_context_of_calls(calls) : NULL;
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
	if (vcuda_call_table[call->request->op].waits &&
	    (call->result == CUDA_SUCCESS || call->result == CUDA_ERROR_NOT_READY))
		libcuda_request_confirmed(context);
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
		mirrors->after(call->request->op, context_of(call->context), call->options->wait,
			       (CUresult)call->result);
	pthread_setcancelstate(cancel_state, NULL);
}

CUresult libcuda_request(const struct call_options *options, const struct call_request *request)
{
	const struct libcuda_mirror_ops *mirrors = libcuda_mirror_ops();
	struct libcuda_context *context = libcuda_request_context(options);
	struct client_call call;
	int result;

	call.request = request;
	call.options = options ? options : &no_options;
	call.context = context ? &context->calls : NULL;
	call.thread = &libcuda_thread()->calls;
	call.launches = request->op == VCUDA_OP_vcudaLaunchKernel || request->op == VCUDA_OP_vcudaGraphLaunch;
	if (mirrors && !call.options->internal)
		mirrors->before(request->op, context);
	result = client_call(&call);
	if (call.answered) {
		note_answer(&call);
		mirrors = libcuda_mirror_ops();
		if (!call.options->internal && (mirrors || libcuda_output_is_due(client_call_shm())))
			follow_answer(&call, mirrors);
	}
	return result_of(result);
}
