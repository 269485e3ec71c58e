/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of a graph may belong to another context than the stream that the graph is launched in. Then it goes by a
 * stream of its own context, and events keep it between what is before and behind it.
 */
#ifndef VCUDA_DETOUR_H
#define VCUDA_DETOUR_H

#include "core/context.h"

/* Work in `then`, of `to`, comes after what is in `first`, of `from`; both streams are resolved. */
CUresult vcuda_streams_order(CUstream first, struct vcuda_context *from, CUstream then, struct vcuda_context *to);

struct vcuda_detour {
	struct vcuda_context *home, *here, *before;
	CUstream stream, from;
};

/*
 * From `resolved`, a stream of the context that calls are made in, to the node's: `detour->stream`. Calls are made in
 * `home` up to end(), which takes their result and is called if this one succeeds.
 */
CUresult vcuda_detour_begin(struct vcuda_detour *detour, CUstream resolved, struct vcuda_context *home);
CUresult vcuda_detour_end(struct vcuda_detour *detour, CUresult result);

#endif
