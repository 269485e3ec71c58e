/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: images that need not be shipped. */
#include <sys/mman.h>

#include "protocol/handlers.h"
#include "protocol/ipc/image-channel.h"
#include "images/image-share.h"

CUresult vcuda_handle_vcudaImageLook(struct vcuda_session *s, struct vcuda_args_vcudaImageLook *a)
{
	a->look = vcuda_image_share_look(a->bytes);
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaImageFind(struct vcuda_session *s, struct vcuda_args_vcudaImageFind *a)
{
	void *data = vcuda_image_share_find(a->bytes, &a->name);
	CUresult result;

	if (!data)
		return CUDA_ERROR_NOT_FOUND;
	result = vcuda_image_adopt(a->bytes, data, &a->image);
	if (result != CUDA_SUCCESS)
		munmap(data, vcuda_image_file_bytes(a->bytes));
	return result;
}

static CUresult offer(struct vcuda_session *s, struct vcuda_worker_image *image, void *unused)
{
	vcuda_image_share_offer(image);
	return CUDA_SUCCESS;
}

/* Nobody waits for it, nor hears that there was no such image. */
CUresult vcuda_handle_vcudaImageOffer(struct vcuda_session *s, struct vcuda_args_vcudaImageOffer *a)
{
	vcuda_image_with(s, a->image, offer, NULL);
	return CUDA_SUCCESS;
}
