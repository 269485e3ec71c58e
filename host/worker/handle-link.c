/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: the driver's linker, for a back end that has one. */
#include <string.h>

#include "dispatch.h"
#include "handlers.h"
#include "image.h"

/* The next part of an image; false: there is none, or it is not whole. */
static bool next_part(const struct vcuda_worker_image *image, size_t *at, struct vcuda_link_part *part, const void **data)
{
	size_t room = image->bytes - *at;

	if (room < sizeof(*part))
		return false;
	memcpy(part, image->data + *at, sizeof(*part));
	if (part->bytes > room - sizeof(*part))
		return false;
	*data = image->data + *at + sizeof(*part);
	*at = ((*at + sizeof(*part) + part->bytes) / VCUDA_LINK_ALIGN + 1) * VCUDA_LINK_ALIGN;
	return true;
}

static CUresult add_parts(struct vcuda_session *s, const struct vcuda_worker_image *image, void *state)
{
	CUresult result = CUDA_SUCCESS;
	struct vcuda_link_part part;
	const void *data;
	size_t at = 0;

	while (at < image->bytes && result == CUDA_SUCCESS) {
		if (!next_part(image, &at, &part, &data))
			return CUDA_ERROR_INVALID_VALUE;
		part.name[sizeof(part.name) - 1] = 0;
		result = s->ops->cuLinkAddData_v2(state, (int)part.type, (void *)(uintptr_t)data, part.bytes, part.name,
						  0, NULL, NULL);
	}
	return result;
}

static CUresult link_image(struct vcuda_session *s, struct vcuda_worker_image *image, void *arguments)
{
	struct vcuda_jit_options jit = vcuda_image_options(image);
	struct vcuda_args_vcudaImageLink *a = arguments;
	void *state, *cubin;
	CUresult result;

	if (!s->ops->cuLinkCreate_v2 || !s->ops->cuLinkAddData_v2 || !s->ops->cuLinkComplete || !s->ops->cuLinkDestroy)
		return vcuda_unsupported(s, VCUDA_OP_vcudaImageLink);
	result = s->ops->cuLinkCreate_v2(jit.count, jit.options, jit.values, &state);
	if (result != CUDA_SUCCESS)
		return result;
	result = add_parts(s, image, state);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuLinkComplete(state, &cubin, &a->bytes);
	if (result == CUDA_SUCCESS)
		result = vcuda_image_new(a->bytes, cubin, &a->linked);
	s->ops->cuLinkDestroy(state);
	return result;
}

CUresult vcuda_handle_vcudaImageLink(struct vcuda_session *s, struct vcuda_args_vcudaImageLink *a)
{
	return vcuda_image_with(s, a->image, link_image, a);
}
