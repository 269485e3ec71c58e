/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fds.h"
#include "common/log.h"
#include "limits/overrun.h"
#include "options/quotas.h"
#include "worker/launch.h"
#include "worker/memory-group.h"
#include "worker/worker-table.h"
#include "worker/worker.h"

#define DAEMON_WORKER_REPLY_MS 30000
#define DAEMON_REPLIES_PER_TURN 16
#define DAEMON_WORKER_LATE_MS 5000

struct sent {
	struct vcuda_list entry;
	uint32_t type;
	uint64_t cookie;
	uint64_t due;
};

struct unsent {
	struct vcuda_list entry;
	size_t bytes;
	uint8_t data[];
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_channel(struct daemon_worker *w)
{
	struct unsent *unsent, *after;

	daemon_source_remove(w->loop, &w->channel_source);
	daemon_source_remove(w->loop, &w->notify_source);
	daemon_timer_clear(&w->reply_timer);
	close_fd(&w->channel);
	close_fd(&w->doorbell);
	close_fd(&w->notify);
	vcuda_list_for_each_safe (unsent, after, &w->unsent, struct unsent, entry) {
		vcuda_list_remove(&unsent->entry);
		free(unsent);
	}
}

static void watch_late(struct daemon_worker *w)
{
	if (!w->late_timer.at)
		daemon_timer_set(w->loop, &w->late_timer, DAEMON_WORKER_LATE_MS);
}

void daemon_worker_kill(struct daemon_worker *w)
{
	w->ending = true;
	close_channel(w);
	watch_late(w);
	daemon_worker_table_ends(w->pid);
	/* Without a pidfd the worker was waited for, and its group is being killed. */
	if (w->pidfd >= 0 && syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0))
		vcuda_log("cannot kill worker %d: %m", w->pid);
}

void daemon_worker_end(struct daemon_worker *w)
{
	if (w->ending || w->pidfd < 0)
		return;
	w->ending = true;
	close_channel(w);
	daemon_timer_set(w->loop, &w->end_timer, DAEMON_WORKER_GRACE_MS);
}

void daemon_worker_serve(struct daemon_worker *w, uint32_t pid, uint32_t uid, uint64_t guest)
{
	w->ledger.guest = guest;
	w->guest = (struct daemon_guest){.pid = pid, .uid = uid, .since = daemon_now()};
	w->log.guest_pid = pid;
}

