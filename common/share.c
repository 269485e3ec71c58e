/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fds.h"
#include "log.h"
#include "share-kept.h"
#include "start-thread.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define PATIENCE_S 5
#define SILENCE_S 1 /* a client that has been silent for longer may be dropped to free its descriptor */
#define CLIENTS 16

static const uint8_t magic[8] = "vcuda\0\0\1";

/* The answer to a request. An answer of kind BUSY has no file. A request for an unknown key gets no answer. */
struct answer {
	uint64_t kind;
	struct vcuda_share_part part; /* of a file of ours */
	uint64_t has_fd;
	uint8_t note[VCUDA_SHARE_NOTE_BYTES];
};
#define BUSY 0

struct offer {
	uint8_t key[16];
	struct answer answer;
	int fd;
	struct offer *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct offer *offers;
static uint8_t our_name[16];
static int listener = -1;
static bool (*scope)(pid_t worker);

/* The connected clients that have not asked yet, the oldest first. Only the listener's thread uses them. */
static struct client {
	int fd;
	time_t until;
} clients[CLIENTS];
static unsigned int client_count;

/* Closed for a moment when no other descriptor is left, so that a client gets an answer. The listener's thread's. */
static int reserve = -1;

static socklen_t address_of(const uint8_t *name, struct sockaddr_un *a)
{
	size_t n = 1;

	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	n += (size_t)snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "vcuda-share-");
	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(a->sun_path + n, sizeof(a->sun_path) - n, "%02x", name[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

void vcuda_share_scope(bool (*same_guest)(pid_t worker))
{
	scope = same_guest;
}

/* Both ends check: a worker neither gives to workers of another guest, nor takes from them. */
static bool is_friend(int fd)
{
	struct ucred who;
	socklen_t length = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) || who.uid != geteuid())
		return false;
	return !scope || scope(who.pid);
}

static void be_patient(int fd)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

static bool is_used_up(int error)
{
	return error == EMFILE || error == ENFILE;
}

/* Each file that is mapped or offered needs a descriptor. */
static void say_used_up(void)
{
	vcuda_log("no file descriptor is left for memory of cuMemCreate() or of several processes: raise the limit of "
		  "open files (ulimit -Hn, LimitNOFILE=)");
}

/* False: not sent. */
static bool send_answer(int to, const struct answer *answer, int fd)
{
	const struct iovec part = {(void *)(uintptr_t)answer, sizeof(*answer)};

	return vcuda_fds_send(to, &part, 1, &fd, fd >= 0, MSG_DONTWAIT) == sizeof(*answer);
}

/* The caller holds the lock of the list. */
static const struct offer *find_offer(const uint8_t *key)
{
	const struct offer *o;

	for (o = offers; o && memcmp(o->key, key, sizeof(o->key)); o = o->next)
		continue;
	return o;
}

static void serve(int client, bool busy)
{
	const struct offer *o;
	uint8_t key[16];

	be_patient(client);
	if (recv(client, key, sizeof(key), 0) != sizeof(key))
		return;
	pthread_mutex_lock(&lock);
	o = find_offer(key);
	/* The socket has room for one message; there may be too many files on their way, though. */
	if (o && (busy || !send_answer(client, &o->answer, o->fd)))
		send_answer(client, &(struct answer){.kind = BUSY}, -1);
	pthread_mutex_unlock(&lock);
}

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void drop_client(unsigned int n)
{
	close(clients[n].fd);
	client_count--;
	memmove(&clients[n], &clients[n + 1], (client_count - n) * sizeof(clients[0]));
}

/* A silent client does not block others: it is dropped after PATIENCE_S, or when another client needs its place. */
static void add_client(int fd)
{
	if (client_count == CLIENTS)
		drop_client(0);
	clients[client_count++] = (struct client){fd, now_s() + PATIENCE_S};
}

/* Accepts the next client. A client of another user or guest is closed, and errno is ECONNABORTED. */
static int accept_client(void)
{
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (client < 0 || is_friend(client))
		return client;
	close(client);
	errno = ECONNABORTED;
	return -1;
}

static void open_reserve(void)
{
	if (reserve < 0)
		reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/*
 * No descriptor is left. Drops the oldest client if it has been silent for SILENCE_S. Else accepts the next client with
 * the descriptor of the reserve. The client gets BUSY unless the reserve can be opened again.
 */
static void turn_away(void)
{
	int client;

	if (client_count && clients[0].until - PATIENCE_S + SILENCE_S < now_s()) {
		drop_client(0);
		return;
	}
	say_used_up();
	if (reserve >= 0)
		close(reserve);
	reserve = -1;
	client = accept_client();
	if (client < 0) {
		if (errno != ECONNABORTED)
			nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
		return;
	}
	open_reserve();
	serve(client, reserve < 0);
	close(client);
}

/* Serves the connected clients. Returns whether a new client connects. */
static bool serve_clients(void)
{
	struct pollfd fds[1 + CLIENTS] = {{.fd = listener, .events = POLLIN}};

	for (unsigned int n = 0; n < client_count; n++)
		fds[1 + n] = (struct pollfd){.fd = clients[n].fd, .events = POLLIN};
	if (poll(fds, 1 + client_count, client_count ? 1000 : -1) < 0)
		return false;
	for (unsigned int n = client_count; n-- > 0;) {
		if (fds[1 + n].revents)
			serve(clients[n].fd, false);
		if (fds[1 + n].revents || clients[n].until < now_s())
			drop_client(n);
	}
	return fds[0].revents;
}

static void *listen_for_others(void *unused)
{
	for (;;) {
		int client;

		open_reserve();
		if (!serve_clients())
			continue;
		client = accept_client();
		if (client >= 0) {
			add_client(client);
		} else if (is_used_up(errno) || errno == ENOMEM || errno == ENOBUFS) {
			turn_away();
		} else if (errno != EINTR && errno != ECONNABORTED) {
			vcuda_log("nothing more is shared with other processes: %s", strerror(errno));
			return unused;
		}
	}
}

static bool open_locked(void)
{
	struct sockaddr_un a;
	socklen_t length;

	if (listener >= 0)
		return true;
	if (getrandom(our_name, sizeof(our_name), 0) != sizeof(our_name))
		return false;
	length = address_of(our_name, &a);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0)
		return false;
	if (bind(listener, (struct sockaddr *)&a, length) == 0 && listen(listener, 64) == 0 &&
	    vcuda_thread_start(listen_for_others, NULL))
		return true;
	close(listener);
	listener = -1;
	return false;
}

int vcuda_share_file(uint64_t bytes)
{
	int fd = memfd_create("vcuda-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0) {
		if (is_used_up(errno))
			say_used_up();
		return -1;
	}
	if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool offer(const struct answer *answer, int fd, struct vcuda_share_handle *handle)
{
	struct offer *o = calloc(1, sizeof(*o));
	bool ok;

	pthread_mutex_lock(&lock);
	ok = o && open_locked() && getrandom(o->key, sizeof(o->key), 0) == sizeof(o->key);
	if (ok) {
		o->answer = *answer;
		o->fd = fd;
		o->next = offers;
		offers = o;
		*handle = (struct vcuda_share_handle){.zero = {0}};
		memcpy(handle->magic, magic, sizeof(magic));
		memcpy(handle->server, our_name, sizeof(our_name));
		memcpy(handle->key, o->key, sizeof(o->key));
	}
	pthread_mutex_unlock(&lock);
	if (!ok) {
		vcuda_log("cannot offer memory to other processes: %s", strerror(errno));
		free(o);
		if (fd >= 0)
			close(fd);
	}
	return ok;
}

bool vcuda_share_offer(enum vcuda_share_kind kind, struct vcuda_share_part part, int fd,
		       struct vcuda_share_handle *handle)
{
	return offer(&(struct answer){.kind = kind, .part = part, .has_fd = true}, fd, handle);
}

bool vcuda_share_offer_note(enum vcuda_share_kind kind, const void *note, int fd, struct vcuda_share_handle *handle)
{
	struct answer answer = {.kind = kind, .has_fd = fd >= 0};

	if (note)
		memcpy(answer.note, note, sizeof(answer.note));
	return offer(&answer, fd, handle);
}

void vcuda_share_withdraw(const struct vcuda_share_handle *handle)
{
	if (vcuda_share_is_kept(handle)) {
		vcuda_share_let_go(handle);
		return;
	}
	pthread_mutex_lock(&lock);
	for (struct offer **at = &offers, *o; (o = *at); at = &o->next)
		if (!memcmp(o->key, handle->key, sizeof(o->key))) {
			*at = o->next;
			if (o->fd >= 0)
				close(o->fd);
			free(o);
			break;
		}
	pthread_mutex_unlock(&lock);
}

static int connect_to(int s, const uint8_t *name)
{
	struct sockaddr_un a;
	socklen_t length = address_of(name, &a);
	int status;

	do
		status = connect(s, (struct sockaddr *)&a, length);
	while (status && errno == EINTR);
	return status;
}

/* Asks the offering worker for the handle's key. */
static int ask(const struct vcuda_share_handle *handle, struct answer *answer, int *fd)
{
	const struct iovec part = {answer, sizeof(*answer)};
	struct vcuda_fds fds = {.count = 0};
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ssize_t bytes = -1;

	if (s < 0) {
		say_used_up();
		return -ENOMEM;
	}
	be_patient(s);
	if (connect_to(s, handle->server) == 0 && is_friend(s) &&
	    send(s, handle->key, sizeof(handle->key), MSG_NOSIGNAL) == sizeof(handle->key))
		bytes = vcuda_fds_receive(s, &part, 1, &fds, 0);
	close(s);
	if (bytes != sizeof(*answer)) {
		vcuda_fds_close(&fds, 0);
		return -EINVAL;
	}
	*fd = vcuda_fds_take(&fds);
	if (*fd >= 0 || (answer->kind != BUSY && !answer->has_fd))
		return 0;
	/* either worker has no descriptor left */
	vcuda_log("memory or an event of another process cannot be had: %s",
		  fds.lost ? "no file descriptor is left here (ulimit -Hn)"
			   : "that process has no file descriptor left (ulimit -Hn)");
	return -ENOMEM;
}

/* Looks the key up among the offers of this worker. */
static int look_up(const uint8_t *key, struct answer *answer, int *fd)
{
	const struct offer *o;

	pthread_mutex_lock(&lock);
	o = find_offer(key);
	if (o) {
		*answer = o->answer;
		*fd = o->fd < 0 ? -1 : fcntl(o->fd, F_DUPFD_CLOEXEC, 0);
	}
	pthread_mutex_unlock(&lock);
	if (!o)
		return -EINVAL;
	if (*fd >= 0 || !answer->has_fd)
		return 0;
	say_used_up();
	return -ENOMEM;
}

/* The file must not be able to shrink: an access behind its end would end this process. */
static bool is_safe(int fd, const struct vcuda_share_part *part)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return part->bytes && seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &st) == 0 && st.st_size > 0 &&
	       part->offset <= (uint64_t)st.st_size && part->bytes <= (uint64_t)st.st_size - part->offset;
}

