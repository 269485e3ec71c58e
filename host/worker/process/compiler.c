/* SPDX-License-Identifier: Apache-2.0 */
#include "process/compiler.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/fds.h"
#include "memory/mapping.h"
#include "process/compile-process.h"
#include "process/compile-spawner.h"
#include "session/compiling.h"
#include "session/ledger.h"

/* Compilations at a time; others wait. Each may have --max-compile-memory. */
#define MOST_AT_WORK 4

/*
 * The kernel's limit of a process holds for the compiler alone: one that is taken over may sleep, or may ignore the
 * signal. So an order has this many times its seconds of a processor by the clock.
 */
#define CLOCK_FACTOR 10

/* Interval at which a wait for a process checks the clock, and whether the result is still needed. */
#define LOOK_NS 100000000ull

/* The spawner's only descriptor, beside the standard ones. */
#define SPAWNER_SOCKET 3

/* One process, which has an order, or waits for one. */
struct process {
	struct process *next;
	int orders, end;
	bool background;
};

/* One order, while it is with a process. */
struct order {
	const struct vcuda_compile_job *job;
	const struct process *process;
	uint64_t seconds, memory; /* limits: of a processor; bytes */
	uint64_t left_ns;         /* by the clock */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t left;
	int spawner;
	struct process *idle;
	unsigned int at_work;
	bool expected; /* the spawner knows that there will be something to compile */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER, .spawner = -1};

/* ---- the spawner ---- */

/* The compiler's limit of memory is counted from there. 0 where the kernel does not tell. */
static uint64_t writable_bytes(void)
{
	unsigned long long data = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%*u %*u %*u %*u %*u %llu", &data) != 1)
		data = 0;
	if (f)
		fclose(f);
	return data * (uint64_t)sysconf(_SC_PAGESIZE);
}

_Noreturn static void be_spawner(int socket, vcuda_compile compile, const struct worker_mappings *mappings,
				 uint64_t own_bytes)
{
	prctl(PR_SET_NAME, "vcuda-spawner");
	/* The worker's output is what kernels print. */
	if (dup2(socket, SPAWNER_SOCKET) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(1);
	closefrom(SPAWNER_SOCKET + 1);
	worker_mappings_leave(mappings);
	worker_spawner_run(SPAWNER_SOCKET, compile, own_bytes);
}

int worker_compiler_start(vcuda_compile compile, const struct worker_mappings *mappings)
{
	uint64_t own_bytes = writable_bytes();
	int ends[2], err = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	pid = fork();
	if (!pid)
		be_spawner(ends[1], compile, mappings, own_bytes);
	if (pid < 0)
		err = -errno;
	close(ends[1]);
	if (err)
		close(ends[0]);
	else
		pool.spawner = ends[0];
	return err;
}

/* ---- processes ---- */

static void free_process(struct process *p)
{
	close(p->orders);
	close(p->end);
	free(p);
}

static bool tell_spawner(enum worker_spawn_what what)
{
	const struct worker_spawn message = {.what = what};

	return send(pool.spawner, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message);
}

/* With the lock. False: the spawner has ended, or starts no more. */
static bool spawn(struct process *p)
{
	char byte;
	const struct iovec part = {&byte, 1};
	struct vcuda_fds fds;

	if (!tell_spawner(p->background ? WORKER_SPAWN_BACKGROUND : WORKER_SPAWN_PROCESS))
		return false;
	if (vcuda_fds_receive(pool.spawner, &part, 1, &fds, 0) != 1 || fds.count != 2) {
		vcuda_fds_close(&fds, 0);
		return false;
	}
	p->orders = fds.fd[0];
	p->end = fds.fd[1];
	return true;
}

static struct process *new_process(bool background)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->background = background;
	if (spawn(p))
		return p;
	free(p);
	return NULL;
}

static struct process *take_process(bool background)
{
	struct process **place, *p;

	pthread_mutex_lock(&pool.lock);
	for (place = &pool.idle; *place && (*place)->background != background; place = &(*place)->next)
		;
	p = *place;
	if (p)
		*place = p->next;
	else
		p = new_process(background);
	pthread_mutex_unlock(&pool.lock);
	return p;
}

