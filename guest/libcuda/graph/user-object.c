/* SPDX-License-Identifier: Apache-2.0 */
/* User objects: data of the application that graphs keep alive by counted references. */
#include <pthread.h>
#include <stdlib.h>

#include "core/request.h"
#include "graph/graph.h"
#include "protocol/cuda-functions.h"

struct libcuda_user_object {
	CUuserObject handle;
	void *data;
	CUhostFn destroy;
	unsigned int refs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct libcuda_user_object *find(CUuserObject handle)
{
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_USER, handle);

	return o ? o->data : NULL;
}

static void put(struct libcuda_user_object *u, unsigned int count)
{
	bool gone;

	pthread_mutex_lock(&lock);
	u->refs = count < u->refs ? u->refs - count : 0;
	gone = u->refs == 0;
	pthread_mutex_unlock(&lock);
	if (!gone)
		return;
	libcuda_object_drop(u->handle);
	u->destroy(u->data);
	free(u);
}

static void get(struct libcuda_user_object *u, unsigned int count)
{
	pthread_mutex_lock(&lock);
	u->refs += count;
	pthread_mutex_unlock(&lock);
}

static struct libcuda_user_reference *add_reference(struct libcuda_graph *g, struct libcuda_user_object *u,
						    unsigned int count)
{
	struct libcuda_user_reference *r;

	for (r = g->users; r && r->object != u; r = r->next)
		continue;
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return NULL;
		r->object = u;
		r->next = g->users;
		g->users = r;
	}
	r->count += count;
	return r;
}

void libcuda_user_references_drop(struct libcuda_graph *g)
{
	struct libcuda_user_reference *r;

	while ((r = g->users)) {
		g->users = r->next;
		put(r->object, r->count);
		free(r);
	}
}

bool libcuda_user_references_copy(struct libcuda_graph *to, const struct libcuda_graph *from)
{
	for (const struct libcuda_user_reference *r = from->users; r; r = r->next) {
		if (!add_reference(to, r->object, r->count))
			return false;
		get(r->object, r->count);
	}
	return true;
}

/* ---- the API ---- */

VCUDA_EXPORT CUresult cuUserObjectCreate(CUuserObject *object, void *data, CUhostFn destroy, unsigned int refs,
					 unsigned int flags)
{
	CUresult result = libcuda_require_init();
	struct libcuda_user_object *u;
	struct libcuda_object *o;

	if (result != CUDA_SUCCESS)
		return result;
	if (!object || !destroy || !refs || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	u = calloc(1, sizeof(*u));
	if (!u)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*u = (struct libcuda_user_object){.data = data, .destroy = destroy, .refs = refs};
	/* The top bit keeps it apart from ids of the worker's. */
	u->handle = (CUuserObject)((uintptr_t)u | 0x8000000000000000ull);
	o = libcuda_object_add(LIBCUDA_OBJECT_USER, u->handle, NULL, NULL);
	if (!o) {
		free(u);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	o->data = u;
	*object = u->handle;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	struct libcuda_user_object *u = find(object);
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!u || !count)
		return CUDA_ERROR_INVALID_VALUE;
	get(u, count);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	struct libcuda_user_object *u = find(object);
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!u || !count || count > u->refs)
		return CUDA_ERROR_INVALID_VALUE;
	put(u, count);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
					      unsigned int flags)
{
	struct libcuda_graph *g = libcuda_graph_find(graph);
	struct libcuda_user_object *u = find(object);
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!g || !u || !count || flags & ~(unsigned int)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!add_reference(g, u, count))
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Moved references were the caller's. */
	if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
		get(u, count);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct libcuda_graph *g = libcuda_graph_find(graph);
	struct libcuda_user_object *u = find(object);
	CUresult result = libcuda_require_init();
	struct libcuda_user_reference **at;

	if (result != CUDA_SUCCESS)
		return result;
	if (!g || !u || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (at = &g->users; *at && (*at)->object != u; at = &(*at)->next)
		continue;
	if (!*at || (*at)->count < count)
		return CUDA_ERROR_INVALID_VALUE;
	(*at)->count -= count;
	if (!(*at)->count) {
		struct libcuda_user_reference *r = *at;

		*at = r->next;
		free(r);
	}
	put(u, count);
	return CUDA_SUCCESS;
}
