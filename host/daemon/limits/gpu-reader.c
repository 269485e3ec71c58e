/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/gpu-reader.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptors.h"
#include "common/log.h"
#include "limits/overrun.h"
#include "limits/reconcile.h"
#include "loop/helper.h"
#include "protocol/ipc/ledger.h"

/* Until a program that has failed is started again. */
#define RETRY_MS 60000

/* The library's answer may take long while a GPU is reset. */
#define SILENT_MS 60000

static void ready(struct daemon_source *source, uint32_t events);

static struct {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	struct daemon_helper helper;
	struct daemon_source source;
	struct daemon_timer timer; /* until it is started again, or has been silent for too long */
	int fd;                    /* -1: none */
	bool none;                 /* there is nothing to read */
} reader = {.source = {.fd = -1, .ready = ready}, .fd = -1};

static void close_socket(void)
{
	daemon_source_remove(reader.loop, &reader.source);
	if (reader.fd >= 0)
		close(reader.fd);
	reader.fd = -1;
}

/* vcudad does not wait for the end: the driver may hold the program. */
static void end(void)
{
	close_socket();
	daemon_helper_kill(&reader.helper);
}

static int start_with_socket(void)
{
	char *arguments[] = {reader.options->reader, reader.options->share ? "samples" : NULL, NULL};
	/* Where both numbers are the same the child would lose the descriptor. */
	int ends[2], status = vcuda_descriptors_pair(VCUDA_GPU_USE_FD + 1, ends);

	if (status)
		return status;
	reader.fd = ends[0];
	status = daemon_source_add(reader.loop, &reader.source, reader.fd, EPOLLIN);
	if (!status)
		status = daemon_helper_start(&reader.helper, arguments, ends[1], VCUDA_GPU_USE_FD);
	close(ends[1]);
	return status;
}

static void start(void)
{
	int status = start_with_socket();

	if (!status) {
		daemon_timer_set(reader.loop, &reader.timer, SILENT_MS);
		return;
	}
	close_socket();
	vcuda_log("cannot start %s, which reads what processes have of each GPU: %s", reader.options->reader,
		  strerror(-status));
	daemon_timer_set(reader.loop, &reader.timer, RETRY_MS);
}

static void expired(struct daemon_timer *timer)
{
	if (!reader.helper.process) {
		start();
		return;
	}
	vcuda_log("%s has said nothing for %d s: what workers take of a GPU's memory beyond their grants is not seen",
		  reader.options->reader, SILENT_MS / 1000);
	end();
}

static void ended(struct daemon_helper *helper, const siginfo_t *info)
{
	close_socket();
	daemon_timer_clear(&reader.timer);
	reader.none = info->si_code == CLD_EXITED && info->si_status == VCUDA_GPU_USE_NONE;
	if (reader.none)
		return;
	vcuda_log("%s has ended: it is started again in %d s", reader.options->reader, RETRY_MS / 1000);
	daemon_timer_set(reader.loop, &reader.timer, RETRY_MS);
}

/* False: the message, of `length` bytes, is none. */
static bool take(const struct vcuda_gpu_use *m, size_t length)
{
	if (length < VCUDA_GPU_USE_BYTES(0) || m->gpu >= VCUDA_LEDGER_GPUS || m->count > VCUDA_GPU_USE_PROCESSES ||
	    length != VCUDA_GPU_USE_BYTES(m->count))
		return false;
	if (m->type == VCUDA_GPU_USE_MEMORY)
		daemon_reconcile(m);
	else if (m->type == VCUDA_GPU_USE_SAMPLES)
		daemon_overrun_samples(m);
	else
		return false;
	return true;
}

static void ready(struct daemon_source *source, uint32_t events)
{
	static struct vcuda_gpu_use m;
	ssize_t bytes = recv(reader.fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes > 0 && take(&m, (size_t)bytes))
		daemon_timer_set(reader.loop, &reader.timer, SILENT_MS);
	else
		end();
}

void daemon_gpu_reader_refresh(struct daemon_loop *loop, const struct daemon_options *options)
{
	bool is_limited = options->max_device_memory < VCUDA_LEDGER_NO_LIMIT ||
			  options->max_process_device_memory < VCUDA_LEDGER_NO_LIMIT;

	if (!reader.loop) {
		daemon_timer_init(&reader.timer, expired);
		daemon_helper_init(&reader.helper, loop, ended);
	}
	reader.loop = loop;
	reader.options = options;
	if ((is_limited || options->share) && options->reader && strcmp(options->backend, "cpu") && !reader.none &&
	    !reader.timer.at && !reader.helper.process)
		start();
}

void daemon_gpu_reader_close(void)
{
	if (!reader.loop)
		return;
	daemon_timer_clear(&reader.timer);
	close_socket();
	daemon_helper_close(&reader.helper);
}
