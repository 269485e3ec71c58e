/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction of the machine code a line of a translated kernel is part of. Never changes; thread-safe. */
#ifndef VCUDA_CPU_CODE_MAP_H
#define VCUDA_CPU_CODE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct softgpu_code_map;

/* The map of a text with the comments that sass.h describes. NULL: there is no memory. */
struct softgpu_code_map *softgpu_code_map_make(const char *text, size_t length);
void softgpu_code_map_free(struct softgpu_code_map *map);
uint64_t softgpu_code_map_bytes(const struct softgpu_code_map *map);

/* *function: that the kernel calls; NULL: the kernel's own code. False: the line is before all instructions. */
bool softgpu_code_map_find(const struct softgpu_code_map *map, uint32_t line, uint32_t *offset, const char **function);

#endif
