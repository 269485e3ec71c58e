/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a worker. What the user may set:
 *   VCUDA_TRANSPORT  virtio or local: only that one (otherwise virtio where /dev/vcuda exists, else local)
 *   VCUDA_SOCKET     vcudad's socket for the local transport (otherwise $XDG_RUNTIME_DIR/vcuda/socket, then
 * /run/vcuda/socket) VCUDA_LOG        0: nothing is said on stderr The CUDA_* variables go to the worker, except
 * CUDA_VISIBLE_DEVICES, which is this side's business (device.c).
 */
#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/libcuda/memory/arena.h"
#include "call.h"
#include "guest/libcuda/core/device.h"
#include "protocol/guest-calls.h"
#include "log.h"
#include "protocol/mark.h"
#include "guest/libcuda/core/output.h"
#include "guest/libcuda/stream/pace.h"
#include "stage.h"
#include "guest/libcuda/core/thread.h"
#include "transport.h"
#include "protocol/wire.h"

extern char **environ;

enum state { NONE, ATTACHED, READY };

struct vcuda_guest_session vcuda_session;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int state = NONE;
static _Atomic bool forked; /* this process is the child of one that had a session */
static _Atomic int ended;   /* CUresult that ended the session */

bool vcuda_session_attached(void)
{
	return !atomic_load(&forked) && atomic_load(&state) >= ATTACHED;
}

CUresult vcuda_require_init(void)
{
	if (atomic_load_explicit(&state, memory_order_acquire) != READY ||
	    atomic_load_explicit(&forked, memory_order_relaxed))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (vcuda_thread()->in_callback)
		return CUDA_ERROR_NOT_PERMITTED;
	return vcuda_session_error();
}

void vcuda_session_lose(CUresult error)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&ended, &none, error))
		return;
	vcuda_log("the worker of this process is gone (host process %u, CUDA error %d): every CUDA call fails from now "
		  "on. "
		  "Start the program again; the log of vcudad on the host says why the worker ended.",
		  vcuda_session.host.pid, error);
}

CUresult vcuda_session_error(void)
{
	struct vcuda_shm *shm;
	int lost;

	if (atomic_load_explicit(&ended, memory_order_relaxed))
		return (CUresult)atomic_load(&ended);
	shm = vcuda_session.transport->shm;
	lost = atomic_load_explicit(&shm->lost, memory_order_relaxed);
	if (lost)
		vcuda_session_lose((CUresult)lost);
	return (CUresult)lost;
}

/* The child shares the parent's descriptors: it must not keep the parent's worker alive, and nothing else of it is
 * usable. */
static void after_fork_in_child(void)
{
	struct vcuda_transport *t = vcuda_session.transport;

	if (atomic_load(&state) == NONE)
		return;
	atomic_store(&forked, true);
	vcuda_output_forked();
	if (t->ops->forked)
		t->ops->forked(t);
}

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

static CUresult explain(const struct vcuda_transport_ops *ops, const struct vcuda_transport *t, int err)
{
	if (err == -EPROTONOSUPPORT) {
		vcuda_log("host and guest do not fit: the host speaks protocol %u.%u, this libcuda.so.1 speaks %u.%u. "
			  "Install the same major version of virtio-cuda on both.",
			  t ? t->host_major : 0, t ? t->host_minor : 0, VCUDA_PROTOCOL_MAJOR, VCUDA_PROTOCOL_MINOR);
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	}
	if (err == -EACCES || err == -EPERM)
		vcuda_log("no permission to use the %s transport: %s", ops->name,
			  ops == &vcuda_transport_virtio
				  ? "let this user read and write /dev/vcuda"
				  : "vcudad's socket belongs to another user; start one with `vcuda run`");
	else
		vcuda_log("cannot reach a GPU over the %s transport: %s. `vcuda doctor` says what is missing.",
			  ops->name, strerror(-err));
	return CUDA_ERROR_NO_DEVICE;
}

