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
#include <sys/syscall.h>
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

static int open_local(struct client_process *p)
{
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pidfd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	p->fd = client_local_connect(NULL, take_name);
	if (p->fd >= 0)
		return 0;
	close(p->pidfd);
	return p->fd;
}

static int ask_vcudad(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	struct vcuda_process_request request = {.action = action, .milliseconds = milliseconds};
	struct vcuda_process_reply reply;
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.align = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec data = {&request, sizeof(request)};
	struct msghdr h = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t bytes;

	memcpy(CMSG_DATA(&control.align), &p->pidfd, sizeof(int));
	if (sendmsg(p->fd, &h, MSG_NOSIGNAL) < 0)
		return -errno;
	do {
		bytes = recv(p->fd, &reply, sizeof(reply), 0);
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return -errno;
	/* A vcudad that does not know such connections starts a worker, which waits for another message. */
	if (bytes != sizeof(reply))
		return bytes ? -EPROTO : -EOPNOTSUPP;
	p->state = reply.state;
	p->failure = reply.failure;
	return reply.status;
}

/* ---- /dev/vcuda ---- */

static int ask_driver(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	struct vcuda_process m = {.pid = p->pid, .action = action, .milliseconds = milliseconds};

	while (ioctl(p->fd, VCUDA_IOC_PROCESS, &m)) {
		if (errno == EINTR)
			continue;
		return errno == ENOTTY ? -EOPNOTSUPP : -errno;
	}
	p->state = m.state;
	p->failure = m.failure;
	return 0;
}

/* ---- both ---- */

int client_process_open(struct client_process *p, int pid)
{
	*p = (struct client_process){.pid = pid, .fd = -1, .pidfd = -1};
	if (is_wanted(&client_transport_virtio)) {
		p->fd = open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC);
		if (p->fd >= 0 || errno != ENOENT)
			return p->fd >= 0 ? 0 : -errno;
	}
	return is_wanted(&client_transport_local) ? open_local(p) : -ENOENT;
}

void client_process_close(struct client_process *p)
{
	close(p->fd);
	if (p->pidfd >= 0)
		close(p->pidfd);
}

int client_process_act(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	return p->pidfd < 0 ? ask_driver(p, action, milliseconds) : ask_vcudad(p, action, milliseconds);
}

int client_process_step(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	struct timespec nap = {.tv_nsec = FIRST_NAP_NS};
	int err = client_process_act(p, action, milliseconds);

	while (!err && p->state & VCUDA_PROCESS_STEP) {
		nanosleep(&nap, NULL);
		nap.tv_nsec = 2 * nap.tv_nsec < LONGEST_NAP_NS ? 2 * nap.tv_nsec : LONGEST_NAP_NS;
		err = client_process_act(p, VCUDA_PROCESS_GET_STATE, 0);
	}
	return err ? err : -(int)p->failure;
}
