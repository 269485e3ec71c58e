/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "control.h"
#include "limits/gpu-reader.h"
#include "keeper/keeper.h"
#include "limits/ledger.h"
#include "options/quotas.h"
#include "worker/memory-group.h"

/* An hour. */
#define MOST_PAUSE_MS 3600000

/* The next word of the line, which ends there; NULL: there is none. *rest is then behind it. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " "), *end = word + strcspn(word, " ");

	*rest = *end ? end + 1 : end;
	*end = 0;
	return *word ? word : NULL;
}

/* Replaces control characters in a text for the log. */
static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

static void log_kill(uint32_t pid, uint32_t uid, unsigned int user, const char *reason)
{
	vcuda_log("guest process %u of user %u is killed by user %u of the host%s%s", pid, uid, user,
		  *reason ? ": " : "", reason);
}

/* The process that a request names, 0: all. False: `word` names none. */
static bool parse_process(const char *word, uint32_t *pid)
{
	uint64_t number = 0;

	if (!word || (strcmp(word, "all") && (!daemon_parse_number(word, &number) || !number || number > UINT32_MAX)))
		return false;
	*pid = (uint32_t)number;
	return true;
}

static void answer_count(uint32_t pid, unsigned int count, const char *what, FILE *answer)
{
	if (count || !pid)
		fprintf(answer, "ok\n%s %u\n", what, count);
	else
		fprintf(answer, "error guest process %u has no worker here\n", pid);
}

struct kill {
	const char *reason;
	uint32_t pid; /* 0: all */
	unsigned int user;
};

static void log_local(struct daemon_worker *worker, void *argument)
{
	const struct kill *kill = argument;

	if (!kill->pid || kill->pid == worker->guest.pid)
		log_kill(worker->guest.pid, worker->guest.uid, kill->user, kill->reason);
}

static unsigned int kill_contexts(struct daemon_device *device, const struct kill *kill)
{
	struct daemon_context *context, *after;
	unsigned int killed = 0;

	vcuda_list_for_each_safe (context, after, &device->contexts, struct daemon_context, entry) {
		if (!context->worker || context->forgotten || (kill->pid && kill->pid != context->pid))
			continue;
		log_kill(context->pid, context->uid, kill->user, kill->reason);
		daemon_context_kill(context, VCUDA_LOST_OPERATOR);
		killed++;
	}
	return killed;
}

static void handle_kill(struct daemon_control *control, char *rest, unsigned int user, FILE *answer)
{
	const char *word = next_word(&rest);
	struct kill kill = {.reason = rest, .user = user};
	unsigned int killed;

	if (!parse_process(word, &kill.pid)) {
		fputs("error give the number of a guest process, or all\n", answer);
		return;
	}
	clean(rest);
	daemon_local_each(control->local, log_local, &kill);
	killed = kill_contexts(&control->vhost->device, &kill) + daemon_local_kill(control->local, kill.pid);
	answer_count(kill.pid, killed, "killed", answer);
}

static void handle_pause(char *rest, unsigned int user, FILE *answer)
{
	const char *word = next_word(&rest), *limit = next_word(&rest), *more = next_word(&rest);
	uint64_t ms = DAEMON_GATE_MS;
	uint32_t pid;

	if (!parse_process(word, &pid) || (limit && (!daemon_parse_number(limit, &ms) || ms > MOST_PAUSE_MS)) ||
	    (more && strcmp(more, "release"))) {
		fputs("error give the number of a guest process, or all, and perhaps milliseconds, and perhaps "
		      "release\n",
		      answer);
		return;
	}
	vcuda_log("user %u of the host pauses %s%s", user, word, more ? ", whose memory is released" : "");
	answer_count(pid, daemon_gate_pause(pid, (uint32_t)ms, more), "pausing", answer);
}

static void handle_resume(char *rest, unsigned int user, FILE *answer)
{
	const char *word = next_word(&rest);
	uint32_t pid;

	if (!parse_process(word, &pid)) {
		fputs("error give the number of a guest process, or all\n", answer);
		return;
	}
	vcuda_log("user %u of the host resumes %s", user, word);
	answer_count(pid, daemon_gate_resume(pid), "resumed", answer);
}

/* The memory has been released. */
static void handle_move(char *rest, unsigned int user, FILE *answer)
{
	const char *word = next_word(&rest), *number = next_word(&rest), *refusal;
	uint64_t gpu;
	uint32_t pid;

	if (!parse_process(word, &pid) || !number || !daemon_parse_number(number, &gpu) || gpu >= VCUDA_LEDGER_GPUS) {
		fputs("error give the number of a guest process, or all, and the number of a GPU\n", answer);
		return;
	}
	refusal = daemon_gate_move(pid, (unsigned int)gpu);
	if (refusal) {
		fprintf(answer, "error %s\n", refusal);
		return;
	}
	vcuda_log("user %u of the host moves %s to GPU %u", user, word, (unsigned int)gpu);
	answer_count(pid, daemon_gate_resume(pid), "moving", answer);
}

