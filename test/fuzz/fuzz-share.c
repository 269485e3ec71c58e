/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile workers for what workers share: one that answers, and one that asks.
 *
 * Input: a byte (bits 0 to 2: how many descriptors come with an answer, 3: sealed files, 4: a note is asked for, 5: the
 * input is a question), then the answer or the question.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fds.h"
#include "common/log.h"
#include "common/share.h"

#define FILE_BYTES 8192

const struct vcuda_log_program vcuda_log_program = {.name = "fuzz-share"};

static const uint8_t hostile_name[16] = "a hostile one";
static struct vcuda_share_handle ours; /* of the file that this process offers */
static int hostile = -1;               /* listens under the hostile name */
static int files[2];                   /* one that can shrink, one that cannot */

static socklen_t address_of(const uint8_t *name, struct sockaddr_un *a)
{
	size_t n = 1;

	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	n += (size_t)snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "vcuda-share-");
	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(a->sun_path + n, sizeof(a->sun_path) - n, "%02x", name[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static void set_up(void)
{
	struct sockaddr_un a;
	uint8_t name[16];
	socklen_t length;

	vcuda_log_quiet(true);
	files[0] = memfd_create("shrinks", MFD_CLOEXEC);
	files[1] = vcuda_share_file(FILE_BYTES);
	CHECK(files[1] >= 0 && !ftruncate(files[0], FILE_BYTES));
	CHECK(vcuda_share_offer(VCUDA_SHARE_MEMORY, (struct vcuda_share_part){0, FILE_BYTES},
				fcntl(files[1], F_DUPFD_CLOEXEC, 0), &ours));
	/* Fuzzers run beside one another. */
	memcpy(name, hostile_name, sizeof(name));
	memcpy(name + 12, &(pid_t){getpid()}, 4);
	length = address_of(name, &a);
	hostile = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(hostile >= 0 && !bind(hostile, (struct sockaddr *)&a, length) && !listen(hostile, 4));
}

static unsigned int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int count = 0;

	CHECK(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

/* ---- a worker that answers ---- */

struct answer {
	const uint8_t *data;
	size_t bytes;
	unsigned int flags;
};

static void *answer(void *argument)
{
	const struct answer *a = argument;
	int client = accept4(hostile, NULL, NULL, SOCK_CLOEXEC), fds[8];
	unsigned int count = a->flags & 7;
	const struct iovec part = {(void *)(uintptr_t)a->data, a->bytes};
	uint8_t key[16];

	for (int i = 0; i < 8; i++)
		fds[i] = files[a->flags >> 3 & 1];
	if (recv(client, key, sizeof(key), 0) == sizeof(key))
		vcuda_fds_send(client, &part, 1, fds, count, 0);
	close(client);
	return NULL;
}

static void fuzz_answer(struct answer *a)
{
	struct vcuda_share_handle handle = ours;
	struct vcuda_share_part part;
	uint8_t note[VCUDA_SHARE_NOTE_BYTES];
	pthread_t thread;
	int fd = -1, err;

	memcpy(handle.server, hostile_name, sizeof(handle.server));
	memcpy(handle.server + 12, &(pid_t){getpid()}, 4);
	CHECK(!pthread_create(&thread, NULL, answer, a));
	if (a->flags & 16)
		err = vcuda_share_take_note(&handle, VCUDA_SHARE_DRIVER_MEMORY, note, &fd);
	else
		err = vcuda_share_take(&handle, VCUDA_SHARE_MEMORY, &part, &fd);
	pthread_join(thread, NULL);
	if (err)
		return;
	/* The part must be within the file. */
	if (!(a->flags & 16))
		CHECK(a->flags & 8 && fd >= 0 && part.bytes && part.offset <= FILE_BYTES &&
		      part.bytes <= FILE_BYTES - part.offset);
	if (fd >= 0)
		close(fd);
}

/* ---- a worker that asks ---- */

static void fuzz_question(const uint8_t *data, size_t bytes)
{
	struct sockaddr_un a;
	socklen_t length = address_of(ours.server, &a);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint8_t buffer[256];

	CHECK(s >= 0 && !connect(s, (struct sockaddr *)&a, length));
	/* The answer is seen to, or the end: then the other side has closed its own. */
	if (send(s, data, bytes, MSG_NOSIGNAL) >= 0)
		while (recv(s, buffer, sizeof(buffer), 0) > 0)
			continue;
	close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct answer a;
	unsigned int before;

	if (hostile < 0) {
		set_up();
		/* The listener's own descriptors are there when it has answered. */
		fuzz_question((const uint8_t *)"", 1);
	}
	if (bytes < 2)
		return 0;
	a = (struct answer){data + 1, bytes - 1, data[0]};
	before = count_descriptors();
	if (a.flags & 32)
		fuzz_question(a.data, a.bytes);
	else
		fuzz_answer(&a);
	CHECK(count_descriptors() == before);
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	const uint64_t answers[] = {VCUDA_SHARE_MEMORY, 4096, 4096, 1}, question[] = {0, 0};

	memset(buffer, 0, 128);
	buffer[0] = (uint8_t)(number % 64);
	memcpy(buffer + 1, answers, sizeof(answers));
	if (number % 64 < 32)
		return 1 + sizeof(answers) + VCUDA_SHARE_NOTE_BYTES;
	memcpy(buffer + 1, question, sizeof(question));
	return 1 + sizeof(question);
}