static CUresult open_transport(void)
{
	static const struct vcuda_transport_ops *const all[] = {&vcuda_transport_virtio, &vcuda_transport_local};
	const char *only = getenv("VCUDA_TRANSPORT");
	bool known = false;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct vcuda_transport *t = NULL;
		int err;

		if (only && *only && strcmp(only, all[i]->name))
			continue;
		known = true;
		err = all[i]->open(&t, NULL);
		if (err == -ENOENT)
			continue;
		if (err)
			return explain(all[i], t, err);
		vcuda_session.transport = t;
		return CUDA_SUCCESS;
	}
	if (!known)
		vcuda_log("VCUDA_TRANSPORT=%s is not a transport: use virtio or local", only);
	else
		vcuda_log("no GPU: there is no /dev/vcuda (in a VM: load the virtio-cuda module) and vcudad listens on "
			  "no socket that was "
			  "looked for (else: start the program with `vcuda run -- PROGRAM`, or set VCUDA_SOCKET)");
	return CUDA_ERROR_NO_DEVICE;
}

/*
 * What a stream's queue holds: an H100's driver made callers wait from 1021 commands on (doc/measured.md). Some are
 * left for what a command takes beside. The software GPU's is as good as endless.
 */
#define GPU_PLACES 900

static CUresult hello(void)
{
	char *environment = cuda_environment();
	CUresult result;

	if (!environment)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = vcuda_call_vcudaHello(environment, &vcuda_session.host);
	free(environment);
	if (result != CUDA_SUCCESS && result != vcuda_session_error())
		vcuda_log("the host cannot compute for this process (CUDA error %d): the log of vcudad there says why",
			  result);
	if (result != CUDA_SUCCESS)
		return result;
	if (vcuda_session.host.range_count > sizeof(vcuda_session.host.ranges) / sizeof(vcuda_session.host.ranges[0]))
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	vcuda_arena_reserve(&vcuda_session.host);
	if (strcmp(vcuda_session.host.backend, "cpu")) {
		vcuda_pace_start(GPU_PLACES);
		vcuda_call_wait_for_gpu();
	}
	return vcuda_devices_load(vcuda_session.host.device_count);
}

/* VCUDA_VERBOSE=1: where this process computes. */
static void say_where(void)
{
	const char *verbose = getenv("VCUDA_VERBOSE");
	const struct vcuda_host_info *host = &vcuda_session.host;

	if (verbose && strcmp(verbose, "0"))
		vcuda_log("transport %s, back end %.*s, %d device%s, host process %u",
			  vcuda_session.transport->ops->name, (int)sizeof(host->backend), host->backend,
			  host->device_count, host->device_count == 1 ? "" : "s", host->pid);
}

static CUresult connect_locked(void)
{
	static bool hooked;
	CUresult result;

	if (atomic_load(&forked))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (atomic_load(&state) == NONE) {
		vcuda_mark("libcuda: connects");
		result = open_transport();
		if (result != CUDA_SUCCESS)
			return result;
		vcuda_call_attach(vcuda_session.transport->shm);
		vcuda_stage_attach(vcuda_session.transport->shm, vcuda_shm_blocks(vcuda_session.transport->host_minor));
		atomic_store(&state, ATTACHED);
		if (!hooked)
			pthread_atfork(NULL, NULL, after_fork_in_child);
		hooked = true;
	}
	if (atomic_load(&state) == ATTACHED) {
		result = hello();
		if (result != CUDA_SUCCESS)
			return result;
		atomic_store(&state, READY);
		vcuda_mark("libcuda: is ready");
		say_where();
	}
	return vcuda_session_error();
}

CUresult vcuda_session_connect(void)
{
	CUresult result;

	if (vcuda_require_init() == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (atomic_load(&forked))
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	result = connect_locked();
	pthread_mutex_unlock(&lock);
	return result;
}

/* For a worker that lends this process's GPU on. */
VCUDA_EXPORT CUresult cuVcudaHost(vcuda_host_info *info)
{
	CUresult result = vcuda_require_init();

	if (result == CUDA_SUCCESS)
		*info = vcuda_session.host;
	return result;
}

VCUDA_EXPORT CUresult cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : vcuda_session_connect();
}

/* Answers before cuInit too, as the real library does: what this library implements where no host has been asked. */
VCUDA_EXPORT CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = CUDA_VERSION;
	if (vcuda_require_init() == CUDA_SUCCESS && vcuda_session.host.driver_version < CUDA_VERSION)
		*version = vcuda_session.host.driver_version;
	return CUDA_SUCCESS;
}
