/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "options/config-check.h"
#include "options/config-file.h"
#include "options/option-table.h"
#include "options/options.h"
#include "protocol/cpu-devices.h"
#include "protocol/ipc/ledger.h"

#define DAEMON_CONTEXTS_DEFAULT 64
#define DAEMON_EXPORTS_DEFAULT 16384
#define DAEMON_CLIENT_TIMEOUT_DEFAULT 10
#define DAEMON_KEEP_DETACHED_DEFAULT 60

const struct vcuda_log_program vcuda_log_program = {.name = "vcudad"};

#define fail(...) (vcuda_log(__VA_ARGS__), exit(2))

static char *own_directory(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length <= 0)
		return NULL;
	path[length] = 0;
	*strrchr(path, '/') = 0;
	return strdup(path);
}

/*
 * Beside this program, in a build tree, where the program is in `folder`, in the same installation, and where that was
 * to be.
 */
static char *find_program(const char *name, const char *folder)
{
	const struct {
		bool below_ours;
		const char *between, *folder;
	} places[] = {{true, "", ""},
		      {true, "/../", folder},
		      {true, "/", VCUDA_WORKER_FROM_BIN},
		      {false, VCUDA_WORKER_DIRECTORY, ""}};
	char *directory = own_directory();
	char *path = NULL;
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (places[i].below_ours && !directory)
			continue;
		if (asprintf(&path, "%s%s%s/%s", places[i].below_ours ? directory : "", places[i].between,
			     places[i].folder, name) < 0)
			continue;
		if (!access(path, X_OK))
			break;
		free(path);
		path = NULL;
	}
	free(directory);
	return path;
}

static bool is_name_character(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr("-_.", c));
}

bool daemon_is_name(const char *name)
{
	size_t length = 0;

	while (is_name_character(name[length]))
		length++;
	return length && !name[length] && length < DAEMON_NAME_BYTES;
}

/* The VM's name: the socket's file name without its ending, or the process id where that name says nothing. */
static void choose_name(struct daemon_options *options)
{
	const char *path = options->vhost_socket ? options->vhost_socket : options->socket;
	const char *file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	size_t length = 0;

	while (file[length] && file[length] != '.' && length < sizeof(options->name) - 1) {
		options->name[length] = is_name_character(file[length]) ? file[length] : '_';
		length++;
	}
	if (!length || !strcmp(options->name, "socket"))
		snprintf(options->name, sizeof(options->name), "%d", (int)getpid());
}

/* In the view of the file system that workers and keepers have, no folder of a program's path is a link. */
static void use_real_path(char **program)
{
	char *path = *program ? realpath(*program, NULL) : NULL;

	if (path)
		*program = path;
}

/* Workers take the variable from vcudad's environment. */
static void check_cpu_devices(const struct daemon_options *options)
{
	const char *text = getenv("VCUDA_CPU_DEVICES");

	if (strcmp(options->backend, "cuda") && !vcuda_cpu_devices(text))
		fail("VCUDA_CPU_DEVICES=%s: " VCUDA_CPU_DEVICES_ADVICE, text);
}

void daemon_options_default(struct daemon_options *options)
{
	*options = (struct daemon_options){.backend = "auto",
					   .sandbox = "best-effort",
					   .worker_user = "auto",
					   .max_contexts = DAEMON_CONTEXTS_DEFAULT,
					   .max_pinned = UINT64_MAX >> 1,
					   .max_host_memory = INT64_MAX,
					   .max_device_memory = VCUDA_LEDGER_NO_LIMIT,
					   .max_process_device_memory = VCUDA_LEDGER_NO_LIMIT,
					   .max_streams = VCUDA_LEDGER_STREAMS_DEFAULT,
					   .max_handles = VCUDA_LEDGER_HANDLES_DEFAULT,
					   .max_queued = VCUDA_LEDGER_QUEUED_BYTES_DEFAULT,
					   .max_queued_commands = VCUDA_LEDGER_QUEUED_COMMANDS_DEFAULT,
					   .max_module_bytes = VCUDA_LEDGER_MODULE_BYTES_DEFAULT,
					   .max_compile_time = VCUDA_LEDGER_COMPILE_SECONDS_DEFAULT,
					   .max_compile_memory = VCUDA_LEDGER_COMPILE_BYTES_DEFAULT,
					   .max_kernel_time = VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT,
					   .max_exports = DAEMON_EXPORTS_DEFAULT,
					   .client_timeout = DAEMON_CLIENT_TIMEOUT_DEFAULT,
					   .keep_detached = DAEMON_KEEP_DETACHED_DEFAULT,
					   .swap_directory = "/var/tmp",
					   .quantum = 40,
					   .socket_mode = 0600,
					   .ready_fd = -1};
}

