/* SPDX-License-Identifier: Apache-2.0 */
/* Context-local storage: values that NVIDIA's libraries keep with a context under a key of theirs. Thread-safe. */
#ifndef VCUDA_STORAGE_H
#define VCUDA_STORAGE_H

#include "core/context.h"

typedef void (*vcuda_storage_destructor)(CUcontext context, void *key, void *value);

/* The entries of the CONTEXT_LOCAL_STORAGE table. A NULL context is the current one. */
CUresult vcuda_storage_put(CUcontext context, void *key, void *value, vcuda_storage_destructor destructor);
CUresult vcuda_storage_delete(CUcontext context, void *key);
CUresult vcuda_storage_get(void **value, CUcontext context, void *key);

/* The context ends: destroys what it keeps. */
void vcuda_storage_drop(struct vcuda_context *context);

#endif