bool daemon_worker_has_ended(const struct daemon_worker *w)
{
	siginfo_t info = {0};

	return waitid(P_PIDFD, (id_t)w->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

void daemon_worker_let_go(struct daemon_worker *w)
{
	close_channel(w);
	daemon_mapper_close(&w->mapper);
}

static void end_expired(struct daemon_timer *timer)
{
	struct daemon_worker *w = container_of(timer, struct daemon_worker, end_timer);

	vcuda_log_debug("worker %d does not end by itself: it is killed", w->pid);
	daemon_worker_kill(w);
}

static void late_expired(struct daemon_timer *timer)
{
	struct daemon_worker *w = container_of(timer, struct daemon_worker, late_timer);

	vcuda_log("%sworker %d%s cannot be killed (see dmesg): its guest memory stays in use, and requests that wait "
		  "for its end get no answer",
		  w->pidfd < 0 ? "a process that " : "", w->pid, w->pidfd < 0 ? " started" : "");
}

static void reply_expired(struct daemon_timer *timer)
{
	struct daemon_worker *w = container_of(timer, struct daemon_worker, reply_timer);

	/* The next turn of a VM with a small share may be far away. */
	if (w->ledger.stopped) {
		daemon_timer_set(w->loop, timer, DAEMON_WORKER_REPLY_MS);
		return;
	}
	vcuda_log_peer("worker %d (guest process %u of user %u) did not answer within %d s: it is killed", w->pid,
		       w->guest.pid, w->guest.uid, DAEMON_WORKER_REPLY_MS / 1000);
	daemon_worker_kill(w);
}

static void describe_end(const struct daemon_worker *w, const siginfo_t *info)
{
	const char *name;

	if (w->quiet)
		return;
	if (info->si_code == CLD_EXITED) {
		if (info->si_status && info->si_status != VCUDA_CHANNEL_UNFIT)
			vcuda_log_peer("worker %d ended with status %d", w->pid, info->si_status);
		return;
	}
	/* One that fails may be told to end before it is reaped: the failure takes its time to end. */
	if (w->ending && info->si_status == SIGKILL)
		return;
	if (w->greedy) {
		vcuda_log_peer("worker %d (guest process %u of user %u) was killed by the kernel: all workers together "
			       "have the host's memory that they may have (raise --max-host-memory)",
			       w->pid, w->guest.pid, w->guest.uid);
		return;
	}
	name = sigabbrev_np(info->si_status);
	vcuda_log_peer("worker %d was killed by SIG%s (%s)", w->pid, name ? name : "?", strsignal(info->si_status));
}

/* The kernel is asked about each worker that SIGKILL has ended, also where vcudad has sent the signal. */
static bool is_greedy(const struct daemon_worker *w, const siginfo_t *info)
{
	bool is_killed = info->si_code == CLD_KILLED && info->si_status == SIGKILL;

	if (!is_killed || !daemon_memory_group_has_killed() || w->ending)
		return false;
	daemon_quota_refuse(DAEMON_QUOTA_HOST_MEMORY);
	return true;
}

/* Neither the worker nor its mapper reaches the guest's memory any more. */
static void worker_free(struct daemon_worker *w)
{
	struct sent *sent, *after;

	daemon_timer_clear(&w->late_timer);
	/* Before others learn from the table that it is gone, and ask for its memory. */
	daemon_ledger_close(&w->ledger);
	daemon_gate_drop(&w->gate);
	daemon_worker_table_remove(w->pid);
	daemon_mapper_close(&w->mapper);
	w->ops->reaped(w);
	vcuda_list_for_each_safe (sent, after, &w->sent, struct sent, entry)
		free(sent);
	free(w);
}

/* The kernel kills the mapper with the worker. */
static void group_empty(struct daemon_worker_group *group)
{
	struct daemon_worker *w = container_of(group, struct daemon_worker, group);

	w->exited = true;
	if (!w->mapper.runs)
		worker_free(w);
}

static void exit_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_worker *w = container_of(source, struct daemon_worker, exit_source);
	siginfo_t info = {0};

	if (waitid(P_PIDFD, (id_t)w->pidfd, &info, WEXITED | WNOHANG) || !info.si_pid)
		return;
	daemon_ledger_end_work(&w->ledger);
	daemon_worker_table_ends(w->pid);
	/* The worker's last words come before the line about its end. */
	daemon_worker_log_close(&w->log);
	w->greedy |= is_greedy(w, &info);
	describe_end(w, &info);
	close_channel(w);
	daemon_source_remove(w->loop, &w->exit_source);
	daemon_timer_clear(&w->end_timer);
	close_fd(&w->pidfd);
	w->unfit = info.si_code == CLD_EXITED && info.si_status == VCUDA_CHANNEL_UNFIT;
	watch_late(w);
	daemon_worker_group_end(&w->group, group_empty);
}

/* Not as daemon_worker_kill(): the log tells of the worker's end. */
static void kill_over_mapper(struct daemon_worker *w, const char *why)
{
	if (why)
		vcuda_log_peer("worker %d (guest process %u of user %u) %s: it is killed", w->pid, w->guest.pid,
			       w->guest.uid, why);
	close_channel(w);
	syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
}

static void mapper_ended(struct daemon_mapper *mapper, const char *why)
{
	struct daemon_worker *w = container_of(mapper, struct daemon_worker, mapper);

	if (w->exited && !mapper->runs)
		worker_free(w);
	else if (w->pidfd >= 0)
		kill_over_mapper(w, why);
}

static bool may_map(struct daemon_mapper *mapper, const struct daemon_grant *wanted)
{
	struct daemon_worker *w = container_of(mapper, struct daemon_worker, mapper);

	return w->ops->may_map && w->ops->may_map(w, wanted);
}

/* The peer closed its end: either it is ending right now, or it broke the rules. */
static void channel_closed(struct daemon_worker *w)
{
	close_channel(w);
	if (!w->end_timer.at)
		daemon_timer_set(w->loop, &w->end_timer, DAEMON_WORKER_GRACE_MS);
}

static void watch_oldest(struct daemon_worker *w)
{
	const struct sent *oldest;
	uint64_t now = daemon_now();

	if (vcuda_list_empty(&w->sent)) {
		daemon_timer_clear(&w->reply_timer);
		return;
	}
	oldest = vcuda_list_first(&w->sent, struct sent, entry);
	daemon_timer_set(w->loop, &w->reply_timer, oldest->due > now ? oldest->due - now : 0);
}

/* False: the channel is gone. */
static bool take_reply(struct daemon_worker *w, const struct vcuda_channel_message *reply, ssize_t bytes)
{
	struct sent *oldest;

	if (bytes == sizeof(*reply) && !vcuda_list_empty(&w->sent)) {
		oldest = vcuda_list_first(&w->sent, struct sent, entry);
		if (oldest->cookie == reply->cookie && oldest->type == reply->type && reply->status <= 0 &&
		    reply->status > -4096) {
			vcuda_list_remove(&oldest->entry);
			free(oldest);
			watch_oldest(w);
			w->ops->reply(w, reply);
			return w->channel >= 0;
		}
	}
	vcuda_log_peer("worker %d (guest process %u of user %u) sent what nobody asked for: it is killed", w->pid,
		       w->guest.pid, w->guest.uid);
	daemon_worker_kill(w);
	return false;
}

static void send_unsent(struct daemon_worker *w)
{
	struct unsent *unsent, *after;

	vcuda_list_for_each_safe (unsent, after, &w->unsent, struct unsent, entry) {
		if (send(w->channel, unsent->data, unsent->bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
			if (errno != EAGAIN && errno != EINTR)
				channel_closed(w);
			return;
		}
		vcuda_list_remove(&unsent->entry);
		free(unsent);
	}
	daemon_source_change(w->loop, &w->channel_source, EPOLLIN);
}

static void channel_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_worker *w = container_of(source, struct daemon_worker, channel_source);
	int turn;

	/* No room for control data: descriptors that a worker sends us are closed by the kernel. */
	for (turn = 0; turn < DAEMON_REPLIES_PER_TURN; turn++) {
		struct vcuda_channel_message reply;
		ssize_t bytes = recv(w->channel, &reply, sizeof(reply), MSG_DONTWAIT | MSG_TRUNC);

		if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (bytes <= 0) {
			channel_closed(w);
			return;
		}
		if (!take_reply(w, &reply, bytes))
			return;
	}
	if (events & EPOLLOUT)
		send_unsent(w);
}

static void notify_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_worker *w = container_of(source, struct daemon_worker, notify_source);

	w->ops->wake(w);
}

