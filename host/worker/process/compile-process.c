/* SPDX-License-Identifier: Apache-2.0 */
#include "process/compile-process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/fds.h"

/* A process that has nothing to do for this long ends. */
#define IDLE_MS 10000

/* A process that has been this large ends after its order: freed memory may be in pieces. */
#define LARGE_KIB (256 << 10)

/* The compiler ends its process when it gets no memory, and the C library has said so just before. */
static void aborted(int signal)
{
	if (errno == ENOMEM)
		_exit(WORKER_COMPILE_NO_MEMORY);
	/* The handler is taken back by now. */
	raise(signal);
}

static void choose_signals(void)
{
	struct sigaction action = {.sa_handler = aborted, .sa_flags = (int)SA_RESETHAND};
	sigset_t none;

	for (int number = 1; number < SIGRTMIN; number++)
		if (number != SIGSYS)
			signal(number, SIG_DFL);
	sigaction(SIGABRT, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void set_limit(__rlimit_resource_t resource, rlim_t limit)
{
	struct rlimit r;

	getrlimit(resource, &r);
	r.rlim_cur = limit < r.rlim_max ? limit : r.rlim_max;
	setrlimit(resource, &r);
}

static void limit(const struct worker_compile_order *order, uint64_t own_bytes)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	/* The seconds of user and system each lack a fraction. */
	set_limit(RLIMIT_CPU, (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1 + order->seconds);
	set_limit(RLIMIT_DATA, own_bytes + order->memory);
}

/* Returns the module's file. */
static int receive(int socket, struct worker_compile_order *order)
{
	const struct iovec part = {order, sizeof(*order)};
	struct pollfd next = {.fd = socket, .events = POLLIN};
	struct vcuda_fds fds;
	int file;

	if (poll(&next, 1, IDLE_MS) <= 0)
		_exit(WORKER_COMPILE_IDLE);
	if (vcuda_fds_receive(socket, &part, 1, &fds, MSG_WAITALL) != sizeof(*order))
		_exit(WORKER_COMPILE_IDLE);
	file = vcuda_fds_take(&fds);
	if (file < 0 || order->bytes > sizeof(order->order))
		_exit(WORKER_COMPILE_BAD);
	return file;
}

static void answer(int socket, const void *data, size_t bytes)
{
	const char *at = data;
	ssize_t n;

	for (; bytes; at += n, bytes -= (size_t)n) {
		n = send(socket, at, bytes, MSG_NOSIGNAL);
		if (n <= 0)
			_exit(WORKER_COMPILE_BAD);
	}
}

static void serve(int socket, vcuda_compile compile, uint64_t own_bytes)
{
	struct worker_compile_order order;
	struct worker_compile_answer head;
	int file = receive(socket, &order);
	void *result;

	limit(&order, own_bytes);
	errno = 0;
	if (!compile(file, order.order, order.bytes, &result, &head.bytes))
		_exit(WORKER_COMPILE_NO_MEMORY);
	close(file);
	answer(socket, &head, sizeof(head));
	answer(socket, result, head.bytes);
	free(result);
}

void worker_compile_process_run(int socket, vcuda_compile compile, uint64_t own_bytes)
{
	struct rusage used;

	choose_signals();
	do {
		serve(socket, compile, own_bytes);
		getrusage(RUSAGE_SELF, &used);
	} while (used.ru_maxrss < LARGE_KIB);
	_exit(WORKER_COMPILE_IDLE);
}
