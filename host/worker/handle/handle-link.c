/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: the driver's linker. A part is given to it when it is added, so that what is wrong with one is known at
 * that call.
 *
 * The back end copes with no two threads at one link, the guest may send what it likes: so each has a lock. The back
 * end has places in it for its logs, so that it outlives what the back end has of it.
 */
#include "handle/link.h"

#include <pthread.h>
#include <stdlib.h>

#include "session/dispatch.h"
#include "session/ledger.h"
#include "protocol/handlers.h"
#include "images/image.h"
#include "images/jit.h"

/* Limit for the bytes of the parts of all links of one guest process. */
#define MOST_BYTES (1ull << 30)

/* Copies of a part that the software GPU has while it adds the part: one in the link, one for the parser. */
#define COPIES 2

struct link {
	struct link *next;  /* with the number of users, under the links' lock */
	unsigned int users; /* the handle, and each call that is at it */
	CUcontext context;  /* the context of cuLinkCreate() */

	pthread_mutex_t lock; /* of all the rest */
	void *state;          /* the back end's; NULL: it has ended */
	void *linked;         /* the back end's too; NULL: it is not complete */
	size_t linked_bytes;
	uint64_t bytes; /* bytes of the link's parts */
	struct worker_jit jit;
	struct worker_jit_options options; /* with the logs of `jit` */
};

static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;
static struct link *links;
static uint64_t links_bytes;

/* ---- who is at it ---- */

/* NULL: destroyed; another thread of the guest may have done that while this call was on its way. */
static struct link *take(vcuda_link handle)
{
	struct link *l;

	pthread_mutex_lock(&links_lock);
	for (l = links; l && (vcuda_link)l != handle; l = l->next)
		continue;
	if (l)
		l->users++;
	pthread_mutex_unlock(&links_lock);
	return l;
}

static void put(struct link *l)
{
	bool last;

	pthread_mutex_lock(&links_lock);
	last = !--l->users;
	if (last)
		links_bytes -= l->bytes;
	pthread_mutex_unlock(&links_lock);
	if (!last)
		return;
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* Ends a link that remove_link() has returned, and releases the handle's reference. */
static CUresult end(struct worker_session *s, struct link *l)
{
	CUresult result;

	pthread_mutex_lock(&l->lock);
	result = s->ops->cuLinkDestroy(l->state);
	l->state = l->linked = NULL;
	pthread_mutex_unlock(&l->lock);
	put(l);
	return result;
}

/* Removes the link `handle`, or else the first link of `context`, from the list and returns it. */
static struct link *remove_link(vcuda_link handle, CUcontext context)
{
	struct link **at, *l;

	pthread_mutex_lock(&links_lock);
	for (at = &links; (l = *at); at = &l->next)
		if ((vcuda_link)l == handle || (context && l->context == context))
			break;
	if (l)
		*at = l->next;
	pthread_mutex_unlock(&links_lock);
	return l;
}

void worker_links_end(struct worker_session *s, CUcontext context)
{
	struct link *l;

	while ((l = remove_link(NULL, context)))
		end(s, l);
}

/* Runs a call's own part with its link, and nothing else with that. CUDA_ERROR_INVALID_HANDLE: there is none. */
static CUresult with(struct worker_session *s, vcuda_link handle,
		     CUresult (*part)(struct worker_session *s, struct link *l, void *arguments), void *arguments)
{
	struct link *l = take(handle);
	CUresult result;

	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&l->lock);
	result = l->state ? part(s, l, arguments) : CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_unlock(&l->lock);
	put(l);
	return result;
}

/* ---- the calls ---- */

static CUresult start(struct worker_session *s, struct link *l, const struct vcuda_args_vcudaLinkCreate *a)
{
	CUresult result = s->ops->cuCtxGetCurrent(&l->context);

	for (uint32_t i = 0; i < a->count && result == CUDA_SUCCESS; i++)
		result = worker_jit_add(&l->jit, a->options[i], a->values[i]);
	if (result != CUDA_SUCCESS)
		return result;
	l->options = worker_jit_all(&l->jit);
	return s->ops->cuLinkCreate_v2(l->options.count, l->options.options, l->options.values, &l->state);
}