static struct daemon_worker *worker_new(struct daemon_loop *loop, const struct daemon_worker_ops *ops, void *owner)
{
	struct daemon_worker *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->loop = loop;
	w->ops = ops;
	w->owner = owner;
	w->pidfd = w->channel = w->doorbell = w->notify = -1;
	w->exit_source = (struct daemon_source){.fd = -1, .ready = exit_ready};
	w->channel_source = (struct daemon_source){.fd = -1, .ready = channel_ready};
	w->notify_source = (struct daemon_source){.fd = -1, .ready = notify_ready};
	daemon_gate_init(&w->gate, loop);
	daemon_mapper_init(&w->mapper);
	w->mapper.may_map = may_map;
	w->mapper.ended = mapper_ended;
	daemon_timer_init(&w->end_timer, end_expired);
	daemon_timer_init(&w->reply_timer, reply_expired);
	daemon_timer_init(&w->late_timer, late_expired);
	vcuda_list_init(&w->sent);
	vcuda_list_init(&w->unsent);
	return w;
}

static void ledger_broken(struct daemon_ledger_row *row)
{
	struct daemon_worker *w = container_of(row, struct daemon_worker, ledger);

	w->greedy = row->over && !daemon_overrun_has_ended(row);
	daemon_worker_kill(w);
}

