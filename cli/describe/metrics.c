/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda metrics`: the daemons of this user in the text format that Prometheus reads, once or over HTTP. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/control.h"
#include "cli/describe/metrics-http.h"

static int usage(FILE *out)
{
	fputs("usage: vcuda metrics [--listen PORT|PATH] [--control PATH]\n"
	      "\n"
	      "Prints what `vcuda top` shows of this user's daemons (vcudad), in the text format that Prometheus "
	      "reads.\n"
	      "\n"
	      "  --listen PORT|PATH  answers HTTP requests for /metrics until a signal: on that port of the loopback "
	      "address\n"
	      "                      127.0.0.1, which all users of this machine reach, or on a Unix socket for this "
	      "user\n"
	      "  --control PATH      the daemon whose control socket this is (vcudad --control)\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

/* ---- the text ---- */

static void put_label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++)
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	fputc('"', out);
}

static void put_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The labels are left open for others. A name need not be unique; the process id is. */
static void put_name(FILE *out, const char *metric, const struct control_daemon *daemon)
{
	fprintf(out, "%s{", metric);
	put_label(out, "daemon", daemon->name);
	fprintf(out, ",daemon_pid=\"%u\"", daemon->pid);
}

struct metric {
	const char *name, *type, *help;
	double (*get)(const struct control_daemon *daemon); /* below 0: the daemon has no such figure */
};

static double get_uptime(const struct control_daemon *daemon)
{
	return (double)daemon->uptime;
}

static double get_connected(const struct control_daemon *daemon)
{
	return *daemon->vhost_socket ? !strcmp(daemon->vm, "connected") : -1;
}

static double get_share(const struct control_daemon *daemon)
{
	return daemon->share ? (double)daemon->share : -1;
}

static double get_wanted(const struct control_daemon *daemon)
{
	return daemon->share ? (double)daemon->turns_wanted * 1e-6 : -1;
}

static double get_had(const struct control_daemon *daemon)
{
	return daemon->share ? (double)daemon->turns_had * 1e-6 : -1;
}

static double get_granted(const struct control_daemon *daemon)
{
	return daemon->overcommit ? (double)daemon->memory_granted : -1;
}

static double get_outs(const struct control_daemon *daemon)
{
	return daemon->overcommit ? (double)daemon->memory_outs : -1;
}

static const struct metric daemon_metrics[] = {
	{"vcuda_uptime_seconds", "gauge", "Time since vcudad has started.", get_uptime},
	{"vcuda_vm_connected", "gauge", "1: QEMU is connected.", get_connected},
	{"vcuda_share", "gauge", "Share of the device's time (vcudad --share).", get_share},
	{"vcuda_turns_wanted_seconds_total", "counter", "Time with work while VMs took turns.", get_wanted},
	{"vcuda_turns_had_seconds_total", "counter", "Of that time, time with the device.", get_had},
	{"vcuda_overcommit_granted_bytes", "gauge", "Device memory of the VM while it is in (vcudad --overcommit).",
	 get_granted},
	{"vcuda_overcommit_outs_total", "counter", "How often the VM's memory made room for others.", get_outs},
};

static void put_daemons(FILE *out, const struct control_daemons *found)
{
	for (size_t m = 0; m < sizeof(daemon_metrics) / sizeof(daemon_metrics[0]); m++) {
		const struct metric *metric = &daemon_metrics[m];

		put_head(out, metric->name, metric->type, metric->help);
		for (unsigned int i = 0; i < found->count; i++) {
			double value = metric->get(&found->daemons[i]);

			if (value < 0)
				continue;
			put_name(out, metric->name, &found->daemons[i]);
			fprintf(out, "} %.15g\n", value);
		}
	}
}

enum quota_figure { QUOTA_USED, QUOTA_LIMIT, QUOTA_REFUSED };

/* Figures that vcudad does not know, and limits that are none, are left out. */
static void put_quotas(FILE *out, const struct control_daemons *found, const char *name, enum quota_figure figure)
{
	for (unsigned int i = 0; i < found->count; i++)
		for (unsigned int k = 0; k < found->daemons[i].quota_count; k++) {
			const struct control_quota *quota = &found->daemons[i].quotas[k];
			uint64_t value = figure == QUOTA_USED    ? quota->used
					 : figure == QUOTA_LIMIT ? quota->limit
								 : quota->refused;

			if (value >= INT64_MAX)
				continue;
			put_name(out, name, &found->daemons[i]);
			fputc(',', out);
			put_label(out, "quota", quota->name);
			fprintf(out, "} %llu\n", (unsigned long long)value);
		}
}

static void put_process(FILE *out, const char *name, const struct control_daemon *daemon,
			const struct control_process *process, uint64_t value)
{
	put_name(out, name, daemon);
	fputc(',', out);
	put_label(out, "kind", process->kind);
	fprintf(out, ",pid=\"%u\",uid=\"%u\"} %llu\n", process->pid, process->uid, (unsigned long long)value);
}

static void put_processes(FILE *out, const struct control_daemons *found)
{
	static const char device[] = "vcuda_process_device_memory_bytes", host[] = "vcuda_process_host_memory_bytes";

	put_head(out, device, "gauge", "Device memory that is granted to a guest process.");
	for (unsigned int i = 0; i < found->count; i++)
		for (unsigned int k = 0; k < found->daemons[i].process_count; k++)
			put_process(out, device, &found->daemons[i], &found->daemons[i].processes[k],
				    found->daemons[i].processes[k].device_memory);
	put_head(out, host, "gauge", "Memory of the host that the worker of a guest process has.");
	for (unsigned int i = 0; i < found->count; i++)
		for (unsigned int k = 0; k < found->daemons[i].process_count; k++)
			put_process(out, host, &found->daemons[i], &found->daemons[i].processes[k],
				    found->daemons[i].processes[k].worker_memory);
}

/* False if a daemon did not answer. */
static bool put_metrics(FILE *out, const char *control)
{
	struct control_daemons found;
	bool good = control_find(&found, control);

	put_head(out, "vcuda_all_answered", "gauge", "0: a vcudad is there and did not answer.");
	fprintf(out, "vcuda_all_answered %d\n", good);
	put_daemons(out, &found);
	put_head(out, "vcuda_quota_used", "gauge", "In use of a quota, in bytes or in pieces.");
	put_quotas(out, &found, "vcuda_quota_used", QUOTA_USED);
	put_head(out, "vcuda_quota_limit", "gauge", "A quota, in bytes, pieces or seconds.");
	put_quotas(out, &found, "vcuda_quota_limit", QUOTA_LIMIT);
	put_head(out, "vcuda_quota_refused_total", "counter", "Guest processes and requests that a quota has refused.");
	put_quotas(out, &found, "vcuda_quota_refused_total", QUOTA_REFUSED);
	put_processes(out, &found);
	control_free(&found);
	return good;
}

static void put_answer(FILE *out, const void *control)
{
	put_metrics(out, control);
}

int cli_metrics(int argc, char **argv)
{
	static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
						{"control", required_argument, NULL, 'c'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	const char *where = NULL, *control = NULL;
	int option;
	bool good;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (option == '?')
			return usage(stderr);
		if (option == 'l')
			where = optarg;
		else
			control = optarg;
	}
	if (argv[optind])
		return usage(stderr);
	if (where)
		return metrics_http_serve(where, put_answer, control);
	good = put_metrics(stdout, control);
	return good && !fflush(stdout) ? 0 : CLI_FAILED;
}