CUresult vcuda_handle_vcudaLinkCreate(struct worker_session *s, struct vcuda_args_vcudaLinkCreate *a)
{
	CUresult result;
	struct link *l;

	if (!s->ops->cuLinkCreate_v2 || !s->ops->cuLinkAddData_v2 || !s->ops->cuLinkComplete || !s->ops->cuLinkDestroy)
		return worker_unsupported(s, VCUDA_OP_vcudaLinkCreate);
	l = calloc(1, sizeof(*l));
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = start(s, l, a);
	if (result != CUDA_SUCCESS) {
		free(l);
		return result;
	}
	pthread_mutex_init(&l->lock, NULL);
	l->users = 1;
	a->link = (vcuda_link)l;
	pthread_mutex_lock(&links_lock);
	l->next = links;
	links = l;
	pthread_mutex_unlock(&links_lock);
	return CUDA_SUCCESS;
}

static bool account(struct link *l, uint64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&links_lock);
	fits = bytes <= MOST_BYTES && links_bytes <= MOST_BYTES - bytes;
	if (fits) {
		links_bytes += bytes;
		l->bytes += bytes;
	}
	pthread_mutex_unlock(&links_lock);
	return fits;
}

static void unaccount(struct link *l, uint64_t bytes)
{
	pthread_mutex_lock(&links_lock);
	links_bytes -= bytes;
	l->bytes -= bytes;
	pthread_mutex_unlock(&links_lock);
}

struct part {
	const struct vcuda_args_vcudaLinkAdd *args;
	struct worker_image *image;
};

/* A part that the link has accounted. */
static CUresult hand_over(struct worker_session *s, struct link *l, const struct part *part)
{
	struct worker_image *image = part->image;
	struct worker_jit_options numbers = worker_image_numbers(image);
	CUresult result;

	/* a part has no logs of its own: the driver may not write to them after this */
	result = s->ops->cuLinkAddData_v2(l->state, (int)part->args->type, image->data, image->bytes,
					  (void *)(uintptr_t)part->args->name, numbers.count, numbers.options,
					  numbers.values);
	if (result != CUDA_SUCCESS)
		unaccount(l, image->bytes);
	return result;
}

static CUresult add_part(struct worker_session *s, struct link *l, void *arguments)
{
	const struct part *part = arguments;
	uint64_t bytes = part->image->bytes;
	CUresult result;

	if (l->linked)
		return CUDA_ERROR_INVALID_VALUE;
	if (!worker_ledger_host_hold(COPIES * bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = account(l, bytes) ? hand_over(s, l, part) : CUDA_ERROR_OUT_OF_MEMORY;
	worker_ledger_host_release(COPIES * bytes);
	return result;
}

static CUresult add_image(struct worker_session *s, struct worker_image *image, void *arguments)
{
	const struct vcuda_args_vcudaLinkAdd *a = arguments;
	struct part part = {a, image};

	return with(s, a->link, add_part, &part);
}

CUresult vcuda_handle_vcudaLinkAdd(struct worker_session *s, struct vcuda_args_vcudaLinkAdd *a)
{
	if (a->type >= CU_JIT_NUM_INPUT_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	return worker_image_with(s, a->image, add_image, a);
}

/* The driver is asked once: what it has made is there until the link is destroyed. */
static CUresult complete(struct worker_session *s, struct link *l, void *arguments)
{
	struct vcuda_args_vcudaLinkComplete *a = arguments;
	CUresult result = CUDA_SUCCESS;

	if (!l->linked)
		result = s->ops->cuLinkComplete(l->state, &l->linked, &l->linked_bytes);
	if (result != CUDA_SUCCESS) {
		l->linked = NULL;
		return result;
	}
	a->bytes = l->linked_bytes;
	return worker_image_new(l->linked_bytes, l->linked, l->linked_bytes, &a->linked);
}

CUresult vcuda_handle_vcudaLinkComplete(struct worker_session *s, struct vcuda_args_vcudaLinkComplete *a)
{
	return with(s, a->link, complete, a);
}

CUresult vcuda_handle_vcudaLinkDestroy(struct worker_session *s, struct vcuda_args_vcudaLinkDestroy *a)
{
	struct link *l = remove_link(a->link, NULL);

	return l ? end(s, l) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult read_log(struct worker_session *s, struct link *l, void *arguments)
{
	struct vcuda_args_vcudaLinkLog *a = arguments;

	return worker_jit_read(s, &l->jit, a->option, a->block, a->bytes, &a->length);
}

CUresult vcuda_handle_vcudaLinkLog(struct worker_session *s, struct vcuda_args_vcudaLinkLog *a)
{
	return with(s, a->link, read_log, a);
}
