/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: figures of devices for libnvidia-ml. The software GPU knows how busy it is with the guest's work; of a real
 * GPU NVIDIA's library of the host is asked, for what tells of other users only where vcudad allows it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/backend-cuda/figures.h"
#include "host/backend-cuda/nvml.h"
#include "protocol/handlers.h"
#include "session/dispatch.h"
#include "session/figure.h"
#include "session/session.h"
#include "session/work-sampler.h"
#include "session/worker-table-slot.h"

/* nvmlReturn_t */
enum { SUCCESS, INVALID_ARGUMENT = 2, NOT_SUPPORTED = VCUDA_FIGURE_NOT_SUPPORTED };

#define FIELD_ECC_PENDING 2
#define UNSIGNED_INT 1 /* nvmlValueType_t */

/* Links, sensors, clocks, counters: there are fewer of each. */
#define MOST_ARGUMENT 64

/* nvmlIntNvLinkDeviceType_t */
#define LINK_TO_SWITCH 2

/* More than the driver keeps of one device. */
#define MOST_SAMPLES 1024

static bool is_cuda(const struct worker_session *s)
{
	return !strcmp(s->ops->name, "cuda");
}

/* The host's address of a device of the guest's. */
static bool host_address(struct worker_session *s, CUdevice dev, char id[16])
{
	return s->ops->cuDeviceGetPCIBusId && s->ops->cuDeviceGetPCIBusId(id, 16, dev) == CUDA_SUCCESS;
}

/* ---- links and topology ---- */

static bool is_same_address(const char *a, const char *b)
{
	unsigned int first[3], second[3];

	return sscanf(a, "%x:%x:%x", &first[0], &first[1], &first[2]) == 3 &&
	       sscanf(b, "%x:%x:%x", &second[0], &second[1], &second[2]) == 3 && !memcmp(first, second, sizeof(first));
}

static bool find_device(struct worker_session *s, const char *host_id, uint64_t *number)
{
	char id[16];
	int count = 0;

	if (s->ops->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return false;
	for (CUdevice dev = 0; dev < count; dev++)
		if (host_address(s, dev, id) && is_same_address(id, host_id)) {
			*number = (uint64_t)dev;
			return true;
		}
	return false;
}

/* The guest is told nothing about a link to a GPU that is not the guest's. */
static unsigned int link_remote(struct worker_session *s, const char *id, const uint32_t *arguments, uint64_t *number)
{
	uint64_t type[VCUDA_FIGURE_VALUES];
	char remote[32];
	unsigned int result = backend_link_remote(id, arguments[0], remote);

	if (result || find_device(s, remote, number))
		return result;
	*number = VCUDA_FIGURE_FOREIGN;
	result = backend_figure(id, VCUDA_FIGURE_LINK_REMOTE_TYPE, arguments, type);
	return !result && type[0] == LINK_TO_SWITCH ? SUCCESS : NOT_SUPPORTED;
}

static bool is_foreign_link(struct worker_session *s, const char *id, uint32_t link)
{
	const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS] = {link};
	uint64_t state[VCUDA_FIGURE_VALUES], ignored;

	return backend_figure(id, VCUDA_FIGURE_LINK_STATE, arguments, state) == SUCCESS && state[0] &&
	       link_remote(s, id, arguments, &ignored);
}

/* NVML's fields of one link: its number is in the field's, or is the scope. */
static bool is_field_of_link(const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS], uint32_t *link)
{
	const unsigned int field = arguments[0];

	if (field >= 84 && field <= 89)
		*link = field - 84;
	else if (field >= 132 && field <= 137)
		*link = field - 132 + 6;
	else if (field >= 164 && field <= 166)
		*link = arguments[1];
	else
		return false;
	return true;
}

static bool is_of_link(unsigned int figure)
{
	return figure == VCUDA_FIGURE_LINK_STATE || figure == VCUDA_FIGURE_LINK_VERSION ||
	       figure == VCUDA_FIGURE_LINK_CAPABILITY || figure == VCUDA_FIGURE_LINK_REMOTE_TYPE;
}

static unsigned int common_ancestor(struct worker_session *s, const char *id, unsigned int peer, uint64_t *level)
{
	char peer_id[16];

	return host_address(s, (CUdevice)peer, peer_id) ? backend_common_ancestor(id, peer_id, level)
							: INVALID_ARGUMENT;
}

