/* SPDX-License-Identifier: Apache-2.0 */
#include "session/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/log.h"
#include "session/ledger.h"

/* A keeper answers at once, unless a descriptor that it has closed waits for its owner. Less for a test. */
#ifndef PATIENCE_S
#define PATIENCE_S 60
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int connection = -1;
static uint64_t requests;

static void hang_up(void)
{
	close(connection);
	connection = -1;
}

static void connect_keeper(void)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};

	connection = worker_ledger_keeper();
	if (connection < 0)
		return;
	setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

/* Receives the reply to request `number`. Those before it came late, and no call waits for them any more. */
static int receive(uint64_t number, struct vcuda_keeper_message *reply, int *answer)
{
	int status;

	do {
		if (*answer >= 0)
			close(*answer);
		status = vcuda_keeper_receive(connection, reply, answer, 0);
	} while (status == 1 && reply->account != number);
	return status;
}

/* No call knows the key of what a late reply says is kept. The reply to this is a late one too. */
static void cancel(uint64_t number)
{
	const struct vcuda_keeper_message m = {.type = VCUDA_KEEPER_CANCEL, .account = ++requests, .count = number};

	vcuda_keeper_send(connection, &m, -1, MSG_DONTWAIT);
}

/* 1: the reply is in *m; 0: the keeper is gone; -errno. */
static int exchange(struct vcuda_keeper_message *m, int fd, int *answer)
{
	struct vcuda_keeper_message reply;
	bool is_sent;
	int status;

	m->account = ++requests;
	status = vcuda_keeper_send(connection, m, fd, 0);
	is_sent = !status;
	/* Too many descriptors of the user are on their way. */
	if (status == -ETOOMANYREFS)
		return -ENOMEM;
	if (!status)
		status = receive(requests, &reply, answer);
	if (status == -EAGAIN) {
		if (is_sent && m->type == VCUDA_KEEPER_OFFER)
			cancel(m->account);
		vcuda_log("vcuda-keeper does not answer within %d s: exported memory cannot be kept", PATIENCE_S);
		return -ETIMEDOUT;
	}
	if (status != 1) {
		hang_up();
		return 0;
	}
	*m = reply;
	return 1;
}

/* One that has nothing to keep ends, perhaps as it is asked: the second one does not. */
int worker_keeper_exchange(struct vcuda_keeper_message *m, int fd, int *answer)
{
	int status = 0;

	*answer = -1;
	m->device = worker_ledger_gpu(m->device);
	pthread_mutex_lock(&lock);
	for (int attempt = 0; !status && attempt < 2; attempt++) {
		if (connection < 0)
			connect_keeper();
		if (connection < 0)
			break;
		status = exchange(m, fd, answer);
	}
	pthread_mutex_unlock(&lock);
	if (status > 0)
		return m->status;
	return status ? status : -ENOTCONN;
}

int worker_keeper_descriptor(const uint64_t key[2])
{
	struct vcuda_keeper_message m = {.type = VCUDA_KEEPER_DESCRIPTOR};
	int fd, status;

	memcpy(m.key, key, sizeof(m.key));
	status = worker_keeper_exchange(&m, -1, &fd);
	if (status)
		return status;
	return fd < 0 ? -EMFILE : fd;
}
