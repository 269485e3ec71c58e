/* SPDX-License-Identifier: Apache-2.0 */
/* The daemons of this user, and what each of them serves, through their control sockets (host/daemon/control.h). */
#ifndef VCUDA_CLI_CONTROL_H
#define VCUDA_CLI_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_QUOTAS_MAX 32

struct control_quota {
	char name[32];
	bool is_size; /* in bytes */
	uint64_t used, limit, refused;
};

/* A guest process: of a VM, or a local program. */
struct control_process {
	char kind[8], state[16];
	char pause_failure[16];        /* why the last pause was given up; "": it was not */
	unsigned int pid, uid, worker; /* worker: a process of this host, 0: none */
	uint64_t age;                  /* seconds */
	uint64_t mappings, pinned;     /* 0 over the local socket */
	uint64_t queue;                /* bytes of commands that the worker has not taken; UINT64_MAX: not known */
	uint64_t device_memory;        /* as the worker says, 0 where its back end does not count it */
	uint64_t worker_memory;        /* bytes of RAM of the worker, 0: not known */
	uint64_t log_dropped;          /* bytes */
};

/* Exported memory of a guest on one GPU that only descriptors hold. */
struct control_exports {
	char kind[8]; /* "vm" or "local" */
	unsigned int uid, gpu;
	uint64_t count, memory; /* allocations and pools; bytes */
};

struct control_daemon {
	char path[108]; /* path of the daemon's control socket */
	char name[64], version[32], vm[16];
	char vhost_socket[128], local_socket[128]; /* "": none */
	unsigned int pid;
	unsigned int share;                /* of the device's time; 0: none */
	char turns[8];                     /* with a share: "lost", "open", "own" or "other" */
	uint64_t turns_wanted, turns_had;  /* us: with work while VMs took turns; and with the device meanwhile */
	uint64_t overcommit;               /* bytes that all VMs have together; 0: no overcommit */
	uint64_t min_device_memory;        /* with overcommit, bytes */
	char memory_state[16];             /* with overcommit: "in", "going-out", "out" or "coming-in" */
	uint64_t memory_granted;           /* bytes, when it is in */
	uint64_t memory_wait, memory_outs; /* ms at the longest; how often it went out */
	uint64_t uptime;                   /* seconds */
	struct control_quota quotas[CONTROL_QUOTAS_MAX];
	unsigned int quota_count;
	struct control_process *processes;
	unsigned int process_count;
	struct control_exports *exports;
	unsigned int exports_count;
};

struct control_daemons {
	struct control_daemon *daemons; /* by process id */
	unsigned int count;
};

/*
 * All daemons of this user; with `path` the one of that control socket. Removes sockets of daemons that are gone, and
 * says so. False with a message: a daemon does not answer, or there is no memory. control_free() in either case.
 */
bool control_find(struct control_daemons *found, const char *path);
void control_free(struct control_daemons *found);

/* The daemon of that name or process id. NULL with a message. */
const struct control_daemon *control_choose(const struct control_daemons *found, const char *name);

/*
 * Sends a request, without newline, and returns the answer behind its first line, for the caller to free. NULL with a
 * message: the daemon does not answer, or refuses.
 */
char *control_request(const char *path, const char *request);

/* control-text.c: reads the answer to "status". False: no memory. */
bool control_parse(struct control_daemon *daemon, char *text);

/* control-show.c: on standard output, as a table or as one line of JSON; `detailed`: with the processes. */
void control_print_table(const struct control_daemons *found, bool detailed);
void control_print_json(const struct control_daemons *found);

/* The same of what descriptors alone hold, of one daemon. */
void control_print_exports(const struct control_daemon *daemon, bool json);

#endif
