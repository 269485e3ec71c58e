/* SPDX-License-Identifier: Apache-2.0 */
#include "session/work-sampler.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/start-thread.h"
#include "session/worker-table-slot.h"

#define PERIOD_US 2000
#define WINDOW_NS (1000000000ull / 6)

/* Without a question for so long the thread ends. */
#define KEPT_NS 5000000000ull

/* Counts of samples in which a device was at work. */
struct seen {
	uint32_t kernels, all;
};

struct process {
	int32_t worker; /* 0: none */
	uint32_t pid;
	struct seen seen[VCUDA_CPU_DEVICES_MOST];
};

struct window {
	uint64_t end_us;
	uint32_t looks;
	struct seen seen[VCUDA_CPU_DEVICES_MOST];
	struct process processes[VCUDA_WORKER_TABLE_SLOTS]; /* by their slots */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* a window, or the thread */
static bool runs;
static uint64_t asked_ns;
static uint64_t windows; /* windows that have ended since the thread began */
static struct window last;
static struct window current; /* the thread's */

static void count(struct seen seen[VCUDA_CPU_DEVICES_MOST], uint32_t word)
{
	for (int i = 0; i < VCUDA_CPU_DEVICES_MOST; i++) {
		seen[i].kernels += !!(word & VCUDA_CPU_RUNS_KERNEL(i));
		seen[i].all += !!(word & VCUDA_CPU_RUNS(i));
	}
}

static void look(void)
{
	const struct vcuda_worker_table_slot *slot;
	unsigned int at = 0;
	uint32_t together = 0;

	while ((slot = worker_table_next(&at))) {
		struct process *p = &current.processes[at - 1];
		int32_t worker = atomic_load(&slot->worker);
		uint32_t word = atomic_load_explicit(&slot->at_work, memory_order_relaxed);

		if (p->worker != worker)
			*p = (struct process){.worker = worker, .pid = slot->pid};
		count(p->seen, word);
		together |= word;
	}
	count(current.seen, together);
	current.looks++;
}

static void *sample(void *unused)
{
	uint64_t start = vcuda_now_ns(), now = start;
	struct timespec t;

	for (;;) {
		look();
		now = vcuda_now_ns();
		if (now - start < WINDOW_NS) {
			usleep(PERIOD_US);
			continue;
		}
		clock_gettime(CLOCK_REALTIME, &t);
		current.end_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
		pthread_mutex_lock(&lock);
		last = current;
		windows++;
		runs = now - asked_ns < KEPT_NS;
		pthread_cond_broadcast(&ended);
		if (!runs)
			break;
		pthread_mutex_unlock(&lock);
		memset(&current, 0, sizeof(current));
		start = now;
	}
	memset(&current, 0, sizeof(current));
	pthread_mutex_unlock(&lock);
	return unused;
}

static bool start(void)
{
	windows = 0;
	runs = vcuda_thread_start(sample, NULL);
	return runs;
}

static uint32_t percent(uint32_t seen, uint32_t looks)
{
	return looks ? (seen * 100 + looks / 2) / looks : 0;
}

static struct worker_work work_of(const struct seen *seen)
{
	return (struct worker_work){percent(seen->kernels, last.looks), percent(seen->all, last.looks)};
}

bool worker_work_look(unsigned int device, struct worker_work_window *to, struct worker_work_process *processes,
		      unsigned int room)
{
	bool started;

	pthread_mutex_lock(&lock);
	asked_ns = vcuda_now_ns();
	started = runs || start();
	while (started && !windows)
		pthread_cond_wait(&ended, &lock);
	*to = (struct worker_work_window){.end_us = last.end_us, .work = work_of(&last.seen[device])};
	for (unsigned int i = 0; i < VCUDA_WORKER_TABLE_SLOTS && to->count < room; i++) {
		const struct process *p = &last.processes[i];

		if (p->worker && p->seen[device].all)
			processes[to->count++] = (struct worker_work_process){p->pid, work_of(&p->seen[device])};
	}
	pthread_mutex_unlock(&lock);
	return started;
}
