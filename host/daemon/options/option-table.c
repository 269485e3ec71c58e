/* SPDX-License-Identifier: Apache-2.0 */
#include "options/option-table.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "options/quotas.h"
#include "protocol/ipc/arbiter.h"

#define CLIENT_TIMEOUT_MAX 3600
#define KEEP_DETACHED_MAX 31536000
#define WARM_MAX 64

#define AT(member) .offset = offsetof(struct daemon_options, member)
#define TEXT(member) .type = &daemon_type_text, AT(member)
#define PATH(member) .type = &daemon_type_path, AT(member)
#define FLAG(member) .type = &daemon_type_flag, AT(member)
#define NUMBER(member, least, most) .type = &daemon_type_number, AT(member), .low = (least), .high = (most)
#define OCTAL(member, least, most) .type = &daemon_type_octal, AT(member), .low = (least), .high = (most)
#define SIZE(member, least) .type = &daemon_type_size, AT(member), .low = (least)
#define QUOTA(quota) .type = &daemon_type_quota, .low = (quota)

const struct daemon_option daemon_option_table[] = {
	{"vhost-socket", "PATH", "serve the VM whose QEMU connects here (chardev of vhost-user-test-device-pci)",
	 TEXT(vhost_socket)},
	{"socket", "PATH", "serve local programs that connect here", TEXT(socket)},
	{"config", "FILE",
	 "take options from this file too, which has lines OPTION = VALUE with the names of this list without dashes, "
	 "and "
	 "comments behind \"#\" (see `vcuda config`). The command line comes first. -FILE: the file need not exist",
	 .only_command_line = true},
	{"name", "NAME", "the name in `vcuda vm list` (default: the socket's file name, or the process id)",
	 .type = &daemon_type_name},
	{"control", "PATH|none",
	 "the socket through which `vcuda vm` and `vcuda top` reach this vcudad (default: a file in "
	 "$XDG_RUNTIME_DIR/vcuda/control, or /run/vcuda/control for root)",
	 TEXT(control)},
	{"backend", "auto|cuda|cpu", "what workers compute on", .type = &daemon_type_backend},
	{"worker", "FILE", "the worker program (default: vcuda-worker as installed or built with this vcudad)",
	 TEXT(worker)},
	{"sandbox", "MODE",
	 "what a worker that a guest takes over can still reach (doc/threat-model.md):\n"
	 "best-effort: as little as the kernel can limit it to\n"
	 "strict: no worker starts where the kernel cannot limit all of it\n"
	 "log: system calls that are not expected are logged, and go on; off: no sandbox",
	 .type = &daemon_type_sandbox},
	{"worker-user", "USER",
	 "the user of a VM's workers. auto: one of the VM's own, where vcudad is root and such a user can work; none: "
	 "vcudad's; NAME, UID or UID:GID",
	 .type = &daemon_type_worker_user},
	{"max-contexts", "N", "guest processes at a time", QUOTA(DAEMON_QUOTA_CONTEXTS)},
	{"max-pinned", "SIZE", "guest memory that may be pinned, e.g. 8G (default: no limit)",
	 QUOTA(DAEMON_QUOTA_PINNED)},
	{"max-host-memory", "SIZE",
	 "memory of the host that all workers have together, beside the VM's RAM (default: no limit). vcudad needs a "
	 "control group of its own for it",
	 QUOTA(DAEMON_QUOTA_HOST_MEMORY)},
	{"max-device-memory", "SIZE",
	 "memory of each GPU that all guest processes have together, which is then the GPU's size for them, e.g. 16G "
	 "(default: no limit)",
	 QUOTA(DAEMON_QUOTA_DEVICE_MEMORY)},
	{"max-process-device-memory", "SIZE", "the same for each guest process (default: no limit)",
	 QUOTA(DAEMON_QUOTA_PROCESS_DEVICE_MEMORY)},
	{"max-streams", "N", "streams of each guest process", QUOTA(DAEMON_QUOTA_STREAMS)},
	{"max-handles", "N", "objects of all kinds of each guest process", QUOTA(DAEMON_QUOTA_HANDLES)},
	{"max-queued", "SIZE",
	 "memory of the host that commands hold which a guest process has queued on the software GPU",
	 QUOTA(DAEMON_QUOTA_QUEUED)},
	{"max-queued-commands", "N", "how many commands those may be", QUOTA(DAEMON_QUOTA_QUEUED_COMMANDS)},
	{"max-module-bytes", "SIZE", "PTX text of the modules that a guest process has loaded on the software GPU",
	 QUOTA(DAEMON_QUOTA_MODULE_BYTES)},
	{"max-compile-time", "SECS",
	 "time of a processor that compiling one kernel may take on the software GPU; on a GPU, loading one module",
	 QUOTA(DAEMON_QUOTA_COMPILE_TIME)},
	{"max-compile-memory", "SIZE",
	 "memory of the host that compiling one kernel may take on the software GPU; a guest process compiles four at "
	 "a "
	 "time",
	 QUOTA(DAEMON_QUOTA_COMPILE_MEMORY)},
	{"max-kernel-time", "SECS",
	 "time that a kernel may run on the software GPU, in its VM's turns if turns are taken (default: no limit); "
	 "with "
	 "a GPU and --share, time that a command may run while VMs take turns, until its process is ended (default: "
	 "10)",
	 QUOTA(DAEMON_QUOTA_KERNEL_TIME)},
	{"max-exports", "N",
	 "allocations and pools that the VM, or a local user, has exported by descriptor, and descriptors of them",
	 QUOTA(DAEMON_QUOTA_EXPORTS)},
	{"register-ram", NULL,
	 "workers of a VM have the GPU reach all of its memory, and copy it where it lies. So does every program of "
	 "the "
	 "VM then, and none of it is left to the host (doc/threat-model.md); the VM must have no memory balloon",
	 FLAG(register_ram)},
	{"warm", "N",
	 "keep N workers ready, each with a context on the GPU, for guest processes to come. Each takes the memory of "
	 "an "
	 "empty context, some 500 MiB of a large GPU's",
	 NUMBER(warm, 0, WARM_MAX)},
	{"warm-device", "N|none", "the device of these contexts; none: no context", .type = &daemon_type_warm_device},
	{"warm-once", NULL, "replace none that was used: for a daemon that one program is started with",
	 FLAG(warm_once)},
	{"nvml-host-figures", NULL,
	 "guests may ask NVML for the load, power, temperature, clocks and errors of the whole GPU, which show what "
	 "its "
	 "other users do (default: NVML does not tell)",
	 FLAG(nvml_host_figures)},
	{"cpus", "LIST", "the processors that workers run on, e.g. 0-7,16 (default: all that vcudad may)",
	 .type = &daemon_type_cpus},
	{"cache", "NAME|shared",
	 "where a VM's workers keep compiled code: in vm/NAME of the user's cache, or where all of the user's do "
	 "(default: a folder named by the VM's socket)",
	 .type = &daemon_type_cache, AT(cache)},
	{"share", "N",
	 "the VM's share of the device's time, beside other VMs with shares: with 1 and 3 both at work have a fourth "
	 "and "
	 "three fourths (default: work runs at any time)",
	 NUMBER(share, 1, VCUDA_SHARE_MOST)},
	{"share-strict", NULL, "where the arbiter of shares is missing, work waits (default: it runs at any time)",
	 FLAG(share_strict)},
	{"share-one-process", NULL,
	 "in a turn, one process of the VM at a time uses the GPU: kernels of several processes that never end take no "
	 "more from other VMs than those of one (default: all use the GPU)",
	 FLAG(share_one_process)},
	{"quantum", "MS", "how long a round of turns is, if this vcudad starts the arbiter", NUMBER(quantum, 4, 10000)},
	{"arbiter", "PATH", "the socket of the arbiter that the VMs share (default: beside the control sockets)",
	 PATH(arbiter)},
	{"overcommit", "SIZE",
	 "how much memory of the device all VMs with this option have together. A VM that needs more than is left "
	 "takes "
	 "the place of another one, whose memory is released until its next command (default: no VM makes room for "
	 "others)",
	 SIZE(overcommit, 1u << 20)},
	{"min-device-memory", "SIZE", "of that memory, the part that no other VM grows into",
	 SIZE(min_device_memory, 0)},
	{"swap-directory", "DIR",
	 "where memory of the software GPU goes that is released by `vcuda pause --release` or for another VM",
	 TEXT(swap_directory)},
	{"socket-mode", "MODE", "permissions of the sockets, octal", OCTAL(socket_mode, 0, 0777)},
	{"allow-any-user", NULL, "serve local programs of other users too; no user gets more places than are left",
	 FLAG(allow_any_user)},
	{"no-guest-checkpoint", NULL,
	 "refuse cuCheckpointProcess*() of the guest, which moves device memory to the host",
	 FLAG(no_guest_checkpoint)},
	{"keep-detached", "SECS",
	 "how long the session of a local process outlives a process that ends while it is checkpointed, for a process "
	 "that is made of its image",
	 NUMBER(keep_detached, 0, KEEP_DETACHED_MAX)},
	{"client-timeout", "SECS", "drop a local client that connects and says nothing",
	 NUMBER(client_timeout, 1, CLIENT_TIMEOUT_MAX)},
	{"once", NULL, "end when the VM is gone, instead of waiting for the next", FLAG(once)},
	{"exit-when-idle", "SECS", "end once there has been no client for that long; 0: never",
	 NUMBER(exit_when_idle, 0, 1000000)},
	{"ready-fd", "N", "write \"ready\" to this file descriptor once listening", .type = &daemon_type_number,
	 AT(ready_fd), .high = INT_MAX, .only_command_line = true},
	{"verbose", NULL, "say more", FLAG(verbose)},
	{"check-config", NULL, "check the configuration files or folders that follow, as `vcuda config check` does",
	 .only_command_line = true},
	{"print-config", NULL,
	 "print all options as a configuration file, as `vcuda config show` does; those that were not given are "
	 "comments "
	 "with their defaults",
	 .only_command_line = true},
	{"version", NULL, "print the version", .only_command_line = true},
	{"help", NULL, "print this text", .only_command_line = true},
	{0},
};

