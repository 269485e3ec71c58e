/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda smi`: the devices of this guest and who uses them, for people and for scripts written for nvidia-smi. */
#include <dlfcn.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/smi/smi.h"

#define MAX_FIELDS 64

struct smi nvml;

struct request {
	const char *backend; /* of a daemon of our own; NULL: not asked for */
	const char *fields;  /* of --query-gpu; NULL: none */
	const char *apps;    /* of --query-compute-apps; NULL: none */
	bool list, query, no_header, no_units;
	unsigned int loop_ms; /* between outputs; 0: once */
	int only;             /* a device; -1: all */
};

static int usage(FILE *out)
{
	fputs("usage: vcuda smi [--backend auto|cuda|cpu] [-i N] [-l SECONDS] [-L | -q | --query-gpu=FIELD,... |\n"
	      "                 --query-compute-apps=FIELD,...] [--format=csv[,noheader][,nounits]]\n"
	      "\n"
	      "Shows the devices that CUDA programs of this VM (or, without one, of this user) have, their memory, and "
	      "the\n"
	      "processes that compute. Asks the daemon that listens, or starts one for the time.\n"
	      "\n"
	      "  -i N                     only device N (also --id=N)\n"
	      "  -L                       a line for each device: name and UUID\n"
	      "  -q                       all figures of each device and process, one a line\n"
	      "  -l SECONDS               again and again until an interrupt (also --loop=SECONDS, "
	      "--loop-ms=MILLISECONDS)\n"
	      "  --query-gpu=FIELD,...    these figures of each device, as comma-separated values:",
	      out);
	smi_fields_print(out);
	fputs("\n"
	      "  --query-compute-apps=FIELD,...  of each process: pid, process_name, used_memory, gpu_uuid\n"
	      "  --format=csv[,noheader][,nounits]\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

static bool parse_format(struct request *r, const char *text)
{
	char copy[64], *rest = copy, *word;
	bool csv = false;

	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, ","))) {
		word += strspn(word, " ");
		if (!strcmp(word, "csv"))
			csv = true;
		else if (!strcmp(word, "noheader"))
			r->no_header = true;
		else if (!strcmp(word, "nounits"))
			r->no_units = true;
		else
			return false;
	}
	return csv;
}

static bool parse_device(struct request *r, const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	r->only = (int)number;
	return *text && !*end && number >= 0 && number < 64;
}

static bool parse_loop(struct request *r, const char *text, unsigned int unit_ms)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	r->loop_ms = (unsigned int)number * unit_ms;
	return *text >= '0' && *text <= '9' && !*end && number > 0 && number <= 86400000 / unit_ms;
}

/* Returns -1 to go on, or the exit status. */
static int parse(struct request *r, int argc, char **argv)
{
	static const struct option options[] = {{"backend", required_argument, NULL, 'b'},
						{"id", required_argument, NULL, 'i'},
						{"list-gpus", no_argument, NULL, 'L'},
						{"query-gpu", required_argument, NULL, 'g'},
						{"format", required_argument, NULL, 'f'},
						{"query-compute-apps", required_argument, NULL, 'a'},
						{"loop", required_argument, NULL, 'l'},
						{"loop-ms", required_argument, NULL, 'm'},
						{"query", no_argument, NULL, 'q'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int option;

	while ((option = getopt_long(argc, argv, "i:l:Lqh", options, NULL)) != -1) {
		bool fine = option != '?';

		if (option == 'h')
			return usage(stdout);
		if (option == 'b')
			fine = !strcmp(optarg, "auto") || !strcmp(optarg, "cuda") || !strcmp(optarg, "cpu");
		else if (option == 'i')
			fine = parse_device(r, optarg);
		else if (option == 'f')
			fine = parse_format(r, optarg);
		else if (option == 'l' || option == 'm')
			fine = parse_loop(r, optarg, option == 'l' ? 1000 : 1);
		if (!fine)
			return usage(stderr);
		if (option == 'b')
			r->backend = optarg;
		r->list |= option == 'L';
		r->query |= option == 'q';
		if (option == 'g')
			r->fields = optarg;
		if (option == 'a')
			r->apps = optarg;
	}
	return optind == argc ? -1 : usage(stderr);
}

/* ---- the library ---- */

bool smi_load(const struct cli_paths *paths)
{
	char path[PATH_MAX + 32];
	void *library;

	snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", paths->guest_lib);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		cli_message("cannot load the guest's library: %s", dlerror());
		return false;
	}
#define LOOK_UP(name)                                                                                                  \
	*(void **)&nvml.name = dlsym(library, "nvml" #name);                                                           \
	if (!nvml.name) {                                                                                              \
		cli_message("%s lacks nvml" #name, path);                                                              \
		return false;                                                                                          \
	}
	SMI_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	return true;
}

static bool needs_daemon(const struct request *r)
{
	const char *given = getenv("VCUDA_SOCKET");
	char path[300];

	if (r->backend)
		return true;
	return access("/dev/vcuda", F_OK) && !(given && *given) && !cli_socket_find(path, sizeof(path));
}

/* ---- what is printed ---- */

static void print_list(const struct request *r, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		char name[256] = "?", uuid[96] = "?";
		nvmlDevice_t device;

		if ((r->only >= 0 && (unsigned int)r->only != i) || nvml.DeviceGetHandleByIndex_v2(i, &device))
			continue;
		nvml.DeviceGetName(device, name, sizeof(name));
		nvml.DeviceGetUUID(device, uuid, sizeof(uuid));
		printf("GPU %u: %s (UUID: %s)\n", i, name, uuid);
	}
}

/* Splits "a,b, c"; false with a message where a field is not one. */
static bool find_fields(char *text, const struct smi_field *(*find)(const char *), const struct smi_field **fields,
			unsigned int *count)
{
	char *word;

	for (*count = 0; (word = strsep(&text, ","));) {
		word += strspn(word, " ");
		word[strcspn(word, " ")] = 0;
		if (*count == MAX_FIELDS || !(fields[*count] = find(word))) {
			cli_message("\"%s\" is no field that can be asked for; `vcuda smi --help` lists them", word);
			return false;
		}
		(*count)++;
	}
	return true;
}

static void print_row(const struct request *r, const struct smi_field *const *fields, unsigned int count,
		      const struct smi_subject *subject)
{
	for (unsigned int k = 0; k < count; k++) {
		char text[256];
		bool known = fields[k]->get(subject, text, sizeof(text));

		printf("%s%s%s%s", k ? ", " : "", known ? text : "[N/A]",
		       known && !r->no_units && *fields[k]->unit ? " " : "",
		       known && !r->no_units ? fields[k]->unit : "");
	}
	putchar('\n');
}

static void print_header(const struct request *r, const struct smi_field *const *fields, unsigned int count)
{
	if (r->no_header)
		return;
	for (unsigned int k = 0; k < count; k++)
		printf(*fields[k]->unit ? "%s%s [%s]" : "%s%s", k ? ", " : "", fields[k]->name, fields[k]->unit);
	putchar('\n');
}

static void print_apps(const struct request *r, const struct smi_field *const *fields, unsigned int count,
		       struct smi_subject *s)
{
	struct smi_process *processes;
	unsigned int n = smi_processes(s->device, &processes);

	for (unsigned int i = 0; i < n; i++) {
		s->process = &processes[i];
		print_row(r, fields, count, s);
	}
	free(processes);
}

static int print_query(const struct request *r, unsigned int devices, const char *wanted, bool apps)
{
	const struct smi_field *fields[MAX_FIELDS];
	char *copy = strdup(wanted);
	unsigned int count = 0;
	bool fine = copy && find_fields(copy, apps ? smi_app_field_find : smi_field_find, fields, &count);

	free(copy);
	if (!fine)
		return CLI_FAILED;
	print_header(r, fields, count);
	for (unsigned int i = 0; i < devices; i++) {
		struct smi_subject s = {.index = i};

		if ((r->only >= 0 && (unsigned int)r->only != i) || nvml.DeviceGetHandleByIndex_v2(i, &s.device))
			continue;
		if (apps)
			print_apps(r, fields, count, &s);
		else
			print_row(r, fields, count, &s);
	}
	return 0;
}

static int print_once(const struct request *r, unsigned int devices)
{
	if (r->fields || r->apps)
		return print_query(r, devices, r->fields ? r->fields : r->apps, !r->fields);
	if (r->list)
		print_list(r, devices);
	else if (r->query)
		smi_query_print(devices, r->only);
	else
		smi_table_print(devices, r->only);
	return 0;
}

/* Until a signal, or until nothing reads the output. Returns instead of dying, so that a daemon of our own is ended. */
static int print_often(const struct request *asked, unsigned int devices)
{
	struct timespec wait = {.tv_sec = asked->loop_ms / 1000, .tv_nsec = asked->loop_ms % 1000 * 1000000l};
	struct request r = *asked;
	sigset_t ends;
	int status, number;

	sigemptyset(&ends);
	for (const int *s = (const int[]){SIGINT, SIGTERM, SIGHUP, 0}; *s; s++)
		sigaddset(&ends, *s);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		status = print_once(&r, devices);
		if (status)
			return status;
		if (fflush(stdout))
			return 128 + SIGPIPE;
		number = sigtimedwait(&ends, NULL, &wait);
		if (number > 0)
			return 128 + number;
		r.no_header = true;
	}
}

static int show(const struct request *r)
{
	unsigned int count = 0;
	nvmlReturn_t result = nvml.Init_v2();
	int status = 0;

	if (result == NVML_SUCCESS)
		result = nvml.DeviceGetCount_v2(&count);
	if (result != NVML_SUCCESS) {
		cli_message("no device can be asked: %s. `vcuda doctor` says what is missing",
			    nvml.ErrorString(result));
		return CLI_FAILED;
	}
	if (r->only >= 0 && (unsigned int)r->only >= count) {
		cli_message("there is no device %d: there are %u", r->only, count);
		status = CLI_FAILED;
	} else {
		status = r->loop_ms ? print_often(r, count) : print_once(r, count);
	}
	nvml.Shutdown();
	return status;
}

int cli_smi(const struct cli_paths *paths, int argc, char **argv)
{
	struct request r = {.only = -1};
	struct cli_daemon daemon = {0};
	int status = parse(&r, argc, argv);

	if (status >= 0)
		return status;
	if (!smi_load(paths))
		return CLI_FAILED;
	if (needs_daemon(&r)) {
		if (!cli_daemon_start(&daemon, paths, r.backend ? r.backend : "auto", false, NULL))
			return CLI_FAILED;
		setenv("VCUDA_SOCKET", daemon.socket, 1);
		setenv("VCUDA_TRANSPORT", "local", 1);
	}
	status = show(&r);
	if (*daemon.directory)
		cli_daemon_stop(&daemon);
	return status;
}
