/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcuda-keeper: keeps what the processes of one guest have exported by descriptor, beyond the ends of their workers
 * (common/share-keeper.h). It never calls a driver: a descriptor of NVIDIA's driver, or of a file in memory, keeps the
 * memory by being open.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "descriptors.h"
#include "entries.h"
#include "host/sandbox/sandbox.h"
#include "loop.h"

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda-keeper", .with_pid = true};

struct worker {
	struct vcuda_list entry;
	struct keeper_source source; /* fd -1: it has hung up */
	struct keeper_owner owner;
	uint64_t account;
};

static int loop;
static bool is_local; /* the guest; else it is a VM */
static struct vcuda_list workers = VCUDA_LIST_INIT(workers);

bool keeper_watch(struct keeper_source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	return !epoll_ctl(loop, EPOLL_CTL_ADD, source->fd, &event);
}

/* ---- what vcudad is told ---- */

/* Waits while vcudad is stopped: what the memory costs must not get lost. */
static void tell(const struct vcuda_keeper_message *m)
{
	if (vcuda_keeper_send(VCUDA_KEEPER_FD, m, -1, 0))
		exit(0);
}

static void tell_sum(uint64_t account, uint32_t gpu, const struct keeper_memory_sum *sum)
{
	tell(&(struct vcuda_keeper_message){
		.type = VCUDA_KEEPER_KEPT, .account = account, .device = gpu, .bytes = sum->bytes, .count = sum->uses});
}

/* Before a worker, or vcudad, is told that something has happened. */
static void report(void)
{
	keeper_memory_report(tell_sum, 0);
}

static void tell_gone(uint64_t account)
{
	keeper_memory_report(tell_sum, account);
	tell(&(struct vcuda_keeper_message){.type = VCUDA_KEEPER_GONE, .account = account});
}

static int note_refusal(int status)
{
	if (status == -EDQUOT)
		tell(&(struct vcuda_keeper_message){.type = VCUDA_KEEPER_REFUSED});
	return status;
}

/* ---- workers ---- */

/* The worker's entries stay until vcudad says that the worker does not count them any more. */
static void hang_up(struct worker *w)
{
	if (w->source.fd >= 0)
		close(w->source.fd);
	w->source.fd = -1;
}

/* Another process may have its connection. */
static void end_worker(struct worker *w)
{
	hang_up(w);
	keeper_orphan(&w->owner);
	tell_gone(w->account);
	vcuda_list_remove(&w->entry);
	free(w);
}

static void end_account(uint64_t account)
{
	struct worker *w, *after;

	vcuda_list_for_each_safe (w, after, &workers, struct worker, entry)
		if (w->account == account)
			end_worker(w);
}

/* Takes the descriptor over. */
static int offer(struct worker *w, struct vcuda_keeper_message *m, int fd)
{
	int status;

	if (fd < 0 && m->has_fd)
		return -EMFILE;
	status = fd < 0 || keeper_may_keep(fd) ? note_refusal(keeper_offer(&w->owner, m, fd)) : -EINVAL;
	if (status && fd >= 0)
		close(fd);
	return status;
}

/* Takes the descriptor over. *answer: one that goes with the reply; *given: it is the keeper's no more after that. */
static int serve(struct worker *w, struct vcuda_keeper_message *m, int fd, int *answer, bool *given)
{
	struct keeper_entry *e;

	if (m->type == VCUDA_KEEPER_OFFER)
		return offer(w, m, fd);
	if (fd >= 0)
		close(fd);
	switch (m->type) {
	case VCUDA_KEEPER_WITHDRAW:
		return keeper_withdraw(&w->owner, m->key);
	case VCUDA_KEEPER_CANCEL:
		return keeper_cancel(&w->owner, m->count);
	case VCUDA_KEEPER_RESIZE:
		return keeper_resize(&w->owner, m->key, m->bytes);
	case VCUDA_KEEPER_TAKE:
		e = keeper_find(m->key);
		return e ? keeper_describe(e, &w->owner, m, answer) : -ENOENT;
	case VCUDA_KEEPER_DESCRIPTOR:
		/* A VM's descriptors are files of its driver. */
		if (!is_local)
			return -EPERM;
		*given = true;
		return note_refusal(keeper_make_descriptor(keeper_find(m->key), answer));
	default:
		return -EINVAL;
	}
}