static void gate_broken(struct daemon_gate *gate)
{
	daemon_worker_kill(container_of(gate, struct daemon_worker, gate));
}

static int launch_in_group(struct daemon_worker *w, const struct daemon_options *options, enum daemon_launch_kind kind,
			   int fd, int log, int ledger, int mapper, int gate)
{
	int status = daemon_worker_group_make(&w->group);

	if (status)
		return status;
	status = daemon_launch(options, kind, fd, log, ledger, mapper, gate, &w->group, &w->pid, &w->pidfd);
	if (status)
		daemon_worker_group_drop(&w->group);
	return status;
}

static int launch(struct daemon_worker *w, const struct daemon_options *options, enum daemon_launch_kind kind, int fd)
{
	int log, ledger = -1, mapper = -1, gate = -1, status = daemon_worker_log_open(&w->log, w->loop, &log);

	if (status)
		return status;
	status = daemon_ledger_open(&w->ledger, w->loop, &ledger);
	if (!status)
		status = daemon_gate_make(&w->gate, &gate);
	if (!status && options->mapper && kind != DAEMON_LAUNCH_LOCAL)
		status = daemon_mapper_open(&w->mapper, w->loop, &mapper);
	if (!status)
		status = launch_in_group(w, options, kind, fd, log, ledger, mapper, gate);
	close_fd(&gate);
	close_fd(&mapper);
	close_fd(&ledger);
	close(log);
	if (!status) {
		daemon_worker_log_start(&w->log, "vcuda-worker", w->pid);
		return 0;
	}
	daemon_mapper_close(&w->mapper);
	daemon_gate_drop(&w->gate);
	daemon_ledger_close(&w->ledger);
	daemon_worker_log_close(&w->log);
	return status;
}

/* Without its pidfd in the loop a worker could not be reaped: then it does not live on. */
static int worker_run(struct daemon_worker *w, const struct daemon_options *options, enum daemon_launch_kind kind,
		      int fd)
{
	int status = launch(w, options, kind, fd);

	if (status) {
		vcuda_log("cannot start %s: %s", options->worker, strerror(-status));
		return status;
	}
	status = daemon_source_add(w->loop, &w->exit_source, w->pidfd, EPOLLIN);
	if (!status)
		status = daemon_ledger_start(&w->ledger, w->pid, &w->guest.pid, ledger_broken);
	if (!status)
		status = daemon_gate_start(&w->gate, options, &w->guest.pid, gate_broken);
	if (status) {
		daemon_source_remove(w->loop, &w->exit_source);
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
		close_fd(&w->pidfd);
		daemon_worker_group_drop(&w->group);
		daemon_mapper_close(&w->mapper);
		daemon_worker_log_close(&w->log);
		daemon_gate_drop(&w->gate);
		daemon_ledger_close(&w->ledger);
		return status;
	}
	vcuda_log_debug("worker %d started", w->pid);
	return 0;
}

struct daemon_worker *daemon_worker_start_local(struct daemon_loop *loop, const struct daemon_options *options, int fd,
						const struct daemon_worker_ops *ops, void *owner, int *status)
{
	struct daemon_worker *w = worker_new(loop, ops, owner);

	*status = w ? worker_run(w, options, DAEMON_LAUNCH_LOCAL, fd) : -ENOMEM;
	if (!*status)
		return w;
	free(w);
	return NULL;
}

static struct daemon_worker *start(struct daemon_loop *loop, const struct daemon_options *options,
				   enum daemon_launch_kind kind, const struct daemon_worker_ops *ops, void *owner,
				   int *status)
{
	struct daemon_worker *w = worker_new(loop, ops, owner);
	int pair[2];

	if (!w) {
		*status = -ENOMEM;
		return NULL;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		*status = -errno;
		goto free;
	}
	w->channel = pair[0];
	w->doorbell = eventfd(0, EFD_CLOEXEC);
	w->notify = eventfd(0, EFD_CLOEXEC);
	*status = w->doorbell < 0 || w->notify < 0 ? -errno : 0;
	if (!*status)
		*status = daemon_source_add(loop, &w->channel_source, w->channel, EPOLLIN);
	/*
	 * Edge triggered and never read: every write of the worker's is an edge, and no read of ours can block on a
	 * worker that emptied the counter first.
	 */
	if (!*status)
		*status = daemon_source_add(loop, &w->notify_source, w->notify, EPOLLIN | EPOLLET);
	if (!*status)
		*status = worker_run(w, options, kind, pair[1]);
	close(pair[1]);
	if (!*status)
		return w;
	close_channel(w);
free:
	free(w);
	return NULL;
}

