/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects. Kernels know them by number: a launch gets a table of all that its context had when it
 * started, which stays as it is until the launch has ended. All calls with the lock held.
 */
#ifndef VCUDA_CPU_TEXTURE_H
#define VCUDA_CPU_TEXTURE_H

#include "device/context.h"
#include "runtime/ptx-tex.h"

struct CUmipmappedArray_st;

struct softgpu_texture_map {
	struct ptx_texture_table table;
	unsigned int refs;
	const struct ptx_texture *entries[];
};

/* *map is NULL where the context has none. False: no memory. */
bool softgpu_texture_map_get(struct CUctx_st *context, struct softgpu_texture_map **map);
void softgpu_texture_map_put(struct softgpu_texture_map *map);

/* The array is about to go: its objects stay, and name nothing. */
void softgpu_textures_lose_array(const struct CUmipmappedArray_st *array);

#endif
