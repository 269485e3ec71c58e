/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that is stopped while another one answers it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "common/share.h"

const struct vcuda_log_program vcuda_log_program = {.name = "test-share"};

/* A socket under the name in `handle`, as share.c spells it. */
static int listen_as(struct vcuda_share_handle *handle)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	size_t n = 1;

	*handle = (struct vcuda_share_handle){.magic = "vcuda\0\0\1"};
	memcpy(handle->server, &(pid_t){getpid()}, sizeof(pid_t));
	n += (size_t)snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "vcuda-share-");
	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(a.sun_path + n, sizeof(a.sun_path) - n, "%02x", handle->server[i]);
	assert_int_equal(bind(s, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)), 0);
	assert_int_equal(listen(s, 1), 0);
	return s;
}

static char state_of(pid_t process)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", process);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state;
}

static void wait_for_state(pid_t process, char state)
{
	while (state_of(process) != state) {
		assert_int_not_equal(state_of(process), 'Z');
		usleep(1000);
	}
}

static void test_stopped_while_it_waits(void **unused)
{
	const struct {
		uint64_t kind, offset, bytes, has_fd;
		uint8_t note[VCUDA_SHARE_NOTE_BYTES];
	} answer = {.kind = VCUDA_SHARE_DRIVER_EVENT};
	struct vcuda_share_handle handle;
	uint8_t key[16], note[VCUDA_SHARE_NOTE_BYTES];
	int s = listen_as(&handle), client, status, fd = -1;
	pid_t asks = fork();

	if (!asks)
		_exit(vcuda_share_take_note(&handle, VCUDA_SHARE_DRIVER_EVENT, note, &fd) ? 1 : 0);
	client = accept4(s, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(recv(client, key, sizeof(key), 0), sizeof(key));
	wait_for_state(asks, 'S');
	kill(asks, SIGSTOP);
	wait_for_state(asks, 'T');
	kill(asks, SIGCONT);
	send(client, &answer, sizeof(answer), MSG_NOSIGNAL);
	close(client);
	close(s);
	assert_int_equal(waitpid(asks, &status, 0), asks);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_stopped_while_it_waits)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
