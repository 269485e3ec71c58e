/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcuda-gpu-use [samples]: tells vcudad once a second how much memory of each GPU the processes of this host have, and
 * with `samples` at once whose kernels ran. vcudad does not load NVIDIA's libraries itself, and a worker, which may be
 * taken over, must not be the one that tells.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "common/log.h"
#include "driver.h"

#define MEMORY_MS 1000

/* The driver looks at a GPU some five times a second, and of each process it tells the last look alone. */
#define SAMPLES_MS 100

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda-gpu-use"};

/* False: vcudad has closed the socket. */
static bool send_message(const struct vcuda_gpu_use *m)
{
	size_t length = VCUDA_GPU_USE_BYTES(m->count);

	return send(VCUDA_GPU_USE_FD, m, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static bool send_memory(unsigned int gpus)
{
	static struct vcuda_gpu_use m;

	for (unsigned int gpu = 0; gpu < gpus; gpu++)
		if (gpus_read_memory(gpu, &m) && !send_message(&m))
			return false;
	return true;
}

static bool send_samples(unsigned int gpus)
{
	static struct vcuda_gpu_use m;

	for (unsigned int gpu = 0; gpu < gpus; gpu++)
		if (gpus_read_samples(gpu, &m) && !send_message(&m))
			return false;
	return true;
}

/* Until vcudad closes the socket. */
static void tell(unsigned int gpus, bool samples)
{
	struct pollfd vcudad = {.fd = VCUDA_GPU_USE_FD};
	int period_ms = samples ? SAMPLES_MS : MEMORY_MS;

	for (int ms = 0;; ms = (ms + period_ms) % MEMORY_MS) {
		if (ms == 0 && !send_memory(gpus))
			return;
		if (samples && !send_samples(gpus))
			return;
		if (poll(&vcudad, 1, period_ms))
			return;
	}
}

int main(int argc, char **argv)
{
	bool samples = argc > 1 && !strcmp(argv[1], "samples");
	const char *why;
	unsigned int gpus;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	gpus = gpus_open(&why);
	if (!gpus && why)
		vcuda_log("%s: vcudad does not see what workers take of a GPU's memory beyond their grants", why);
	if (!gpus)
		return VCUDA_GPU_USE_NONE;
	if (samples && !gpus_know_samples())
		vcuda_log("NVIDIA's libnvidia-ml.so.1 does not say whose kernels run: with --share, --max-kernel-time "
			  "does not "
			  "hold for kernels of a process whose commands may wait for it");
	tell(gpus, samples);
	return 0;
}
