/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

/* A word NAME=VALUE and where its value goes: text of `size` bytes, or a number of `size` bytes without `is_text`. */
struct field {
	const char *name;
	void *to;
	size_t size;
	bool is_text;
};

#define TEXT(name, member)                                                                                             \
	{                                                                                                              \
		name, member, sizeof(member), true                                                                     \
	}
#define NUMBER(name, member)                                                                                           \
	{                                                                                                              \
		name, &(member), sizeof(member), false                                                                 \
	}

static void set(const struct field *field, const char *value)
{
	uint64_t number;

	if (field->is_text) {
		snprintf(field->to, field->size, "%s", value);
		return;
	}
	number = strtoull(value, NULL, 10);
	if (field->size == sizeof(unsigned int))
		*(unsigned int *)field->to = (unsigned int)number;
	else
		*(uint64_t *)field->to = number;
}

static void set_named(const struct field *fields, const char *name, const char *value)
{
	for (; fields->name; fields++)
		if (!strcmp(fields->name, name))
			set(fields, value);
}

static void parse_words(const struct field *fields, char *words)
{
	char *rest = NULL, *value;

	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		value = strchr(word, '=');
		if (!value)
			continue;
		*value = 0;
		set_named(fields, word, value + 1);
	}
}

static void parse_quota(struct control_daemon *daemon, char *words)
{
	struct control_quota quota = {.used = UINT64_MAX};
	char unit[8] = "";
	const struct field fields[] = {TEXT("name", quota.name),         TEXT("unit", unit),
				       NUMBER("used", quota.used),       NUMBER("limit", quota.limit),
				       NUMBER("refused", quota.refused), {0}};

	if (daemon->quota_count == CONTROL_QUOTAS_MAX)
		return;
	parse_words(fields, words);
	quota.is_size = !strcmp(unit, "bytes");
	daemon->quotas[daemon->quota_count++] = quota;
}

static bool parse_process(struct control_daemon *daemon, char *words)
{
	struct control_process p = {.queue = UINT64_MAX}, *processes;
	const struct field fields[] = {TEXT("kind", p.kind),
				       TEXT("state", p.state),
				       NUMBER("pid", p.pid),
				       NUMBER("uid", p.uid),
				       NUMBER("worker", p.worker),
				       NUMBER("age", p.age),
				       NUMBER("mappings", p.mappings),
				       NUMBER("pinned", p.pinned),
				       NUMBER("queue", p.queue),
				       NUMBER("device-memory", p.device_memory),
				       NUMBER("log-dropped", p.log_dropped),
				       TEXT("pause-failure", p.pause_failure),
				       {0}};

	processes = realloc(daemon->processes, (daemon->process_count + 1) * sizeof(p));
	if (!processes)
		return false;
	daemon->processes = processes;
	parse_words(fields, words);
	processes[daemon->process_count++] = p;
	return true;
}

static bool parse_exports(struct control_daemon *daemon, char *words)
{
	struct control_exports e = {.uid = 0}, *exports;
	const struct field fields[] = {TEXT("kind", e.kind),     NUMBER("uid", e.uid),       NUMBER("gpu", e.gpu),
				       NUMBER("count", e.count), NUMBER("memory", e.memory), {0}};

	exports = realloc(daemon->exports, (daemon->exports_count + 1) * sizeof(e));
	if (!exports)
		return false;
	daemon->exports = exports;
	parse_words(fields, words);
	exports[daemon->exports_count++] = e;
	return true;
}

/* A line of words. */
static bool parse_line(struct control_daemon *daemon, const char *key, char *words)
{
	if (!strcmp(key, "process"))
		return parse_process(daemon, words);
	if (!strcmp(key, "exports"))
		return parse_exports(daemon, words);
	parse_quota(daemon, words);
	return true;
}

static bool has_words(const char *key)
{
	return !strcmp(key, "quota") || !strcmp(key, "process") || !strcmp(key, "exports");
}

bool control_parse(struct control_daemon *daemon, char *text)
{
	const struct field fields[] = {TEXT("name", daemon->name),
				       TEXT("version", daemon->version),
				       TEXT("vm", daemon->vm),
				       TEXT("vhost-socket", daemon->vhost_socket),
				       TEXT("local-socket", daemon->local_socket),
				       NUMBER("pid", daemon->pid),
				       NUMBER("share", daemon->share),
				       TEXT("turns", daemon->turns),
				       NUMBER("turns-wanted", daemon->turns_wanted),
				       NUMBER("turns-had", daemon->turns_had),
				       NUMBER("overcommit", daemon->overcommit),
				       NUMBER("min-device-memory", daemon->min_device_memory),
				       TEXT("memory-state", daemon->memory_state),
				       NUMBER("memory-granted", daemon->memory_granted),
				       NUMBER("memory-wait", daemon->memory_wait),
				       NUMBER("memory-times-out", daemon->memory_outs),
				       NUMBER("uptime", daemon->uptime),
				       {0}};
	char *rest = NULL, *value;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		value = strchr(line, ' ');
		if (!value)
			continue;
		*value++ = 0;
		if (!has_words(line))
			set_named(fields, line, value);
		else if (!parse_line(daemon, line, value))
			return false;
	}
	return true;
}
