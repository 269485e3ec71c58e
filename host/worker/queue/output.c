/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/output.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/handlers.h"
#include "session/session.h"

/* More than this is not kept: a kernel that prints for ever fills no memory. */
#define MAX_BYTES (64ll << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static off_t taken;      /* bytes that the guest has */
static const char *text; /* the file, mapped; NULL: there is none */

int worker_output_open(void)
{
	static char buffer[1 << 16];
	int fd = memfd_create("vcuda-output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *mapped;

	if (fd < 0)
		return -1;
	/* The file cannot grow: output beyond its size is lost. */
	if (ftruncate(fd, MAX_BYTES) || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) ||
	    dup2(fd, STDOUT_FILENO) < 0) {
		close(fd);
		return -1;
	}
	mapped = mmap(NULL, MAX_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED)
		return -1;
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	text = mapped;
	return 0;
}

/* Starts again at the file's beginning once all is read. Threads that print through stdio wait meanwhile. */
static off_t end_of_output(void)
{
	off_t end;

	flockfile(stdout);
	fflush(stdout);
	clearerr(stdout);
	end = lseek(STDOUT_FILENO, 0, SEEK_CUR);
	if (end == taken && end > MAX_BYTES / 2 && lseek(STDOUT_FILENO, 0, SEEK_SET) == 0)
		end = taken = 0;
	funlockfile(stdout);
	return end;
}

/*
 * True: there is no new output. Makes no system call, since each synchronous call of the guest asks. Output that the
 * guest has read is a hole and reads as zero. A text that begins with a zero byte and did not come through stdio is
 * found with the next text.
 */
static bool is_quiet(void)
{
	return !__fpending(stdout) && taken < MAX_BYTES && !*(const volatile char *)&text[taken];
}

void worker_output_check(struct worker_session *s)
{
	struct vcuda_shm *shm = s->shm;

	if (!text)
		return;
	pthread_mutex_lock(&lock);
	if (!is_quiet() && end_of_output() > taken)
		atomic_store(&shm->output, 1);
	pthread_mutex_unlock(&lock);
}

size_t worker_output_read(struct worker_session *s, void *to, size_t room)
{
	struct vcuda_shm *shm = s->shm;
	ssize_t n = 0;
	off_t end;

	pthread_mutex_lock(&lock);
	end = text ? end_of_output() : 0;
	if ((off_t)room > end - taken)
		room = (size_t)(end - taken);
	if (room)
		n = pread(STDOUT_FILENO, to, room, taken);
	if (n > 0) {
		fallocate(STDOUT_FILENO, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, taken, n);
		taken += n;
	}
	if (n <= 0 || taken == end)
		atomic_store(&shm->output, 0);
	pthread_mutex_unlock(&lock);
	return n > 0 ? (size_t)n : 0;
}

CUresult vcuda_handle_vcudaOutputRead(struct worker_session *s, struct vcuda_args_vcudaOutputRead *a)
{
	a->bytes = (unsigned int)worker_output_read(s, a->text, a->room);
	return CUDA_SUCCESS;
}
