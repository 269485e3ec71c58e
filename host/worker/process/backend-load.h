/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing and loading a back end. A worker loads one, once, when its guest says hello. */
#ifndef VCUDA_BACKEND_LOAD_H
#define VCUDA_BACKEND_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/share.h"
#include "protocol/backend.h"

struct worker_mappings;

struct worker_backend {
	const struct vcuda_backend_ops *ops;
	/* Software GPU only, else NULL: how many bytes the next image has. */
	void (*count_memory)(
		_Atomic uint64_t *to);           /* from now on its device memory in bytes is there; NULL: it cannot */
	void (*tell_work)(_Atomic uint32_t *to); /* from now on what it runs is there; NULL: it cannot */
	void (*set_image_bound)(size_t bytes);
	/* Software GPU only, else NULL: softgpu/backend-cpu.h. */
	int (*release)(int fd);
	int (*restore)(void);
	/* The cuda back end only, else NULL: host/backend-cuda/ipc.h. */
	bool (*has_shared)(void);
	bool takes_turns; /* queue/turn.h: the VM has a share, and the driver knows no turns */
	/* Both: which workers may be given memory, and be asked for it (common/share.h). */
	void (*share_scope)(bool (*same_guest)(pid_t worker));
	void (*share_keeper)(vcuda_share_exchange *exchange);
	/* Where device memory may lie, at most VCUDA_ADDRESS_RANGES: the guest keeps these addresses free of its own
	 * memory. */
	struct vcuda_address_range ranges[VCUDA_ADDRESS_RANGES];
	unsigned int range_count;
};

/* The folders where our own libraries may be; ends with NULL. Not thread-safe. */
const char *const *worker_backend_folders(void);

/*
 * Loads the back end `which` ("auto", "cuda", "cpu"; auto: cuda if it initialises, else cpu) and initialises it.
 * Returns false, having logged why.
 */
bool worker_backend_load(struct worker_backend *backend, struct worker_mappings *mappings, const char *which);

#endif
