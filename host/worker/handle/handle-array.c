/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: arrays, the copies that touch them, texture and surface objects.
 *
 * An object's value is what kernels are given, so the guest gets it as it is, beside an id of ours: only the id
 * destroys it, because a back end need not survive an invented value.
 */
#include "handle/box.h"
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/command.h"
#include "handle/resource.h"
#include "session/session.h"

CUresult vcuda_handle_vcudaArrayCreate(struct worker_session *s, struct vcuda_args_vcudaArrayCreate *a)
{
	if (!s->ops->cuArray3DCreate_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaArrayCreate);
	return s->ops->cuArray3DCreate_v2(&a->array, &a->descriptor);
}

CUresult vcuda_handle_vcudaMipmappedArrayCreate(struct worker_session *s,
						struct vcuda_args_vcudaMipmappedArrayCreate *a)
{
	if (!s->ops->cuMipmappedArrayCreate)
		return worker_unsupported(s, VCUDA_OP_vcudaMipmappedArrayCreate);
	return s->ops->cuMipmappedArrayCreate(&a->mipmapped, &a->descriptor, a->levels);
}

/* ---- copies ---- */

CUDA_MEMCPY3D worker_box_describe(const vcuda_box *box, CUarray dst, CUarray src)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = box->src.x,
		.srcY = box->src.y,
		.srcZ = box->src.z,
		.srcMemoryType = src ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE,
		.srcDevice = box->src.address,
		.srcArray = src,
		.srcPitch = box->src.pitch,
		.srcHeight = box->src.height,
		.dstXInBytes = box->dst.x,
		.dstY = box->dst.y,
		.dstZ = box->dst.z,
		.dstMemoryType = dst ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE,
		.dstDevice = box->dst.address,
		.dstArray = dst,
		.dstPitch = box->dst.pitch,
		.dstHeight = box->dst.height,
		.WidthInBytes = box->width,
		.Height = box->height,
		.Depth = box->depth,
	};
}

bool worker_box_fits(const vcuda_box *box, const vcuda_box_end *e, uint64_t bytes)
{
	uint64_t slice, last, end;

	if (e->x || e->y || e->z || !box->width || !box->height || !box->depth || e->pitch < box->width ||
	    e->height < box->height)
		return false;
	return !__builtin_mul_overflow(e->pitch, e->height, &slice) &&
	       !__builtin_mul_overflow(box->depth - 1, slice, &last) &&
	       !__builtin_mul_overflow(box->height - 1, e->pitch, &end) && !__builtin_add_overflow(end, last, &end) &&
	       !__builtin_add_overflow(end, box->width, &end) && end <= bytes;
}

CUresult vcuda_handle_vcudaBoxDtoD(struct worker_session *s, struct vcuda_args_vcudaBoxDtoD *a)
{
	CUDA_MEMCPY3D copy = worker_box_describe(&a->box, a->dst, a->src);

	if (!s->ops->cuMemcpy3DAsync_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaBoxDtoD);
	return s->ops->cuMemcpy3DAsync_v2(&copy, a->hStream);
}

