/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server of `vcuda metrics`: one thread, which waits for all clients at once. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/describe/metrics-http.h"
#include "common/deadline.h"

#define REQUEST_MAX 4096
#define PATIENCE_NS (5 * UINT64_C(1000000000))
#define CLIENTS_MAX 16

struct client {
	int fd;       /* -1: none */
	uint64_t end; /* of the request, later of the answer */
	char request[REQUEST_MAX + 1];
	size_t length;
	char *answer; /* NULL: the request is not complete */
	size_t size, sent;
};

struct server {
	int listener;
	metrics_http_text *text;
	const void *context;
	struct client clients[CLIENTS_MAX];
};

/* ---- one client ---- */

static void client_close(struct client *client)
{
	close(client->fd);
	free(client->answer);
	*client = (struct client){.fd = -1};
}

/* False if memory is missing. */
static bool client_answer(struct client *client, const char *status, const char *body, size_t size)
{
	FILE *out = open_memstream(&client->answer, &client->size);

	if (!out)
		return false;
	fprintf(out,
		"HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n",
		status, size);
	fwrite(body, 1, size, out);
	client->end = vcuda_now_ns() + PATIENCE_NS;
	return !fclose(out);
}

static bool client_answer_text(struct client *client, const struct server *server)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	bool good;

	if (out)
		server->text(out, server->context);
	if (out && !fclose(out))
		good = client_answer(client, "200 OK", text, size);
	else
		good = client_answer(client, "500 Internal Server Error", "", 0);
	free(text);
	return good;
}

/* Reads what has come of the request. False: the client is to be closed. */
static bool client_read(struct client *client, const struct server *server)
{
	ssize_t got = read(client->fd, client->request + client->length, REQUEST_MAX - client->length);

	if (got <= 0)
		return got < 0 && (errno == EAGAIN || errno == EINTR);
	client->length += (size_t)got;
	client->request[client->length] = '\0';
	if (!strstr(client->request, "\r\n\r\n") && client->length < REQUEST_MAX)
		return true;
	if (strncmp(client->request, "GET ", 4))
		return client_answer(client, "405 Method Not Allowed", "", 0);
	if (strncmp(client->request + 4, "/metrics ", 9))
		return client_answer(client, "404 Not Found", "/metrics\n", 9);
	return client_answer_text(client, server);
}

/* Sends what the socket takes of the answer. False: the client is to be closed. */
static bool client_write(struct client *client)
{
	ssize_t sent = send(client->fd, client->answer + client->sent, client->size - client->sent, MSG_NOSIGNAL);

	if (sent < 0)
		return errno == EAGAIN || errno == EINTR;
	client->sent += (size_t)sent;
	return client->sent < client->size;
}

/* ---- all clients ---- */

/* With all places in use a new client takes the place of the one whose time ends first. */
static void server_accept(struct server *server)
{
	struct client *place = &server->clients[0];
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	for (unsigned int i = 1; i < CLIENTS_MAX && place->fd >= 0; i++)
		if (server->clients[i].fd < 0 || server->clients[i].end < place->end)
			place = &server->clients[i];
	if (place->fd >= 0)
		client_close(place);
	place->fd = fd;
	place->end = vcuda_now_ns() + PATIENCE_NS;
}

/* Waits once, with the signals of `waiting` let in, and serves the clients that are ready. */
static void server_step(struct server *server, const sigset_t *waiting)
{
	struct pollfd polled[CLIENTS_MAX + 1];
	uint64_t now = vcuda_now_ns(), end = UINT64_MAX;
	struct timespec most;

	for (unsigned int i = 0; i < CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		polled[i] = (struct pollfd){.fd = client->fd, .events = client->answer ? POLLOUT : POLLIN};
		if (client->fd >= 0 && client->end < end)
			end = client->end;
	}
	polled[CLIENTS_MAX] = (struct pollfd){.fd = server->listener, .events = POLLIN};
	now = end > now ? end - now : 0;
	most = (struct timespec){.tv_sec = (time_t)(now / 1000000000), .tv_nsec = (long)(now % 1000000000)};
	if (ppoll(polled, CLIENTS_MAX + 1, end == UINT64_MAX ? NULL : &most, waiting) < 0)
		return;
	now = vcuda_now_ns();
	for (unsigned int i = 0; i < CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];
		bool stays = true;

		if (client->fd >= 0 && polled[i].revents)
			stays = client->answer ? client_write(client) : client_read(client, server);
		if (client->fd >= 0 && (!stays || now >= client->end))
			client_close(client);
	}
	if (polled[CLIENTS_MAX].revents)
		server_accept(server);
}

/* ---- the socket ---- */

static int listen_loopback(unsigned int port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;

	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) &&
	    !bind(fd, (struct sockaddr *)&address, sizeof(address)) && !listen(fd, 16))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Replaces a socket without a listener. *own: the new one. */
static int listen_path(const char *path, struct stat *own)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && probe >= 0 && strlen(path) < sizeof(address.sun_path);
	struct stat there;
	mode_t mask;

	if (!good && fd >= 0)
		errno = ENAMETOOLONG;
	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (good && !lstat(path, &there) && S_ISSOCK(there.st_mode) &&
	    connect(probe, (struct sockaddr *)&address, sizeof(address)) && errno == ECONNREFUSED)
		unlink(path);
	mask = umask(0177);
	good = good && !bind(fd, (struct sockaddr *)&address, sizeof(address)) && !listen(fd, 16) && !lstat(path, own);
	umask(mask);
	if (probe >= 0)
		close(probe);
	if (good)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	ended = number;
}

int metrics_http_serve(const char *where, metrics_http_text *text, const void *context)
{
	struct sigaction action = {.sa_handler = on_signal};
	bool is_port = strspn(where, "0123456789") == strlen(where);
	unsigned long port = is_port ? strtoul(where, NULL, 10) : 0;
	struct server server = {.text = text, .context = context};
	struct stat own, there;
	sigset_t waiting, ends;

	sigemptyset(&ends);
	if (is_port ? port < 1 || port > 65535 : !strchr(where, '/')) {
		cli_message("metrics: --listen is a port of 127.0.0.1, or the path of a socket, not '%s'", where);
		return CLI_FAILED;
	}
	server.listener = is_port ? listen_loopback((unsigned int)port) : listen_path(where, &own);
	if (server.listener < 0) {
		cli_message("metrics: --listen %s: %s", where, strerror(errno));
		return CLI_FAILED;
	}
	/* Signals are let in only during the wait, so that none is lost between the check and the wait. */
	sigprocmask(SIG_SETMASK, NULL, &waiting);
	for (const int *s = (const int[]){SIGINT, SIGTERM, SIGHUP, 0}; *s; s++) {
		sigaction(*s, &action, NULL);
		sigaddset(&ends, *s);
	}
	sigprocmask(SIG_BLOCK, &ends, NULL);
	for (unsigned int i = 0; i < CLIENTS_MAX; i++)
		server.clients[i].fd = -1;
	while (!ended)
		server_step(&server, &waiting);
	for (unsigned int i = 0; i < CLIENTS_MAX; i++)
		if (server.clients[i].fd >= 0)
			client_close(&server.clients[i]);
	if (!is_port && !lstat(where, &there) && there.st_dev == own.st_dev && there.st_ino == own.st_ino)
		unlink(where);
	return 128 + ended;
}
