/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <seccomp.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "common/start-thread.h"
#include "host/sandbox/calls.h"
#include "host/sandbox/stages.h"

/* More than any call's number. */
#define CALL_NUMBERS 1024

/* The driver's version for the log line: it says which driver made the call. Empty: the back end is no driver. */
static char driver[80];

static void read_driver_version(void)
{
	char version[64] = "";
	FILE *f = fopen("/sys/module/nvidia/version", "re");

	if (f && fscanf(f, "%63s", version) == 1)
		snprintf(driver, sizeof(driver), ", NVIDIA's driver %s", version);
	if (f)
		fclose(f);
}

static void say(const char *name, int number, const char *what)
{
	vcuda_log("sandbox: the system call %s (%d) is not on the list%s%s", name ? name : "?", number, driver, what);
}

/* ---- end at an unknown call ---- */

static const char *consequence = ": the worker ends";

static void unknown_call(int signal, siginfo_t *info, void *context)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, info->si_syscall);

	say(name, info->si_syscall, consequence);
	free(name);
	/* The handler is taken back by now. */
	raise(signal);
}

static int catch_unknown_calls(void)
{
	struct sigaction action = {.sa_sigaction = unknown_call,
				   .sa_flags = (int)(SA_SIGINFO | SA_NODEFER | SA_RESETHAND)};

	return sigaction(SIGSYS, &action, NULL) ? -errno : 0;
}

/* ---- log unknown calls, and let them go on ---- */

static struct {
	char *names[CALL_NUMBERS];
	bool said[CALL_NUMBERS];
	int listener;
	sem_t begun;
} watched;

/*
 * Not by the library's functions, which make other calls than these two. The thread allocates no memory: other threads
 * may fork beside it, and the new process would find the allocator's locks held.
 */
static void *watch(void *unused)
{
	sem_post(&watched.begun);
	for (;;) {
		struct seccomp_notif call = {0};
		struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
		int number;

		if (ioctl(watched.listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		number = call.data.nr;
		if (number < 0 || number >= CALL_NUMBERS)
			say(NULL, number, "");
		else if (!watched.said[number])
			say(watched.names[number], number, "");
		if (number >= 0 && number < CALL_NUMBERS)
			watched.said[number] = true;
		answer.id = call.id;
		ioctl(watched.listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	return unused;
}

static void name_calls(void)
{
	for (int i = 0; i < CALL_NUMBERS; i++)
		watched.names[i] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, i);
}

/* Returns when the thread has begun, because its beginning allocates memory. */
static int start_watch(scmp_filter_ctx filter)
{
	watched.listener = seccomp_notify_fd(filter);
	if (watched.listener < 0)
		return watched.listener;
	sem_init(&watched.begun, 0, 0);
	if (!vcuda_thread_start(watch, NULL))
		return -EAGAIN;
	while (sem_wait(&watched.begun))
		;
	return 0;
}

/* ---- the filter ---- */

static int allow_lists(scmp_filter_ctx filter, unsigned int back_end)
{
	int err = 0;

	for (unsigned int i = 0; i < sandbox_allowed_count && !err; i++) {
		const int *number = sandbox_allowed[i].numbers;

		for (; *number != -1 && !err && sandbox_allowed[i].back_ends & back_end; number++)
			err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, *number, 0);
	}
	return err;
}

static int allow_rules(scmp_filter_ctx filter, unsigned int back_end)
{
	int err = 0;

	for (unsigned int i = 0; i < sandbox_allowed_rule_count && !err; i++) {
		const struct sandbox_call_rule *r = &sandbox_allowed_rules[i];

		if (r->back_ends & back_end)
			err = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, r->number, r->count, r->arguments);
	}
	for (const int *number = sandbox_allowed_on_self.numbers;
	     sandbox_allowed_on_self.back_ends & back_end && *number != -1 && !err; number++)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, *number, 1,
				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	return err;
}

static int refuse(scmp_filter_ctx filter, unsigned int back_end)
{
	int err = 0;

	for (unsigned int i = 0; i < sandbox_refused_count && !err; i++) {
		const struct sandbox_refusal *r = &sandbox_refused[i];

		if (r->back_ends & back_end)
			err = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((unsigned int)r->error), r->number,
						     r->count, r->arguments);
	}
	return err;
}

