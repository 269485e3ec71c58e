/* SPDX-License-Identifier: Apache-2.0 */
/* The local transport, for the files *-local.c of this folder. */
#ifndef VCUDA_TRANSPORT_LOCAL_H
#define VCUDA_TRANSPORT_LOCAL_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/un.h>

#include "common/own-descriptor.h"
#include "protocol/ipc/channel.h"
#include "protocol/ipc/process.h"
#include "map-scan.h"
#include "transport.h"

struct client_local {
	struct client_transport base;
	struct vcuda_own_descriptor socket, doorbell;
	struct vcuda_own_descriptor reserve; /* of the socket; given up for a moment where no other number is free */
	pthread_mutex_t reserve_lock;
	pthread_mutex_t lock; /* held for one request and its reply */
	uint64_t cookie;

	pthread_mutex_t mappings_lock; /* of the table of mappings */
	void *mappings;                /* under the lock: a tree of tsearch() */
	unsigned int unfit;            /* under the lock: mappings with which the process cannot be detached */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* of vcudad's socket; empty: it is looked for again */
	uint32_t worker;                                        /* the worker's process number on the host */

	/* The restore thread's. */
	struct vcuda_own_descriptor dialog; /* with vcudad */
	uint8_t token[VCUDA_TOKEN_BYTES];   /* of a detached session */
	bool detached;
	bool area_is_own;                 /* the shared area is the process's own memory */
	struct vcuda_own_descriptor file; /* the file behind the memory, while `area_is_own` */
	uint64_t own_bytes;               /* bytes of `file` that are in use */
	struct client_file_id own;        /* the same file, which has no descriptor any more */
};

/* One request, with the descriptor `sent` unless that is -1, and its reply, whose descriptors go to fds[wanted]. */
int client_local_exchange(struct client_local *t, struct vcuda_channel_message *m, int sent, int *fds,
			  unsigned int wanted);

/* Without one all goes on: the process has no more. */
void client_local_make_reserve(struct client_local *t);

/* As struct client_detaching has it. */
bool client_local_detaches(void);

/*
 * The restore thread's dialog with vcudad, which client_local_end_dialog() ends. -EIO: there is none, or it is broken;
 * that says nothing about the session. client_local_ask(): 0 or what vcudad says.
 */
int client_local_open_dialog(struct client_local *t);
int client_local_ask(struct client_local *t, uint32_t action, struct vcuda_restore_reply *reply);
void client_local_end_dialog(struct client_local *t);

/* As struct client_detaching has them. */
int client_local_look(struct client_transport *t, uint32_t *state);
int client_local_tell(struct client_transport *t, bool quiet, bool stays);

extern const struct client_detaching client_local_detaching;

#endif