bool daemon_options_may_run(const struct daemon_options *options)
{
	cpu_set_t ours;

	if (!options->cpus_list || sched_getaffinity(0, sizeof(ours), &ours))
		return true;
	CPU_AND(&ours, &ours, &options->cpus);
	return CPU_EQUAL(&ours, &options->cpus);
}

bool daemon_options_has_driver(const struct daemon_options *options)
{
	return strcmp(options->backend, "cuda") || !access("/dev/nvidiactl", F_OK) || !access("/dev/vcuda", F_OK) ||
	       getenv("VCUDA_SOCKET");
}

#define disagree(...) (snprintf(reason, size, __VA_ARGS__), false)

bool daemon_options_agree(const struct daemon_options *options, char *reason, size_t size)
{
	if (options->register_ram && !options->vhost_socket)
		return disagree("register-ram: only a VM has memory to register, and local programs share theirs as it "
				"is; give vhost-socket, or leave it out");
	if (options->warm > options->max_contexts)
		return disagree("warm: %u is more than max-contexts, %llu, lets in at a time", options->warm,
				(unsigned long long)options->max_contexts);
	if (options->share_one_process && !options->share)
		return disagree(
			"share-one-process: there are turns with shares only; give share as well, or leave it out");
	/* Without turns no thread asks a GPU whether a kernel has ended. */
	if (options->max_kernel_time != VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT && !strcmp(options->backend, "cuda") &&
	    !options->share)
		return disagree("max-kernel-time: with a GPU the time of turns counts; give share as well, or leave it "
				"out");
	if (options->min_device_memory > options->overcommit)
		return disagree(
			"min-device-memory: more than overcommit; give the size of the device's memory that all "
			"VMs have together, e.g. overcommit 16G");
	if (options->user.set && (!options->vhost_socket || options->socket || !strcmp(options->sandbox, "off")))
		return disagree("worker-user: workers have another user only where vcudad serves a VM, with "
				"vhost-socket and without socket, and with a sandbox");
	return true;
}

/* The value of getopt_long(): the option's place in the table, plus 256. */
enum { FIRST = 256 };

struct command_line {
	struct option options[DAEMON_OPTIONS_MOST];
	bool given[DAEMON_OPTIONS_MOST];
	bool check, print;
};

static void make_long_options(struct command_line *line)
{
	for (size_t n = 0; daemon_option_table[n].name; n++)
		line->options[n] = (struct option){.name = daemon_option_table[n].name,
						   .has_arg = daemon_option_table[n].argument ? required_argument
							      : daemon_option_table[n].type   ? optional_argument
											      : no_argument,
						   .val = FIRST + (int)n};
}

/* The options that are not set are acted on. False: another time, as in which files are read first. */
static bool is_immediate(struct command_line *line, const char *name)
{
	if (!strcmp(name, "version")) {
		puts("vcudad " VCUDA_VERSION);
		exit(0);
	}
	if (!strcmp(name, "help")) {
		daemon_options_print_help(stdout);
		exit(0);
	}
	line->check = line->check || !strcmp(name, "check-config");
	line->print = line->print || !strcmp(name, "print-config");
	return strcmp(name, "config");
}

/* Strings of the options are in the files' texts, which therefore stay. */
static struct kept_config {
	struct kept_config *before;
	struct daemon_config config;
} * last_config;

