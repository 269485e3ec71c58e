/* SPDX-License-Identifier: Apache-2.0 */
/* cuInit. The CUDA_* variables go to the worker, except CUDA_VISIBLE_DEVICES, which device.c obeys. */
#include "core/init.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "core/hooks.h"
#include "core/output.h"
#include "core/request.h"
#include "core/thread.h"
#include "guest/client/call.h"
#include "common/log.h"
#include "guest/client/driver-version.h"
#include "guest/client/session.h"
#include "core/arena.h"
#include "protocol/cuda-newest.h"
#include "protocol/guest-calls.h"
#include "common/trace-point.h"

extern char **environ;

/* protocol/cuda-abi.h has the types and the numbers of that version. */
_Static_assert(VCUDA_NEWEST_CUDA <= CUDA_VERSION, "functions of a version whose types are not there");

struct vcuda_host_info libcuda_host;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic bool libcuda_ready;

static bool goes_to_the_worker(const char *variable)
{
	return !strncmp(variable, "CUDA_", 5) && strncmp(variable, "CUDA_VISIBLE_DEVICES=", 21) &&
	       !strchr(variable, '\n');
}

/* "A=B\nC=D" of the CUDA_* variables; the caller frees it. */
static char *cuda_environment(void)
{
	size_t bytes = 1;
	char *text, *at;

	for (char **v = environ; v && *v; v++)
		if (goes_to_the_worker(*v))
			bytes += strlen(*v) + 1;
	at = text = malloc(bytes);
	if (!text)
		return NULL;
	for (char **v = environ; v && *v; v++) {
		if (!goes_to_the_worker(*v) || strlen(*v) + 2 > bytes - (size_t)(at - text))
			continue;
		at = stpcpy(at, *v);
		*at++ = '\n';
	}
	if (at > text)
		at--;
	*at = 0;
	return text;
}

static CUresult hello(void)
{
	char *environment = cuda_environment();
	CUresult result;

	if (!environment)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = vcuda_call_vcudaHello(environment, &libcuda_host);
	free(environment);
	if (result != CUDA_SUCCESS && (int)result != client_session_error())
		vcuda_log("the host cannot compute for this process (CUDA error %d): the log of vcudad there says why",
			  result);
	if (result != CUDA_SUCCESS)
		return result;
	if (libcuda_host.range_count > sizeof(libcuda_host.ranges) / sizeof(libcuda_host.ranges[0]))
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	client_session.host_pid = libcuda_host.pid;
	libcuda_arena_reserve(&libcuda_host);
	if (libcuda_host_is_gpu())
		client_call_wait_for_gpu();
	return libcuda_devices_load(libcuda_host.device_count);
}

/* VCUDA_VERBOSE=1: where this process computes. */
static void say_where(void)
{
	const char *verbose = getenv("VCUDA_VERBOSE");
	const struct vcuda_host_info *host = &libcuda_host;

	if (verbose && strcmp(verbose, "0"))
		vcuda_log("transport %s, back end %.*s, %d device%s, host process %u",
			  client_session.transport->ops->name, (int)sizeof(host->backend), host->backend,
			  host->device_count, host->device_count == 1 ? "" : "s", host->pid);
}

static CUresult open_session(void)
{
	int err;

	if (client_session_attached())
		return CUDA_SUCCESS;
	vcuda_trace_point("libcuda: connects");
	err = client_session_open(CUDA_ERROR_LAUNCH_FAILED);
	if (err)
		return err == -EPROTONOSUPPORT ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_ERROR_NO_DEVICE;
	pthread_atfork(NULL, NULL, libcuda_output_forked);
	return CUDA_SUCCESS;
}

static CUresult connect_locked(void)
{
	CUresult result = CUDA_SUCCESS;

	if (client_session_forked())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!atomic_load(&libcuda_ready)) {
		result = open_session();
		if (result == CUDA_SUCCESS)
			result = hello();
		if (result != CUDA_SUCCESS)
			return result;
		/* Another thread's cuInit() succeeds from the store on, and its calls pass the entries. */
		if (libcuda_hook_open)
			libcuda_hook_open();
		atomic_store(&libcuda_ready, true);
		vcuda_trace_point("libcuda: is ready");
		say_where();
	}
	return (CUresult)client_session_error();
}

/* Safe to call again and from several threads. */
static CUresult connect_session(void)
{
	CUresult result;

	if (libcuda_require_init() == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (client_session_forked())
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	result = connect_locked();
	pthread_mutex_unlock(&lock);
	return result;
}

/* For a worker that lends this process's GPU on. */
VCUDA_EXPORT CUresult cuVcudaHost(vcuda_host_info *info)
{
	CUresult result = libcuda_require_init();

	if (result == CUDA_SUCCESS)
		*info = libcuda_host;
	return result;
}

VCUDA_EXPORT CUresult cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : connect_session();
}

/* Answers before cuInit too, as the real library does: what this library implements where no host has been asked. */
VCUDA_EXPORT CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version =
		client_driver_version(VCUDA_NEWEST_CUDA, atomic_load(&libcuda_ready) ? libcuda_host.driver_version : 0);
	return CUDA_SUCCESS;
}
