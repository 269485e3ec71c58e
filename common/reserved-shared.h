/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory that a GPU reserves in each block, which PTX names %reserved_smem_offset_*. The translation of machine
 * code and the compiler agree on its layout. No state.
 */
#ifndef VCUDA_RESERVED_SHARED_H
#define VCUDA_RESERVED_SHARED_H

/* The memory, and the offset in it that %reserved_smem_offset_1 names. In bytes. */
#define VCUDA_RESERVED_BYTES 1024u
#define VCUDA_RESERVED_OFFSET_1 512u

/* The shared variable that makes room for the memory in PTX that is made of machine code. */
#define VCUDA_RESERVED_VARIABLE "$vcuda_reserved"

#endif