struct daemon_worker *daemon_worker_start(struct daemon_loop *loop, const struct daemon_options *options,
					  const struct daemon_worker_ops *ops, void *owner, int *status)
{
	return start(loop, options, DAEMON_LAUNCH_VIRTIO, ops, owner, status);
}

struct daemon_worker *daemon_worker_start_warm(struct daemon_loop *loop, const struct daemon_options *options,
					       bool quiet, const struct daemon_worker_ops *ops, void *owner,
					       int *status)
{
	struct daemon_worker *w =
		start(loop, options, quiet ? DAEMON_LAUNCH_WARM_QUIET : DAEMON_LAUNCH_WARM, ops, owner, status);

	if (w)
		w->quiet = quiet;
	return w;
}

void daemon_worker_ring(struct daemon_worker *w)
{
	struct pollfd room = {.fd = w->doorbell, .events = POLLOUT};
	uint64_t one = 1;

	/* The descriptor blocks, for the worker's sake; a worker that filled the counter does not get to stop us. */
	if (w->doorbell < 0 || poll(&room, 1, 0) != 1)
		return;
	if (write(w->doorbell, &one, sizeof(one)) < 0)
		vcuda_log_debug("cannot ring worker %d: %m", w->pid);
}

static int send_now(struct daemon_worker *w, const struct iovec parts[2], const int *fds, unsigned int fd_count)
{
	ssize_t bytes = vcuda_fds_send(w->channel, parts, 2, fds, fd_count, MSG_DONTWAIT);

	return bytes < 0 ? (int)bytes : 0;
}

/* Bounded: each is owed to a chain of the control queue. */
static int send_later(struct daemon_worker *w, const struct iovec parts[2])
{
	struct unsent *unsent = malloc(sizeof(*unsent) + parts[0].iov_len + parts[1].iov_len);

	if (!unsent)
		return -ENOMEM;
	unsent->bytes = parts[0].iov_len + parts[1].iov_len;
	memcpy(unsent->data, parts[0].iov_base, parts[0].iov_len);
	if (parts[1].iov_len)
		memcpy(unsent->data + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
	vcuda_list_add(&unsent->entry, &w->unsent);
	daemon_source_change(w->loop, &w->channel_source, EPOLLIN | EPOLLOUT);
	return 0;
}

int daemon_worker_send(struct daemon_worker *w, struct vcuda_channel_message *message,
		       const struct vcuda_channel_extent *extents, const int *fds, unsigned int fd_count)
{
	struct iovec parts[2] = {{message, sizeof(*message)}, {(void *)extents, message->extents * sizeof(*extents)}};
	struct sent *sent;
	int status;

	if (w->channel < 0)
		return -EPIPE;
	if (fd_count > VCUDA_CHANNEL_MAX_FDS)
		return -EINVAL;
	sent = malloc(sizeof(*sent));
	if (!sent)
		return -ENOMEM;
	message->cookie = w->next_cookie++;
	*sent = (struct sent){
		.type = message->type, .cookie = message->cookie, .due = daemon_now() + DAEMON_WORKER_REPLY_MS};
	status = vcuda_list_empty(&w->unsent) ? send_now(w, parts, fds, fd_count) : -EAGAIN;
	if (status == -EAGAIN && !fd_count)
		status = send_later(w, parts);
	if (status) {
		free(sent);
		return status;
	}
	vcuda_list_add(&sent->entry, &w->sent);
	if (!w->reply_timer.at)
		watch_oldest(w);
	return 0;
}
