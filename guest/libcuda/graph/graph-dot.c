/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as a text that Graphviz draws: a box for each node, a cluster for each child graph. */
#include <stdio.h>

#include "core/request.h"
#include "launch/computation.h"
#include "module/function.h"
#include "graph/graph.h"
#include "protocol/cuda-functions.h"

#define ALL_FLAGS 0xffffu

static const char *const names[] = {
	[CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
	[CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
	[CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
	[CU_GRAPH_NODE_TYPE_HOST] = "HOST",
	[CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
	[CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
	[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "EVENT_WAIT",
	[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
	[CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
	[CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
	[CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "BATCH_MEM_OP",
	[CU_GRAPH_NODE_TYPE_CONDITIONAL] = "CONDITIONAL",
	[LIBCUDA_NODE_COMPUTATION] = "KERNEL\\n(of a library)",
};

/* Names of kernels may hold anything. */
static void print_text(FILE *f, const char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else if ((unsigned char)*text >= ' ')
			fputc(*text, f);
}

static void print_kernel(FILE *f, const struct libcuda_node *n, bool all)
{
	const struct libcuda_launch *l = &n->kernel.launch;
	const struct libcuda_function *function =
		libcuda_function_of(libcuda_object_find(LIBCUDA_OBJECT_FUNCTION | LIBCUDA_OBJECT_KERNEL, l->function));

	fputs("\\n", f);
	print_text(f, function && function->name ? function->name : "?");
	if (all)
		fprintf(f, "\\ngrid %u,%u,%u block %u,%u,%u shared %u", l->grid[0], l->grid[1], l->grid[2], l->block[0],
			l->block[1], l->block[2], l->shared);
}

static char letter_of(CUmemorytype type)
{
	static const char letters[] = {
		[CU_MEMORYTYPE_HOST] = 'H',
		[CU_MEMORYTYPE_DEVICE] = 'D',
		[CU_MEMORYTYPE_ARRAY] = 'A',
		[CU_MEMORYTYPE_UNIFIED] = 'U',
	};

	return (unsigned int)type < sizeof(letters) && letters[type] ? letters[type] : '?';
}

static void print_memcpy(FILE *f, const struct libcuda_node *n, bool all)
{
	const CUDA_MEMCPY3D *c = &n->memcpy;

	fprintf(f, "\\n%cto%c", letter_of(c->srcMemoryType), letter_of(c->dstMemoryType));
	if (all)
		fprintf(f, "\\n%zu x %zu x %zu bytes", c->WidthInBytes, c->Height, c->Depth);
}

static void print_memset(FILE *f, const struct libcuda_node *n, bool all)
{
	const CUDA_MEMSET_NODE_PARAMS *m = &n->memset;

	if (all)
		fprintf(f, "\\nat %#llx: %zu x %zu of %u bytes, value %#x", (unsigned long long)m->dst, m->width,
			m->height, m->elementSize, m->value);
}

/* The members of a node, if the flag asks for them. */
static void print_details(FILE *f, const struct libcuda_node *n, unsigned int flags)
{
	switch (n->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		print_kernel(f, n, flags & CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS);
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES)
			fprintf(f, "\\ncooperative %d", n->kernel.launch.cooperative);
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		print_memcpy(f, n, flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		print_memset(f, n, flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS)
			fprintf(f, "\\nfn %p data %p", (void *)(uintptr_t)n->host.fn, n->host.userData);
		break;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS)
			fprintf(f, "\\nevent %p", (void *)n->event);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS)
			fprintf(f, "\\n%zu bytes at %#llx", n->alloc.params.bytesize,
				(unsigned long long)n->alloc.params.dptr);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS)
			fprintf(f, "\\nat %#llx", (unsigned long long)n->free);
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS)
			fprintf(f, "\\n%u operations", n->mem_ops.count);
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS)
			fprintf(f, "\\ncondition %#llx type %d size %u",
				(unsigned long long)n->conditional.params.handle, (int)n->conditional.params.type,
				n->conditional.params.size);
		break;
	default:
		break;
	}
}

/* Nodes are named by their graph's path, which ends with `prefix`, and their place in it. */
static size_t place_of(const struct libcuda_graph *g, const struct libcuda_node *node)
{
	size_t i = 0;

	for (const struct libcuda_node *n = g->first; n && n != node; n = n->next)
		i++;
	return i;
}

static void print_graph(FILE *f, const struct libcuda_graph *g, const char *prefix, unsigned int flags);

/* A graph inside of a node, in a cluster. */
static void print_inner(FILE *f, const struct libcuda_graph *g, const char *inner, unsigned int flags)
{
	fprintf(f, "subgraph \"cluster_%s\" {\nlabel=\"%s\";\n", inner, inner);
	print_graph(f, g, inner, flags);
	fputs("}\n", f);
}

/* The path of a body is the node's path and the body's number. */
static void print_bodies(FILE *f, const struct libcuda_node *n, const char *path, unsigned int flags)
{
	char inner[256];

	for (unsigned int i = 0; i < n->conditional.params.size; i++)
		if ((size_t)snprintf(inner, sizeof(inner), "%s%u.", path, i) < sizeof(inner))
			print_inner(f, n->conditional.bodies[i], inner, flags);
}

static void print_graph(FILE *f, const struct libcuda_graph *g, const char *prefix, unsigned int flags)
{
	size_t at = 0;

	for (const struct libcuda_node *n = g->first; n; n = n->next, at++) {
		fprintf(f, "\"%s%zu\" [shape=\"box\" label=\"%zu\\n%s", prefix, at, at, names[n->type]);
		print_details(f, n, flags);
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES)
			fprintf(f, "\\nnode %p", (void *)n->handle);
		fputs("\"];\n", f);
		for (size_t i = 0; i < n->dep_count; i++)
			fprintf(f, "\"%s%zu\" -> \"%s%zu\";\n", prefix, place_of(g, n->deps[i]), prefix, at);
	}
	at = 0;
	for (const struct libcuda_node *n = g->first; n; n = n->next, at++) {
		char inner[256];

		/* graphs that are nested more deeply are left out */
		if ((size_t)snprintf(inner, sizeof(inner), "%s%zu.", prefix, at) >= sizeof(inner))
			continue;
		if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
			print_inner(f, n->child, inner, flags);
		if (n->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			print_bodies(f, n, inner, flags);
	}
}

VCUDA_EXPORT CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
	const struct libcuda_graph *g = libcuda_graph_find(graph);
	CUresult result = libcuda_require_init();
	bool ok;
	FILE *f;

	if (result != CUDA_SUCCESS)
		return result;
	if (!g || !path || flags & ~ALL_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)
		flags = ALL_FLAGS;
	f = fopen(path, "we");
	if (!f)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fputs("digraph graph_1 {\n", f);
	print_graph(f, g, "", flags);
	fputs("}\n", f);
	ok = !ferror(f);
	return fclose(f) == 0 && ok ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
