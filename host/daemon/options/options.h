/* SPDX-License-Identifier: Apache-2.0 */
/* The options of vcudad as a struct: from the command line, or from a configuration file. */
#ifndef VCUDA_OPTIONS_H
#define VCUDA_OPTIONS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DAEMON_NAME_BYTES 64

struct daemon_worker_user {
	bool set;
	uid_t uid;
	gid_t gid;
};

struct daemon_options {
	const char *vhost_socket, *socket; /* NULL: not wanted */
	const char *control;               /* path of the control socket; NULL: the default, "none": not wanted */
	char name[DAEMON_NAME_BYTES];      /* of the VM: letters, digits, "-", "_" and "." */
	const char *backend;
	const char *sandbox;            /* of workers: "strict", "best-effort", "log", "off" */
	char *worker;                   /* an executable file */
	const char *worker_user;        /* "auto", "none", or the name of `user` */
	struct daemon_worker_user user; /* of workers; not set: vcudad's */
	char *reader;                   /* the program vcuda-gpu-use; NULL: there is none */
	char *keeper;                   /* the program vcuda-keeper; NULL: there is none */
	char *checkpoint;               /* the program vcuda-checkpoint; NULL: there is none */
	const char *swap_directory;     /* folder for released device memory of the software GPU */
	uint64_t max_contexts, max_pinned, max_host_memory;
	uint64_t max_device_memory, max_process_device_memory; /* of each GPU */
	uint64_t max_streams, max_handles, max_queued, max_queued_commands,
		max_module_bytes;                      /* of each guest process */
	uint64_t max_compile_time, max_compile_memory; /* seconds and bytes, of each kernel */
	uint64_t max_kernel_time;                      /* seconds */
	uint64_t max_exports;                          /* of each guest, and as many descriptors of them */
	unsigned int share;     /* of the device's time, beside the shares of other VMs; 0: whenever there is work */
	unsigned int quantum;   /* ms, of the arbiter that this vcudad starts */
	bool share_strict;      /* without an arbiter work waits */
	bool share_one_process; /* in a turn one process of the VM uses the device */
	const char *arbiter;    /* the path of the arbiter's socket; NULL: the default */
	char *arbiter_program;  /* vcuda-arbiter; NULL: there is none */
	uint64_t overcommit;    /* bytes of the device that the VMs with this option share; 0: it is not shared so */
	uint64_t min_device_memory;  /* bytes of these that no other VM grows into */
	unsigned int warm;           /* workers in advance */
	int warm_device;             /* the device of their contexts, -1: none */
	const char *cpus_list;       /* `cpus` as it was given; NULL: it was not */
	cpu_set_t cpus;              /* processors of the workers; empty: all that vcudad may use */
	unsigned int exit_when_idle; /* seconds, 0: never */
	unsigned int client_timeout; /* seconds until a local client that sends nothing is dropped */
	unsigned int keep_detached;  /* seconds that the session of a checkpointed process outlives the process */
	mode_t socket_mode;
	const char *cache; /* the folder of a VM's compiled code, "shared": the user's; NULL: by the socket */
	int ready_fd;      /* -1: none */
	bool allow_any_user, no_guest_checkpoint, once, warm_once, register_ram, nvml_host_figures, verbose;
	bool mapper; /* a VM's workers have one */
};

/* Sets the default of each option. */
void daemon_options_default(struct daemon_options *options);

/* Whether a VM may have that name. */
bool daemon_is_name(const char *name);

/*
 * Whether the options fit together, whatever the machine is. False: `reason` begins with the name of one of them and a
 * colon.
 */
bool daemon_options_agree(const struct daemon_options *options, char *reason, size_t size);

/* Whether vcudad itself may run on all processors of `cpus`. */
bool daemon_options_may_run(const struct daemon_options *options);

/*
 * False: the back end is cuda, and this machine has now neither NVIDIA's driver nor, as a guest that lends its device
 * on, the device or socket of another vcudad.
 */
bool daemon_options_has_driver(const struct daemon_options *options);

/*
 * Exits with a message where the command line or a configuration file is wrong, and after --help, --version,
 * --check-config and --print-config. Strings of `options` live as long as the process. Not thread-safe.
 */
void daemon_options_parse(struct daemon_options *options, int argc, char **argv);

#endif
