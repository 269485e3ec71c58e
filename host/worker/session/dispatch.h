/* SPDX-License-Identifier: Apache-2.0 */
/* From a command's number to its handler: the generated table, and what the generated code calls. */
#ifndef VCUDA_DISPATCH_H
#define VCUDA_DISPATCH_H

#include "protocol/calls.h"

struct worker_session;

typedef CUresult (*worker_run_call)(struct worker_session *s, struct vcuda_reader *r, struct vcuda_arena *arena,
				    struct vcuda_writer *w);

typedef CUresult (*worker_destroy_object)(struct worker_session *s, void *object);

/* By number; NULL: no such call. Each decodes the arguments, resolves handles, runs the handler and encodes the reply.
 */
extern const worker_run_call worker_dispatch_table[VCUDA_OP_LIMIT];

#define WORKER_ACCEPT(kind) (1u << (kind))

/* Arguments that do not decode: logs once and ends the session. Returns CUDA_ERROR_INVALID_VALUE. */
CUresult worker_malformed(struct worker_session *s);

/* A call the back end does not have: logs its name once. Returns CUDA_ERROR_NOT_SUPPORTED. */
CUresult worker_unsupported(struct worker_session *s, unsigned int op);

/*
 * Replaces the id in *handle by the back end's object, if it names a live object of an accepted kind (bits
 * WORKER_ACCEPT); ids below `specials` stay as they are. The command uses the object until its end. Else
 * CUDA_ERROR_INVALID_HANDLE (CUDA_ERROR_INVALID_CONTEXT for contexts).
 */
CUresult worker_resolve(struct worker_session *s, uint32_t kinds, uint64_t specials, void **handle);

/* The error of an id that names no live object of these kinds. */
CUresult worker_names_nothing(uint32_t kinds);

/* Before an object is made: whether the guest may have one more. Each of the worker's threads may make one of the last.
 */
bool worker_room(struct worker_session *s, enum vcuda_kind kind);

/*
 * Replaces a back-end object in *handle by a new id, or by its present id where the kind is `shared` and it has one.
 * The id dies with `parent` (an id, 0: none: what it was looked up in) and with the context that is current.
 */
CUresult worker_publish(struct worker_session *s, enum vcuda_kind kind, bool shared, uint64_t parent, void **handle);

/*
 * For a call that destroys: `handle` is an id. From now on the id resolves no more. If commands use the object, or one
 * that dies with it, the answer is CUDA_SUCCESS, and `destroy` runs when they have ended; else
 * `destroy` runs now, and where its result is an error the object lives on. Errors are those of worker_resolve().
 */
CUresult worker_destroy(struct worker_session *s, uint32_t kinds, void *handle, worker_destroy_object destroy);

/*
 * CUDA_SUCCESS if one mapping of the session has all of [p, p + bytes), and is writable with `writable`; else
 * CUDA_ERROR_INVALID_VALUE.
 */
CUresult worker_mapping_check(struct worker_session *s, const void *p, uint64_t bytes, bool writable);

#endif
