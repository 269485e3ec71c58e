/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's record of live handles (streams, events, modules, libraries, functions, kernels), so that a dead or
 * invented handle is an error at the call. Records are recycled, never freed: an application that destroys an object in
 * one thread while another uses it gets an error, not a crash. Thread-safe.
 */
#ifndef VCUDA_OBJECT_H
#define VCUDA_OBJECT_H

#include <stdint.h>

#include "core/context.h"
#include "protocol/cuda-abi.h"

enum vcuda_object_kind {
	VCUDA_OBJECT_STREAM = 1,
	VCUDA_OBJECT_EVENT = 2,
	VCUDA_OBJECT_MODULE = 4,
	VCUDA_OBJECT_LIBRARY = 8,
	VCUDA_OBJECT_FUNCTION = 16,
	VCUDA_OBJECT_KERNEL = 32,
	VCUDA_OBJECT_POOL = 64,
	VCUDA_OBJECT_GRAPH = 128,
	VCUDA_OBJECT_NODE = 256,
	VCUDA_OBJECT_EXEC = 512,
	VCUDA_OBJECT_USER = 1024,
	VCUDA_OBJECT_ARRAY = 1 << 12,
	VCUDA_OBJECT_MIPMAPPED = 1 << 13,
};

struct vcuda_object {
	uint64_t id;
	enum vcuda_object_kind kind;
	struct vcuda_context
		*context;   /* where it was made; NULL for libraries, kernels and pools, which belong to none */
	uint64_t parent;    /* id of the module or library it was looked up in, 0: none */
	uint64_t number;    /* unique in this process, for cuStreamGetId */
	unsigned int flags; /* as it was made with */
	int priority;
	CUdevice device;               /* of a pool */
	void *data;                    /* what the room of this kind keeps with the record, or NULL */
	void (*release)(void *data);   /* frees `data` with the record; NULL: the room frees it */
	_Atomic uint64_t recorded;     /* of an event: where its last record ends in the ring (completion.h), 0: none */
	uint64_t life;                 /* of an event: its context's (context.h) when it was made */
	bool reused;                   /* of an event: the driver's was another one's before */
	_Atomic uint64_t done;         /* of an event: records in front of this are done */
	CUDA_ARRAY3D_DESCRIPTOR array; /* of an array or mipmapped array */
	unsigned int levels;
	struct vcuda_object *next;
};

/* Records a handle, or returns its record if it is there already. NULL: out of memory. */
struct vcuda_object *vcuda_object_add(enum vcuda_object_kind kind, const void *handle, struct vcuda_context *context,
				      const void *parent);

/* The record of a live handle of one of `kinds`, else NULL. */
struct vcuda_object *vcuda_object_find(unsigned int kinds, const void *handle);

/* Forgets a handle and all that was looked up in it. Returns whether it was there: of several threads one is told so.
 */
bool vcuda_object_drop(const void *handle);
void vcuda_objects_drop_context(struct vcuda_context *context);

#endif