/* Calls of other machines, 32 bits among them, end the worker in each mode. */
static int set_attributes(scmp_filter_ctx filter)
{
	int err = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	if (!err)
		err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err)
		err = seccomp_attr_set(filter, SCMP_FLTATR_API_SYSRAWRC, 1);
	/* Processors need no other mitigation for it: a worker has no secret of another guest. */
	if (!err)
		err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	/* A tree: the list is long, and every call walks it. */
	return err ? err : seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
}

/*
 * A filter of its own in front of the list, as the library joins rules of one filter for a call: one that allows all of
 * its arguments would win.
 */
static int forbid_values(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int err = filter ? set_attributes(filter) : -ENOMEM;

	for (unsigned int i = 0; i < sandbox_forbidden_count && !err; i++) {
		const struct sandbox_forbidden *f = &sandbox_forbidden[i];

		err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), f->number, 1,
				       SCMP_CMP(f->argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, f->value));
	}
	if (!err)
		err = seccomp_load(filter);
	seccomp_release(filter);
	return err;
}

static int fill_and_load(scmp_filter_ctx filter, unsigned int back_end)
{
	int err = set_attributes(filter);

	if (!err)
		err = allow_lists(filter, back_end);
	if (!err)
		err = allow_rules(filter, back_end);
	if (!err)
		err = refuse(filter, back_end);
	return err ? err : seccomp_load(filter);
}

int sandbox_limit_calls(enum sandbox_role role, enum sandbox_unknown unknown)
{
	static const unsigned int back_ends[] = {[SANDBOX_CPU] = CALLS_CPU,
						 [SANDBOX_CUDA] = CALLS_CUDA,
						 [SANDBOX_SPAWNER] = CALLS_COMPILER,
						 [SANDBOX_KEEPER] = CALLS_KEEPER};
	static const uint32_t actions[] = {[SANDBOX_LOG_AND_GO_ON] = SCMP_ACT_NOTIFY,
					   [SANDBOX_LOG_AND_END] = SCMP_ACT_TRAP,
					   [SANDBOX_KILL] = SCMP_ACT_KILL_PROCESS};
	scmp_filter_ctx filter = seccomp_init(actions[unknown]);
	int err;

	if (!filter)
		return -ENOMEM;
	if (role == SANDBOX_CUDA)
		read_driver_version();
	if (role == SANDBOX_SPAWNER)
		consequence = ": the compiler ends";
	if (role == SANDBOX_KEEPER)
		consequence = ": the keeper ends";
	if (unknown == SANDBOX_LOG_AND_GO_ON)
		name_calls();
	err = unknown == SANDBOX_LOG_AND_END ? catch_unknown_calls() : 0;
	if (!err)
		err = forbid_values();
	if (!err)
		err = fill_and_load(filter, back_ends[role]);
	if (!err && unknown == SANDBOX_LOG_AND_GO_ON)
		err = start_watch(filter);
	seccomp_release(filter);
	return err;
}

/* ---- processes that compile ---- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define IF_BITS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, value, yes, no)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

/* Behind the spawner's list, which has ended calls of other machines. The library would take a millisecond for it. */
int sandbox_limit_processes(void)
{
	struct sock_filter filter[] = {
		LOAD(nr),
		IF_EQUAL(SYS_clone, 2, 0),
		IF_EQUAL(SYS_kill, 6, 0),
		IF_EQUAL(SYS_tgkill, 2, 4),
		LOAD(args[0]),
		IF_BITS(CLONE_THREAD, 2, 3),
		LOAD(args[0]),
		IF_EQUAL((uint32_t)getpid(), 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? -errno : 0;
}