const struct daemon_option *daemon_option_find(const char *name)
{
	const struct daemon_option *option = daemon_option_table;

	while (option->name && strcmp(option->name, name))
		option++;
	return option->name ? option : NULL;
}

#define NAME_MOST 40

/* The number of letters to change, add or remove to turn one name into the other. */
static size_t distance(const char *a, const char *b)
{
	size_t row[NAME_MOST + 1], length = strlen(b);

	for (size_t n = 0; n <= length; n++)
		row[n] = n;
	for (size_t i = 1; *a; a++, i++) {
		size_t above_left = row[0];

		row[0] = i;
		for (size_t n = 1; n <= length; n++) {
			size_t above = row[n], least = above_left + (*a != b[n - 1]);

			least = above + 1 < least ? above + 1 : least;
			row[n] = row[n - 1] + 1 < least ? row[n - 1] + 1 : least;
			above_left = above;
		}
	}
	return row[length];
}

const struct daemon_option *daemon_option_nearest(const char *name)
{
	const struct daemon_option *nearest = NULL;
	size_t least = strlen(name) / 3 + 1;

	if (strlen(name) > NAME_MOST)
		return NULL;
	for (const struct daemon_option *option = daemon_option_table; option->name; option++) {
		size_t changes = option->only_command_line ? NAME_MOST : distance(name, option->name);

		if (changes <= least && (!nearest || changes < least)) {
			nearest = option;
			least = changes;
		}
	}
	return nearest;
}
