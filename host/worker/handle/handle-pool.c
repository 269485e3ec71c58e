/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: pools of stream-ordered allocation. */
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

CUresult vcuda_handle_vcudaMemPoolCreate(struct worker_session *s, struct vcuda_args_vcudaMemPoolCreate *a)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, a->dev},
		.maxSize = a->maxSize,
	};

	if (!s->ops->cuMemPoolCreate)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolCreate);
	return s->ops->cuMemPoolCreate(&a->pool, &props);
}

CUresult vcuda_handle_vcudaMemPoolGetAttribute(struct worker_session *s, struct vcuda_args_vcudaMemPoolGetAttribute *a)
{
	if (!s->ops->cuMemPoolGetAttribute)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolGetAttribute);
	return s->ops->cuMemPoolGetAttribute(a->pool, a->attr, &a->value);
}

CUresult vcuda_handle_vcudaMemPoolSetAttribute(struct worker_session *s, struct vcuda_args_vcudaMemPoolSetAttribute *a)
{
	if (!s->ops->cuMemPoolSetAttribute)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolSetAttribute);
	return s->ops->cuMemPoolSetAttribute(a->pool, a->attr, &a->value);
}

CUresult vcuda_handle_vcudaMemPoolSetAccess(struct worker_session *s, struct vcuda_args_vcudaMemPoolSetAccess *a)
{
	CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, a->dev}, (CUmemAccess_flags)a->flags};

	if (!s->ops->cuMemPoolSetAccess)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolSetAccess);
	return s->ops->cuMemPoolSetAccess(a->pool, &desc, 1);
}

CUresult vcuda_handle_vcudaMemPoolGetAccess(struct worker_session *s, struct vcuda_args_vcudaMemPoolGetAccess *a)
{
	CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, a->dev};

	if (!s->ops->cuMemPoolGetAccess)
		return worker_unsupported(s, VCUDA_OP_vcudaMemPoolGetAccess);
	return s->ops->cuMemPoolGetAccess(&a->flags, a->pool, &location);
}
