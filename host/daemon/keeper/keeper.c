/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "limits/ledger.h"
#include "keeper/process.h"
#include "options/quotas.h"

#define MESSAGES_PER_TURN 64

/* More than there is room for in a socket: all that a keeper has said before. */
#define MESSAGES_AT_ONCE 4096

/* More than a GPU has. */
#define MOST_BYTES (UINT64_C(1) << 41)

/* A worker's connection to a keeper. */
struct account {
	struct vcuda_list entry;
	uint64_t number;
	const struct daemon_ledger_row *row; /* NULL: its grants have ended */
	uint64_t granted[VCUDA_LEDGER_GPUS]; /* the ended grants; the keeper has to name the part of descriptors */
	struct daemon_keeper_message ended;
};

struct keeper {
	struct vcuda_list entry;
	uint64_t guest;
	struct daemon_keeper_process process;
	struct daemon_source source;
	int fd;                   /* -1: serves no request any more; its memory counts until it has ended */
	struct vcuda_list asked;  /* struct daemon_keeper_request, in the order of the answers */
	struct vcuda_list unsent; /* struct daemon_keeper_message */
	struct daemon_keeper_message limit, free;
	struct vcuda_list accounts;
	uint64_t said[VCUDA_LEDGER_GPUS];  /* bytes that no worker has */
	uint64_t count[VCUDA_LEDGER_GPUS]; /* number of their allocations and pools */
	uint64_t kept[VCUDA_LEDGER_GPUS];  /* bytes that count of that memory */
	bool is_killed;                    /* by vcudad */
	bool refused;                      /* the log has said so since something was freed */
};

static struct {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	struct vcuda_list keepers;
	uint64_t accounts; /* the last one's number */
} all = {.keepers = {&all.keepers, &all.keepers}};

/* NULL: none that serves. */
static struct keeper *find(uint64_t guest)
{
	vcuda_list_for_each (node, &all.keepers) {
		struct keeper *k = container_of(node, struct keeper, entry);

		if (k->guest == guest && k->fd >= 0)
			return k;
	}
	return NULL;
}

/* ---- what the memory costs ---- */

/* *counted: one of the numbers that count for all workers together. */
static void set(uint64_t *counted, unsigned int gpu, uint64_t bytes)
{
	daemon_ledger_keep(gpu, *counted, bytes);
	*counted = bytes;
}

static struct account *account_of(const struct keeper *k, const struct daemon_ledger_row *row)
{
	vcuda_list_for_each (node, &k->accounts)
		if (container_of(node, struct account, entry)->row == row)
			return container_of(node, struct account, entry);
	return NULL;
}

static void close_account(struct account *account)
{
	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		set(&account->granted[gpu], gpu, 0);
	vcuda_list_remove(&account->entry);
	vcuda_list_remove(&account->ended.entry);
	free(account);
}

/* The limit of what all keepers count of one GPU: a worker that is taken over may claim any size for its exports. */
static uint64_t most_bytes(void)
{
	uint64_t most = daemon_ledger_limit();

	if (all.options->overcommit && all.options->overcommit < most)
		most = all.options->overcommit;
	return most < MOST_BYTES ? most : MOST_BYTES;
}

static uint64_t kept_by_others(const struct keeper *k, unsigned int gpu)
{
	uint64_t sum = 0;

	vcuda_list_for_each (node, &all.keepers) {
		const struct keeper *other = container_of(node, struct keeper, entry);

		sum += other == k ? 0 : other->kept[gpu];
	}
	return sum;
}

static void count_kept(struct keeper *k)
{
	uint64_t most = most_bytes();

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++) {
		uint64_t others = kept_by_others(k, gpu), room = most > others ? most - others : 0;

		set(&k->kept[gpu], gpu, k->said[gpu] < room ? k->said[gpu] : room);
	}
}

/* After a change of what one of the keepers counts, or of a limit: the others may have room for more or less. */
static void count_all_kept(void)
{
	vcuda_list_for_each (node, &all.keepers)
		count_kept(container_of(node, struct keeper, entry));
}

/* From now on the worker's memory that descriptors hold counts, not its grants. */
static void gone(struct keeper *k, uint64_t number)
{
	struct account *account, *after;

	count_kept(k);
	vcuda_list_for_each_safe (account, after, &k->accounts, struct account, entry)
		if (account->number == number)
			close_account(account);
}