/* "-FILE" need not exist. */
static void read_config(struct command_line *line, struct daemon_options *options, const char *path)
{
	struct kept_config *kept = calloc(1, sizeof(*kept));
	bool may_lack = *path == '-';
	unsigned int mistakes = 0;
	struct stat s;

	path += may_lack;
	if (!kept)
		fail("--config %s: %m", path);
	kept->before = last_config;
	last_config = kept;
	/* A link whose target is not there yet is no reason to start without the options. */
	if (may_lack && lstat(path, &s) && errno == ENOENT)
		return;
	daemon_config_read(&kept->config, path, options, &mistakes);
	if (mistakes)
		exit(2);
	for (size_t n = 0; n < DAEMON_OPTIONS_MOST; n++)
		line->given[n] = line->given[n] || kept->config.lines[n];
}

/* Files come before the command line, whose options win. */
static void parse_files(struct command_line *line, struct daemon_options *options, int argc, char **argv)
{
	int option;

	optind = 0;
	while ((option = getopt_long(argc, argv, "", line->options, NULL)) != -1) {
		if (option < FIRST)
			fail("see vcudad --help");
		if (!daemon_option_table[option - FIRST].type &&
		    !is_immediate(line, daemon_option_table[option - FIRST].name))
			read_config(line, options, optarg);
	}
}

static void parse_line(struct command_line *line, struct daemon_options *options, int argc, char **argv)
{
	char advice[DAEMON_ADVICE_BYTES];
	int number;

	optind = 0;
	while ((number = getopt_long(argc, argv, "", line->options, NULL)) != -1) {
		const struct daemon_option *option = &daemon_option_table[number - FIRST];

		if (option->type && !option->type->set(options, option, optarg, advice))
			fail("--%s %s: %s", option->name, optarg, advice);
		line->given[number - FIRST] = true;
	}
}

static void find_programs(struct daemon_options *options)
{
	if (!options->worker)
		options->worker = find_program("vcuda-worker", "worker");
	options->reader = find_program("vcuda-gpu-use", "gpu-use");
	options->keeper = find_program("vcuda-keeper", "keeper");
	options->checkpoint = find_program("vcuda-checkpoint", "checkpoint");
	options->arbiter_program = find_program("vcuda-arbiter", "arbiter");
	if (!options->worker)
		fail("there is no vcuda-worker beside this program; say where it is with --worker FILE");
	if (access(options->worker, X_OK))
		fail("--worker %s: %m", options->worker);
	use_real_path(&options->worker);
	use_real_path(&options->keeper);
}

/* The tests run with each mode. */
static void take_environment(struct daemon_options *options)
{
	const struct daemon_option *sandbox = daemon_option_find("sandbox");
	const char *mode = getenv("VCUDA_SANDBOX");
	char advice[DAEMON_ADVICE_BYTES];

	if (mode && !sandbox->type->set(options, sandbox, mode, advice))
		fail("VCUDA_SANDBOX=%s: %s", mode, advice);
}

void daemon_options_parse(struct daemon_options *options, int argc, char **argv)
{
	struct command_line line = {.check = false};
	char reason[300];

	daemon_options_default(options);
	make_long_options(&line);
	take_environment(options);
	parse_files(&line, options, argc, argv);
	parse_line(&line, options, argc, argv);
	if (line.check)
		exit(daemon_config_check(argv + optind) ? 1 : 0);
	if (optind < argc)
		fail("%s: not an option; see vcudad --help", argv[optind]);
	if (line.print) {
		daemon_options_print_config(stdout, options, line.given);
		exit(0);
	}
	if (!options->vhost_socket && !options->socket)
		fail("nothing to serve: give --vhost-socket PATH for a VM, or --socket PATH for local programs");
	if (!daemon_options_agree(options, reason, sizeof(reason)))
		fail("--%s", reason);
	if (options->user.set && geteuid())
		fail("--worker-user %s: workers have another user only if vcudad is root's", options->worker_user);
	if (!daemon_options_may_run(options))
		fail("--cpus %s: vcudad itself may not run on all of them", options->cpus_list);
	check_cpu_devices(options);
	if (!*options->name)
		choose_name(options);
	find_programs(options);
}
