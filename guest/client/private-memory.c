/* SPDX-License-Identifier: Apache-2.0 */
#include "private-memory.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "proc-maps.h"

#define PAGE 4096u

/* The C library's: the end of the first thread's stack. */
extern void *__libc_stack_end;

/* Private pages of a file count as other memory if the program can write to them. */
static bool is_code_or_constant(const struct client_proc_map *m)
{
	return m->inode && (m->prot[1] != 'w' || m->prot[2] == 'x');
}

/* The first thread's stack, which would lose what that thread writes meanwhile. */
static bool is_stack_of_other(const struct client_proc_map *m)
{
	return !strcmp(m->name, "[stack]") && getpid() != gettid();
}

int client_private_memory_check(const void *address, size_t bytes, bool writable)
{
	uint64_t at = (uintptr_t)address, end = at + bytes;
	struct client_proc_maps maps;
	struct client_proc_map m;
	int result = 0;

	if (!client_proc_maps_open(&maps, address))
		return errno == EMFILE || errno == ENFILE ? -errno : -EOPNOTSUPP;
	while (at < end && client_proc_maps_next(&maps, &m)) {
		if (m.from > at || m.prot[0] != 'r' || (writable && m.prot[1] != 'w'))
			break;
		if (m.prot[3] != 'p' || is_code_or_constant(&m) || is_stack_of_other(&m))
			result = -EOPNOTSUPP;
		at = m.to;
	}
	client_proc_maps_close(&maps);
	return at < end ? -EFAULT : result;
}

/* ---- work beside the calling thread's stack ---- */

enum how {
	TAKE_ALL,
	TAKE_SNAPSHOT, /* all, and the snapshot is a copy of it */
	TAKE_CHANGES,  /* only bytes that differ from the snapshot */
};

/* `from` takes over the contents of `to` and moves there. */
struct exchange {
	uint8_t *from, *to, *snapshot;
	size_t bytes;
	enum how how;
	int err;
};

/* In one step: no other thread ever sees the range unmapped. */
static void do_exchange(struct exchange *e)
{
	if (e->how != TAKE_CHANGES)
		memcpy(e->from, e->to, e->bytes);
	if (e->how == TAKE_SNAPSHOT)
		memcpy(e->snapshot, e->from, e->bytes);
	for (size_t i = 0; e->how == TAKE_CHANGES && i < e->bytes; i++)
		if (e->to[i] != e->snapshot[i])
			e->from[i] = e->to[i];
	e->err = mremap(e->from, e->bytes, e->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, e->to) == MAP_FAILED ? -errno : 0;
}

#define ASIDE_BYTES 65536

/* Static, since the stack may be the range that is exchanged. */
static struct {
	pthread_mutex_t lock;
	struct exchange exchange;
	ucontext_t back, job;
	uint8_t stack[ASIDE_BYTES] __attribute__((aligned(64)));
} aside = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void run_job(void)
{
	do_exchange(&aside.exchange);
}

static bool switch_stacks(void)
{
	if (getcontext(&aside.job))
		return false;
	aside.job.uc_stack.ss_sp = aside.stack;
	aside.job.uc_stack.ss_size = sizeof(aside.stack);
	aside.job.uc_link = &aside.back;
	makecontext(&aside.job, run_job, 0);
	return swapcontext(&aside.back, &aside.job) == 0;
}

/* Exchanges the pages while running on a separate stack. */
static void exchange_aside(struct exchange *e)
{
	pthread_mutex_lock(&aside.lock);
	aside.exchange = *e;
	aside.exchange.err = -EOPNOTSUPP;
	switch_stacks();
	e->err = aside.exchange.err;
	pthread_mutex_unlock(&aside.lock);
}

/* More bytes than the frames of this file and of the functions that it calls take. */
#define NEAR (16u * PAGE)

/* Whether this thread writes there while it exchanges pages, as to a part of the stack that it runs on. */
static bool is_in_use(const struct exchange *e)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), to = (uintptr_t)e->to;

	return to < here + NEAR && here - NEAR < to + e->bytes;
}

/* `from` is unmapped in any case. No signal handler of this thread writes there meanwhile. */
static int exchange(void *from, void *to, size_t bytes, enum how how, void *snapshot)
{
	struct exchange e = {from, to, snapshot, bytes, how, 0};
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (is_in_use(&e))
		exchange_aside(&e);
	else
		do_exchange(&e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e.err)
		munmap(from, bytes);
	return e.err;
}

int client_private_memory_share(void *address, size_t bytes, int memfd)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);

	return p == MAP_FAILED ? -errno : exchange(p, address, bytes, TAKE_ALL, NULL);
}

static void *new_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int client_private_memory_restore(void *address, size_t bytes)
{
	void *p = new_pages(bytes);

	return p ? exchange(p, address, bytes, TAKE_ALL, NULL) : -ENOMEM;
}

/* ---- pages that are private for a while ---- */

bool client_private_memory_is_own_stack(const void *address)
{
	uintptr_t at = (uintptr_t)address, here = (uintptr_t)__builtin_frame_address(0);
	pthread_attr_t attributes;
	void *start = NULL;
	size_t bytes = 0;

	/* The first thread's ends there; for its begin glibc reads a file. */
	if (getpid() == gettid())
		return at >= here - NEAR && at < (uintptr_t)__libc_stack_end + PAGE;
	if (pthread_getattr_np(pthread_self(), &attributes))
		return false;
	pthread_attr_getstack(&attributes, &start, &bytes);
	pthread_attr_destroy(&attributes);
	return at - (uintptr_t)start < bytes;
}

static void drop_pages(void *one, void *other)
{
	if (one)
		munmap(one, PAGE);
	if (other)
		munmap(other, PAGE);
}

void client_private_page_begin(struct client_private_page *p, void *address)
{
	void *private = new_pages(PAGE), *shared = MAP_FAILED;

	p->shared = NULL;
	p->snapshot = new_pages(PAGE);
	/* A second mapping of the same page. */
	if (private && p->snapshot)
		shared = mremap(address, 0, PAGE, MREMAP_MAYMOVE);
	if (shared == MAP_FAILED) {
		drop_pages(private, p->snapshot);
		return;
	}
	madvise(shared, PAGE, MADV_DONTFORK);
	if (exchange(private, address, PAGE, TAKE_SNAPSHOT, p->snapshot) == 0) {
		p->shared = shared;
		return;
	}
	drop_pages(shared, p->snapshot);
}

void client_private_page_end(struct client_private_page *p, void *address)
{
	if (!p->shared)
		return;
	madvise(p->shared, PAGE, MADV_DOFORK);
	exchange(p->shared, address, PAGE, TAKE_CHANGES, p->snapshot);
	munmap(p->snapshot, PAGE);
	p->shared = NULL;
}