/* The worker waits for each reply before it asks again: there is room for a reply. */
static void worker_ready(struct keeper_source *source)
{
	struct worker *w = container_of(source, struct worker, source);
	struct vcuda_keeper_message m;
	int fd, answer = -1, received = vcuda_keeper_receive(source->fd, &m, &fd, MSG_DONTWAIT);
	bool given = false;

	if (received == -EAGAIN)
		return;
	if (received <= 0) {
		hang_up(w);
		return;
	}
	m.status = serve(w, &m, fd, &answer, &given);
	report();
	received = vcuda_keeper_send(source->fd, &m, answer, MSG_DONTWAIT);
	if (given && answer >= 0)
		close(answer);
	/* Too many descriptors of the user are on their way. */
	if (received == -ETOOMANYREFS) {
		m.status = -ENOMEM;
		received = vcuda_keeper_send(source->fd, &m, -1, MSG_DONTWAIT);
	}
	if (received)
		hang_up(w);
}

static bool add_worker(int fd, uint64_t account)
{
	struct worker *w = fd < 0 ? NULL : calloc(1, sizeof(*w));

	if (!w)
		return false;
	*w = (struct worker){.source = {.fd = fd, .ready = worker_ready}, .account = account};
	vcuda_list_init(&w->owner.entries);
	vcuda_list_init(&w->owner.shared.files);
	if (keeper_watch(&w->source, EPOLLIN)) {
		vcuda_list_add(&w->entry, &workers);
		return true;
	}
	free(w);
	return false;
}

/* ---- vcudad ---- */

static void reply(struct vcuda_keeper_message *m, int status)
{
	m->status = status;
	report();
	tell(m);
}

static void vcudad_ready(struct keeper_source *source)
{
	struct vcuda_keeper_message m;
	struct keeper_entry *e;
	int fd, received = vcuda_keeper_receive(source->fd, &m, &fd, MSG_DONTWAIT);

	if (received == -EAGAIN)
		return;
	if (received <= 0)
		exit(0);
	keeper_set_limit(m.limit);
	if (m.type == VCUDA_KEEPER_CONNECT && add_worker(fd, m.account))
		return;
	if (fd >= 0)
		close(fd);
	e = keeper_find(m.key);
	if (m.type == VCUDA_KEEPER_CONNECT)
		tell_gone(m.account);
	else if (m.type == VCUDA_KEEPER_ENDED)
		end_account(m.account);
	else if (m.type == VCUDA_KEEPER_FREE)
		keeper_end_orphans();
	else if (m.type == VCUDA_KEEPER_HOLD)
		reply(&m, e ? note_refusal(keeper_hold_file(e)) : -ENOENT);
	else if (m.type == VCUDA_KEEPER_DROP)
		reply(&m, e ? keeper_release_file(e) : -ENOENT);
}

/* One event at once: it may end what others are about. */
static void run(void)
{
	struct epoll_event event;
	struct keeper_source *source;

	if (epoll_wait(loop, &event, 1, -1) != 1)
		return;
	source = event.data.ptr;
	source->ready(source);
	report();
}

/* vcudad may have sent a connection of a worker meanwhile. */
static bool is_needed(void)
{
	char byte;

	return !vcuda_list_empty(&workers) || keeper_has_entries() ||
	       recv(VCUDA_KEEPER_FD, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0;
}

static bool parse(int argc, char **argv)
{
	is_local = argc == 4 && !strcmp(argv[3], "local");
	if (argc == 4 && !strcmp(argv[1], "--sandbox") && sandbox_choose(argv[2]) &&
	    (is_local || !strcmp(argv[3], "vm")))
		return true;
	vcuda_log("usage: vcuda-keeper --sandbox MODE local|vm (vcudad starts it)");
	return false;
}

/* Nothing is read from a peer before. */
static bool enter_sandbox(void)
{
	return sandbox_enter(NULL) && sandbox_close(SANDBOX_KEEPER);
}

int main(int argc, char **argv)
{
	static struct keeper_source vcudad = {.fd = VCUDA_KEEPER_FD, .ready = vcudad_ready};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!parse(argc, argv))
		return 1;
	loop = epoll_create1(EPOLL_CLOEXEC);
	if (loop < 0 || !keeper_watch(&vcudad, EPOLLIN)) {
		vcuda_log("cannot start: %s", strerror(errno));
		return 1;
	}
	if (!enter_sandbox())
		return 1;
	/* vcudad starts another one where a worker asks. */
	do
		run();
	while (is_needed());
	return 0;
}
