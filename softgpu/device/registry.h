/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live objects by address, so that a handle is checked before it is followed. All calls with the lock of schedule.h
 * held.
 */
#ifndef VCUDA_CPU_REGISTRY_H
#define VCUDA_CPU_REGISTRY_H

#include <stdbool.h>

enum softgpu_kind {
	SOFTGPU_CONTEXT = 1,
	SOFTGPU_STREAM,
	SOFTGPU_EVENT,
	SOFTGPU_MODULE,
	SOFTGPU_FUNCTION,
	SOFTGPU_LIBRARY,
	SOFTGPU_KERNEL,
	SOFTGPU_POOL,
	SOFTGPU_ARRAY,
	SOFTGPU_MIPMAPPED,
	SOFTGPU_MAPPABLE,
	SOFTGPU_LINK,
};

/* False: no memory. */
bool softgpu_registry_add(const void *object, enum softgpu_kind kind);
void softgpu_registry_remove(const void *object);
bool softgpu_registry_has(const void *object, enum softgpu_kind kind);

#endif
