/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that lower instructions, one a family. */
#ifndef VCUDA_BACKEND_CPU_PTX_EMIT_H
#define VCUDA_BACKEND_CPU_PTX_EMIT_H

#include "front/ptx-opcodes.h"

struct lower;

/* Emits code for the instruction. False: this combination of types and words is not supported. */
typedef bool (*ptx_emitter)(struct lower *l, const struct ptx_instr *i);

#define X(id, name) bool emit_##name(struct lower *l, const struct ptx_instr *i);
PTX_FAMILIES(X)
#undef X

/* By enum ptx_family. */
extern const ptx_emitter ptx_emitters[PTX_FAMILY_COUNT];

#endif
