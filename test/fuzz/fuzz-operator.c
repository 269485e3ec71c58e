/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile bytes at vcudad's control socket, with two guest processes of a VM to list and to kill.
 *
 * Input: how many bytes come first (1 byte, modulo the rest), and the bytes of one connection, in two parts.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "host/daemon/control.h"
#include "host/daemon/limits/ledger.h"
#include "host/daemon/options/quotas.h"

#define ANSWER_BYTES 65536
#define PROCESSES 2

const struct vcuda_log_program vcuda_log_program = {.name = "fuzz-operator"};

static const struct daemon_options usual = {.backend = "cpu",
					    .vhost_socket = "vm.sock",
					    .control = "none",
					    .name = "tenant-1",
					    .max_contexts = 4,
					    .max_pinned = 64u << 20};
static struct daemon_options options;
static struct daemon_loop loop;
static struct daemon_vhost vhost = {.fd = -1};
static struct daemon_local local;
static struct daemon_control control;
static struct daemon_context contexts[PROCESSES];
static struct daemon_worker workers[PROCESSES];

static void after_turn(struct daemon_loop *l)
{
	l->stop = true;
}

static void turn(void)
{
	loop.stop = false;
	loop.again = true;
	daemon_loop_run(&loop);
}

static void set_up(void)
{
	setenv("VCUDA_LOG", "0", 0);
	vcuda_log_quiet(true);
	options = usual;
	CHECK(!daemon_loop_init(&loop) && !daemon_ledger_refresh(&options));
	loop.idle = after_turn;
	vhost.options = local.options = &options;
	daemon_device_init(&vhost.device, &loop, &options, NULL);
	vcuda_list_init(&local.clients);
	vcuda_list_init(&local.waiting);
	CHECK(!daemon_control_open(&control, &loop, &options, &vhost, &local));
}

/* The members that daemon_context_kill() uses of a worker whose process was waited for. */
static void set_up_processes(void)
{
	for (unsigned int i = 0; i < PROCESSES; i++) {
		struct daemon_context *context = &contexts[i];

		if (workers[i].loop)
			daemon_timer_clear(&workers[i].late_timer);
		workers[i] = (struct daemon_worker){.loop = &loop,
						    .pid = 1000,
						    .pidfd = -1,
						    .channel = -1,
						    .doorbell = -1,
						    .notify = -1,
						    .channel_source = {-1, NULL},
						    .notify_source = {-1, NULL}};
		daemon_timer_init(&workers[i].late_timer, NULL);
		daemon_timer_init(&workers[i].reply_timer, NULL);
		daemon_timer_init(&workers[i].end_timer, NULL);
		vcuda_list_init(&workers[i].sent);
		vcuda_list_init(&workers[i].unsent);
		if (context->device)
			vcuda_list_remove(&context->entry);
		*context = (struct daemon_context){
			.device = &vhost.device, .worker = &workers[i], .id = i + 1, .pid = 77 + i, .ready = true};
		vcuda_list_add(&context->entry, &vhost.device.contexts);
	}
}

static void say(int fd, const uint8_t *data, size_t bytes)
{
	if (bytes)
		send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	turn();
}

/* Returns how many bytes of an answer came. */
static size_t converse(const uint8_t *data, size_t bytes, size_t first, char *answer)
{
	int ends[2];
	ssize_t got;
	size_t at = 0;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	control.listener.accepted(&control.listener, ends[1]);
	say(ends[0], data, first);
	say(ends[0], data + first, bytes - first);
	shutdown(ends[0], SHUT_WR);
	while (control.count) {
		turn();
		while ((got = recv(ends[0], answer + at, ANSWER_BYTES - 1 - at, MSG_DONTWAIT)) > 0)
			at += (size_t)got;
	}
	while ((got = recv(ends[0], answer + at, ANSWER_BYTES - 1 - at, MSG_DONTWAIT)) > 0)
		at += (size_t)got;
	close(ends[0]);
	answer[at] = 0;
	return at;
}

static void check_answer(const char *answer, size_t bytes)
{
	const char *newline = strchr(answer, '\n');

	CHECK(strlen(answer) == bytes && newline && answer[bytes - 1] == '\n');
	CHECK(!strncmp(answer, "ok\n", 3) || (!strncmp(answer, "error ", 6) && newline == answer + bytes - 1));
	for (const char *at = answer; *at; at++)
		CHECK(*at == '\n' || ((unsigned char)*at >= 0x20 && *at != 0x7f));
}

static void check_quotas(void)
{
	for (enum daemon_quota quota = 0; quota < DAEMON_QUOTAS; quota++) {
		const struct daemon_quota_kind *kind = daemon_quota_kind(quota);
		uint64_t value = daemon_quota_get(&options, quota), before = daemon_quota_get(&usual, quota);

		CHECK(value == before || (value >= kind->least && value <= kind->most));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static char answer[ANSWER_BYTES];
	const uint8_t *newline;
	size_t got;

	if (!control.loop)
		set_up();
	options = usual;
	set_up_processes();
	if (!bytes)
		return 0;
	got = converse(data + 1, bytes - 1, data[0] % bytes, answer);
	newline = memchr(data + 1, '\n', bytes - 1);
	CHECK(!got == !(newline && newline - (data + 1) < DAEMON_CONTROL_REQUEST));
	if (got)
		check_answer(answer, got);
	check_quotas();
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	static const char *const lines[] = {"status",
					    "kill 77 a reason",
					    "kill all",
					    "kill 4294967295",
					    "set max-contexts 3",
					    "set max-pinned 64K",
					    "set max-device-memory 8G",
					    "set max-queued-commands 2147483647",
					    "set max-module-bytes 9223372036854775807",
					    " set  max-streams  1 "};

	return (size_t)snprintf((char *)buffer, room, "%c%s\n", (char)(number % 8),
				lines[number % (sizeof(lines) / sizeof(*lines))]);
}
