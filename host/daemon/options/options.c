/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"
#include "options/cache-folder.h"
#include "options/options.h"
#include "protocol/cpu-devices.h"
#include "protocol/ipc/arbiter.h"
#include "protocol/ipc/ledger.h"
#include "options/quotas.h"
#include "options/worker-user.h"

#define DAEMON_CONTEXTS_DEFAULT 64
#define DAEMON_EXPORTS_DEFAULT 16384
#define DAEMON_CLIENT_TIMEOUT_DEFAULT 10
#define DAEMON_CLIENT_TIMEOUT_MAX 3600
#define DAEMON_KEEP_DETACHED_DEFAULT 60
#define DAEMON_KEEP_DETACHED_MAX 31536000
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
	"  --name NAME             the name in `vcuda vm list` (default: the socket's file name, or the process id)\n"
	"  --control PATH|none     the socket through which `vcuda vm` and `vcuda top` reach this vcudad (default: a\n"
	"                          file in $XDG_RUNTIME_DIR/vcuda/control, or /run/vcuda/control for root)\n"
	"  --backend auto|cuda|cpu\n"
	"                          what workers compute on (default: auto)\n"
	"  --worker FILE           the worker program (default: vcuda-worker as installed or built with this vcudad)\n"
	"  --sandbox MODE          what a worker that a guest takes over can still reach (doc/threat-model.md):\n"
	"                          best-effort: as little as the kernel can limit it to (the default)\n"
	"                          strict: no worker starts where the kernel cannot limit all of it\n"
	"                          log: system calls that are not expected are logged, and go on; off: no sandbox\n"
	"  --worker-user USER      the user of a VM's workers. auto: one of the VM's own, where vcudad is root and "
	"such a\n"
	"                          user can work (the default); none: vcudad's; NAME, UID or UID:GID\n"
	"  --max-contexts N        guest processes at a time (default: 64)\n"
	"  --max-pinned SIZE       guest memory that may be pinned, e.g. 8G (default: no limit)\n"
	"  --max-host-memory SIZE  memory of the host that all workers have together, beside the VM's RAM (default: "
	"no\n"
	"                          limit). vcudad needs a control group of its own for it\n"
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
	"  --max-queued-commands N\n"
	"                          how many commands those may be (default: 262144)\n"
	"  --max-module-bytes SIZE\n"
	"                          PTX text of the modules that a guest process has loaded on the software GPU\n"
	"                          (default: 1G)\n"
	"  --max-compile-time SECS\n"
	"                          time of a processor that compiling one kernel may take on the software GPU; on a "
	"GPU,\n"
	"                          loading one module (default: 600)\n"
	"  --max-compile-memory SIZE\n"
	"                          memory of the host that compiling one kernel may take on the software GPU; a guest\n"
	"                          process compiles four at a time (default: 4G)\n"
	"  --max-kernel-time SECS  time that a kernel may run on the software GPU, in its VM's turns if turns are "
	"taken\n"
	"                          (default: no limit); with a GPU and --share, time that a command may run while VMs\n"
	"                          take turns, until its process is ended (default: 10)\n"
	"  --max-exports N         allocations and pools that the VM, or a local user, has exported by descriptor, "
	"and\n"
	"                          descriptors of them (default: 16384)\n"
	"  --register-ram          workers of a VM have the GPU reach all of its memory, and copy it where it lies.\n"
	"                          So does every program of the VM then, and none of it is left to the host\n"
	"                          (doc/threat-model.md); the VM must have no memory balloon\n"
	"  --warm N                keep N workers ready, each with a context on the GPU, for guest processes to come "
	"(default: 0).\n"
	"                          Each takes the memory of an empty context, some 500 MiB of a large GPU's\n"
	"  --warm-device N|none    the device of these contexts (default: 0; none: no context)\n"
	"  --warm-once             replace none that was used: for a daemon that one program is started with\n"
	"  --nvml-host-figures     guests may ask NVML for the load, power, temperature, clocks and errors of the "
	"whole "
	"GPU,\n"
	"                          which show what its other users do (default: NVML does not tell)\n"
	"  --cpus LIST             the processors that workers run on, e.g. 0-7,16 (default: all that vcudad may)\n"
	"  --cache NAME|shared     where a VM's workers keep compiled code: in vm/NAME of the user's cache, or where "
	"all\n"
	"                          of the user's do (default: a folder named by the VM's socket)\n"
	"  --share N               the VM's share of the device's time, beside other VMs with shares: with 1 and "
	"3\n"
	"                          both at work have a fourth and three fourths (default: work runs at any time)\n"
	"  --share-strict          where the arbiter of shares is missing, work waits (default: it runs at any time)\n"
	"  --quantum MS            how long a round of turns is, if this vcudad starts the arbiter (default: 40)\n"
	"  --arbiter PATH          the socket of the arbiter that the VMs share (default: beside the control sockets)\n"
	"  --overcommit SIZE       how much memory of the device all VMs with this option have together. A VM that "
	"needs "
	"\n"
	"                          more than is left takes the place of another one, whose memory is released until "
	"its\n"
	"                          next command (default: no VM makes room for others)\n"
	"  --min-device-memory SIZE\n"
	"                          of that memory, the part that no other VM grows into (default: 0)\n"
	"  --swap-directory DIR    where memory of the software GPU goes that is released by `vcuda pause --release` "
	"or\n"
	"                          for another VM (default: /var/tmp)\n"
	"  --socket-mode MODE      permissions of the sockets, octal (default: 0600)\n"
	"  --allow-any-user        serve local programs of other users too; no user gets more places than are left\n"
	"  --no-guest-checkpoint   refuse cuCheckpointProcess*() of the guest, which moves device memory to the host\n"
	"  --keep-detached SECS    how long the session of a local process outlives a process that ends while it is\n"
	"                          checkpointed, for a process that is made of its image (default: 60)\n"
	"  --client-timeout SECS   drop a local client that connects and says nothing (default: 10)\n"
	"  --once                  end when the VM is gone, instead of waiting for the next\n"
	"  --exit-when-idle SECS   end once there has been no client for that long\n"
	"  --ready-fd N            write \"ready\" to this file descriptor once listening\n"
	"  --verbose               say more\n"
	"  --version, --help\n";