/* Closes the connection to the keeper; requests without an answer fail. */
static void stop(struct keeper *k)
{
	struct daemon_keeper_request *request, *after;

	if (k->fd < 0)
		return;
	daemon_source_remove(all.loop, &k->source);
	close(k->fd);
	k->fd = -1;
	while (!vcuda_list_empty(&k->unsent))
		vcuda_list_remove(k->unsent.next);
	vcuda_list_for_each_safe (request, after, &k->asked, struct daemon_keeper_request, entry) {
		vcuda_list_remove(&request->entry);
		request->done(request, -ENOENT);
	}
}

/* The keeper's process has ended, and its memory is free. */
static void forget(struct keeper *k)
{
	struct account *account, *after;

	stop(k);
	vcuda_list_for_each_safe (account, after, &k->accounts, struct account, entry)
		close_account(account);
	memset(k->said, 0, sizeof(k->said));
	count_kept(k);
	vcuda_list_remove(&k->entry);
	free(k);
	count_all_kept();
}

/* ---- what it says ---- */

static void answer(struct keeper *k, int status)
{
	struct daemon_keeper_request *request;

	if (vcuda_list_empty(&k->asked))
		return;
	request = vcuda_list_first(&k->asked, struct daemon_keeper_request, entry);
	vcuda_list_remove(&request->entry);
	vcuda_list_remove(&request->message.entry);
	request->done(request, status);
}

static void refuse(struct keeper *k)
{
	daemon_quota_refuse(DAEMON_QUOTA_EXPORTS);
	if (!k->refused)
		vcuda_log_peer("a guest process is refused an export: the guest has exported %llu allocations and "
			       "pools, or has as many descriptors of them (raise --max-exports)",
			       (unsigned long long)all.options->max_exports);
	k->refused = true;
}

static void keep(struct keeper *k, const struct vcuda_keeper_message *m)
{
	bool is_less = m->bytes < k->said[m->device];

	if (is_less)
		k->refused = false;
	k->said[m->device] = m->bytes < MOST_BYTES ? m->bytes : MOST_BYTES;
	k->count[m->device] = m->count;
	if (!m->account)
		count_kept(k);
	if (!m->account && is_less)
		count_all_kept();
}

static void take(struct keeper *k, const struct vcuda_keeper_message *m)
{
	if (m->type == VCUDA_KEEPER_KEPT && m->device < VCUDA_LEDGER_GPUS)
		keep(k, m);
	else if (m->type == VCUDA_KEEPER_GONE)
		gone(k, m->account);
	else if (m->type == VCUDA_KEEPER_REFUSED)
		refuse(k);
	else if (m->type == VCUDA_KEEPER_HOLD || m->type == VCUDA_KEEPER_DROP)
		answer(k, m->status);
}

/* At most so many messages. */
static void drain(struct keeper *k, unsigned int most)
{
	struct vcuda_keeper_message m;

	while (k->fd >= 0 && most--) {
		/* No room for control data: a keeper sends no descriptors. */
		ssize_t bytes = recv(k->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);

		if (bytes == sizeof(m)) {
			take(k, &m);
			continue;
		}
		if (bytes >= 0 || (errno != EAGAIN && errno != EINTR))
			stop(k);
		return;
	}
}

/* ---- what it is told ---- */

/* 0, or -errno: without room -EAGAIN. A keeper that ends has not heard of it. */
static int send_now(struct keeper *k, struct vcuda_keeper_message *m, int fd)
{
	int status;

	m->limit = (uint32_t)all.options->max_exports;
	status = vcuda_keeper_send(k->fd, m, fd, MSG_DONTWAIT);
	if (status == -EPIPE || status == -ECONNRESET)
		stop(k);
	return status;
}

static void send_unsent(struct keeper *k)
{
	while (!vcuda_list_empty(&k->unsent)) {
		struct daemon_keeper_message *first = vcuda_list_first(&k->unsent, struct daemon_keeper_message, entry);

		if (send_now(k, &first->m, -1))
			return;
		vcuda_list_remove(&first->entry);
	}
	daemon_source_change(all.loop, &k->source, EPOLLIN);
}

/* False: the keeper's connection is closed. */
static bool post(struct keeper *k, struct daemon_keeper_message *message)
{
	int status = vcuda_list_empty(&k->unsent) ? send_now(k, &message->m, -1) : -EAGAIN;

	vcuda_list_init(&message->entry);
	if (status && k->fd >= 0) {
		vcuda_list_add(&message->entry, &k->unsent);
		daemon_source_change(all.loop, &k->source, EPOLLIN | EPOLLOUT);
	}
	return k->fd >= 0;
}

