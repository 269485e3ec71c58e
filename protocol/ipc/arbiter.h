/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter of a host: a SOCK_SEQPACKET Unix socket between vcuda-arbiter and each vcudad whose VM has a share of the
 * device. A message is one struct vcuda_arbiter_message in either direction. vcudad trusts the arbiter, and the arbiter
 * trusts each vcudad of its user: no message comes from a guest.
 */
#ifndef VCUDA_ARBITER_IPC_H
#define VCUDA_ARBITER_IPC_H

#include <stdint.h>

#define VCUDA_ARBITER_VERSION 1

/* The listening socket in a new vcuda-arbiter. */
#define VCUDA_ARBITER_FD 3

#define VCUDA_SHARE_MOST 1000

enum vcuda_arbiter_type {
	/* From vcudad, first of all: its version and its share. The answer is RUN or HOLD. */
	VCUDA_ARBITER_REGISTER = 1,
	/* From vcudad: its VM has work, or has none any more. A new VM has none. */
	VCUDA_ARBITER_ACTIVE,
	VCUDA_ARBITER_IDLE,
	/* From vcudad: nothing of the VM runs since HOLD, whose `turn` is repeated. */
	VCUDA_ARBITER_DRAINED,
	/* From the arbiter: the VM may run work, until HOLD. */
	VCUDA_ARBITER_RUN,
	/* From the arbiter: no work begins. */
	VCUDA_ARBITER_HOLD,
};

struct vcuda_arbiter_message {
	uint32_t type;
	uint32_t turn;
	uint32_t version, share; /* of REGISTER */
	/*
	 * Of RUN and HOLD: 0: the VMs take no turns. Else how many VMs have work on the device in this turn: this one,
	 * and those whose work of earlier turns has not ended.
	 */
	uint32_t exclusive;
	uint32_t quantum; /* likewise: ms, of the arbiter */
};

#endif