static unsigned int ask_host(struct worker_session *s, struct vcuda_args_vcudaFigure *a)
{
	bool constant = a->figure == VCUDA_FIGURE_FIELD ? backend_field_is_constant(a->arguments[0])
							: backend_figure_is_constant(a->figure);
	unsigned int first = a->figure == VCUDA_FIGURE_FIELD; /* fields have larger numbers */
	bool of_link;
	uint32_t link;
	char id[16];

	for (unsigned int i = first; i < VCUDA_FIGURE_ARGUMENTS; i++)
		if (a->arguments[i] >= MOST_ARGUMENT)
			return INVALID_ARGUMENT;
	if (!host_address(s, a->dev, id))
		return INVALID_ARGUMENT;
	if (a->figure == VCUDA_FIGURE_LINK_REMOTE)
		return link_remote(s, id, a->arguments, &a->values[0]);
	if (a->figure == VCUDA_FIGURE_COMMON_ANCESTOR)
		return common_ancestor(s, id, a->arguments[0], &a->values[0]);
	if (!constant && !worker_figures_are_allowed())
		return NOT_SUPPORTED;
	link = a->arguments[0];
	of_link = a->figure == VCUDA_FIGURE_FIELD ? is_field_of_link(a->arguments, &link) : is_of_link(a->figure);
	if (of_link && is_foreign_link(s, id, link))
		return NOT_SUPPORTED;
	if (a->figure == VCUDA_FIGURE_FIELD)
		return backend_field(id, a->arguments[0], a->arguments[1], a->values);
	return backend_figure(id, a->figure, a->arguments, a->values);
}

/* ---- how busy devices are ---- */

/* The software GPU has no ECC, and is to have none. */
static unsigned int own_figure(const struct vcuda_args_vcudaFigure *a)
{
	struct worker_work_window w;

	if (a->figure == VCUDA_FIGURE_FIELD && a->arguments[0] == FIELD_ECC_PENDING) {
		a->values[1] = UNSIGNED_INT;
		return SUCCESS;
	}
	if (a->figure != VCUDA_FIGURE_UTILIZATION || !worker_work_look((unsigned int)a->dev, &w, NULL, 0))
		return NOT_SUPPORTED;
	a->values[0] = w.work.kernels;
	a->values[1] = w.work.all;
	return SUCCESS;
}

CUresult vcuda_handle_vcudaFigure(struct worker_session *s, struct vcuda_args_vcudaFigure *a)
{
	memset(a->values, 0, VCUDA_FIGURE_VALUES * sizeof(*a->values));
	if (!is_cuda(s) && (a->dev < 0 || a->dev >= VCUDA_CPU_DEVICES_MOST))
		return CUDA_ERROR_INVALID_DEVICE;
	a->answer = is_cuda(s) ? ask_host(s, a) : own_figure(a);
	return CUDA_SUCCESS;
}

static void put_sample(struct vcuda_args_vcudaProcessSamples *a, uint32_t pid, uint64_t time_us, uint32_t sm,
		       uint32_t memory)
{
	a->pids[a->count] = pid;
	a->times[a->count] = time_us;
	a->sm[a->count] = sm;
	a->memory[a->count++] = memory;
}

static unsigned int own_samples(struct vcuda_args_vcudaProcessSamples *a)
{
	struct worker_work_process processes[VCUDA_PROCESSES];
	struct worker_work_window w;

	if (!worker_work_look((unsigned int)a->dev, &w, processes, a->room))
		return NOT_SUPPORTED;
	for (unsigned int i = 0; i < w.count && w.end_us > a->after; i++)
		put_sample(a, processes[i].pid, w.end_us, processes[i].work.kernels, processes[i].work.all);
	return SUCCESS;
}

/* The guest's process of a worker; 0: the worker is not of this guest. */
static uint32_t guest_process(uint32_t worker)
{
	const struct vcuda_worker_table_slot *slot;
	unsigned int at = 0;

	while ((slot = worker_table_next(&at)))
		if (atomic_load(&slot->worker) == (int32_t)worker)
			return slot->pid;
	return 0;
}

static unsigned int host_samples(struct worker_session *s, struct vcuda_args_vcudaProcessSamples *a)
{
	struct backend_sample *samples;
	char id[16];
	uint32_t pid;
	int count;

	if (!worker_figures_are_allowed() || !host_address(s, a->dev, id))
		return NOT_SUPPORTED;
	samples = calloc(MOST_SAMPLES, sizeof(*samples));
	count = samples ? backend_nvml_samples(id, a->after, samples, MOST_SAMPLES) : -1;
	for (int i = 0; i < count && a->count < a->room; i++)
		if (samples[i].time_us > a->after && (pid = guest_process(samples[i].pid)))
			put_sample(a, pid, samples[i].time_us, samples[i].sm, samples[i].memory);
	free(samples);
	return count < 0 ? NOT_SUPPORTED : SUCCESS;
}

CUresult vcuda_handle_vcudaProcessSamples(struct worker_session *s, struct vcuda_args_vcudaProcessSamples *a)
{
	a->count = 0;
	if (!a->room || a->room > VCUDA_PROCESSES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_cuda(s) && (a->dev < 0 || a->dev >= VCUDA_CPU_DEVICES_MOST))
		return CUDA_ERROR_INVALID_DEVICE;
	a->answer = is_cuda(s) ? host_samples(s, a) : own_samples(a);
	return CUDA_SUCCESS;
}