static void give_process(struct process *p)
{
	pthread_mutex_lock(&pool.lock);
	p->next = pool.idle;
	pool.idle = p;
	pthread_mutex_unlock(&pool.lock);
}

static void begin_work(void)
{
	pthread_mutex_lock(&pool.lock);
	while (pool.at_work == MOST_AT_WORK)
		pthread_cond_wait(&pool.left, &pool.lock);
	pool.at_work++;
	pthread_mutex_unlock(&pool.lock);
}

static void end_work(void)
{
	pthread_mutex_lock(&pool.lock);
	pool.at_work--;
	pthread_cond_signal(&pool.left);
	pthread_mutex_unlock(&pool.lock);
}

/* ---- an order ---- */

static bool is_unwanted(const struct vcuda_compile_job *job)
{
	return job->unwanted && __atomic_load_n(job->unwanted, __ATOMIC_RELAXED);
}

/* A process that does not read its orders is no reason to wait. */
static bool send_order(const struct order *o)
{
	const struct vcuda_compile_job *job = o->job;
	struct worker_compile_order order = {
		.seconds = o->seconds, .memory = o->memory, .bytes = (uint32_t)job->order_bytes};
	const struct iovec part = {&order, sizeof(order)};

	memcpy(order.order, job->order, job->order_bytes);
	return vcuda_fds_send(o->process->orders, &part, 1, &job->module, 1, MSG_DONTWAIT) == sizeof(order);
}

static uint64_t clock_limit(uint64_t seconds)
{
	const uint64_t most = UINT64_MAX / CLOCK_FACTOR / 1000000000;

	return (seconds < most ? seconds : most) * CLOCK_FACTOR * 1000000000;
}

/* Time for which the worker is stopped does not count: the process may be stopped with it. */
static void count_time(struct order *o, uint64_t since)
{
	uint64_t passed = vcuda_now_ns() - since;

	if (passed > LOOK_NS)
		passed = LOOK_NS;
	o->left_ns -= passed < o->left_ns ? passed : o->left_ns;
}

/* False: nothing comes in time, or nothing more is needed. */
static bool wait_for(struct order *o, int fd)
{
	struct pollfd data = {.fd = fd, .events = POLLIN};
	int ready = 0;

	while (ready <= 0 && o->left_ns && !is_unwanted(o->job)) {
		uint64_t begin = vcuda_now_ns();

		ready = poll(&data, 1, LOOK_NS / 1000000);
		count_time(o, begin);
	}
	return ready > 0;
}

static bool receive(struct order *o, void *to, size_t bytes)
{
	char *at = to;
	ssize_t n;

	for (; bytes; at += n, bytes -= (size_t)n) {
		n = wait_for(o, o->process->orders) ? recv(o->process->orders, at, bytes, 0) : 0;
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return false;
	}
	return true;
}

/* `*result` is for free(). */
static bool receive_result(struct order *o, void **result, size_t *bytes)
{
	struct worker_compile_answer head;

	if (!receive(o, &head, sizeof(head)) || head.bytes > o->memory)
		return false;
	*result = malloc(head.bytes + 1);
	if (!*result)
		return false;
	*bytes = head.bytes;
	if (receive(o, *result, head.bytes))
		return true;
	free(*result);
	return false;
}

/* ---- an end without a result ---- */

static enum vcuda_compile_end say_time(uint64_t seconds, char *why, size_t size)
{
	worker_ledger_refused(VCUDA_LEDGER_COMPILE_SECONDS);
	snprintf(why, size, "it takes more than %llu s of a processor (raise vcudad's --max-compile-time)",
		 (unsigned long long)seconds);
	return VCUDA_COMPILE_FAILED;
}

static enum vcuda_compile_end say_clock(uint64_t seconds, char *why, size_t size)
{
	worker_ledger_refused(VCUDA_LEDGER_COMPILE_SECONDS);
	snprintf(why, size, "it takes more than %llu s (%d times vcudad's --max-compile-time, which may be raised)",
		 (unsigned long long)seconds * CLOCK_FACTOR, CLOCK_FACTOR);
	return VCUDA_COMPILE_FAILED;
}