/* The guest that a request names; *is_all: all. False: `word` names none. */
static bool parse_guest(const char *word, uint64_t *guest, bool *is_all)
{
	*is_all = word && !strcmp(word, "all");
	*guest = DAEMON_KEEPER_VM;
	if (!word || *is_all || !strcmp(word, "vm"))
		return word;
	return daemon_parse_number(word, guest) && *guest <= UINT32_MAX;
}

/* The keepers free the memory shortly after the answer. */
static void handle_free(char *rest, unsigned int user, FILE *answer)
{
	const char *word = next_word(&rest);
	unsigned long long count;
	char whose[32] = "all guests";
	uint64_t guest;
	bool is_all;

	if (!parse_guest(word, &guest, &is_all)) {
		fputs("error give vm, the number of a user, or all\n", answer);
		return;
	}
	clean(rest);
	if (!is_all && guest == DAEMON_KEEPER_VM)
		snprintf(whose, sizeof(whose), "the VM");
	else if (!is_all)
		snprintf(whose, sizeof(whose), "user %u", (unsigned int)guest);
	count = (unsigned long long)daemon_keepers_free(is_all ? NULL : &guest);
	if (count)
		vcuda_log("what only descriptors hold of %s (%llu exports) is freed by user %u of the host%s%s", whose,
			  count, user, *rest ? ": " : "", rest);
	fprintf(answer, "ok\nfreeing %llu\n", count);
}

/* `user` of the host has changed the quota, which was `before`. */
static void log_set(enum daemon_quota quota, const char *value, uint64_t before, unsigned int user)
{
	char text[24] = "no limit";

	if (before < INT64_MAX)
		snprintf(text, sizeof(text), "%llu", (unsigned long long)before);
	vcuda_log("%s is %s now, it was %s: set by user %u of the host", daemon_quota_kind(quota)->name, value, text,
		  user);
}

/* False: the kernel does not get the new limit, the old one holds, and the answer says why. */
static bool apply_host_memory(struct daemon_options *options, uint64_t before, FILE *answer)
{
	int status = daemon_memory_group_set(options->max_host_memory);

	if (!status)
		return true;
	options->max_host_memory = before;
	if (status == -EBUSY)
		fprintf(answer,
			"error max-host-memory: the workers have %llu MiB now, of which the VM's RAM may be a part: "
			"end "
			"guest processes first (vcuda vm kill)\n",
			(unsigned long long)daemon_memory_group_used() >> 20);
	else if (status == -EOPNOTSUPP)
		fputs("error max-host-memory: give vcudad a limit when it starts (--max-host-memory), which can change "
		      "later\n",
		      answer);
	else
		fprintf(answer, "error max-host-memory: %s\n", strerror(-status));
	return false;
}

static void handle_set(struct daemon_control *control, char *rest, unsigned int user, FILE *answer)
{
	const char *name = next_word(&rest), *value = next_word(&rest);
	enum daemon_quota quota = name ? daemon_quota_find(name) : DAEMON_QUOTAS;
	uint64_t before;
	char range[64];

	if (quota == DAEMON_QUOTAS) {
		fputs("error there is no such quota; there are", answer);
		for (quota = 0; quota < DAEMON_QUOTAS; quota++)
			fprintf(answer, "%s %s", quota ? "," : "", daemon_quota_kind(quota)->name);
		fputc('\n', answer);
		return;
	}
	before = daemon_quota_get(control->options, quota);
	if (!value || next_word(&rest) || !daemon_quota_set(control->options, quota, value)) {
		daemon_quota_range(quota, range, sizeof(range));
		fprintf(answer, "error %s: give %s\n", name, range);
		return;
	}
	if (quota == DAEMON_QUOTA_HOST_MEMORY && !apply_host_memory(control->options, before, answer))
		return;
	daemon_ledger_refresh(control->options);
	daemon_keepers_refresh();
	daemon_gpu_reader_refresh(control->loop, control->options);
	log_set(quota, value, before, user);
	fputs("ok\n", answer);
}

void daemon_control_handle(struct daemon_control *control, char *line, unsigned int user, FILE *answer)
{
	const char *request = next_word(&line);

	if (request && !strcmp(request, "status"))
		daemon_control_status(control, answer);
	else if (request && !strcmp(request, "kill"))
		handle_kill(control, line, user, answer);
	else if (request && !strcmp(request, "set"))
		handle_set(control, line, user, answer);
	else if (request && !strcmp(request, "pause"))
		handle_pause(line, user, answer);
	else if (request && !strcmp(request, "resume"))
		handle_resume(line, user, answer);
	else if (request && !strcmp(request, "move"))
		handle_move(line, user, answer);
	else if (request && !strcmp(request, "free"))
		handle_free(line, user, answer);
	else
		fputs("error there is no such request; there are status, kill, set, pause, resume, move, free\n",
		      answer);
}
