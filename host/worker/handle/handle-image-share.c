/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: images that need not be shipped. */
#include <sys/mman.h>

#include "protocol/handlers.h"
#include "protocol/ipc/image-channel.h"
#include "images/image-share.h"

CUresult vcuda_handle_vcudaImageLook(struct worker_session *s, struct vcuda_args_vcudaImageLook *a)
{
	a->look = worker_image_share_look(a->bytes);
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaImageFind(struct worker_session *s, struct vcuda_args_vcudaImageFind *a)
{
	void *data = worker_image_share_find(a->bytes, &a->name);
	CUresult result;

	if (!data)
		return CUDA_ERROR_NOT_FOUND;
	result = worker_image_adopt(a->bytes, data, &a->image);
	if (result != CUDA_SUCCESS)
		munmap(data, vcuda_image_file_bytes(a->bytes));
	return result;
}

static CUresult offer(struct worker_session *s, struct worker_image *image, void *unused)
{
	worker_image_share_offer(image);
	return CUDA_SUCCESS;
}

/* Nobody waits for it, nor hears that there was no such image. */
CUresult vcuda_handle_vcudaImageOffer(struct worker_session *s, struct vcuda_args_vcudaImageOffer *a)
{
	worker_image_with(s, a->image, offer, NULL);
	return CUDA_SUCCESS;
}
