/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker-log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "common/log.h"

/* A pipe's default capacity: one turn empties it. */
#define TURN_BYTES (64 << 10)

/*
 * The capacity that a worker without privileges can give its pipe. Output that a child of it adds meanwhile is not
 * read.
 */
#define DRAIN_BYTES (1 << 20)

/* A worker over its limit is read this rarely: it gets little of vcudad's time. */
#define PAUSE_MS 100

#define REPORT_MS 10000

/* vcudad does not wait for the reader of its log: a pipe or terminal that is full takes no lines of workers. */
static bool emit(struct daemon_log_lines *lines, const char *text, size_t length)
{
	struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&room, 1, 0) == 1 && room.revents == POLLOUT && write(STDERR_FILENO, text, length) > 0;
}

static void report(struct daemon_worker_log *log)
{
	uint64_t dropped = daemon_log_lines_take_dropped(&log->lines);

	log->reported += dropped;
	if (dropped && log->guest_pid)
		vcuda_log_peer("worker %d (guest process %u) writes more than the log takes: %llu bytes were dropped",
			       (int)log->process, log->guest_pid, (unsigned long long)dropped);
	else if (dropped)
		vcuda_log_peer("%s %d writes more than the log takes: %llu bytes were dropped", log->program,
			       (int)log->process, (unsigned long long)dropped);
}

/* Returns whether the pipe may have more. */
static bool read_pipe(struct daemon_worker_log *log, size_t most)
{
	char text[4096];
	size_t done;
	ssize_t bytes = 0;

	for (done = 0; done < most; done += (size_t)bytes) {
		bytes = read(log->fd, text, sizeof(text));
		if (bytes <= 0)
			return bytes < 0 && (errno == EAGAIN || errno == EINTR);
		daemon_log_lines_add(&log->lines, text, (size_t)bytes, daemon_now());
	}
	return true;
}

static void pipe_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_worker_log *log = container_of(source, struct daemon_worker_log, source);
	uint64_t before = log->lines.dropped;
	bool more = read_pipe(log, TURN_BYTES);

	if (log->lines.dropped && !log->report_timer.at)
		daemon_timer_set(log->loop, &log->report_timer, REPORT_MS);
	if (more && log->lines.dropped == before)
		return;
	daemon_source_remove(log->loop, source);
	if (more)
		daemon_timer_set(log->loop, &log->pause_timer, PAUSE_MS);
}

static void pause_expired(struct daemon_timer *timer)
{
	struct daemon_worker_log *log = container_of(timer, struct daemon_worker_log, pause_timer);

	if (daemon_source_add(log->loop, &log->source, log->fd, EPOLLIN))
		daemon_timer_set(log->loop, timer, PAUSE_MS);
}

static void report_expired(struct daemon_timer *timer)
{
	report(container_of(timer, struct daemon_worker_log, report_timer));
}

int daemon_worker_log_open(struct daemon_worker_log *log, struct daemon_loop *loop, int *worker_end)
{
	int ends[2];

	*log = (struct daemon_worker_log){.loop = loop, .fd = -1, .source = {.fd = -1, .ready = pipe_ready}};
	daemon_timer_init(&log->pause_timer, pause_expired);
	daemon_timer_init(&log->report_timer, report_expired);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	log->fd = ends[0];
	*worker_end = ends[1];
	return 0;
}

/* The bucket that all workers of this vcudad share. */
static struct daemon_log_bucket *bucket_of_all(void)
{
	static struct daemon_log_bucket all;

	if (!all.refilled)
		daemon_log_bucket_init(&all, daemon_now());
	return &all;
}

void daemon_worker_log_start(struct daemon_worker_log *log, const char *program, pid_t process)
{
	log->program = program;
	log->process = process;
	daemon_log_lines_init(&log->lines, program, process, bucket_of_all(), daemon_now(), emit);
	pause_expired(&log->pause_timer);
}

void daemon_worker_log_close(struct daemon_worker_log *log)
{
	daemon_source_remove(log->loop, &log->source);
	daemon_timer_clear(&log->pause_timer);
	daemon_timer_clear(&log->report_timer);
	if (log->process) {
		read_pipe(log, DRAIN_BYTES);
		daemon_log_lines_finish(&log->lines, daemon_now());
		report(log);
		daemon_log_lines_emit_last(&log->lines);
	}
	close(log->fd);
	log->fd = -1;
}
