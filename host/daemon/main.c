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
#include <unistd.h>

#include "common/descriptors.h"
#include "images/image-peer.h"
#include "local.h"
#include "common/log.h"
#include "common/trace-point.h"
#include "options.h"
#include "worker-table.h"
#include "vhost.h"

static struct vcuda_daemon {
	struct vcuda_options options;
	struct vcuda_loop loop;
	struct vcuda_vhost vhost;
	struct vcuda_local local;
	struct vcuda_stock stock;
	struct vcuda_source signals;
	struct vcuda_timer idle_timer, end_timer;
	bool ending;
} daemon_state;

static unsigned int clients(const struct vcuda_daemon *d)
{
	return d->local.count + d->vhost.device.count + (d->vhost.fd >= 0);
}

static void end(struct vcuda_daemon *d)
{
	if (d->ending)
		return;
	d->ending = true;
	vcuda_timer_clear(&d->idle_timer);
	vcuda_local_close(&d->local);
	vcuda_vhost_close(&d->vhost);
	vcuda_stock_close(&d->stock);
	vcuda_timer_set(&d->loop, &d->end_timer, VCUDA_STOP_MS);
}

static void end_expired(struct vcuda_timer *timer)
{
	struct vcuda_daemon *d = container_of(timer, struct vcuda_daemon, end_timer);

	vcuda_log("%u killed workers have not ended yet (see dmesg)", clients(d) + d->stock.count);
	d->loop.stop = true;
}

static void idle_expired(struct vcuda_timer *timer)
{
	struct vcuda_daemon *d = container_of(timer, struct vcuda_daemon, idle_timer);

	/* Nobody finds us any more from here on; whoever did before is still served. */
	vcuda_listener_drain(&d->local.listener);
	vcuda_listener_drain(&d->vhost.listener);
	if (clients(d)) {
		vcuda_timer_set(&d->loop, &d->idle_timer, 100);
		return;
	}
	vcuda_log_debug("idle for %u s: ends", d->options.exit_when_idle);
	end(d);
}

/* After every turn of the loop: what follows from it for the daemon as a whole. */
static void turn(struct vcuda_loop *loop)
{
	struct vcuda_daemon *d = loop->owner;

	vcuda_device_continue(&d->vhost.device);
	if (d->vhost.ended && !d->options.socket)
		end(d);
	if (d->ending) {
		loop->stop = loop->stop || !(clients(d) + d->stock.count);
		return;
	}
	if (!d->options.exit_when_idle)
		return;
	if (clients(d))
		vcuda_timer_clear(&d->idle_timer);
	else if (!d->idle_timer.at)
		vcuda_timer_set(loop, &d->idle_timer, d->options.exit_when_idle * 1000ull);
}

static void signals_ready(struct vcuda_source *source, uint32_t events)
{
	struct vcuda_daemon *d = container_of(source, struct vcuda_daemon, signals);
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof(info)) == sizeof(info))
		end(d);
}

static int catch_signals(struct vcuda_daemon *d)
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
	d->signals = (struct vcuda_source){.ready = signals_ready};
	return vcuda_source_add(&d->loop, &d->signals, fd, EPOLLIN);
}

static int open_sockets(struct vcuda_daemon *d)
{
	int status = vcuda_vhost_open(&d->vhost, &d->loop, &d->options, &d->stock);

	if (status)
		return status;
	status = vcuda_local_open(&d->local, &d->loop, &d->options, &d->stock);
	if (status)
		vcuda_listener_close(&d->vhost.listener);
	return status;
}

static void say_ready(const struct vcuda_options *options)
{
	static const char ready[] = "ready\n";

	/* Who passed a descriptor knows the sockets, and the terminal is its program's. */
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

int main(int argc, char **argv)
{
	struct vcuda_daemon *d = &daemon_state;
	int status;

	vcuda_mark("vcudad: starts");
	setvbuf(stderr, NULL, _IOLBF, 1024);
	vcuda_options_parse(&d->options, argc, argv);
	vcuda_log_verbose(d->options.verbose);
	vcuda_timer_init(&d->idle_timer, idle_expired);
	vcuda_timer_init(&d->end_timer, end_expired);
	status = vcuda_loop_init(&d->loop);
	if (!status)
		status = catch_signals(d);
	if (status) {
		vcuda_log("cannot start: %s", strerror(-status));
		return 1;
	}
	d->loop.owner = d;
	d->loop.idle = turn;
	/* A kept image has one, and so has much of a worker. Where there are no more, the rest says so. */
	vcuda_descriptors_raise();
	vcuda_roster_fd();
	vcuda_image_peers_open(&d->loop, d->options.image_cache);
	if (open_sockets(d))
		return 1;
	vcuda_stock_open(&d->stock, &d->loop, &d->options);
	say_ready(&d->options);
	turn(&d->loop);
	vcuda_loop_run(&d->loop);
	vcuda_loop_close(&d->loop);
	return 0;
}
