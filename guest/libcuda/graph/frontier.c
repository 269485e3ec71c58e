/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "graph/capture-state.h"
#include "graph/graph.h"

bool libcuda_frontier_add(struct libcuda_frontier *f, struct libcuda_node *n)
{
	struct libcuda_node **nodes;
	CUgraphNode *handles;

	for (size_t i = 0; i < f->count; i++)
		if (f->nodes[i] == n)
			return true;
	nodes = realloc(f->nodes, (f->count + 1) * sizeof(*nodes));
	if (nodes)
		f->nodes = nodes;
	handles = realloc(f->handles, (f->count + 1) * sizeof(*handles));
	if (handles)
		f->handles = handles;
	if (!nodes || !handles)
		return false;
	f->nodes[f->count] = n;
	f->handles[f->count++] = n->handle;
	return true;
}

bool libcuda_frontier_join(struct libcuda_frontier *f, const struct libcuda_frontier *other)
{
	bool ok = true;

	for (size_t i = 0; i < other->count && ok; i++)
		ok = libcuda_frontier_add(f, other->nodes[i]);
	return ok;
}

void libcuda_frontier_free(struct libcuda_frontier *f)
{
	free(f->nodes);
	free(f->handles);
	*f = (struct libcuda_frontier){0};
}
