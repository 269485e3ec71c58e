/* SPDX-License-Identifier: Apache-2.0 */
#include "process/warm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/start-thread.h"
#include "common/trace-point.h"
#include "process/worker.h"
#include "protocol/ipc/channel.h"

const char *worker_backend = "auto";
struct worker_mappings *worker_mappings;
struct worker_backend worker_loaded;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool started;
	bool loaded; /* the back end can be used */
	bool works;  /* the thread that makes the context has not ended */
	bool has;    /* `context` is retained, and the guest does not know */
	_Atomic bool claimed;
	int device;
	unsigned int flags; /* flags of the device's primary context before it was retained */
	CUcontext context;
} warm = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER, .device = -1};

/* The caller holds the lock. */
static void wait_for_context(void)
{
	while (warm.works)
		pthread_cond_wait(&warm.ended, &warm.lock);
}

static bool make_context(void)
{
	const struct vcuda_backend_ops *ops = worker_loaded.ops;
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;
	int active = 0;

	if (ops->cuDevicePrimaryCtxRetain && ops->cuDevicePrimaryCtxGetState && ops->cuDevicePrimaryCtxRelease_v2)
		result = ops->cuDevicePrimaryCtxGetState(warm.device, &warm.flags, &active);
	if (result == CUDA_SUCCESS)
		result = ops->cuDevicePrimaryCtxRetain(&warm.context, warm.device);
	warm.has = result == CUDA_SUCCESS;
	if (warm.has)
		vcuda_trace_point("worker: has a context");
	else
		vcuda_log("no context in advance on device %d (CUDA error %d)", warm.device, (int)result);
	return warm.has;
}

static void *run(void *unused)
{
	/* vcudad starts another worker, later. A guest process that came meanwhile hears of it as from any worker. */
	if (!make_context() && !atomic_load(&warm.claimed))
		_exit(1);
	pthread_mutex_lock(&warm.lock);
	warm.works = false;
	pthread_cond_broadcast(&warm.ended);
	pthread_mutex_unlock(&warm.lock);
	return unused;
}

static void start_context(void)
{
	warm.works = true;
	if (!vcuda_thread_start(run, NULL))
		warm.works = false;
}

/* Whether a guest process has come. */
static bool is_wanted(void)
{
	char byte;

	return recv(VCUDA_CHANNEL_FD, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void worker_warm_start(int device)
{
	warm.device = device;
	warm.started = true;
	warm.loaded = worker_backend_load(&worker_loaded, worker_mappings, worker_backend);
	if (!warm.loaded && !is_wanted())
		_exit(1);
	if (warm.loaded && device >= 0)
		start_context();
}

bool worker_warm_started(void)
{
	return warm.started;
}

void worker_warm_claim(void)
{
	atomic_store(&warm.claimed, true);
}

bool worker_warm_backend(void)
{
	bool loaded;

	pthread_mutex_lock(&warm.lock);
	if (!warm.loaded)
		warm.loaded = worker_backend_load(&worker_loaded, worker_mappings, worker_backend);
	loaded = warm.loaded;
	pthread_mutex_unlock(&warm.lock);
	return loaded;
}

bool worker_warm_is_sound(void)
{
	const struct vcuda_backend_ops *ops;
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&warm.lock);
	ops = !warm.works && warm.has ? worker_loaded.ops : NULL;
	/* One that is being made is as young as the guest process. */
	if (ops && ops->cuCtxSynchronize) {
		result = ops->cuCtxSetCurrent(warm.context);
		if (result == CUDA_SUCCESS)
			result = ops->cuCtxSynchronize();
		ops->cuCtxSetCurrent(NULL);
	}
	pthread_mutex_unlock(&warm.lock);
	if (result != CUDA_SUCCESS)
		vcuda_log("the context that was made in advance has failed (CUDA error %d)", (int)result);
	return result == CUDA_SUCCESS;
}

bool worker_warm_take(CUdevice dev, CUcontext *context)
{
	bool taken;

	pthread_mutex_lock(&warm.lock);
	wait_for_context();
	taken = warm.has && warm.device == dev;
	if (taken) {
		warm.has = false;
		*context = warm.context;
	}
	pthread_mutex_unlock(&warm.lock);
	return taken;
}

bool worker_warm_hides(CUdevice dev, unsigned int *flags)
{
	bool hides;

	pthread_mutex_lock(&warm.lock);
	wait_for_context();
	hides = warm.has && warm.device == dev;
	*flags = warm.flags;
	pthread_mutex_unlock(&warm.lock);
	return hides;
}

void worker_warm_drop(void)
{
	pthread_mutex_lock(&warm.lock);
	wait_for_context();
	if (warm.has)
		worker_loaded.ops->cuDevicePrimaryCtxRelease_v2(warm.device);
	warm.has = false;
	pthread_mutex_unlock(&warm.lock);
}
