/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages are read-only during the copy, so that the copy is exact. A thread that stores to them gets a signal, waits
 * in its handler until the file is mapped, and repeats the store. Threads that may store to device memory without the
 * scheduler's lock have that signal unblocked (schedule.c).
 */
#include "device/arena.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"

static _Atomic uint32_t moves;  /* number of moves that were begun; changed with the lock */
static _Atomic uint32_t moving; /* 1 while one is under way; a futex */
static uint64_t arena_start, arena_end;
static struct sigaction before;

/* Whether the store failed because of a move, which is over when this returns. */
static bool wait_for_move(uint64_t address)
{
	static __thread uint32_t seen;
	uint32_t now = atomic_load(&moves);

	if (address < arena_start || address >= arena_end)
		return false;
	/* Once more after the last move was over: that is something else. */
	if (seen == now && !atomic_load(&moving))
		return false;
	while (atomic_load(&moving))
		syscall(SYS_futex, &moving, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	seen = now;
	return true;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	int error = errno;
	bool waited = info->si_code == SEGV_ACCERR && wait_for_move((uint64_t)(uintptr_t)info->si_addr);

	errno = error;
	if (waited)
		return;
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(number, info, context);
	else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
		signal(number, SIG_DFL); /* the signal is delivered again */
	else
		before.sa_handler(number);
}

/* Installs the signal's handler again: other code in the process may have replaced it since the last move. */
static bool prepare(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_RESTART}, now;
	uint64_t length;

	softgpu_arena_range(&arena_start, &length);
	arena_end = arena_start + length;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGSEGV, NULL, &now))
		return false;
	if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault)
		return true;
	before = now;
	return sigaction(SIGSEGV, &action, NULL) == 0;
}

static bool write_all(int fd, uint64_t address, uint64_t bytes, uint64_t offset)
{
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = pwrite(fd, (const void *)(uintptr_t)(address + done), bytes - done,
				   (off_t)(offset + done));

		if (n <= 0 && errno != EINTR)
			return false;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return true;
}

bool softgpu_move_to_file(uint64_t address, uint64_t bytes, int fd, uint64_t offset)
{
	void *pages = (void *)(uintptr_t)address;
	bool ok;

	if (!prepare())
		return false;
	atomic_store(&moving, 1);
	atomic_fetch_add(&moves, 1);
	ok = mprotect(pages, bytes, PROT_READ) == 0 && write_all(fd, address, bytes, offset) &&
	     mmap(pages, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) != MAP_FAILED;
	/* Making the pages writable again splits no mapping, so it cannot fail for lack of memory. */
	if (!ok && mprotect(pages, bytes, PROT_READ | PROT_WRITE))
		vcuda_log("memory that could not be shared can no longer be written: %s", strerror(errno));
	atomic_store(&moving, 0);
	syscall(SYS_futex, &moving, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	return ok;
}
