/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live objects by address, so that a handle is checked before it is followed. All calls with the lock of schedule.h
 * held.
 */
#ifndef VCUDA_CPU_REGISTRY_H
#define VCUDA_CPU_REGISTRY_H

#include <stdbool.h>

enum cpu_kind {
	CPU_CONTEXT = 1,
	CPU_STREAM,
	CPU_EVENT,
	CPU_MODULE,
	CPU_FUNCTION,
	CPU_LIBRARY,
	CPU_KERNEL,
	CPU_POOL,
	CPU_ARRAY,
	CPU_MIPMAPPED,
	CPU_MAPPABLE,
	CPU_LINK,
};

/* False: no memory. */
bool cpu_registry_add(const void *object, enum cpu_kind kind);
void cpu_registry_remove(const void *object);
bool cpu_registry_has(const void *object, enum cpu_kind kind);

#endif