static enum vcuda_compile_end say_memory(uint64_t memory, char *why, size_t size)
{
	worker_ledger_refused(VCUDA_LEDGER_COMPILE_BYTES);
	snprintf(why, size, "the compiler needs more than %llu MiB (raise vcudad's --max-compile-memory)",
		 (unsigned long long)memory >> 20);
	return VCUDA_COMPILE_NO_MEMORY;
}

static enum vcuda_compile_end say_crash(int status, char *why, size_t size)
{
	const char *name = WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;

	/* The kernel's way to end what takes too much of all memory. */
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		snprintf(why, size, "the compiler was killed, perhaps because the host has no memory left");
		return VCUDA_COMPILE_NO_MEMORY;
	}
	if (WIFSIGNALED(status))
		snprintf(why, size, "the compiler crashed (SIG%s)", name ? name : "?");
	else
		snprintf(why, size, "the compiler ended with status %d", WEXITSTATUS(status));
	return VCUDA_COMPILE_FAILED;
}

/* *again: the process has not begun with the order. */
static enum vcuda_compile_end explain(struct order *o, bool *again, char *why, size_t size)
{
	int status;
	ssize_t n;

	/* The process ends at the latest when it can read no more orders. */
	shutdown(o->process->orders, SHUT_RDWR);
	do {
		if (!wait_for(o, o->process->end))
			return is_unwanted(o->job) ? VCUDA_COMPILE_UNWANTED : say_clock(o->seconds, why, size);
		n = read(o->process->end, &status, sizeof(status));
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(status)) {
		snprintf(why, size, "the process that starts compilers has ended");
		return VCUDA_COMPILE_FAILED;
	}
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return say_time(o->seconds, why, size);
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_COMPILE_NO_MEMORY)
		return say_memory(o->memory, why, size);
	*again = WIFEXITED(status) && WEXITSTATUS(status) == WORKER_COMPILE_IDLE;
	return say_crash(status, why, size);
}

static enum vcuda_compile_end try(const struct vcuda_compile_job *job, void **result, size_t *bytes, bool *again,
				  char *why, size_t size)
{
	uint64_t seconds = worker_ledger_process_limit(VCUDA_LEDGER_COMPILE_SECONDS);
	struct process *p = take_process(job->background);
	struct order o = {.job = job,
			  .process = p,
			  .seconds = seconds,
			  .memory = worker_ledger_process_limit(VCUDA_LEDGER_COMPILE_BYTES),
			  .left_ns = clock_limit(seconds)};
	enum vcuda_compile_end end;

	*again = false;
	if (!p) {
		snprintf(why, size, "no process can be started that compiles");
		return VCUDA_COMPILE_NO_MEMORY;
	}
	if (send_order(&o) && receive_result(&o, result, bytes)) {
		give_process(p);
		return VCUDA_COMPILE_DONE;
	}
	/* A process that is still there is killed when its descriptors are closed. */
	end = explain(&o, again, why, size);
	free_process(p);
	return end;
}

static enum vcuda_compile_end run(const struct vcuda_compile_job *job, void **result, size_t *bytes, char *why,
				  size_t size)
{
	struct worker_compiling compiling;
	enum vcuda_compile_end end;
	bool again;

	if (!job->unwanted)
		worker_compiling_begin(&compiling, job->kernel);
	begin_work();
	do
		end = try(job, result, bytes, &again, why, size);
	while (again);
	end_work();
	if (!job->unwanted)
		worker_compiling_end(&compiling);
	return end;
}

static void expect(void)
{
	pthread_mutex_lock(&pool.lock);
	if (!pool.expected)
		tell_spawner(WORKER_SPAWN_SOON);
	pool.expected = true;
	pthread_mutex_unlock(&pool.lock);
}

const struct vcuda_compiler worker_compiler = {.run = run, .expect = expect, .tell = worker_compiling_count};
