/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: only the operator of the host asks what vcudad serves, ends guest processes and changes quotas.
 * `vcuda vm` and `vcuda top` are its clients.
 *
 * A stream socket of mode 0600 whose peer must be vcudad's user or root. A connection has one request, one line of at
 * most DAEMON_CONTROL_REQUEST bytes with its newline; vcudad answers and closes. Requests:
 *
 *   status                 what vcudad serves
 *   kill PID|all [REASON]  ends the worker of a guest process, or all workers
 *   set QUOTA VALUE        changes a quota (quotas.h); VALUE as on the command line
 *   pause PID|all [MS]     pauses a guest process, or all and those that start later (worker/gate.h); answers at once
 *   resume PID|all         ends the pause
 *   free vm|UID|all [REASON]  has keepers free what only descriptors hold (keeper/keeper.h): of the VM, of a local
 *                          user, or of all
 *
 * The answer is text. Its first line is "ok", or "error " and a sentence. The lines of a status are "KEY VALUE", with
 * the value up to the end of the line, or "quota", "process" or "exports" with words NAME=VALUE behind it:
 *
 *   name NAME              pid PID    version VERSION    uptime SECONDS
 *   vhost-socket PATH      local-socket PATH      each only if there is one
 *   vm connected|absent    only with a vhost socket
 *   waiting N              only with a local socket: connections of users who connect too often
 *   share N                turns lost|open|own|other      only with --share, as the next is
 *   turns-wanted US        turns-had US      how long the VM had work while VMs took turns, and the device meanwhile
 *   overcommit BYTES       min-device-memory BYTES        only with --overcommit, as the next four are: the first is
 *                          the capacity that counts
 *   memory-state in|going-out|out|coming-in               whether the VM's memory is on the device
 *   memory-granted BYTES   of the capacity, when it is in
 *   memory-wait MS         how long it waits at the longest when it is out
 *   memory-times-out N     how often it went out
 *   quota name=NAME unit=bytes|count used=N limit=N refused=N
 *   process kind=vm|local pid=PID uid=UID worker=PID state=starting|running|pausing|paused|ending|lost age=SECONDS
 *           mappings=N pinned=BYTES queue=BYTES device-memory=BYTES log-dropped=BYTES
 *           pause-failure=command|device|memory|worker
 *   exports kind=vm|local uid=UID gpu=N count=N memory=BYTES    uid only of a local user: allocations and pools whose
 *           processes have ended, and that descriptors hold
 *
 * New keys and words may come; clients ignore what they do not know. device-memory is what vcudad's ledger has granted
 * to the worker, of all GPUs together: up to 32 MiB of each GPU more than the worker uses. used= is what vcudad knows:
 * of max-host-memory what the kernel charges to the workers, the part of the VM's RAM that they touched first included;
 * of max-device-memory the grants of the GPU of which most is granted, of max-process-device-memory the most that one
 * guest process has of one GPU. Quotas that workers count by themselves, and max-host-memory without a group to limit,
 * have no used=. queue is what the guest says of commands that the worker has not taken; mappings, pinned and queue are
 * of VMs.
 *
 * The state is "going-out" and "out" where other VMs need the device's memory. It is "pausing" until a pause is
 * complete, and then "paused". pause-failure says, until the next pause, why the last one was given up: a command, or
 * work of the device, did not end in time; the worker had no memory, or did not answer.
 *
 * A client that is slow costs vcudad a descriptor and no time: it is dropped after DAEMON_CONTROL_MS.
 */
#ifndef VCUDA_DAEMON_CONTROL_H
#define VCUDA_DAEMON_CONTROL_H

#include <stdbool.h>
#include <stdio.h>

#include "common/list.h"
#include "listener.h"
#include "local.h"
#include "options/options.h"
#include "vhost.h"

#define DAEMON_CONTROL_REQUEST 512
#define DAEMON_CONTROL_CONNECTIONS 16
#define DAEMON_CONTROL_MS 10000

struct daemon_control {
	struct daemon_loop *loop;
	struct daemon_options *options;
	struct daemon_vhost *vhost;
	struct daemon_local *local;
	struct daemon_listener listener;
	struct vcuda_list connections;
	unsigned int count;
	uint64_t started;
	char path[128]; /* of the default socket */
};

/*
 * Listens on options->control. 0 or -errno, having said why. Without that option vcudad goes on where the default
 * socket cannot be made.
 */
int daemon_control_open(struct daemon_control *control, struct daemon_loop *loop, struct daemon_options *options,
			struct daemon_vhost *vhost, struct daemon_local *local);
void daemon_control_close(struct daemon_control *control);

/* control-request.c: does what `line`, which it changes, asks for in the name of host user `user`, and writes the
 * answer. */
void daemon_control_handle(struct daemon_control *control, char *line, unsigned int user, FILE *answer);

/* control-status.c */
void daemon_control_status(struct daemon_control *control, FILE *answer);

#endif
