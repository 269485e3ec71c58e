/* SPDX-License-Identifier: Apache-2.0 */
/* For instructions that give the runtime lists of addresses and numbers: ptx-lower-async.c. */
#ifndef VCUDA_BACKEND_CPU_PTX_LOWER_ASYNC_H
#define VCUDA_BACKEND_CPU_PTX_LOWER_ASYNC_H

#include "lower/ptx-lower.h"

/* A list of 64 bits for each lane, of the four that a buffer (l->mem.addresses, l->mem.data) has room for. */
LLVMValueRef async_list(struct lower *l, LLVMValueRef buffer, unsigned n);
/* Stores there; returns the list. */
LLVMValueRef async_put(struct lower *l, LLVMValueRef value, LLVMValueRef list);
/* Where [o] points to, in its own space, for all lanes. */
LLVMValueRef async_address(struct lower *l, const struct ptx_operand *o);
/* In 64 bits, for all lanes. */
LLVMValueRef async_number(struct lower *l, const struct ptx_operand *o, unsigned type);
LLVMValueRef async_active(struct lower *l); /* the lanes that are there */
/* The lanes whose mask of blocks names this block, the only one of its cluster. */
LLVMValueRef async_addressed(struct lower *l, const struct ptx_operand *blocks);

#endif
