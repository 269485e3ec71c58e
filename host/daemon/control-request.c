/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "control.h"
#include "limits/ledger.h"
#include "options/quotas.h"

/* The next word of the line, which ends there; NULL: there is none. *rest is then behind it. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " "), *end = word + strcspn(word, " ");

	*rest = *end ? end + 1 : end;
	*end = 0;
	return *word ? word : NULL;
}

/* It goes to the log. */
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

struct kill {
	const char *reason;
	uint32_t pid; /* 0: all */
	unsigned int user;
};

static void log_local(const struct daemon_worker *worker, void *argument)
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
	uint64_t pid = 0;
	unsigned int killed;

	if (!word || (strcmp(word, "all") && (!daemon_parse_number(word, &pid) || !pid || pid > UINT32_MAX))) {
		fputs("error give the number of a guest process, or all\n", answer);
		return;
	}
	clean(rest);
	kill.pid = (uint32_t)pid;
	daemon_local_each(control->local, log_local, &kill);
	killed = kill_contexts(&control->vhost->device, &kill) + daemon_local_kill(control->local, kill.pid);
	if (killed || !pid)
		fprintf(answer, "ok\nkilled %u\n", killed);
	else
		fprintf(answer, "error guest process %u has no worker here\n", kill.pid);
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
	daemon_ledger_refresh(control->options);
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
	else
		fputs("error there is no such request; there are status, kill, set\n", answer);
}
