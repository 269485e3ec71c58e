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

enum libcuda_object_kind {
	LIBCUDA_OBJECT_STREAM = 1,
	LIBCUDA_OBJECT_EVENT = 2,
	LIBCUDA_OBJECT_MODULE = 4,
	LIBCUDA_OBJECT_LIBRARY = 8,
	LIBCUDA_OBJECT_FUNCTION = 16,
	LIBCUDA_OBJECT_KERNEL = 32,
	LIBCUDA_OBJECT_POOL = 64,
	LIBCUDA_OBJECT_GRAPH = 128,
	LIBCUDA_OBJECT_NODE = 256,
	LIBCUDA_OBJECT_EXEC = 512,
	LIBCUDA_OBJECT_USER = 1024,
	LIBCUDA_OBJECT_ARRAY = 1 << 12,
	LIBCUDA_OBJECT_MIPMAPPED = 1 << 13,
};

struct libcuda_object {
	uint64_t id;
	enum libcuda_object_kind kind;
	struct libcuda_context
		*context;   /* context of the creation; NULL for libraries, kernels and pools, which belong to none */
	uint64_t parent;    /* id of the module or library it was looked up in, 0: none */
	uint64_t number;    /* of a stream or event: unique in this process, for cuStreamGetId and tools. Else 0 */
	unsigned int flags; /* the flags of its creation */
	int priority;
	CUdevice device;             /* of a pool */
	void *data;                  /* data of the folder with this kind of object, or NULL */
	void (*release)(void *data); /* frees `data` with the record; NULL: the room frees it */
	_Atomic uint64_t recorded;   /* of an event: where its last record ends in the ring (completion.h), 0: none */
	uint64_t generation;         /* of an event: its context's (context.h) when it was made */
	bool reused;                 /* of an event: the driver's was another one's before */
	_Atomic uint64_t last_completed; /* of an event: records in front of this are done */
	CUDA_ARRAY3D_DESCRIPTOR array;   /* of an array or mipmapped array */
	unsigned int levels;
	struct libcuda_object *next;
};

/* Numbers for `count` streams, which count up from 6 as natively (driver 580). Returns the first one. */
uint64_t libcuda_stream_numbers_take(uint64_t count);

/* Records a handle, or returns its record if it is there already. NULL: out of memory. */
struct libcuda_object *libcuda_object_add(enum libcuda_object_kind kind, const void *handle,
					  struct libcuda_context *context, const void *parent);

/* The record of a live handle of one of `kinds`, else NULL. */
struct libcuda_object *libcuda_object_find(unsigned int kinds, const void *handle);

/* Forgets a handle and all that was looked up in it. Returns whether it was there: of several threads one is told so.
 */
bool libcuda_object_drop(const void *handle);
void libcuda_objects_drop_context(struct libcuda_context *context);

#endif
