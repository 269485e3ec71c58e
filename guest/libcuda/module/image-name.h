/* SPDX-License-Identifier: Apache-2.0 */
/* The name that an image has in the host's cache (image-cache.h). */
#ifndef VCUDA_IMAGE_NAME_H
#define VCUDA_IMAGE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/types.h"

/* By several threads where there is much of it. False: there is no memory for that. */
bool libcuda_image_name_of(const void *data, size_t bytes, struct vcuda_image_name *name);

#endif
