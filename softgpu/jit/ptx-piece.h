/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A version of a kernel as one piece of memory: what running needs to know, the memory instructions, the machine code.
 * The same piece comes from the compiler, from another process and from the cache.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_PIECE_H
#define VCUDA_BACKEND_CPU_PTX_PIECE_H

#include "jit/ptx-compile.h"

struct ptx_piece {
	uint64_t stack, object_bytes;
	uint32_t plain_bytes, site_count, offset_count, instructions;
	uint32_t made_us; /* processor time that compiling it took */
};

size_t ptx_piece_size(const struct ptx_piece *piece);

/* Whether `size` bytes are a piece of this version: for what another process or the cache gave. */
bool ptx_piece_is_good(const struct ptx_piece *piece, size_t size, bool masked);

/* For free(); NULL: there is no memory. */
struct ptx_piece *ptx_piece_pack(const struct ptx_plan *plan, struct ptx_version version, LLVMMemoryBufferRef object,
				 uint64_t stack);

/* Fills in what a piece says about all versions. False: there is no memory, or the piece makes no sense. */
bool ptx_piece_describe(const struct ptx_piece *piece, struct ptx_binary *binary);

/* The object file, `object_bytes` long. */
const void *ptx_piece_object(const struct ptx_piece *piece);

#endif
