/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcudad: lends the host's CUDA devices to one VM, or to local programs, by starting one worker per guest process.
 *
 * It must not die while its VM lives, so it does little: one thread, one event loop, no CUDA, nothing that blocks.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptors.h"
#include "control.h"
#include "local.h"
#include "common/log.h"
#include "limits/arbiter.h"
#include "limits/gpu-reader.h"
#include "limits/turns.h"
#include "limits/ledger.h"
#include "common/trace-point.h"
#include "options/options.h"
#include "worker/memory-group.h"
#include "worker/overcommit.h"
#include "worker/sandbox.h"
#include "worker/user.h"
#include "worker/worker-group.h"
#include "keeper/keeper.h"
#include "worker/worker-table.h"
#include "vhost.h"

/* At the end of vcudad killed workers have this long. */
#define DAEMON_END_MS 5000

static struct daemon {
	struct daemon_options options;
	struct daemon_loop loop;
	struct daemon_vhost vhost;
	struct daemon_local local;
	struct daemon_warm_pool warm_pool;
	struct daemon_control control;
	struct daemon_source signals;
	struct daemon_timer idle_timer, end_timer;
	bool ending;
} daemon_state;

static unsigned int clients(const struct daemon *d)
{
	return d->local.count + d->local.waiting_count + d->vhost.device.count + (d->vhost.fd >= 0);
}

static void end(struct daemon *d)
{
	if (d->ending)
		return;
	d->ending = true;
	daemon_timer_clear(&d->idle_timer);
	daemon_control_close(&d->control);
	daemon_local_close(&d->local);
	daemon_vhost_close(&d->vhost);
	daemon_warm_pool_close(&d->warm_pool);
	daemon_timer_set(&d->loop, &d->end_timer, DAEMON_END_MS);
}

static void end_expired(struct daemon_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, end_timer);

	vcuda_log("%u killed workers have not ended yet (see dmesg)", clients(d) + d->warm_pool.count);
	d->loop.stop = true;
}

/* By clients, or by descriptors of what clients have exported. */
static bool is_in_use(const struct daemon *d)
{
	return clients(d) || daemon_keepers_run();
}

static void idle_expired(struct daemon_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, idle_timer);

	/* Stop listening; clients that have connected are still served. */
	daemon_listener_drain(&d->local.listener);
	daemon_listener_drain(&d->vhost.listener);
	if (is_in_use(d)) {
		daemon_timer_set(&d->loop, &d->idle_timer, 100);
		return;
	}
	vcuda_log_debug("idle for %u s: ends", d->options.exit_when_idle);
	end(d);
}

/* After every turn of the loop: what follows from it for the daemon as a whole. */
static void turn(struct daemon_loop *loop)
{
	struct daemon *d = loop->owner;

	daemon_device_continue(&d->vhost.device);
	daemon_memory_group_guest(daemon_memory_bytes(&d->vhost.device.memory));
	if (d->vhost.ended && !d->options.socket)
		end(d);
	if (d->ending) {
		loop->stop = loop->stop || !(clients(d) + d->warm_pool.count);
		return;
	}
	if (!d->options.exit_when_idle)
		return;
	if (is_in_use(d))
		daemon_timer_clear(&d->idle_timer);
	else if (!d->idle_timer.at)
		daemon_timer_set(loop, &d->idle_timer, d->options.exit_when_idle * 1000ull);
}

static void signals_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon *d = container_of(source, struct daemon, signals);
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof(info)) == sizeof(info))
		end(d);
}

static int catch_signals(struct daemon *d)
{
	sigset_t set;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	d->signals = (struct daemon_source){.ready = signals_ready};
	return daemon_source_add(&d->loop, &d->signals, fd, EPOLLIN);
}

