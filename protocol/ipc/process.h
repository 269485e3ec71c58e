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
	uint32_t milliseconds; /* limit for running work to end, <= VCUDA_PROCESS_MS_MAX */
	uint32_t pid;          /* as the client's pid namespace numbers it */
	uint32_t reserved;
};

struct vcuda_process_reply {
	int32_t status;   /* 0 or -errno: ESRCH (the process has no worker here), EPERM, EBADFD, EINVAL, EOPNOTSUPP */
	uint32_t state;   /* enum vcuda_process_state, perhaps with VCUDA_PROCESS_STEP */
	uint32_t failure; /* errno of the last step, 0: none */
	uint32_t flags;   /* VCUDA_PROCESS_QUIET, ... of any worker of the process; 0: an older vcudad */
};

/* The process has said that its threads touch nothing that the worker shares. */
#define VCUDA_PROCESS_QUIET 1u
/* The process cannot become quiet, or stays attached while it is checkpointed. */
#define VCUDA_PROCESS_STAYS 2u
/* The worker lives on without its process's connection. */
#define VCUDA_PROCESS_DETACHED 4u
/* The worker has its process's connection again, and the process has not said that it is quiet since. */
#define VCUDA_PROCESS_RETURNS 8u
/* vcudad knows these flags. */
#define VCUDA_PROCESS_KNOWN 16u
/* The process has its own memory in the place of some that the worker shares, or is about to. */
#define VCUDA_PROCESS_COPIES 32u
/* The process has said something of itself: it has a thread for that (guest/client/restore.h). */
#define VCUDA_PROCESS_HAS_THREAD 64u

/* With any of these flags the worker must run no work, and vcudad refuses VCUDA_PROCESS_UNLOCK with EBADFD. */
#define VCUDA_PROCESS_APART (VCUDA_PROCESS_DETACHED | VCUDA_PROCESS_RETURNS | VCUDA_PROCESS_COPIES)

/*
 * A process's messages about itself, in a request of its own size, whose reply has its own size too.
 *
 * A detached session belongs to the holder of the token. vcudad makes the token of random bytes for one detaching, and
 * accepts it only from the user of the process: from the process itself while that lives, and then from the first
 * process that claims the session. The session is that process's from then on. A claim with another token closes the
 * connection.
 */
enum vcuda_restore_action {
	VCUDA_RESTORE_LOOK = 0x100, /* asks for the state */
	VCUDA_RESTORE_QUIET,        /* sets the flags: QUIET alone */
	VCUDA_RESTORE_BUSY,         /* STAYS alone */
	VCUDA_RESTORE_STAYS,        /* both. A token that was given is void, and the session is not detached */
	VCUDA_RESTORE_GOES_ON,      /* none */
	/*
	 * The reply to a checkpointed process has the token, and the worker outlives its channel once it answers
	 * VCUDA_CHANNEL_DETACH so. The session is detached when this connection ends. EAGAIN: the process is not
	 * checkpointed now, or another connection of its own has the token.
	 */
	VCUDA_RESTORE_DETACH,
	VCUDA_RESTORE_CLAIM, /* with the token: as LOOK. ENOENT: there is no such session */
	/*
	 * With the token, after CLAIM, of a process that is not checkpointed any more: behind the reply the connection
	 * is the worker's channel, and the token is void. EAGAIN: not now.
	 */
	VCUDA_RESTORE_ATTACH,
	/* Before DETACH: QUIET and COPIES. EAGAIN as DETACH. */
	VCUDA_RESTORE_COPIES,
};

/* The name of the thread that has the token. */
#define VCUDA_RESTORE_THREAD "cuda-restore"

#define VCUDA_TOKEN_BYTES 16

struct vcuda_restore_request {
	struct {
		uint32_t action; /* enum vcuda_restore_action */
		uint32_t reserved;
		uint32_t pid;    /* as the process numbers itself */
		uint32_t worker; /* of the session, as ATTACH's reply numbers it (channel.h) */
	} head;
	uint8_t token[VCUDA_TOKEN_BYTES]; /* of CLAIM and ATTACH */
};

struct vcuda_restore_reply {
	struct vcuda_process_reply head;
	uint8_t token[VCUDA_TOKEN_BYTES]; /* of DETACH */
};

#endif
