/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_OPTIONS_H
#define VCUDA_OPTIONS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct daemon_options {
	const char *vhost_socket, *socket; /* NULL: not wanted */
	const char *backend;
	char *worker; /* an executable file */
	unsigned int max_contexts;
	uint64_t max_pinned;
	uint64_t max_device_memory, max_process_device_memory; /* of each GPU */
	uint64_t max_streams, max_handles, max_queued_commands, max_queued,
		max_module_bytes;    /* of each guest process */
	unsigned int warm;           /* workers in advance */
	int warm_device;             /* whose context they have, -1: none */
	cpu_set_t cpus;              /* that workers run on; none: on all that vcudad may */
	unsigned int exit_when_idle; /* seconds, 0: never */
	mode_t socket_mode;
	int ready_fd; /* -1: none */
	bool allow_any_user, once, warm_once, register_ram, verbose;
};

/* Exits with a message where the command line is wrong, or with 0 after --help and --version. */
void daemon_options_parse(struct daemon_options *options, int argc, char **argv);

#endif
