/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes with several streams each, at the same time: what they get done together, how long each thing took.
 *
 * usage: scale-bench [--seconds S] [--marks] WORK PROCESSES STREAMS
 *
 * WORK is request (a kernel and 4 KiB back, then the wait for them), launch (64 empty kernels and one wait) or copy (4
 * MiB of pinned memory to the device). A process has one thread, which begins one thing on each of its streams before
 * it waits for the first.
 *
 * With --marks it prints `mark NAME PID...` when all processes are ready, and when they have done their work. Each time
 * it waits for a line on its standard input, so that its caller can inspect the idle processes.
 */
#include "driver.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 64, STREAMS = 64, KEPT = 1 << 15, BURST = 64, REPLY = 4 << 10, PIECE = 4 << 20 };

/* Written by a process, read once it has said that it is done. */
struct result {
	double seconds;
	unsigned long count; /* of things done */
	float latency[KEPT]; /* us; of the last ones */
};

struct worker {
	CUstream streams[STREAMS];
	void *host;
	CUdeviceptr device;
	int count;
};

struct work {
	const char *name, *unit;
	double scale; /* from things a second to the unit */
	size_t bytes; /* of memory for each stream */
	void (*begin)(struct worker *w, int stream);
};

struct pipes {
	int ready[2], go[2], done[2], end[2];
};

static double seconds = 1;
static bool marks;

static void begin_request(struct worker *w, int s)
{
	driver_launch(KERNEL_EMPTY, w->streams[s]);
	check(cuMemcpyDtoHAsync_v2((char *)w->host + s * REPLY, w->device + (size_t)s * REPLY, REPLY, w->streams[s]),
	      "asynchronous copy");
}

static void begin_launches(struct worker *w, int s)
{
	for (int i = 0; i < BURST; i++)
		driver_launch(KERNEL_EMPTY, w->streams[s]);
}

static void begin_copy(struct worker *w, int s)
{
	check(cuMemcpyHtoDAsync_v2(w->device + (size_t)s * PIECE, (char *)w->host + (size_t)s * PIECE, PIECE,
				   w->streams[s]),
	      "asynchronous copy");
}

static const struct work works[] = {{"request", "1/s", 1, REPLY, begin_request},
				    {"launch", "1/s", BURST, REPLY, begin_launches},
				    {"copy", "GB/s", PIECE * 1e-9, PIECE, begin_copy}};

