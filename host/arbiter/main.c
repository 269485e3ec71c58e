/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcuda-arbiter: gives the VMs of a host turns on its device (turns.h) and parts of its memory (memory.h). vcudad
 * starts it with the listening socket (protocol/ipc/arbiter.h), and the program ends when no vcudad has been there for
 * a while. It reaches neither guests nor devices.
 *
 * usage: vcuda-arbiter [MILLISECONDS]      the quantum, 40 unless told
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/log.h"
#include "memory.h"
#include "protocol/ipc/arbiter.h"
#include "turns.h"

#define MOST_VMS 1024
#define ALONE_NS 2000000000ull

/* A vcudad whose socket has closed finds the arbiter again in a part of this. */
#define KEPT_NS 1000000000ull

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda-arbiter"};

#define MS 1000000u

struct peer {
	struct turns_vm turns;
	struct memory_vm memory;
	bool registered, has_turns, has_memory;
	int fd;              /* -1: the socket is closed */
	pid_t process;       /* 0: not known */
	uint64_t kept_until; /* of a peer without a socket: its memory counts until then */
};

static struct turns turns;
static struct memory memory;
static struct peer *peers[MOST_VMS];
static unsigned int peer_count;

/* A vcudad that does not read has been stopped. It misses a message, so its socket is closed: it registers anew. */
static void send_message(const struct peer *peer, const struct vcuda_arbiter_message *m)
{
	if (send(peer->fd, m, sizeof(*m), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*m))
		shutdown(peer->fd, SHUT_RDWR);
}

static void tell(struct turns_vm *vm, bool may_run, uint32_t turn)
{
	struct vcuda_arbiter_message m = {.type = may_run ? VCUDA_ARBITER_RUN : VCUDA_ARBITER_HOLD,
					  .turn = turn,
					  .share = turns_share_of_others(&turns, vm),
					  .exclusive = turns.exclusive ? 1 + turns_overdue(&turns) : 0,
					  .quantum = (uint32_t)(turns.quantum / MS)};

	send_message(vm->owner, &m);
}

static void tell_of_memory(struct memory_vm *vm, enum memory_word word, uint64_t bytes)
{
	static const uint32_t types[] = {[MEMORY_GRANT] = VCUDA_ARBITER_GRANT,
					 [MEMORY_REFUSE] = VCUDA_ARBITER_REFUSE,
					 [MEMORY_GO_OUT] = VCUDA_ARBITER_GO_OUT};
	struct vcuda_arbiter_message m = {.type = types[word],
					  .bytes = bytes,
					  .out = vm->state == MEMORY_COMING_IN,
					  .capacity = memory_capacity(&memory),
					  .wait = memory_longest_wait(&memory) / MS};

	send_message(vm->owner, &m);
}

static pid_t process_of(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) ? 0 : peer.pid;
}

