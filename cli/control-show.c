/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "control.h"
#include "json.h"

#define TEXT_BYTES 40
#define LINE_COLUMNS 108 /* as the table of processes */

/* Such as 512, 1.5G: at most five characters. */
static void show_size(char *text, size_t size, uint64_t bytes)
{
	static const char units[] = "BKMGTPE";
	unsigned int unit = 0;
	double value = (double)bytes;

	while (value >= 999.5 && units[unit + 1]) {
		value /= 1024;
		unit++;
	}
	if (!unit)
		snprintf(text, size, "%u", (unsigned int)bytes);
	else
		snprintf(text, size, "%.*f%c", value < 9.95, value, units[unit]);
}

static void show_quota(char *text, size_t size, const struct control_quota *quota)
{
	char used[16], limit[16];

	if (quota->is_size) {
		show_size(used, sizeof(used), quota->used);
		show_size(limit, sizeof(limit), quota->limit);
	} else {
		snprintf(used, sizeof(used), "%llu", (unsigned long long)quota->used);
		snprintf(limit, sizeof(limit), "%llu", (unsigned long long)quota->limit);
	}
	/* The largest number is no limit. */
	snprintf(text, size, "%s/%s", quota->used == UINT64_MAX ? "?" : used, quota->limit == INT64_MAX ? "-" : limit);
}

static void show_time(char *text, size_t size, uint64_t seconds)
{
	unsigned long long minutes = seconds / 60, days = seconds / 86400;

	if (days)
		snprintf(text, size, "%llud%02lluh", days, minutes / 60 % 24);
	else
		snprintf(text, size, "%llu:%02llu:%02u", minutes / 60, minutes % 60, (unsigned int)(seconds % 60));
}

static void print_processes(const struct control_daemon *daemon)
{
	char age[TEXT_BYTES], memory[TEXT_BYTES], device[TEXT_BYTES], pinned[TEXT_BYTES], queue[TEXT_BYTES],
		dropped[TEXT_BYTES];

	if (daemon->process_count)
		printf("  %10s %-5s %8s %-8s %8s %9s %7s %7s %8s %7s %7s %7s\n", "PROCESS", "KIND", "USER", "STATE",
		       "WORKER", "AGE", "MEMORY", "DEVICE", "MAPPINGS", "PINNED", "QUEUE", "LOGLOST");
	for (unsigned int i = 0; i < daemon->process_count; i++) {
		const struct control_process *p = &daemon->processes[i];

		show_time(age, sizeof(age), p->age);
		show_size(memory, sizeof(memory), p->worker_memory);
		show_size(device, sizeof(device), p->device_memory);
		show_size(pinned, sizeof(pinned), p->pinned);
		snprintf(queue, sizeof(queue), "-");
		if (p->queue != UINT64_MAX)
			show_size(queue, sizeof(queue), p->queue);
		show_size(dropped, sizeof(dropped), p->log_dropped);
		printf("  %10u %-5s %8u %-8s %8u %9s %7s %7s %8llu %7s %7s %7s\n", p->pid, p->kind, p->uid, p->state,
		       p->worker, age, memory, device, (unsigned long long)p->mappings, pinned, queue, dropped);
	}
}

static void print_quotas(const struct control_daemon *daemon)
{
	char text[TEXT_BYTES];
	int column = 0;

	for (unsigned int i = 0; i < daemon->quota_count; i++) {
		show_quota(text, sizeof(text), &daemon->quotas[i]);
		if (column && column + 3 + strlen(daemon->quotas[i].name) + strlen(text) > LINE_COLUMNS) {
			puts(",");
			column = 0;
		}
		column += printf("%s%s %s", column ? ", " : "  ", daemon->quotas[i].name, text);
	}
	putchar('\n');
}

static void print_share(const struct control_daemon *daemon)
{
	const char *state = !strcmp(daemon->turns, "open")    ? "alone with work"
			    : !strcmp(daemon->turns, "own")   ? "its turn"
			    : !strcmp(daemon->turns, "other") ? "another VM's turn"
							      : "no arbiter";

	if (!daemon->share)
		return;
	printf("  share %u of the device's time: %s", daemon->share, state);
	if (daemon->turns_wanted)
		printf("; had %.3f of the %.1f s in which it and another VM had work",
		       (double)daemon->turns_had / (double)daemon->turns_wanted, (double)daemon->turns_wanted / 1e6);
	putchar('\n');
}

static void print_overcommit(const struct control_daemon *daemon)
{
	char granted[TEXT_BYTES], all[TEXT_BYTES];

	if (!daemon->overcommit)
		return;
	show_size(granted, sizeof(granted), daemon->memory_granted);
	show_size(all, sizeof(all), daemon->overcommit);
	printf("  memory %s: %s of %s that all VMs have; went out %llu times, waits %.1f s at the longest\n",
	       daemon->memory_state, granted, all, (unsigned long long)daemon->memory_outs,
	       (double)daemon->memory_wait / 1000);
}

/* The owner: "vm", or the user of local programs. */
static void name_guest(char *text, size_t size, const struct control_exports *e)
{
	if (strcmp(e->kind, "local"))
		snprintf(text, size, "%s", e->kind);
	else
		snprintf(text, size, "user %u", e->uid);
}

static void print_exports(const struct control_daemon *daemon)
{
	char guest[TEXT_BYTES], memory[TEXT_BYTES];

	for (unsigned int i = 0; i < daemon->exports_count; i++) {
		const struct control_exports *e = &daemon->exports[i];

		name_guest(guest, sizeof(guest), e);
		show_size(memory, sizeof(memory), e->memory);
		printf("  only descriptors hold %llu exports of %s, %s of GPU %u\n", (unsigned long long)e->count,
		       guest, memory, e->gpu);
	}
}

