/* SPDX-License-Identifier: Apache-2.0 */
/* Context-local storage: values that NVIDIA's libraries keep with a context under a key of theirs. Thread-safe. */
#ifndef VCUDA_STORAGE_H
#define VCUDA_STORAGE_H

#include "core/context.h"

typedef void (*libcuda_storage_destructor)(CUcontext context, void *key, void *value);

/* The entries of the CONTEXT_LOCAL_STORAGE table. A NULL context is the current one. */
CUresult libcuda_storage_put(CUcontext context, void *key, void *value, libcuda_storage_destructor destructor);
CUresult libcuda_storage_delete(CUcontext context, void *key);
CUresult libcuda_storage_get(void **value, CUcontext context, void *key);

/* The context ends: destroys what it keeps. */
void libcuda_storage_drop(struct libcuda_context *context);

#endif
