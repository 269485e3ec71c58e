/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of a graph may belong to another context than the stream that the graph is launched in. Then it goes by a
 * stream of its own context, and events keep it between what is before and behind it.
 */
#ifndef VCUDA_CROSS_CONTEXT_H
#define VCUDA_CROSS_CONTEXT_H

#include "core/context.h"

/* Work in `then`, of `to`, comes after what is in `first`, of `from`; both streams are resolved. */
CUresult vcuda_streams_order(CUstream first, struct vcuda_context *from, CUstream then, struct vcuda_context *to);

struct vcuda_detour {
	struct vcuda_context *home, *here;
	CUstream stream, from;
};

/*
 * From `resolved`, a stream of `here`, to a stream of the node's context: `detour->stream`. end() takes the result of
 * the calls in between, and is called if begin() succeeds.
 */
CUresult vcuda_detour_begin(struct vcuda_detour *detour, struct vcuda_context *here, CUstream resolved,
			    struct vcuda_context *home);
CUresult vcuda_detour_end(struct vcuda_detour *detour, CUresult result);

#endif