enum {
	VHOST_SOCKET = 256,
	SOCKET,
	NAME,
	CONTROL,
	BACKEND,
	WORKER,
	SANDBOX,
	WORKER_USER,
	REGISTER_RAM,
	WARM,
	WARM_DEVICE,
	WARM_ONCE,
	NVML_HOST_FIGURES,
	CPUS,
	CACHE,
	SHARE,
	SHARE_STRICT,
	QUANTUM,
	ARBITER,
	OVERCOMMIT,
	MIN_DEVICE_MEMORY,
	SWAP_DIRECTORY,
	MODE,
	ANY_USER,
	NO_GUEST_CHECKPOINT,
	CLIENT_TIMEOUT,
	KEEP_DETACHED,
	ONCE,
	IDLE,
	READY,
	VERBOSE,
	VERSION,
	HELP,
	QUOTA /* and behind it the other quotas, by their numbers */
};

static const struct option long_options[] = {
	{"vhost-socket", required_argument, NULL, VHOST_SOCKET},
	{"socket", required_argument, NULL, SOCKET},
	{"name", required_argument, NULL, NAME},
	{"control", required_argument, NULL, CONTROL},
	{"backend", required_argument, NULL, BACKEND},
	{"worker", required_argument, NULL, WORKER},
	{"sandbox", required_argument, NULL, SANDBOX},
	{"worker-user", required_argument, NULL, WORKER_USER},
	{"max-contexts", required_argument, NULL, QUOTA + DAEMON_QUOTA_CONTEXTS},
	{"max-pinned", required_argument, NULL, QUOTA + DAEMON_QUOTA_PINNED},
	{"max-host-memory", required_argument, NULL, QUOTA + DAEMON_QUOTA_HOST_MEMORY},
	{"max-device-memory", required_argument, NULL, QUOTA + DAEMON_QUOTA_DEVICE_MEMORY},
	{"max-process-device-memory", required_argument, NULL, QUOTA + DAEMON_QUOTA_PROCESS_DEVICE_MEMORY},
	{"max-streams", required_argument, NULL, QUOTA + DAEMON_QUOTA_STREAMS},
	{"max-handles", required_argument, NULL, QUOTA + DAEMON_QUOTA_HANDLES},
	{"max-queued", required_argument, NULL, QUOTA + DAEMON_QUOTA_QUEUED},
	{"max-queued-commands", required_argument, NULL, QUOTA + DAEMON_QUOTA_QUEUED_COMMANDS},
	{"max-module-bytes", required_argument, NULL, QUOTA + DAEMON_QUOTA_MODULE_BYTES},
	{"max-compile-time", required_argument, NULL, QUOTA + DAEMON_QUOTA_COMPILE_TIME},
	{"max-compile-memory", required_argument, NULL, QUOTA + DAEMON_QUOTA_COMPILE_MEMORY},
	{"max-exports", required_argument, NULL, QUOTA + DAEMON_QUOTA_EXPORTS},
	{"max-kernel-time", required_argument, NULL, QUOTA + DAEMON_QUOTA_KERNEL_TIME},
	{"register-ram", no_argument, NULL, REGISTER_RAM},
	{"warm", required_argument, NULL, WARM},
	{"warm-device", required_argument, NULL, WARM_DEVICE},
	{"warm-once", no_argument, NULL, WARM_ONCE},
	{"nvml-host-figures", no_argument, NULL, NVML_HOST_FIGURES},
	{"cpus", required_argument, NULL, CPUS},
	{"cache", required_argument, NULL, CACHE},
	{"share", required_argument, NULL, SHARE},
	{"share-strict", no_argument, NULL, SHARE_STRICT},
	{"quantum", required_argument, NULL, QUANTUM},
	{"arbiter", required_argument, NULL, ARBITER},
	{"overcommit", required_argument, NULL, OVERCOMMIT},
	{"min-device-memory", required_argument, NULL, MIN_DEVICE_MEMORY},
	{"swap-directory", required_argument, NULL, SWAP_DIRECTORY},
	{"socket-mode", required_argument, NULL, MODE},
	{"allow-any-user", no_argument, NULL, ANY_USER},
	{"no-guest-checkpoint", no_argument, NULL, NO_GUEST_CHECKPOINT},
	{"client-timeout", required_argument, NULL, CLIENT_TIMEOUT},
	{"keep-detached", required_argument, NULL, KEEP_DETACHED},
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

static uint64_t size(const char *option, const char *text, uint64_t low)
{
	uint64_t value;

	if (!daemon_parse_size(text, &value) || value < low || value > VCUDA_LEDGER_NO_LIMIT)
		fail("%s %s: give a size such as 512M or 8G", option, text);
	return value;
}

static void set_quota(struct daemon_options *options, enum daemon_quota quota, const char *value)
{
	char range[64];

	if (daemon_quota_set(options, quota, value))
		return;
	daemon_quota_range(quota, range, sizeof(range));
	fail("--%s %s: give %s", daemon_quota_kind(quota)->name, value, range);
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

static void set_backend(struct daemon_options *options, const char *backend)
{
	if (strcmp(backend, "auto") && strcmp(backend, "cuda") && strcmp(backend, "cpu"))
		fail("--backend %s: choose auto, cuda or cpu", backend);
	options->backend = backend;
}

static bool is_name_character(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr("-_.", c));
}

static void set_name(struct daemon_options *options, const char *name)
{
	size_t length = 0;

	while (is_name_character(name[length]))
		length++;
	if (!length || name[length] || length >= sizeof(options->name))
		fail("--name %s: give 1 to %zu letters, digits, \"-\", \"_\" or \".\"", name,
		     sizeof(options->name) - 1);
	strcpy(options->name, name);
}

/* The socket's file name without its ending. Of a name that says nothing the process id is the better one. */
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

static void set_sandbox(struct daemon_options *options, const char *mode)
{
	if (strcmp(mode, "strict") && strcmp(mode, "best-effort") && strcmp(mode, "log") && strcmp(mode, "off"))
		fail("--sandbox %s: choose strict, best-effort, log or off", mode);
	options->sandbox = mode;
}

static void set_worker_user(struct daemon_options *options, const char *text)
{
	options->worker_user = text;
	options->user = (struct daemon_worker_user){0};
	if (strcmp(text, "auto") && strcmp(text, "none") && !daemon_worker_user_parse(text, &options->user))
		fail("--worker-user %s: give auto, none, the name of a user, UID or UID:GID, but not root", text);
}

static void check_worker_user(const struct daemon_options *options)
{
	if (!options->user.set)
		return;
	if (geteuid() || !options->vhost_socket || options->socket || !strcmp(options->sandbox, "off"))
		fail("--worker-user %s: workers have another user only where root's vcudad serves a VM, with "
		     "--vhost-socket PATH and without --socket, and with a sandbox",
		     options->worker_user);
}

/* Workers have a view of the file system in which no folder of its path is a link. */
static void find_real_worker(struct daemon_options *options)
{
	char *path = realpath(options->worker, NULL);

	if (path)
		options->worker = path;
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
	case NAME:
		set_name(options, value);
		break;
	case CONTROL:
		options->control = value;
		break;
	case BACKEND:
		set_backend(options, value);
		break;
	case WORKER:
		options->worker = value;
		break;
	case SANDBOX:
		set_sandbox(options, value);
		break;
	case WORKER_USER:
		set_worker_user(options, value);
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
	case NVML_HOST_FIGURES:
		options->nvml_host_figures = true;
		break;
	case CPUS:
		options->cpus = processors(value);
		break;
	case CACHE:
		if (!daemon_cache_is_name(value))
			fail("--cache %s: give letters, digits, dots and dashes, e.g. --cache web-1", value);
		options->cache = value;
		break;
	case SHARE:
		options->share = (unsigned int)number("--share", value, 10, 1, VCUDA_SHARE_MOST);
		break;
	case SHARE_STRICT:
		options->share_strict = true;
		break;
	case QUANTUM:
		options->quantum = (unsigned int)number("--quantum", value, 10, 4, 10000);
		break;
	case ARBITER:
		if (!*value || strlen(value) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
			fail("--arbiter %s: a socket's path has 1 to 107 characters", value);
		options->arbiter = value;
		break;
	case OVERCOMMIT:
		options->overcommit = size("--overcommit", value, 1u << 20);
		break;
	case MIN_DEVICE_MEMORY:
		options->min_device_memory = size("--min-device-memory", value, 0);
		break;
	case SWAP_DIRECTORY:
		options->swap_directory = value;
		break;
	case MODE:
		options->socket_mode = (mode_t)number("--socket-mode", value, 8, 0, 0777);
		break;
	case ANY_USER:
		options->allow_any_user = true;
		break;
	case NO_GUEST_CHECKPOINT:
		options->no_guest_checkpoint = true;
		break;
	case CLIENT_TIMEOUT:
		options->client_timeout =
			(unsigned int)number("--client-timeout", value, 10, 1, DAEMON_CLIENT_TIMEOUT_MAX);
		break;
	case KEEP_DETACHED:
		options->keep_detached =
			(unsigned int)number("--keep-detached", value, 10, 0, DAEMON_KEEP_DETACHED_MAX);
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
		if (option < QUOTA)
			fail("see vcudad --help");
		set_quota(options, (enum daemon_quota)(option - QUOTA), value);
	}
}

/* Workers take the variable from vcudad's environment. */
static void check_cpu_devices(const struct daemon_options *options)
{
	const char *text = getenv("VCUDA_CPU_DEVICES");

	if (strcmp(options->backend, "cuda") && !vcuda_cpu_devices(text))
		fail("VCUDA_CPU_DEVICES=%s: " VCUDA_CPU_DEVICES_ADVICE, text);
}

void daemon_options_parse(struct daemon_options *options, int argc, char **argv)
{
	int option;

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
	/* The tests run with each mode. */
	if (getenv("VCUDA_SANDBOX"))
		set_sandbox(options, getenv("VCUDA_SANDBOX"));
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
		fail("--warm %u: more than --max-contexts, %llu, lets in at a time", options->warm,
		     (unsigned long long)options->max_contexts);
	/* Without turns no thread asks a GPU whether a kernel has ended. */
	if (options->max_kernel_time != VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT && !strcmp(options->backend, "cuda") &&
	    !options->share)
		fail("--max-kernel-time: with a GPU the time of turns counts; give --share as well, or leave it out");
	if (options->min_device_memory > options->overcommit)
		fail("--min-device-memory: more than --overcommit; give the size of the device's memory that all VMs "
		     "have "
		     "together, e.g. --overcommit 16G");
	check_cpu_devices(options);
	check_worker_user(options);
	if (!*options->name)
		choose_name(options);
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
	find_real_worker(options);
}