bool vcuda_share_is_own(const struct vcuda_share_handle *handle)
{
	bool own;

	pthread_mutex_lock(&lock);
	own = listener >= 0 && !memcmp(handle->server, our_name, sizeof(our_name));
	pthread_mutex_unlock(&lock);
	return own;
}

static int ask_keeper(const struct vcuda_share_handle *handle, struct answer *answer, int *fd)
{
	struct vcuda_keeper_message m = {.type = VCUDA_KEEPER_TAKE};
	int err;

	memcpy(m.key, handle->key, sizeof(m.key));
	err = vcuda_share_ask_keeper(&m, -1, fd);
	if (!err && m.has_fd && *fd < 0) {
		say_used_up();
		return -ENOMEM;
	}
	if (err)
		return err == -ENOMEM ? err : -EINVAL;
	answer->kind = m.kind;
	answer->part = m.part;
	answer->has_fd = m.has_fd;
	memcpy(answer->note, m.note, sizeof(answer->note));
	return 0;
}

static int take(const struct vcuda_share_handle *handle, enum vcuda_share_kind kind, struct answer *answer, int *fd)
{
	int err;

	*answer = (struct answer){0};
	*fd = -1;
	if (vcuda_share_is_kept(handle))
		err = ask_keeper(handle, answer, fd);
	else if (memcmp(handle->magic, magic, sizeof(magic)))
		return -EINVAL;
	else
		err = vcuda_share_is_own(handle) ? look_up(handle->key, answer, fd) : ask(handle, answer, fd);
	if (err || answer->kind == kind)
		return err;
	if (*fd >= 0)
		close(*fd);
	return -EINVAL;
}

int vcuda_share_take(const struct vcuda_share_handle *handle, enum vcuda_share_kind kind, struct vcuda_share_part *part,
		     int *fd)
{
	struct answer answer;
	int err = take(handle, kind, &answer, fd);

	if (err)
		return err;
	if (*fd < 0 || !is_safe(*fd, &answer.part)) {
		if (*fd >= 0)
			close(*fd);
		return -EINVAL;
	}
	*part = answer.part;
	return 0;
}

int vcuda_share_take_note(const struct vcuda_share_handle *handle, enum vcuda_share_kind kind, void *note, int *fd)
{
	struct answer answer;
	int err = take(handle, kind, &answer, fd);

	if (!err)
		memcpy(note, answer.note, sizeof(answer.note));
	return err;
}
