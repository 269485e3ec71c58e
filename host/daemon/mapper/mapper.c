/* SPDX-License-Identifier: Apache-2.0 */
#include "mapper/mapper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptors.h"
#include "common/fds.h"
#include "mapper/procmap.h"
#include "protocol/ipc/mapper.h"

#define MAX_FDS (2 * VCUDA_CHANNEL_MAX_FDS)

/* ---- what the kernel offers ---- */

static int listen_to_itself(void)
{
	struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {.len = 1, .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* A kernel that does not know the flag looks at it before it looks for the notification. */
static bool knows_continue(int listener)
{
	struct seccomp_notif_resp response = {.id = 1, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) && errno == ENOENT;
}

static bool has_our_sizes(void)
{
	struct seccomp_notif_sizes sizes;

	return !syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) &&
	       sizes.seccomp_notif == sizeof(struct seccomp_notif) &&
	       sizes.seccomp_notif_resp == sizeof(struct seccomp_notif_resp);
}

/* Not in this process: a filter stays. */
bool daemon_mapper_is_possible(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		int listener = listen_to_itself();

		_exit(listener >= 0 && knows_continue(listener) && has_our_sizes() &&
				      !syscall(SYS_close_range, listener, UINT_MAX, 0)
			      ? 0
			      : 1);
	}
	return child > 0 && waitpid(child, &status, 0) == child && !status;
}

/* ---- decisions ---- */

/* All 64 bits of each argument: the kernel itself looks at fewer. */
static bool read_call(const struct seccomp_data *data, struct daemon_grant *wanted)
{
	const uint64_t prot = data->args[2], flags = data->args[3], fd = data->args[4];
	uint64_t region = (fd - VCUDA_MAPPER_FIRST_RAM) / 2;

	*wanted = (struct daemon_grant){.address = data->args[0],
					.length = data->args[1],
					.offset = data->args[5],
					.region = (uint32_t)region,
					.writable = prot & PROT_WRITE};
	return data->nr == SYS_mmap && flags == (MAP_SHARED | MAP_FIXED) && fd >= VCUDA_MAPPER_FIRST_RAM &&
	       region < VCUDA_CHANNEL_MAX_FDS &&
	       (wanted->writable ? prot == (PROT_READ | PROT_WRITE) && fd == VCUDA_MAPPER_WRITABLE(region)
				 : prot == PROT_READ && fd == VCUDA_MAPPER_READ_ONLY(region));
}

/* True: the call is allowed. Any call of the mapper shows that its earlier call has returned. */
static bool decide(struct daemon_mapper *mapper, const struct seccomp_data *data, struct seccomp_notif_resp *response)
{
	struct daemon_grant wanted;

	mapper->idle = true;
	if (data->nr == VCUDA_MAPPER_IS_IDLE)
		return true;
	if (!read_call(data, &wanted) || !mapper->may_map(mapper, &wanted)) {
		response->error = -EPERM;
		return false;
	}
	response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	mapper->idle = false;
	return true;
}

static void fail(struct daemon_mapper *mapper, const char *why)
{
	daemon_source_remove(mapper->loop, &mapper->listener_source);
	mapper->ended(mapper, why);
}

static void listener_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_mapper *mapper = container_of(source, struct daemon_mapper, listener_source);
	struct seccomp_notif notification = {0};
	struct seccomp_notif_resp response = {0};
	bool allowed;

	if (!(events & EPOLLIN)) {
		daemon_source_remove(mapper->loop, source);
		return;
	}
	/* A call that a signal interrupted waits no more. */
	if (ioctl(mapper->listener, SECCOMP_IOCTL_NOTIF_RECV, &notification))
		return;
	response.id = notification.id;
	allowed = decide(mapper, &notification.data, &response);
	if (ioctl(mapper->listener, SECCOMP_IOCTL_NOTIF_SEND, &response))
		mapper->idle = true;
	if (!allowed)
		fail(mapper, "asks for memory of its VM that it was not given");
}

/* ---- its socket ---- */

static int receive(struct daemon_mapper *mapper, int fds[2])
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 2)];
		struct cmsghdr first;
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	if (recvmsg(mapper->socket, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&h) ||
	    control.first.cmsg_len != CMSG_LEN(sizeof(int) * 2))
		return -EPROTO;
	memcpy(fds, CMSG_DATA(&control.first), sizeof(int) * 2);
	return 0;
}

static int take_listener(struct daemon_mapper *mapper)
{
	int fds[2], status = mapper->maps ? -EPROTO : receive(mapper, fds);

	if (status)
		return status;
	mapper->listener = fds[0];
	mapper->maps = fdopen(fds[1], "re");
	if (!mapper->maps) {
		close(fds[1]);
		return -ENOMEM;
	}
	return daemon_source_add(mapper->loop, &mapper->listener_source, mapper->listener, EPOLLIN);
}

static void socket_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_mapper *mapper = container_of(source, struct daemon_mapper, socket_source);

	if (events & EPOLLIN && !take_listener(mapper))
		return;
	if (events & EPOLLHUP) {
		daemon_source_remove(mapper->loop, source);
		mapper->runs = false;
	}
	fail(mapper, mapper->runs ? "has a mapper that breaks the rules" : NULL);
}

void daemon_mapper_init(struct daemon_mapper *mapper)
{
	*mapper = (struct daemon_mapper){.socket = -1, .listener = -1};
	mapper->socket_source = (struct daemon_source){.fd = -1, .ready = socket_ready};
	mapper->listener_source = (struct daemon_source){.fd = -1, .ready = listener_ready};
}

int daemon_mapper_open(struct daemon_mapper *mapper, struct daemon_loop *loop, int *theirs)
{
	int pair[2], status = vcuda_descriptors_pair(VCUDA_MAPPER_FD + 1, pair);

	mapper->loop = loop;
	if (status)
		return status;
	mapper->socket = pair[0];
	*theirs = pair[1];
	status = daemon_source_add(loop, &mapper->socket_source, mapper->socket, EPOLLIN);
	mapper->made = true;
	mapper->runs = mapper->idle = !status;
	return status;
}

int daemon_mapper_give(struct daemon_mapper *mapper, const int *fds, unsigned int count)
{
	const struct iovec part = {"", 1};
	ssize_t bytes;

	if (!count || count > MAX_FDS)
		return -EINVAL;
	bytes = vcuda_fds_send(mapper->socket, &part, 1, fds, count, MSG_DONTWAIT);
	return bytes < 0 ? (int)bytes : 0;
}

bool daemon_mapper_has_unmapped(const struct daemon_mapper *mapper, uint64_t address, uint64_t length)
{
	return mapper->idle && mapper->maps && daemon_procmap_has_no_file(mapper->maps, address, length);
}

void daemon_mapper_close(struct daemon_mapper *mapper)
{
	daemon_source_remove(mapper->loop, &mapper->socket_source);
	daemon_source_remove(mapper->loop, &mapper->listener_source);
	if (mapper->socket >= 0)
		close(mapper->socket);
	if (mapper->listener >= 0)
		close(mapper->listener);
	if (mapper->maps)
		fclose(mapper->maps);
	mapper->socket = mapper->listener = -1;
	mapper->maps = NULL;
	mapper->runs = false;
}
