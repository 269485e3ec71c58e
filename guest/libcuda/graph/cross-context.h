/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of a graph may belong to another context than the stream that the graph is launched in. Then it goes by a
 * stream of its own context, and events keep it between what is before and behind it.
 */
#ifndef VCUDA_CROSS_CONTEXT_H
#define VCUDA_CROSS_CONTEXT_H

#include "core/context.h"

/* Work in `then`, of `to`, comes after what is in `first`, of `from`; both streams are resolved. */
CUresult libcuda_streams_order(CUstream first, struct libcuda_context *from, CUstream then, struct libcuda_context *to);

struct libcuda_cross_context {
	struct libcuda_context *home, *here;
	CUstream stream, from;
};

/*
 * From `resolved`, a stream of `here`, to a stream of the node's context: `detour->stream`. end() takes the result of
 * the calls in between, and is called if begin() succeeds.
 */
CUresult libcuda_cross_context_begin(struct libcuda_cross_context *cross, struct libcuda_context *here,
				     CUstream resolved, struct libcuda_context *home);
CUresult libcuda_cross_context_end(struct libcuda_cross_context *cross, CUresult result);

#endif