static void set_up(struct worker *w, const struct work *work)
{
	driver_open();
	driver_start();
	check(cuMemHostAlloc(&w->host, work->bytes * (size_t)w->count, 0), "cuMemHostAlloc");
	memset(w->host, 1, work->bytes * (size_t)w->count);
	check(cuMemAlloc_v2(&w->device, work->bytes * (size_t)w->count), "cuMemAlloc");
	for (int s = 0; s < w->count; s++) {
		check(cuStreamCreate(&w->streams[s], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
		work->begin(w, s);
		check(cuStreamSynchronize(w->streams[s]), "cuStreamSynchronize");
	}
}

static void do_work(struct worker *w, const struct work *work, struct result *result)
{
	double start = now_us(), begun[STREAMS];

	do {
		for (int s = 0; s < w->count; s++) {
			begun[s] = now_us();
			work->begin(w, s);
		}
		for (int s = 0; s < w->count; s++) {
			check(cuStreamSynchronize(w->streams[s]), "cuStreamSynchronize");
			result->latency[result->count++ % KEPT] = (float)(now_us() - begun[s]);
		}
	} while (now_us() - start < seconds * 1e6);
	result->seconds = (now_us() - start) * 1e-6;
}

/* Until the parent closes its end, or is gone. Costs no processor time. */
static void wait_closed(int fd)
{
	char byte;

	while (read(fd, &byte, 1) > 0)
		continue;
}

static void tell(int fd)
{
	check(write(fd, "x", 1) != 1, "write to the parent");
}

static void child(struct pipes *p, const struct work *work, int streams, struct result *result)
{
	struct worker w = {.count = streams};

	close(p->go[1]);
	close(p->end[1]);
	set_up(&w, work);
	tell(p->ready[1]);
	wait_closed(p->go[0]);
	do_work(&w, work, result);
	tell(p->done[1]);
	wait_closed(p->end[0]);
	exit(0);
}

/* A byte from each process; they hold the other end, so that it ends when they do. */
static void wait_for_all(int fd, int processes)
{
	char byte;

	for (int i = 0; i < processes; i++)
		check(read(fd, &byte, 1) != 1, "one of the processes");
}

static void mark(const char *name, const pid_t *pids, int processes)
{
	char line[64];

	if (!marks)
		return;
	printf("mark %s", name);
	for (int i = 0; i < processes; i++)
		printf(" %d", (int)pids[i]);
	printf("\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static void print(const struct work *work, int processes, int streams, const struct result *results)
{
	static const int percentiles[] = {50, 95, 99};
	double rate = 0, *all = malloc(sizeof(*all) * KEPT * (size_t)processes);
	char prefix[64], name[96];
	int n = 0;

	check(!all, "malloc");
	for (int i = 0; i < processes; i++) {
		const struct result *r = &results[i];

		rate += (double)r->count / r->seconds * work->scale;
		for (unsigned long k = 0; k < r->count && k < KEPT; k++)
			all[n++] = r->latency[k];
	}
	snprintf(prefix, sizeof(prefix), "%s_%dp_%ds", work->name, processes, streams);
	snprintf(name, sizeof(name), "%s_rate", prefix);
	report(name, rate, work->unit);
	median(all, n); /* sorts */
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(*percentiles) && work == &works[0]; i++) {
		snprintf(name, sizeof(name), "%s_p%d", prefix, percentiles[i]);
		report(name, all[(long)n * percentiles[i] / 100], "us");
	}
	free(all);
}

static int run(const struct work *work, int processes, int streams)
{
	size_t bytes = sizeof(struct result) * (size_t)processes;
	struct result *results = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[PROCESSES];
	struct pipes p;
	int failed = 0;

	check(results == MAP_FAILED, "mmap");
	check(pipe(p.ready) || pipe(p.go) || pipe(p.done) || pipe(p.end), "pipe");
	for (int i = 0; i < processes; i++) {
		pids[i] = fork();
		check(pids[i] < 0, "fork");
		if (!pids[i])
			child(&p, work, streams, &results[i]);
	}
	close(p.ready[1]);
	close(p.done[1]);
	wait_for_all(p.ready[0], processes);
	mark("ready", pids, processes);
	close(p.go[1]);
	wait_for_all(p.done[0], processes);
	mark("done", pids, processes);
	close(p.end[1]);
	for (int i = 0; i < processes; i++) {
		int status;

		failed |= waitpid(pids[i], &status, 0) != pids[i] || status;
	}
	if (!failed)
		print(work, processes, streams, results);
	return failed;
}

static int usage(void)
{
	fprintf(stderr, "usage: scale-bench [--seconds S] [--marks] request|launch|copy PROCESSES STREAMS\n");
	return 1;
}

int main(int argc, char **argv)
{
	int i, processes, streams;

	for (i = 1; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--marks"))
			marks = true;
		else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
			seconds = atof(argv[++i]);
		else
			return usage();
	}
	if (argc - i != 3)
		return usage();
	processes = atoi(argv[i + 1]);
	streams = atoi(argv[i + 2]);
	if (processes < 1 || processes > PROCESSES || streams < 1 || streams > STREAMS)
		return usage();
	for (size_t k = 0; k < sizeof(works) / sizeof(*works); k++)
		if (!strcmp(argv[i], works[k].name))
			return run(&works[k], processes, streams);
	return usage();
}
