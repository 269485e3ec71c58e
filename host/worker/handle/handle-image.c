/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: images. */
#include <string.h>

#include "protocol/handlers.h"
#include "images/image.h"
#include "session/command.h"

CUresult vcuda_handle_vcudaImageCreate(struct worker_session *s, struct vcuda_args_vcudaImageCreate *a)
{
	return worker_image_new(a->total, "", 0, &a->image);
}

CUresult vcuda_handle_vcudaImageStaged(struct worker_session *s, struct vcuda_args_vcudaImageStaged *a)
{
	const void *from = worker_command_stage(s, a->block, a->bytes);

	if (!from || a->bytes > a->total)
		return CUDA_ERROR_INVALID_VALUE;
	return worker_image_new(a->total, from, a->bytes, &a->image);
}

static CUresult write_image(struct worker_session *s, struct worker_image *image, void *arguments)
{
	struct vcuda_args_vcudaImageWrite *a = arguments;
	const void *from = worker_command_stage(s, a->block, a->bytes);

	if (!from || a->offset > image->bytes || a->bytes > image->bytes - a->offset)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(image->data + a->offset, from, a->bytes);
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaImageWrite(struct worker_session *s, struct vcuda_args_vcudaImageWrite *a)
{
	return worker_image_with(s, a->image, write_image, a);
}

static CUresult read_image(struct worker_session *s, struct worker_image *image, void *arguments)
{
	struct vcuda_args_vcudaImageRead *a = arguments;
	void *to = worker_command_stage(s, a->block, a->bytes);

	if (!to || a->offset > image->bytes || a->bytes > image->bytes - a->offset)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(to, image->data + a->offset, a->bytes);
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaImageRead(struct worker_session *s, struct vcuda_args_vcudaImageRead *a)
{
	return worker_image_with(s, a->image, read_image, a);
}

CUresult vcuda_handle_vcudaImageDestroy(struct worker_session *s, struct vcuda_args_vcudaImageDestroy *a)
{
	return worker_image_destroy(a->image);
}

static CUresult add_option(struct worker_session *s, struct worker_image *image, void *arguments)
{
	struct vcuda_args_vcudaImageOption *a = arguments;

	return worker_image_add_option(image, a->option, a->value);
}

CUresult vcuda_handle_vcudaImageOption(struct worker_session *s, struct vcuda_args_vcudaImageOption *a)
{
	return worker_image_with(s, a->image, add_option, a);
}

static CUresult read_log(struct worker_session *s, struct worker_image *image, void *arguments)
{
	struct vcuda_args_vcudaImageLog *a = arguments;

	return worker_jit_read(s, &image->jit, a->option, a->block, a->bytes, &a->length);
}

CUresult vcuda_handle_vcudaImageLog(struct worker_session *s, struct vcuda_args_vcudaImageLog *a)
{
	return worker_image_with(s, a->image, read_log, a);
}

/* ---- older guests ---- */

CUresult vcuda_handle_vcudaImageLook(struct worker_session *s, struct vcuda_args_vcudaImageLook *a)
{
	a->look = VCUDA_IMAGE_NEVER;
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaImageFind(struct worker_session *s, struct vcuda_args_vcudaImageFind *a)
{
	return CUDA_ERROR_NOT_FOUND;
}

/* An error would be reported by another call of the guest. */
CUresult vcuda_handle_vcudaImageOffer(struct worker_session *s, struct vcuda_args_vcudaImageOffer *a)
{
	return CUDA_SUCCESS;
}