static void add_peer(void)
{
	int fd = accept4(VCUDA_ARBITER_FD, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct peer *peer = fd < 0 || peer_count == MOST_VMS ? NULL : calloc(1, sizeof(*peer));

	if (!peer) {
		if (fd >= 0)
			close(fd);
		return;
	}
	peer->fd = fd;
	peer->process = process_of(fd);
	peers[peer_count++] = peer;
}

static void remove_peer(unsigned int i)
{
	struct peer *peer = peers[i];

	if (peer->has_memory)
		memory_remove(&memory, &peer->memory);
	free(peer);
	peers[i] = peers[--peer_count];
}

/* The peer's vcudad has closed its connection and may connect again: the memory of its VM still counts. */
static void lose_peer(unsigned int i)
{
	struct peer *peer = peers[i];

	if (peer->has_turns)
		turns_remove(&turns, &peer->turns, vcuda_now_ns());
	close(peer->fd);
	peer->fd = -1;
	peer->has_turns = false;
	peer->kept_until = vcuda_now_ns() + KEPT_NS;
	if (peer->has_memory && peer->memory.state != MEMORY_OUT)
		memory_lose(&peer->memory);
	else
		remove_peer(i);
}

/* Returns the time at which the next VM is to be forgotten; UINT64_MAX: none. */
static uint64_t forget_lost(void)
{
	uint64_t now = vcuda_now_ns(), next = UINT64_MAX;

	for (unsigned int i = peer_count; i > 0; i--) {
		const struct peer *peer = peers[i - 1];

		if (peer->fd >= 0)
			continue;
		if (peer->kept_until <= now)
			remove_peer(i - 1);
		else if (peer->kept_until < next)
			next = peer->kept_until;
	}
	return next;
}

/* The process has registered again: its lost peers give up their memory, and the next forget_lost() removes them. */
static void forget_process(pid_t process)
{
	for (unsigned int i = 0; process && i < peer_count; i++) {
		struct peer *peer = peers[i];

		if (peer->fd >= 0 || peer->process != process || !peer->has_memory)
			continue;
		memory_remove(&memory, &peer->memory);
		peer->has_memory = false;
		peer->kept_until = 0;
	}
}

/* False: there is no room for the VM's minimum. */
static bool register_memory(struct peer *peer, const struct vcuda_arbiter_message *m)
{
	const struct memory_vm said = {
		.owner = peer, .capacity = m->capacity, .minimum = m->minimum, .bytes = m->bytes};
	struct vcuda_arbiter_message answer = {.type = VCUDA_ARBITER_NO_ROOM};

	peer->has_memory = memory_add(&memory, &peer->memory, &said, m->out, vcuda_now_ns());
	if (peer->has_memory) {
		forget_process(peer->process);
		answer.type = VCUDA_ARBITER_CAPACITY;
	}
	answer.capacity = memory_capacity(&memory);
	answer.wait = memory_longest_wait(&memory) / MS;
	send_message(peer, &answer);
	return peer->has_memory;
}

static bool serve_first(struct peer *peer, const struct vcuda_arbiter_message *m)
{
	if (m->type != VCUDA_ARBITER_REGISTER || m->version != VCUDA_ARBITER_VERSION || m->share > VCUDA_SHARE_MOST ||
	    (!m->share && !m->capacity))
		return false;
	peer->registered = true;
	if (m->capacity && !register_memory(peer, m))
		return false;
	peer->has_turns = m->share;
	if (m->share)
		turns_add(&turns, &peer->turns, m->share, peer, vcuda_now_ns());
	return true;
}

static bool serve_turns(struct peer *peer, const struct vcuda_arbiter_message *m)
{
	if (m->type == VCUDA_ARBITER_ACTIVE || m->type == VCUDA_ARBITER_IDLE)
		turns_set_active(&turns, &peer->turns, m->type == VCUDA_ARBITER_ACTIVE, vcuda_now_ns());
	else if (m->type == VCUDA_ARBITER_DRAINED)
		turns_drained(&turns, &peer->turns, m->turn, vcuda_now_ns());
	else
		return false;
	return true;
}

static bool serve_memory(struct peer *peer, const struct vcuda_arbiter_message *m)
{
	struct memory_vm *vm = &peer->memory;

	if (m->type == VCUDA_ARBITER_BUSY || m->type == VCUDA_ARBITER_RESTS)
		memory_set_active(vm, m->type == VCUDA_ARBITER_BUSY, vcuda_now_ns());
	else if (m->type == VCUDA_ARBITER_WANT)
		memory_want(&memory, vm, m->bytes, m->spare, vcuda_now_ns());
	else if (m->type == VCUDA_ARBITER_HAVE)
		memory_have(vm, m->bytes);
	else if (m->type == VCUDA_ARBITER_OUT)
		memory_went_out(vm, m->bytes, (uint64_t)m->ms * MS);
	else if (m->type == VCUDA_ARBITER_IN)
		memory_came_in(vm, (uint64_t)m->ms * MS, vcuda_now_ns());
	else if (m->type == VCUDA_ARBITER_STAYS)
		memory_failed(vm, vcuda_now_ns());
	else
		return false;
	return true;
}

/* False: the peer has closed its socket, or sends what is no message. */
static bool serve(struct peer *peer)
{
	struct vcuda_arbiter_message m;
	ssize_t bytes = recv(peer->fd, &m, sizeof(m), MSG_TRUNC);

	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR;
	if (bytes != sizeof(m))
		return false;
	if (!peer->registered)
		return serve_first(peer, &m);
	return (peer->has_turns && serve_turns(peer, &m)) || (peer->has_memory && serve_memory(peer, &m));
}

static uint64_t step(void)
{
	uint64_t next = forget_lost(), next_turn = turns_step(&turns, vcuda_now_ns());
	uint64_t next_of_memory = memory_step(&memory, vcuda_now_ns());

	next = next_turn < next ? next_turn : next;
	return next_of_memory < next ? next_of_memory : next;
}

/* False: no VM is connected, and none has connected within ALONE_NS. */
static bool wait_for_messages(struct pollfd *fds, uint64_t until)
{
	uint64_t now = vcuda_now_ns(), ns = !peer_count ? ALONE_NS : until > now ? until - now : 0;
	struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	bool forever = peer_count && until == UINT64_MAX;

	fds[0] = (struct pollfd){.fd = VCUDA_ARBITER_FD, .events = POLLIN};
	for (unsigned int i = 0; i < peer_count; i++)
		fds[i + 1] = (struct pollfd){.fd = peers[i]->fd, .events = POLLIN};
	return ppoll(fds, peer_count + 1, forever ? NULL : &time, NULL) > 0 || peer_count || errno == EINTR;
}

/* The program outlives the vcudad that has started it, whose folder and output are not its to keep. */
static void leave_starter(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	signal(SIGINT, SIG_IGN);
	if (chdir("/") || null < 0)
		return;
	for (int fd = 0; fd < VCUDA_ARBITER_FD; fd++)
		dup2(null, fd);
}

int main(int argc, char **argv)
{
	static struct pollfd fds[MOST_VMS + 1];
	unsigned long ms = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;

	leave_starter();
	turns_init(&turns, ms ? ms * MS : TURNS_QUANTUM_NS, tell);
	memory_init(&memory, vcuda_now_ns(), tell_of_memory);
	while (wait_for_messages(fds, step())) {
		/* From the last one on: a peer that is dropped is replaced by the last one. */
		for (unsigned int i = peer_count; i > 0; i--)
			if (fds[i].revents && !serve(peers[i - 1]))
				lose_peer(i - 1);
		if (fds[0].revents)
			add_peer();
	}
	return 0;
}
