/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: modules, and what is looked up in a module. */
#include <stdlib.h>
#include <string.h>

#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "images/image.h"
#include "session/session.h"
#include "queue/fences.h"
#include "process/worker.h"

#define CONTAINER_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* of the entries that follow the header */
};

/*
 * The image of a program compiled with -rdc=true: the device linker's code, and the parts that it was linked from. The
 * driver links the parts where the code is for another GPU, or empty.
 */
struct relocatable {
	uint32_t magic, version;
	const void *data;
	const void *const *extra;
	const void *parts[];
};

/* The size of the container at an offset of an image, 0: there is none. */
static size_t container_at(const struct worker_image *image, size_t offset)
{
	struct container c;

	if (image->bytes - offset < sizeof(c))
		return 0;
	memcpy(&c, image->data + offset, sizeof(c));
	if (c.magic != CONTAINER_MAGIC || c.header_size < sizeof(c) || c.size > image->bytes - offset ||
	    c.header_size > image->bytes - offset - c.size)
		return 0;
	return c.header_size + c.size;
}

/* An image of several containers is such a program's, put together by the guest. NULL: it is not, or memory is out. */
static struct relocatable *find_relocatable(const struct worker_image *image)
{
	size_t first = container_at(image, 0), count = 0;
	struct relocatable *r;

	for (size_t at = first, size; at && (size = container_at(image, at)); at += size)
		count++;
	r = count ? calloc(1, sizeof(*r) + (count + 1) * sizeof(r->parts[0])) : NULL;
	if (!r)
		return NULL;
	r->magic = WRAPPER_MAGIC;
	r->version = 2;
	r->data = image->data;
	r->extra = r->parts;
	/* another thread of the guest may write to the image meanwhile: no more parts than there was room for */
	for (size_t at = first, size, n = 0; n < count && (size = container_at(image, at)); at += size)
		r->parts[n++] = image->data + at;
	return r;
}

/* A back end that knows how long an image is takes it as it is. `*relocatable` is to be freed after the call. */
static const void *image_for_backend(const struct worker_image *image, struct relocatable **relocatable)
{
	*relocatable = NULL;
	if (worker_loaded.set_image_bound)
		worker_loaded.set_image_bound(image->bytes);
	else
		*relocatable = find_relocatable(image);
	return *relocatable ? (const void *)*relocatable : image->data;
}

/* The number of variables that need guest memory before the module can be used (handle-managed.c). */
static CUresult count_managed(struct worker_session *s, void *owner, uint32_t *count)
{
	*count = 0;
	return s->ops->managedCount ? s->ops->managedCount(owner, count) : CUDA_SUCCESS;
}

static CUresult load_module(struct worker_session *s, struct worker_image *image, void *arguments)
{
	struct vcuda_args_cuModuleLoadData *a = arguments;
	struct worker_jit_options jit = worker_image_options(image);
	struct relocatable *relocatable;
	CUresult result;

	if (!s->ops->cuModuleLoadDataEx)
		return worker_unsupported(s, VCUDA_OP_cuModuleLoadData);
	worker_fences_inspect(s, image);
	result = s->ops->cuModuleLoadDataEx(&a->module, image_for_backend(image, &relocatable), jit.count,
					    jit.options, jit.values);
	free(relocatable);
	return result == CUDA_SUCCESS ? count_managed(s, a->module, &a->managed) : result;
}

CUresult vcuda_handle_cuModuleLoadData(struct worker_session *s, struct vcuda_args_cuModuleLoadData *a)
{
	return worker_image_with(s, a->image, load_module, a);
}

static CUresult load_library(struct worker_session *s, struct worker_image *image, void *arguments)
{
	struct vcuda_args_cuLibraryLoadData *a = arguments;
	struct worker_jit_options jit = worker_image_options(image);
	struct relocatable *relocatable;
	CUresult result;

	if (!s->ops->cuLibraryLoadData)
		return worker_unsupported(s, VCUDA_OP_cuLibraryLoadData);
	worker_fences_inspect(s, image);
	result = s->ops->cuLibraryLoadData(&a->library, image_for_backend(image, &relocatable), jit.options,
					   jit.values, jit.count, NULL, NULL, 0);
	free(relocatable);
	return result == CUDA_SUCCESS ? count_managed(s, a->library, &a->managed) : result;
}

CUresult vcuda_handle_cuLibraryLoadData(struct worker_session *s, struct vcuda_args_cuLibraryLoadData *a)
{
	return worker_image_with(s, a->image, load_library, a);
}