static CUresult submit(struct worker_session *s, CUDA_MEMCPY3D *copy, bool fits, CUstream stream)
{
	return fits ? s->ops->cuMemcpy3DAsync_v2(copy, stream) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult from_host(struct worker_session *s, const vcuda_box *box, CUarray dst, const void *from, uint64_t bytes,
			  CUstream stream)
{
	CUDA_MEMCPY3D copy = worker_box_describe(box, dst, NULL);

	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = from;
	return submit(s, &copy, worker_box_fits(box, &box->src, bytes), stream);
}

static CUresult to_host(struct worker_session *s, const vcuda_box *box, void *to, CUarray src, uint64_t bytes,
			CUstream stream)
{
	CUDA_MEMCPY3D copy = worker_box_describe(box, NULL, src);

	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = to;
	return submit(s, &copy, worker_box_fits(box, &box->dst, bytes), stream);
}

CUresult vcuda_handle_vcudaBoxHtoD(struct worker_session *s, struct vcuda_args_vcudaBoxHtoD *a)
{
	if (!s->ops->cuMemcpy3DAsync_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaBoxHtoD);
	return from_host(s, &a->box, a->dst, a->srcHost, a->bytes, a->hStream);
}

CUresult vcuda_handle_vcudaBoxDtoH(struct worker_session *s, struct vcuda_args_vcudaBoxDtoH *a)
{
	if (!s->ops->cuMemcpy3DAsync_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaBoxDtoH);
	return to_host(s, &a->box, a->dstHost, a->src, a->bytes, a->hStream);
}

CUresult vcuda_handle_vcudaStageBoxHtoD(struct worker_session *s, struct vcuda_args_vcudaStageBoxHtoD *a)
{
	const void *from = worker_command_stage(s, a->block, a->bytes);
	CUresult result;

	if (!s->ops->cuMemcpy3DAsync_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaStageBoxHtoD);
	if (!from)
		return CUDA_ERROR_INVALID_VALUE;
	result = from_host(s, &a->box, a->dst, from, a->bytes, a->hStream);
	return result == CUDA_SUCCESS ? s->ops->cuStreamSynchronize(a->hStream) : result;
}

CUresult vcuda_handle_vcudaStageBoxDtoH(struct worker_session *s, struct vcuda_args_vcudaStageBoxDtoH *a)
{
	void *to = worker_command_stage(s, a->block, a->bytes);
	CUresult result;

	if (!s->ops->cuMemcpy3DAsync_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaStageBoxDtoH);
	if (!to)
		return CUDA_ERROR_INVALID_VALUE;
	result = to_host(s, &a->box, to, a->src, a->bytes, a->hStream);
	return result == CUDA_SUCCESS ? s->ops->cuStreamSynchronize(a->hStream) : result;
}

/* ---- texture and surface objects ---- */

/* A handle is never NULL, an object's value may be 0. */
static void *as_handle(unsigned long long object)
{
	return (void *)(uintptr_t)(object + 1);
}

static unsigned long long as_object(const void *handle)
{
	return (unsigned long long)(uintptr_t)handle - 1;
}

CUresult worker_resource_resolve(struct worker_session *s, const vcuda_resource *r, CUDA_RESOURCE_DESC *d)
{
	void *handle = (void *)(uintptr_t)r->array;
	CUresult result;

	*d = (CUDA_RESOURCE_DESC){.resType = (CUresourcetype)r->type, .flags = r->flags};
	switch (r->type) {
	case CU_RESOURCE_TYPE_ARRAY:
		result = worker_resolve(s, WORKER_ACCEPT(VCUDA_KIND_ARRAY), 0, &handle);
		d->res.array.hArray = handle;
		return result;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		result = worker_resolve(s, WORKER_ACCEPT(VCUDA_KIND_MIPMAPPED), 0, &handle);
		d->res.mipmap.hMipmappedArray = handle;
		return result;
	case CU_RESOURCE_TYPE_LINEAR:
		d->res.linear.devPtr = r->address;
		d->res.linear.format = (CUarray_format)r->format;
		d->res.linear.numChannels = r->channels;
		d->res.linear.sizeInBytes = r->bytes;
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_PITCH2D:
		d->res.pitch2D.devPtr = r->address;
		d->res.pitch2D.format = (CUarray_format)r->format;
		d->res.pitch2D.numChannels = r->channels;
		d->res.pitch2D.width = r->width;
		d->res.pitch2D.height = r->height;
		d->res.pitch2D.pitchInBytes = r->pitch;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult vcuda_handle_vcudaTextureCreate(struct worker_session *s, struct vcuda_args_vcudaTextureCreate *a)
{
	CUDA_RESOURCE_DESC resource;
	CUresult result;

	if (!s->ops->cuTexObjectCreate)
		return worker_unsupported(s, VCUDA_OP_vcudaTextureCreate);
	result = worker_resource_resolve(s, &a->resource, &resource);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuTexObjectCreate(&a->object, &resource, &a->descriptor, a->hasView ? &a->view : NULL);
	a->texture = as_handle(a->object);
	return result;
}

CUresult vcuda_handle_vcudaTextureDestroy(struct worker_session *s, struct vcuda_args_vcudaTextureDestroy *a)
{
	if (!s->ops->cuTexObjectDestroy)
		return worker_unsupported(s, VCUDA_OP_vcudaTextureDestroy);
	return s->ops->cuTexObjectDestroy(as_object(a->texture));
}

CUresult vcuda_handle_vcudaSurfaceCreate(struct worker_session *s, struct vcuda_args_vcudaSurfaceCreate *a)
{
	CUDA_RESOURCE_DESC resource;
	CUresult result;

	if (!s->ops->cuSurfObjectCreate)
		return worker_unsupported(s, VCUDA_OP_vcudaSurfaceCreate);
	result = worker_resource_resolve(s, &a->resource, &resource);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuSurfObjectCreate(&a->object, &resource);
	a->surface = as_handle(a->object);
	return result;
}

CUresult vcuda_handle_vcudaSurfaceDestroy(struct worker_session *s, struct vcuda_args_vcudaSurfaceDestroy *a)
{
	if (!s->ops->cuSurfObjectDestroy)
		return worker_unsupported(s, VCUDA_OP_vcudaSurfaceDestroy);
	return s->ops->cuSurfObjectDestroy(as_object(a->surface));
}