static void ready(struct daemon_source *source, uint32_t events)
{
	struct keeper *k = container_of(source, struct keeper, source);

	drain(k, MESSAGES_PER_TURN);
	if (k->fd >= 0 && events & EPOLLOUT)
		send_unsent(k);
}

/* ---- its process ---- */

static void ended(struct daemon_keeper_process *process, const siginfo_t *info)
{
	struct keeper *k = container_of(process, struct keeper, process);

	if (info->si_code != CLD_EXITED && !k->is_killed)
		vcuda_log("vcuda-keeper was killed by signal %d: what guest processes have exported by descriptor "
			  "cannot be imported any more",
			  info->si_status);
	forget(k);
}

static void kill_process(struct keeper *k)
{
	stop(k);
	k->is_killed = true;
	daemon_keeper_process_kill(&k->process);
}

static int start_process(struct keeper *k)
{
	int status = daemon_keeper_process_start(&k->process, all.loop, all.options, k->guest != DAEMON_KEEPER_VM,
						 &k->fd, ended);

	if (status)
		return status;
	status = daemon_source_add(all.loop, &k->source, k->fd, EPOLLIN);
	if (!status)
		return 0;
	daemon_keeper_process_close(&k->process);
	close(k->fd);
	return status;
}

static struct keeper *start(uint64_t guest)
{
	struct keeper *k = all.options->keeper ? calloc(1, sizeof(*k)) : NULL;
	int status = -ENOENT;

	if (k) {
		*k = (struct keeper){.guest = guest, .fd = -1, .source = {.fd = -1, .ready = ready}};
		vcuda_list_init(&k->asked);
		vcuda_list_init(&k->unsent);
		vcuda_list_init(&k->limit.entry);
		k->limit.m.type = VCUDA_KEEPER_LIMIT;
		vcuda_list_init(&k->free.entry);
		k->free.m.type = VCUDA_KEEPER_FREE;
		vcuda_list_init(&k->accounts);
		status = start_process(k);
	}
	if (!status) {
		vcuda_list_add(&k->entry, &all.keepers);
		return k;
	}
	vcuda_log_once(
		"cannot start vcuda-keeper: %s. What a guest process exports by descriptor ends with that process",
		strerror(-status));
	free(k);
	return NULL;
}

/* ---- for workers ---- */

static struct account *open_account(struct keeper *k, const struct daemon_ledger_row *row)
{
	struct account *account = calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	account->number = ++all.accounts;
	account->row = row;
	account->ended.m = (struct vcuda_keeper_message){.type = VCUDA_KEEPER_ENDED, .account = account->number};
	vcuda_list_init(&account->ended.entry);
	vcuda_list_add(&account->entry, &k->accounts);
	return account;
}

/* A connection of the row's worker: -1 where there is none, or where the keeper is slow. */
static int connect_to(struct keeper *k, const struct daemon_ledger_row *row)
{
	struct vcuda_keeper_message m = {.type = VCUDA_KEEPER_CONNECT, .has_fd = 1};
	struct account *account;
	int ends[2], status = -ENOMEM;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	account = open_account(k, row);
	if (account) {
		m.account = account->number;
		status = vcuda_list_empty(&k->unsent) ? send_now(k, &m, ends[1]) : -EAGAIN;
	}
	close(ends[1]);
	if (!status)
		return ends[0];
	if (account)
		close_account(account);
	close(ends[0]);
	return -1;
}

/* Keepers that are ending count as well. A keeper lives on without a worker, as long as a descriptor does. */
static bool may_start(void)
{
	uint64_t count = 0;

	vcuda_list_for_each (node, &all.keepers)
		count++;
	if (count < all.options->max_contexts)
		return true;
	daemon_quota_refuse(DAEMON_QUOTA_EXPORTS);
	vcuda_log_once("so many guests as --max-contexts allows keep exported memory: what others export ends with its "
		       "process");
	return false;
}

static int connect_guest(const struct daemon_ledger_row *row)
{
	struct keeper *k = find(row->guest);

	if (!k && may_start())
		k = start(row->guest);
	return k ? connect_to(k, row) : -1;
}

/* A worker has one connection, and another one only where its keeper has ended. */
static int connect_row(struct daemon_ledger_row *row)
{
	struct keeper *k = find(row->guest);
	int fd;

	if (row->guest == DAEMON_LEDGER_NO_GUEST)
		return -1;
	if (k)
		drain(k, MESSAGES_AT_ONCE);
	k = find(row->guest);
	if (k && account_of(k, row))
		return -1;
	fd = connect_guest(row);
	/* The keeper ended just now, since it had no entries left: start another. */
	return fd < 0 && k && k->fd < 0 ? connect_guest(row) : fd;
}

