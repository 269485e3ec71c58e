/* SPDX-License-Identifier: Apache-2.0 */
/* Textures and surfaces by today's descriptions. No pointer may be NULL, but for a view to create with. */
#ifndef CUDART_TEXTURE_H
#define CUDART_TEXTURE_H

#include "runtime.h"

cudaError_t cudart_create_texture(cudaTextureObject_t *object, const struct cudaResourceDesc *resource,
				  const struct cudaTextureDesc *texture, const struct cudaResourceViewDesc *view);
cudaError_t cudart_texture_resource(struct cudaResourceDesc *resource, cudaTextureObject_t object);
cudaError_t cudart_texture_sampling(struct cudaTextureDesc *texture, cudaTextureObject_t object);
cudaError_t cudart_texture_view(struct cudaResourceViewDesc *view, cudaTextureObject_t object);
cudaError_t cudart_create_surface(cudaSurfaceObject_t *object, const struct cudaResourceDesc *resource);
cudaError_t cudart_surface_resource(struct cudaResourceDesc *resource, cudaSurfaceObject_t object);

#endif
