/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread for all modules, so that optimising takes one processor at most from the kernels that run. It comes with
 * the first job and goes when there is none left. A program that ends does not wait for it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "jit/ptx-compile.h"
#include "jit/ptx-tier.h"
#include "jit/ptx-version.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/start-thread.h"

/* Waiting for the thread at the end of the process, before it is ended the hard way. */
#define END_MS 100
#define NICE 10

struct job {
	struct job *next;
	struct ptx_binary *binary; /* NULL: a spare for the first module */
	bool masked;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first;
static bool running, ending;

/* Puts optimised code in the place of quick code of the same version. */
static enum ptx_status replace_code(struct ptx_binary *b, bool masked, struct ptx_error *error)
{
	struct ptx_module *module = b->kernel->function->module;
	struct ptx_version version = {
		.masked = masked, .checked = ptx_version_is_checked(), .standalone = b->standalone};
	struct ptx_machine_code *code;
	enum ptx_status status = ptx_version_make(b, &version, false, false, &code, error);

	if (status != PTX_OK)
		return status;
	pthread_mutex_lock(&module->lock);
	ptx_binary_publish(b, masked, code);
	pthread_mutex_unlock(&module->lock);
	return PTX_OK;
}

/*
 * Makes a binary beside one of scalar code, with quick code of 32 lanes, or beside one of standalone code, with
 * optimised code. The latter also gets its masked version at once, because blocks would wait for that one.
 */
static enum ptx_status replace_binary(struct ptx_binary *old, struct ptx_error *error)
{
	struct ptx_binary *b = ptx_binary_new(old->kernel, old->blockdim);
	struct ptx_version version = {.quick = old->scalar};
	struct ptx_machine_code *code;
	enum ptx_status status;

	if (!b)
		return PTX_NO_MEMORY;
	status = ptx_version_make(b, &version, false, true, &code, error);
	if (status == PTX_OK) {
		ptx_binary_publish(b, false, code);
		if (old->scalar || b->complete(b)) {
			ptx_binary_replace(old, b);
			return PTX_OK;
		}
		status = PTX_NO_MEMORY;
	}
	ptx_binary_free(b);
	return status;
}

/* A block of fewer threads than a warp has lanes never runs a full version. */
static bool is_replaced_wholly(const struct ptx_binary *b)
{
	return b->scalar || (b->standalone && b->threads >= PTX_LANES);
}

static void improve(struct ptx_binary *b, bool masked)
{
	struct ptx_module *module = b->kernel->function->module;
	struct ptx_error error = {0};
	enum ptx_status status = PTX_NO_MEMORY;

	/* Linux has this per thread; kernels that run come first */
	setpriority(PRIO_PROCESS, 0, NICE);
	if (!__atomic_load_n(&module->gone, __ATOMIC_RELAXED))
		status = is_replaced_wholly(b) ? replace_binary(b, &error) : replace_code(b, masked, &error);
	/* the quick version compiled, so only a limit can be in the way: it stays */
	if (status != PTX_OK && *error.text)
		vcuda_log("kernel %s stays with its %s code: %s", b->kernel->info.name, b->scalar ? "scalar" : "quick",
			  error.text);
	ptx_module_put(module);
}

/* Makes the key of the compiler and a spare linker, which the first launch needs. */
static void prepare(void)
{
	ptx_key_start();
	ptx_jit_make_spare();
}

/*
 * LLVM frees its own data when the process ends, and a thread that still compiles must not see that. Functions of
 * on_exit() run in the reverse order of their registration, and LLVM registers its own when it first needs the data:
 * hence this function is registered again after each job.
 */
static void end(int status, void *unused)
{
	struct timespec until = vcuda_deadline(END_MS * 1000000ull);
	bool stuck;

	(void)unused;
	pthread_mutex_lock(&lock);
	ending = true;
	while (running && !pthread_cond_clockwait(&idle, &lock, CLOCK_MONOTONIC, &until))
		;
	stuck = running;
	pthread_mutex_unlock(&lock);
	if (stuck) {
		fflush(NULL);
		_exit(status);
	}
}

static void *work(void *unused)
{
	struct job *job;

	(void)unused;
	pthread_mutex_lock(&lock);
	while ((job = first) && !ending) {
		first = job->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&lock);
		if (job->binary)
			improve(job->binary, job->masked);
		else
			prepare();
		free(job);
		on_exit(end, NULL);
		pthread_mutex_lock(&lock);
	}
	running = false;
	pthread_cond_broadcast(&idle);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void add(struct ptx_binary *binary, bool masked)
{
	struct job *job = malloc(sizeof(*job));

	if (!job)
		return;
	*job = (struct job){NULL, binary, masked};
	on_exit(end, NULL);
	pthread_mutex_lock(&lock);
	running = running || (!ending && vcuda_thread_start(work, NULL));
	if (ending || !running) {
		free(job);
	} else {
		if (binary)
			ptx_module_get(binary->kernel->function->module);
		*last = job;
		last = &job->next;
	}
	pthread_mutex_unlock(&lock);
}

void ptx_tier_improve(struct ptx_binary *binary, bool masked)
{
	add(binary, masked);
}

static void add_spare(void)
{
	add(NULL, false);
}

void ptx_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, add_spare);
}

void ptx_tier_wait(void)
{
	pthread_mutex_lock(&lock);
	while (running)
		pthread_cond_wait(&idle, &lock);
	pthread_mutex_unlock(&lock);
}
