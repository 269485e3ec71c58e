/* SPDX-License-Identifier: Apache-2.0 */
#include "lower/ptx-emit.h"

const ptx_emitter ptx_emitters[PTX_FAMILY_COUNT] = {
#define X(id, name) [PTX_FAMILY_##id] = emit_##name,
	PTX_FAMILIES(X)
#undef X
};
