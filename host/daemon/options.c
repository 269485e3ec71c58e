/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "options.h"
#include "protocol/ipc/ledger.h"

#define DAEMON_CONTEXTS_DEFAULT 64
#define DAEMON_CONTEXTS_MAX 1024
#define DAEMON_WARM_MAX 64
#define DAEMON_DEVICE_MAX 63

const struct vcuda_log_program vcuda_log_program = {.name = "vcudad"};

static const char help[] =
	"Usage: vcudad [--vhost-socket PATH] [--socket PATH] [options]\n"
	"\n"
	"Lends this host's CUDA devices to one VM, or to programs of this host. It starts one worker per guest "
	"process.\n"
	"\n"
	"  --vhost-socket PATH     serve the VM whose QEMU connects here (chardev of vhost-user-test-device-pci)\n"
	"  --socket PATH           serve local programs that connect here\n"
	"  --backend auto|cuda|cpu what workers compute on (default: auto)\n"
	"  --worker FILE           the worker program (default: vcuda-worker as installed or built with this vcudad)\n"
	"  --max-contexts N        guest processes at a time (default: 64)\n"
	"  --max-pinned SIZE       guest memory that may be pinned, e.g. 8G (default: no limit)\n"
	"  --max-device-memory SIZE\n"
	"                          memory of each GPU that all guest processes have together, which is then the\n"
	"                          GPU's size for them, e.g. 16G (default: no limit)\n"
	"  --max-process-device-memory SIZE\n"
	"                          the same for each guest process (default: no limit)\n"
	"  --max-streams N         streams of each guest process (default: 65536)\n"
	"  --max-handles N         objects of all kinds of each guest process (default: 2097152)\n"
	"  --max-queued SIZE       memory of the host that commands hold which a guest process has queued on the "
	"software\n"
	"                          GPU (default: 128M)\n"
	"  --max-queued-commands N how many commands those may be (default: 262144)\n"
	"  --max-module-bytes SIZE PTX text of the modules that a guest process has loaded on the software GPU\n"
	"                          (default: 1G)\n"
	"  --register-ram          workers of a VM have the GPU reach all of its memory, and copy it where it lies.\n"
	"                          So does every program of the VM then, and none of it is left to the host\n"
	"                          (doc/threat-model.md); the VM must have no memory balloon\n"
	"  --warm N                keep N workers ready, each with a context on the GPU, for guest processes to come "
	"(default: 0).\n"
	"                          Each takes the memory of an empty context, some 500 MiB of a large GPU's\n"
	"  --warm-device N|none    the device of these contexts (default: 0; none: no context)\n"
	"  --warm-once             replace none that was used: for a daemon that one program is started with\n"
	"  --cpus LIST             the processors that workers run on, e.g. 0-7,16 (default: all that vcudad may)\n"
	"  --socket-mode MODE      permissions of the sockets, octal (default: 0600)\n"
	"  --allow-any-user        serve local programs of other users too\n"
	"  --once                  end when the VM is gone, instead of waiting for the next\n"
	"  --exit-when-idle SECS   end once there has been no client for that long\n"
	"  --ready-fd N            write \"ready\" to this file descriptor once listening\n"
	"  --verbose               say more\n"
	"  --version, --help\n";

enum {
	VHOST_SOCKET = 256,
	SOCKET,
	BACKEND,
	WORKER,
	CONTEXTS,
	PINNED,
	DEVICE_MEMORY,
	PROCESS_DEVICE_MEMORY,
	STREAMS,
	HANDLES,
	QUEUED,
	QUEUED_COMMANDS,
	MODULE_BYTES,
	REGISTER_RAM,
	WARM,
	WARM_DEVICE,
	WARM_ONCE,
	CPUS,
	MODE,
	ANY_USER,
	ONCE,
	IDLE,
	READY,
	VERBOSE,
	VERSION,
	HELP
};

