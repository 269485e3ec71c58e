/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "guest/driver/uapi.h"
#include "protocol/ipc/process.h"
#include "transport.h"

/* A step takes a millisecond, or seconds. */
#define FIRST_NAP_NS 200000
#define LONGEST_NAP_NS 20000000

static bool is_wanted(const struct client_transport_ops *transport)
{
	const char *only = getenv("VCUDA_TRANSPORT");

	return !only || !*only || !strcmp(only, transport->name);
}

/* ---- local ---- */

/* By its name vcudad knows that the connection wants no worker. */
static int take_name(int fd)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	uint64_t number;
	int length;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, VCUDA_PROCESS_NAME "%016llx",
			  (unsigned long long)number);
	return bind(fd, (struct sockaddr *)&name, (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + length)
		       ? -errno
		       : 0;
}

static int ask_vcudad(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	struct vcuda_process_request request = {
		.action = action, .milliseconds = milliseconds, .pid = (uint32_t)p->pid};
	struct vcuda_process_reply reply;
	ssize_t bytes;

	if (send(p->own.fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return -errno;
	do {
		bytes = recv(p->own.fd, &reply, sizeof(reply), 0);
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return errno == EAGAIN ? -EIO : -errno;
	if (bytes != sizeof(reply))
		return bytes ? -EPROTO : -ECONNRESET;
	p->state = reply.state;
	p->failure = reply.failure;
	return reply.status;
}

/* ---- /dev/vcuda ---- */

static int ask_driver(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	struct vcuda_process m = {.pid = p->pid, .action = action, .milliseconds = milliseconds};

	while (ioctl(p->own.fd, VCUDA_IOC_PROCESS, &m)) {
		if (errno == EINTR)
			continue;
		return errno == ENOTTY ? -EOPNOTSUPP : -errno;
	}
	p->state = m.state;
	p->failure = m.failure;
	return 0;
}

/* ---- both ---- */

static int open_transport(struct client_process *p)
{
	int fd = is_wanted(&client_transport_virtio) ? open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC) : -1;

	if (fd >= 0)
		return vcuda_own_descriptor_take(&p->own, fd);
	if (is_wanted(&client_transport_virtio) && errno != ENOENT)
		return -errno;
	p->is_local = true;
	return is_wanted(&client_transport_local) ? client_local_connect(NULL, &p->own, take_name) : -ENOENT;
}

int client_process_open(struct client_process *p, int pid)
{
	int err, guarded = vcuda_own_descriptor_guard();

	*p = (struct client_process){.pid = pid, .own.fd = -1};
	err = open_transport(p);
	vcuda_own_descriptor_unguard(guarded);
	return err;
}

void client_process_close(struct client_process *p)
{
	vcuda_own_descriptor_close(&p->own);
}

int client_process_act(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	return p->is_local ? ask_vcudad(p, action, milliseconds) : ask_driver(p, action, milliseconds);
}

static int make_step(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	static const enum vcuda_process_state ends[VCUDA_PROCESS_ACTIONS] = {
		[VCUDA_PROCESS_LOCK] = VCUDA_PROCESS_LOCKED,
		[VCUDA_PROCESS_CHECKPOINT] = VCUDA_PROCESS_CHECKPOINTED,
		[VCUDA_PROCESS_RESTORE] = VCUDA_PROCESS_LOCKED,
		[VCUDA_PROCESS_UNLOCK] = VCUDA_PROCESS_RUNNING};
	struct timespec nap = {.tv_nsec = FIRST_NAP_NS};
	int err = client_process_act(p, action, milliseconds);

	while (!err && p->state & VCUDA_PROCESS_STEP) {
		nanosleep(&nap, NULL);
		nap.tv_nsec = 2 * nap.tv_nsec < LONGEST_NAP_NS ? 2 * nap.tv_nsec : LONGEST_NAP_NS;
		err = client_process_act(p, VCUDA_PROCESS_GET_STATE, 0);
		/* A process that goes on may end at once. */
		if (err == -ESRCH && action == VCUDA_PROCESS_UNLOCK)
			return 0;
	}
	if (err || p->failure)
		return err ? err : -(int)p->failure;
	/* Another caller has taken a step meanwhile, or a worker was replaced. */
	return p->state == ends[action] ? 0 : -EBADFD;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* The host waits for work no longer than VCUDA_PROCESS_MS_MAX at a time. */
int client_process_step(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	uint64_t end = milliseconds ? now_ms() + milliseconds : UINT64_MAX, left;
	int err;

	do {
		left = end - now_ms();
		err = make_step(p, action, left < VCUDA_PROCESS_MS_MAX ? (uint32_t)left : VCUDA_PROCESS_MS_MAX);
	} while (err == -ETIMEDOUT && action == VCUDA_PROCESS_LOCK && now_ms() < end);
	return err;
}
