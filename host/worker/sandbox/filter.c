/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/log.h"
#include "common/start-thread.h"
#include "sandbox/calls.h"
#include "sandbox/stages.h"

/* More than any call's number. */
#define CALL_NUMBERS 1024

/* What the list may have to be traced with. Empty: the back end is no driver. */
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

static void say(int number, const char *what)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);

	vcuda_log("sandbox: the system call %s (%d) is not on the list%s%s", name ? name : "?", number, driver, what);
	free(name);
}

/* ---- end at an unknown call ---- */

static void unknown_call(int signal, siginfo_t *info, void *context)
{
	say(info->si_syscall, ": the worker ends");
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

/* Not by the library's functions, which make other calls than these two. */
static void *watch(void *listener)
{
	static bool said[CALL_NUMBERS];
	int fd = (int)(intptr_t)listener;

	for (;;) {
		struct seccomp_notif call = {0};
		struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
		int number;

		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		number = call.data.nr;
		if (number < 0 || number >= CALL_NUMBERS || !said[number])
			say(number, "");
		if (number >= 0 && number < CALL_NUMBERS)
			said[number] = true;
		answer.id = call.id;
		ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	return NULL;
}

static int start_watch(scmp_filter_ctx filter)
{
	int fd = seccomp_notify_fd(filter);

	if (fd < 0)
		return fd;
	return vcuda_thread_start(watch, (void *)(intptr_t)fd) ? 0 : -EAGAIN;
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
	for (const int *number = sandbox_allowed_on_self.numbers; *number != -1 && !err; number++)
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

int sandbox_limit_calls(bool cpu, enum sandbox_unknown unknown)
{
	static const uint32_t actions[] = {[SANDBOX_LOG_AND_GO_ON] = SCMP_ACT_NOTIFY,
					   [SANDBOX_LOG_AND_END] = SCMP_ACT_TRAP,
					   [SANDBOX_KILL] = SCMP_ACT_KILL_PROCESS};
	scmp_filter_ctx filter = seccomp_init(actions[unknown]);
	int err;

	if (!filter)
		return -ENOMEM;
	if (!cpu)
		read_driver_version();
	err = unknown == SANDBOX_LOG_AND_END ? catch_unknown_calls() : 0;
	if (!err)
		err = forbid_values();
	if (!err)
		err = fill_and_load(filter, cpu ? CALLS_CPU : CALLS_CUDA);
	if (!err && unknown == SANDBOX_LOG_AND_GO_ON)
		err = start_watch(filter);
	seccomp_release(filter);
	return err;
}