static const struct option long_options[] = {
	{"vhost-socket", required_argument, NULL, VHOST_SOCKET},
	{"socket", required_argument, NULL, SOCKET},
	{"backend", required_argument, NULL, BACKEND},
	{"worker", required_argument, NULL, WORKER},
	{"max-contexts", required_argument, NULL, CONTEXTS},
	{"max-pinned", required_argument, NULL, PINNED},
	{"max-device-memory", required_argument, NULL, DEVICE_MEMORY},
	{"max-process-device-memory", required_argument, NULL, PROCESS_DEVICE_MEMORY},
	{"max-streams", required_argument, NULL, STREAMS},
	{"max-handles", required_argument, NULL, HANDLES},
	{"max-queued", required_argument, NULL, QUEUED},
	{"max-queued-commands", required_argument, NULL, QUEUED_COMMANDS},
	{"max-module-bytes", required_argument, NULL, MODULE_BYTES},
	{"register-ram", no_argument, NULL, REGISTER_RAM},
	{"warm", required_argument, NULL, WARM},
	{"warm-device", required_argument, NULL, WARM_DEVICE},
	{"warm-once", no_argument, NULL, WARM_ONCE},
	{"cpus", required_argument, NULL, CPUS},
	{"socket-mode", required_argument, NULL, MODE},
	{"allow-any-user", no_argument, NULL, ANY_USER},
	{"once", no_argument, NULL, ONCE},
	{"exit-when-idle", required_argument, NULL, IDLE},
	{"ready-fd", required_argument, NULL, READY},
	{"verbose", no_argument, NULL, VERBOSE},
	{"version", no_argument, NULL, VERSION},
	{"help", no_argument, NULL, HELP},
	{0},
};

#define fail(...) (vcuda_log(__VA_ARGS__), exit(2))

static uint64_t number(const char *option, const char *text, int base, uint64_t low, uint64_t high)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, base);
	if (errno || end == text || *end || *text == '-' || value < low || value > high)
		fail("%s %s: give a number from %llu to %llu", option, text, (unsigned long long)low,
		     (unsigned long long)high);
	return value;
}

static uint64_t size(const char *option, const char *text)
{
	static const char units[] = "KMGT";
	char *end;
	const char *unit;
	unsigned long long value;
	unsigned int shift = 0;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end) {
		unit = strchr(units, *end & ~0x20);
		if (!unit || end[1])
			fail("%s %s: give a size such as 512M or 8G", option, text);
		shift = 10 * ((unsigned int)(unit - units) + 1);
	}
	if (errno || end == text || *text == '-' || value > (UINT64_MAX >> 1) >> shift)
		fail("%s %s: give a size such as 512M or 8G", option, text);
	return value << shift;
}

/* One processor's number at the beginning of `text`, which moves behind it. */
static unsigned long processor(const char **text)
{
	char *end;
	unsigned long value = strtoul(*text, &end, 10);

	if (**text < '0' || **text > '9' || value >= CPU_SETSIZE)
		return CPU_SETSIZE;
	*text = end;
	return value;
}

static cpu_set_t processors(const char *list)
{
	const char *at = list;
	cpu_set_t set, ours;

	CPU_ZERO(&set);
	do {
		unsigned long first = processor(&at), last = first;

		if (*at == '-') {
			at++;
			last = processor(&at);
		}
		if (first > last || last >= CPU_SETSIZE || (*at && *at != ','))
			fail("--cpus %s: give a list such as 0-7,16", list);
		for (unsigned long cpu = first; cpu <= last; cpu++)
			CPU_SET(cpu, &set);
	} while (*at && at++);
	if (!sched_getaffinity(0, sizeof(ours), &ours)) {
		CPU_AND(&ours, &ours, &set);
		if (!CPU_EQUAL(&ours, &set))
			fail("--cpus %s: vcudad itself may not run on all of them", list);
	}
	return set;
}

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

/* Beside this program, in a build tree, in the same installation, and where that was to be. */
static char *find_worker(void)
{
	static const char *const places[] = {"%s/vcuda-worker", "%s/../worker/vcuda-worker",
					     "%s/" VCUDA_WORKER_FROM_BIN "/vcuda-worker",
					     VCUDA_WORKER_DIRECTORY "/vcuda-worker"};
	char *directory = own_directory();
	char *path = NULL;
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *mark = strstr(places[i], "%s");
		int length = -1;

		if (!mark)
			length = asprintf(&path, "%s", places[i]);
		else if (directory)
			length = asprintf(&path, "%s%s", directory, mark + 2);
		if (length < 0)
			continue;
		if (!access(path, X_OK))
			break;
		free(path);
		path = NULL;
	}
	free(directory);
	return path;
}

static void set_backend(struct daemon_options *options, const char *backend)
{
	if (strcmp(backend, "auto") && strcmp(backend, "cuda") && strcmp(backend, "cpu"))
		fail("--backend %s: choose auto, cuda or cpu", backend);
	options->backend = backend;
}