static void settle(const struct daemon_ledger_row *row)
{
	struct keeper *k = find(row->guest);

	if (k && account_of(k, row))
		drain(k, MESSAGES_AT_ONCE);
}

static bool is_connected(const struct daemon_ledger_row *row)
{
	vcuda_list_for_each (node, &all.keepers)
		if (account_of(container_of(node, struct keeper, entry), row))
			return true;
	return false;
}

static void leave_keeper(struct keeper *k, const struct daemon_ledger_row *row)
{
	struct account *account = account_of(k, row);

	if (!account)
		return;
	account->row = NULL;
	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		set(&account->granted[gpu], gpu, row->granted[gpu]);
	if (k->fd >= 0)
		post(k, &account->ended);
}

/* Descriptors may hold what was granted: all of it counts until the keeper has said how much they hold. */
static void leave(struct daemon_ledger_row *row)
{
	vcuda_list_for_each (node, &all.keepers)
		leave_keeper(container_of(node, struct keeper, entry), row);
}

static const struct daemon_ledger_keepers for_ledger = {
	.connect = connect_row, .settle = settle, .is_connected = is_connected, .leave = leave};

/* ---- for vcudad ---- */

void daemon_keepers_open(struct daemon_loop *loop, const struct daemon_options *options)
{
	all.loop = loop;
	all.options = options;
	daemon_ledger_on_keepers(&for_ledger);
}

void daemon_keepers_close(void)
{
	struct keeper *k, *after;

	vcuda_list_for_each_safe (k, after, &all.keepers, struct keeper, entry) {
		daemon_keeper_process_close(&k->process);
		forget(k);
	}
}

void daemon_keepers_refresh(void)
{
	vcuda_list_for_each (node, &all.keepers) {
		struct keeper *k = container_of(node, struct keeper, entry);

		/* One that waits to be sent takes the limit when it is sent. */
		if (k->fd >= 0 && vcuda_list_empty(&k->limit.entry))
			post(k, &k->limit);
	}
	count_all_kept();
}

void daemon_keepers_each_export(void (*call)(const struct daemon_keeper_exports *exports, void *argument),
				void *argument)
{
	vcuda_list_for_each (node, &all.keepers) {
		const struct keeper *k = container_of(node, struct keeper, entry);
		struct daemon_keeper_exports e = {.guest = k->guest};

		for (e.gpu = 0; e.gpu < VCUDA_LEDGER_GPUS; e.gpu++) {
			e.count = k->count[e.gpu];
			e.bytes = k->kept[e.gpu];
			if (e.count || e.bytes)
				call(&e, argument);
		}
	}
}

static uint64_t free_kept(struct keeper *k)
{
	uint64_t count = 0;

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		count += k->count[gpu];
	/* A request that waits to be sent does for this one too. */
	if (vcuda_list_empty(&k->free.entry))
		post(k, &k->free);
	return count;
}

uint64_t daemon_keepers_free(const uint64_t *guest)
{
	uint64_t count = 0;

	vcuda_list_for_each (node, &all.keepers) {
		struct keeper *k = container_of(node, struct keeper, entry);

		if (k->fd >= 0 && (!guest || k->guest == *guest))
			count += free_kept(k);
	}
	return count;
}

bool daemon_keepers_run(void)
{
	return !vcuda_list_empty(&all.keepers);
}

static void end_row(struct daemon_ledger_row *row, void *guest)
{
	if (row->guest == *(const uint64_t *)guest)
		row->guest = DAEMON_LEDGER_NO_GUEST;
}

void daemon_keeper_forget(uint64_t guest)
{
	struct keeper *k = find(guest);

	daemon_ledger_each(end_row, &guest);
	if (k)
		kill_process(k);
}

int daemon_keeper_ask(struct daemon_keeper_request *request, uint32_t type, const uint8_t key[VCUDA_KEEPER_KEY_BYTES])
{
	struct keeper *k = find(DAEMON_KEEPER_VM);

	request->message.m = (struct vcuda_keeper_message){.type = type};
	memcpy(request->message.m.key, key, sizeof(request->message.m.key));
	if (!k || !post(k, &request->message))
		return -ENOENT;
	vcuda_list_add(&request->entry, &k->asked);
	return 0;
}
