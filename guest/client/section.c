/* SPDX-License-Identifier: Apache-2.0 */
#include "section.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The word: this bit while sections are closed, and how many threads are in one. */
#define CLOSED 0x80000000u

static _Atomic uint32_t word;
static _Thread_local unsigned int depth;

static void enter(void)
{
	uint32_t seen = atomic_load(&word);

	do {
		while (seen & CLOSED) {
			syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
			seen = atomic_load(&word);
		}
	} while (!atomic_compare_exchange_weak(&word, &seen, seen + 1));
}

void client_section_enter(void)
{
	if (!depth)
		enter();
	depth++;
}

void client_section_leave(void)
{
	if (!--depth)
		atomic_fetch_sub(&word, 1);
}

unsigned int client_section_suspend(void)
{
	unsigned int before = depth;

	depth = 0;
	if (before)
		atomic_fetch_sub(&word, 1);
	return before;
}

void client_section_resume(unsigned int before)
{
	if (before)
		enter();
	depth = before;
}

void client_section_close(void)
{
	atomic_fetch_or(&word, CLOSED);
}

bool client_section_is_empty(void)
{
	return atomic_load(&word) == CLOSED;
}

void client_section_open(void)
{
	atomic_fetch_and(&word, ~CLOSED);
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void client_section_forked(void)
{
	atomic_store(&word, 0);
	depth = 0;
}