static int open_sockets(struct daemon *d)
{
	int status = daemon_vhost_open(&d->vhost, &d->loop, &d->options, &d->warm_pool);

	if (status)
		return status;
	status = daemon_local_open(&d->local, &d->loop, &d->options, &d->warm_pool);
	if (status)
		goto close_vhost;
	status = daemon_control_open(&d->control, &d->loop, &d->options, &d->vhost, &d->local);
	if (!status)
		return 0;
	daemon_listener_close(&d->local.listener);
close_vhost:
	daemon_listener_close(&d->vhost.listener);
	return status;
}

static void say_ready(const struct daemon_options *options)
{
	static const char ready[] = "ready\n";

	if (!daemon_options_has_driver(options))
		vcuda_log("there is no /dev/nvidiactl: NVIDIA's driver is not loaded, and programs get no GPU until it "
			  "is. The software GPU needs none (--backend cpu)");
	/* The program that passed --ready-fd knows the sockets, and owns the terminal. */
	if (options->vhost_socket && (options->ready_fd < 0 || options->verbose))
		vcuda_log("listening on %s", options->vhost_socket);
	if (options->socket && (options->ready_fd < 0 || options->verbose))
		vcuda_log("listening on %s", options->socket);
	if (options->ready_fd < 0)
		return;
	if (write(options->ready_fd, ready, sizeof(ready) - 1) < 0)
		vcuda_log("cannot write to descriptor %d (--ready-fd): %m", options->ready_fd);
	close(options->ready_fd);
}

static void close_groups(void)
{
	daemon_worker_groups_close();
	daemon_memory_group_close();
}

/* Without these system calls vcudad cannot watch its workers. */
static bool has_new_kernel(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd >= 0)
		close(fd);
	if (fd >= 0 || errno != ENOSYS)
		return true;
	vcuda_log("this kernel has no file descriptors of processes (pidfd_open): vcudad needs Linux 5.4 or later");
	return false;
}

int main(int argc, char **argv)
{
	struct daemon *d = &daemon_state;
	int status;

	vcuda_descriptors_standard(true);
	vcuda_trace_point("vcudad: starts");
	setvbuf(stderr, NULL, _IOLBF, 1024);
	daemon_options_parse(&d->options, argc, argv);
	vcuda_log_verbose(d->options.verbose);
	if (!has_new_kernel() || daemon_sandbox_prepare(&d->options))
		return 1;
	daemon_timer_init(&d->idle_timer, idle_expired);
	daemon_timer_init(&d->end_timer, end_expired);
	status = daemon_loop_init(&d->loop);
	if (!status)
		status = catch_signals(d);
	if (!status)
		status = daemon_ledger_refresh(&d->options);
	if (status) {
		vcuda_log("cannot start: %s", strerror(-status));
		return 1;
	}
	d->loop.owner = d;
	d->loop.idle = turn;
	/* A worker has several. Where the limit stays low, the calls that need one report it. */
	vcuda_descriptors_raise();
	daemon_worker_table_fd();
	if (daemon_worker_groups_open(&d->loop))
		return 1;
	if (daemon_memory_group_open(&d->loop, d->options.max_host_memory) || open_sockets(d)) {
		close_groups();
		return 1;
	}
	daemon_gpu_reader_refresh(&d->loop, &d->options);
	daemon_keepers_open(&d->loop, &d->options);
	daemon_turns_open(&d->loop, &d->options);
	daemon_overcommit_open(&d->loop, &d->options);
	daemon_arbiter_open(&d->loop, &d->options);
	daemon_warm_pool_open(&d->warm_pool, &d->loop, &d->options);
	say_ready(&d->options);
	turn(&d->loop);
	daemon_loop_run(&d->loop);
	daemon_arbiter_close();
	daemon_overcommit_close();
	daemon_turns_close();
	daemon_gpu_reader_close();
	daemon_keepers_close();
	close_groups();
	daemon_user_release(&d->options);
	daemon_loop_close(&d->loop);
	return daemon_overcommit_is_refused();
}