static uint64_t count_refusals(const struct control_daemon *daemon)
{
	uint64_t refusals = 0;

	for (unsigned int i = 0; i < daemon->quota_count; i++)
		refusals += daemon->quotas[i].refused;
	return refusals;
}

void control_print_table(const struct control_daemons *found, bool detailed)
{
	char uptime[TEXT_BYTES];

	printf("%-24s %8s %-9s %9s %9s %9s  %s\n", "NAME", "PID", "VM", "PROCESSES", "REFUSED", "UPTIME", "SOCKET");
	for (unsigned int i = 0; i < found->count; i++) {
		const struct control_daemon *d = &found->daemons[i];

		show_time(uptime, sizeof(uptime), d->uptime);
		printf("%-24s %8u %-9s %9u %9llu %9s  %s\n", d->name, d->pid, *d->vm ? d->vm : "-", d->process_count,
		       (unsigned long long)count_refusals(d), uptime,
		       *d->vhost_socket ? d->vhost_socket : d->local_socket);
		if (!detailed)
			continue;
		print_share(d);
		print_overcommit(d);
		print_exports(d);
		print_quotas(d);
		print_processes(d);
	}
}

static void write_quotas(struct json *json, const struct control_daemon *daemon)
{
	json_open(json, "quotas", '{');
	for (unsigned int i = 0; i < daemon->quota_count; i++) {
		const struct control_quota *quota = &daemon->quotas[i];

		json_open(json, quota->name, '{');
		json_text(json, "unit", quota->is_size ? "bytes" : "count");
		if (quota->used != UINT64_MAX)
			json_number(json, "used", quota->used);
		json_number(json, "limit", quota->limit);
		json_number(json, "refused", quota->refused);
		json_close(json, '}');
	}
	json_close(json, '}');
}

static void write_process(struct json *json, const struct control_process *p)
{
	json_open(json, NULL, '{');
	json_text(json, "kind", p->kind);
	json_number(json, "pid", p->pid);
	json_number(json, "user", p->uid);
	json_text(json, "state", p->state);
	if (*p->pause_failure)
		json_text(json, "pause_failure", p->pause_failure);
	json_number(json, "worker", p->worker);
	json_number(json, "age_s", p->age);
	json_number(json, "worker_memory", p->worker_memory);
	json_number(json, "device_memory", p->device_memory);
	json_number(json, "mappings", p->mappings);
	json_number(json, "pinned", p->pinned);
	if (p->queue != UINT64_MAX)
		json_number(json, "queue", p->queue);
	json_number(json, "log_dropped", p->log_dropped);
	json_close(json, '}');
}

static void write_exports(struct json *json, const struct control_daemon *daemon)
{
	json_open(json, "exports", '[');
	for (unsigned int i = 0; i < daemon->exports_count; i++) {
		const struct control_exports *e = &daemon->exports[i];

		json_open(json, NULL, '{');
		json_text(json, "kind", e->kind);
		if (!strcmp(e->kind, "local"))
			json_number(json, "user", e->uid);
		json_number(json, "gpu", e->gpu);
		json_number(json, "count", e->count);
		json_number(json, "memory", e->memory);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void write_daemon(struct json *json, const struct control_daemon *d)
{
	json_open(json, NULL, '{');
	json_text(json, "name", d->name);
	json_number(json, "pid", d->pid);
	json_text(json, "version", d->version);
	json_number(json, "uptime_s", d->uptime);
	json_text(json, "control_socket", d->path);
	json_text(json, "vhost_socket", *d->vhost_socket ? d->vhost_socket : NULL);
	json_text(json, "local_socket", *d->local_socket ? d->local_socket : NULL);
	json_text(json, "vm", *d->vm ? d->vm : NULL);
	if (d->share) {
		json_number(json, "share", d->share);
		json_text(json, "turns", d->turns);
		json_number(json, "turns_wanted_us", d->turns_wanted);
		json_number(json, "turns_had_us", d->turns_had);
	}
	if (d->overcommit) {
		json_number(json, "overcommit", d->overcommit);
		json_number(json, "min_device_memory", d->min_device_memory);
		json_text(json, "memory_state", d->memory_state);
		json_number(json, "memory_granted", d->memory_granted);
		json_number(json, "memory_wait_ms", d->memory_wait);
		json_number(json, "memory_times_out", d->memory_outs);
	}
	write_quotas(json, d);
	json_open(json, "processes", '[');
	for (unsigned int i = 0; i < d->process_count; i++)
		write_process(json, &d->processes[i]);
	json_close(json, ']');
	write_exports(json, d);
	json_close(json, '}');
}

void control_print_json(const struct control_daemons *found)
{
	struct json json = {.out = stdout};

	json_open(&json, NULL, '[');
	for (unsigned int i = 0; i < found->count; i++)
		write_daemon(&json, &found->daemons[i]);
	json_close(&json, ']');
	putchar('\n');
}

void control_print_exports(const struct control_daemon *daemon, bool as_json)
{
	struct json json = {.out = stdout};
	char guest[TEXT_BYTES], memory[TEXT_BYTES];

	if (as_json) {
		json_open(&json, NULL, '{');
		write_exports(&json, daemon);
		json_close(&json, '}');
		putchar('\n');
		return;
	}
	printf("%-16s %4s %8s %7s\n", "GUEST", "GPU", "EXPORTS", "MEMORY");
	for (unsigned int i = 0; i < daemon->exports_count; i++) {
		const struct control_exports *e = &daemon->exports[i];

		name_guest(guest, sizeof(guest), e);
		show_size(memory, sizeof(memory), e->memory);
		printf("%-16s %4u %8llu %7s\n", guest, e->gpu, (unsigned long long)e->count, memory);
	}
}
