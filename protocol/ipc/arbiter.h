/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter of a host: a SOCK_SEQPACKET Unix socket between vcuda-arbiter and each vcudad whose VM has a share of the
 * device's time, or takes part in the overcommit of its memory, or both. A message is one struct vcuda_arbiter_message
 * in either direction. vcudad trusts the arbiter, and the arbiter trusts each vcudad of its user: no message comes from
 * a guest.
 */
#ifndef VCUDA_ARBITER_IPC_H
#define VCUDA_ARBITER_IPC_H

#include <stdint.h>

#define VCUDA_ARBITER_VERSION 3

/* Number of the descriptor of the listening socket in a new vcuda-arbiter. */
#define VCUDA_ARBITER_FD 3

#define VCUDA_SHARE_MOST 1000

enum vcuda_arbiter_type {
	/*
	 * From vcudad, first of all: its version, its share (0: none), and its part of the overcommit (capacity 0:
	 * none): `capacity`, `minimum`, `bytes` that it has, and whether it is `out`. The answer is RUN or HOLD where
	 * it has a share, and CAPACITY or NO_ROOM where it has a part of the overcommit.
	 */
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

	/* The overcommit (host/arbiter/memory.h). From the arbiter, after REGISTER: the `capacity` that counts. */
	VCUDA_ARBITER_CAPACITY,
	/* From the arbiter, after REGISTER: with this VM the minimums would exceed `capacity`. The socket ends. */
	VCUDA_ARBITER_NO_ROOM,
	/* From vcudad: the VM has used the device lately, or has not any more. */
	VCUDA_ARBITER_BUSY,
	VCUDA_ARBITER_RESTS,
	/*
	 * From vcudad: the VM needs `bytes` altogether, and would take `spare` more. It comes in with them if it is
	 * out. Replaces an earlier WANT. The answer is GRANT, or REFUSE with the same `bytes`. With 0 `bytes` the VM
	 * wants nothing any more; the answer is REFUSE, perhaps after a GRANT of before.
	 */
	VCUDA_ARBITER_WANT,
	/* From vcudad, without a WANT under way: the VM needs no more than `bytes`. */
	VCUDA_ARBITER_HAVE,
	/*
	 * From vcudad: the VM is out, or in; it took `ms`. OUT has the `bytes` that the VM has elsewhere, and is said
	 * again if these have become more. OUT is also said without GO_OUT, and IN without GRANT: by a VM without
	 * memory, and by one of which a part is in against its will.
	 */
	VCUDA_ARBITER_OUT,
	VCUDA_ARBITER_IN,
	/* From vcudad: the VM cannot go out, and is in. */
	VCUDA_ARBITER_STAYS,
	/* From the arbiter: the VM has `bytes` altogether. This and the next two have `capacity` and `wait`. */
	VCUDA_ARBITER_GRANT,
	VCUDA_ARBITER_REFUSE,
	/* From the arbiter: the VM must go out. The answer is OUT or STAYS. */
	VCUDA_ARBITER_GO_OUT,
};

struct vcuda_arbiter_message {
	uint32_t type;
	uint32_t turn;
	uint32_t version; /* of REGISTER */
	uint32_t share;   /* of REGISTER; of RUN and HOLD: of all other VMs with work together, 0: there are none */
	/*
	 * RUN and HOLD: how many VMs have work on the device in this turn, which are this one and those whose work of
	 * earlier turns has not ended. 0: the VMs take no turns.
	 */
	uint32_t exclusive;
	uint32_t quantum; /* likewise: ms, of the arbiter */
	uint32_t out;     /* not 0, of REGISTER: the VM's memory is not on the device; of GRANT: it comes in */
	uint32_t ms;      /* of OUT and IN */
	uint64_t bytes, spare;
	uint64_t capacity, minimum;
	uint64_t wait; /* ms, the longest wait of a VM that is out, as far as the arbiter knows */
};

#endif