/* False: it is the option of no quota. */
static bool set_quota(struct daemon_options *options, int option, const char *value)
{
	switch (option) {
	case CONTEXTS:
		options->max_contexts = (unsigned int)number("--max-contexts", value, 10, 1, DAEMON_CONTEXTS_MAX);
		break;
	case PINNED:
		options->max_pinned = size("--max-pinned", value);
		break;
	case DEVICE_MEMORY:
		options->max_device_memory = size("--max-device-memory", value);
		break;
	case PROCESS_DEVICE_MEMORY:
		options->max_process_device_memory = size("--max-process-device-memory", value);
		break;
	case STREAMS:
		options->max_streams = number("--max-streams", value, 10, 1, VCUDA_LEDGER_STREAMS_DEFAULT);
		break;
	case HANDLES:
		options->max_handles = number("--max-handles", value, 10, 1, VCUDA_LEDGER_HANDLES_DEFAULT);
		break;
	case QUEUED:
		options->max_queued = size("--max-queued", value);
		break;
	case QUEUED_COMMANDS:
		options->max_queued_commands = number("--max-queued-commands", value, 10, 1, INT_MAX);
		break;
	case MODULE_BYTES:
		options->max_module_bytes = size("--max-module-bytes", value);
		break;
	default:
		return false;
	}
	return true;
}

static void set_option(struct daemon_options *options, int option, char *value)
{
	switch (option) {
	case VHOST_SOCKET:
		options->vhost_socket = value;
		break;
	case SOCKET:
		options->socket = value;
		break;
	case BACKEND:
		set_backend(options, value);
		break;
	case WORKER:
		options->worker = value;
		break;
	case REGISTER_RAM:
		options->register_ram = true;
		break;
	case WARM:
		options->warm = (unsigned int)number("--warm", value, 10, 0, DAEMON_WARM_MAX);
		break;
	case WARM_DEVICE:
		options->warm_device =
			strcmp(value, "none") ? (int)number("--warm-device", value, 10, 0, DAEMON_DEVICE_MAX) : -1;
		break;
	case WARM_ONCE:
		options->warm_once = true;
		break;
	case CPUS:
		options->cpus = processors(value);
		break;
	case MODE:
		options->socket_mode = (mode_t)number("--socket-mode", value, 8, 0, 0777);
		break;
	case ANY_USER:
		options->allow_any_user = true;
		break;
	case ONCE:
		options->once = true;
		break;
	case IDLE:
		options->exit_when_idle = (unsigned int)number("--exit-when-idle", value, 10, 0, 1000000);
		break;
	case READY:
		options->ready_fd = (int)number("--ready-fd", value, 10, 0, INT_MAX);
		break;
	case VERBOSE:
		options->verbose = true;
		break;
	case VERSION:
		puts("vcudad " VCUDA_VERSION);
		exit(0);
	case HELP:
		fputs(help, stdout);
		exit(0);
	default:
		if (!set_quota(options, option, value))
			fail("see vcudad --help");
	}
}

void daemon_options_parse(struct daemon_options *options, int argc, char **argv)
{
	int option;

	*options = (struct daemon_options){.backend = "auto",
					   .max_contexts = DAEMON_CONTEXTS_DEFAULT,
					   .max_pinned = UINT64_MAX >> 1,
					   .max_device_memory = VCUDA_LEDGER_NO_LIMIT,
					   .max_process_device_memory = VCUDA_LEDGER_NO_LIMIT,
					   .max_streams = VCUDA_LEDGER_STREAMS_DEFAULT,
					   .max_handles = VCUDA_LEDGER_HANDLES_DEFAULT,
					   .max_queued = VCUDA_LEDGER_QUEUED_BYTES_DEFAULT,
					   .max_queued_commands = VCUDA_LEDGER_QUEUED_COMMANDS_DEFAULT,
					   .max_module_bytes = VCUDA_LEDGER_MODULE_BYTES_DEFAULT,
					   .socket_mode = 0600,
					   .ready_fd = -1};
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		set_option(options, option, optarg);
	if (optind < argc)
		fail("%s: not an option; see vcudad --help", argv[optind]);
	if (!options->vhost_socket && !options->socket)
		fail("nothing to serve: give --vhost-socket PATH for a VM, or --socket PATH for local programs");
	if (options->register_ram && !options->vhost_socket)
		fail("--register-ram: only a VM has memory to register, and local programs share theirs as it is; give "
		     "--vhost-socket PATH, or leave it out");
	if (options->warm > options->max_contexts)
		fail("--warm %u: more than --max-contexts, %u, lets in at a time", options->warm,
		     options->max_contexts);
	if (!options->worker)
		options->worker = find_worker();
	if (!options->worker)
		fail("there is no vcuda-worker beside this program; say where it is with --worker FILE");
	if (access(options->worker, X_OK))
		fail("--worker %s: %m", options->worker);
}
