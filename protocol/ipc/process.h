/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of another local process (cuCheckpointProcess*() over vcudad's socket).
 *
 * A client that has bound its SOCK_SEQPACKET socket to an abstract name that begins with VCUDA_PROCESS_NAME talks to
 * vcudad itself, and gets no worker. Each request gets one reply at once, and the client asks for the state until a
 * step has ended (protocol/control.h: enum vcuda_process_action). A client may act on processes of its own user and
 * pid namespace, and root on all of its pid namespace.
 */
#ifndef VCUDA_PROCESS_IPC_H
#define VCUDA_PROCESS_IPC_H

#include <stdint.h>

/* Behind the zero byte. Random bytes follow: the name is the client's own. */
#define VCUDA_PROCESS_NAME "vcuda-process/"

struct vcuda_process_request {
	uint32_t action;       /* enum vcuda_process_action */
	uint32_t milliseconds; /* that running work may take, <= VCUDA_PROCESS_MS_MAX */
	uint32_t pid;          /* as the client's pid namespace numbers it */
	uint32_t reserved;
};

struct vcuda_process_reply {
	int32_t status;   /* 0 or -errno: ESRCH (the process has no worker here), EPERM, EBADFD, EINVAL, EOPNOTSUPP */
	uint32_t state;   /* enum vcuda_process_state, perhaps with VCUDA_PROCESS_STEP */
	uint32_t failure; /* errno of the last step, 0: none */
	uint32_t reserved;
};

#endif
