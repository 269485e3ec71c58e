/* SPDX-License-Identifier: Apache-2.0 */
/* From a module image, as a program hands it over, to PTX text. No lock needed. */
#ifndef VCUDA_CPU_IMAGE_H
#define VCUDA_CPU_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"
#include "module/machine-code.h"
#include "ops.h"

#define SOFTGPU_IMAGE_TEXTS 256

struct softgpu_image_part {
	char *text; /* NUL-terminated */
	size_t length;
	bool beside_machine_code; /* a driver takes that, and does not look at this text */
	bool for_machine_code;    /* for a newer device, in place of machine code for this one */
};

/* The PTX of an image: one text for each container in it, and the program is all of them. */
struct softgpu_image {
	unsigned int count;
	size_t bytes; /* of all parts */
	bool relocatable; /* compiled with -rdc=true: the parts are to be linked */
	unsigned int max_registers; /* of a thread of any kernel, as its compiler was told; 0: no bound */
	struct softgpu_machine_code *code; /* the only text is the outline of this; NULL: the texts are all */
	struct softgpu_image_part part[SOFTGPU_IMAGE_TEXTS];
};

/* The lower one of two bounds, of which 0 is none. */
static inline unsigned int softgpu_register_bound(unsigned int a, unsigned int b)
{
	return a && (!b || a < b) ? a : b;
}

/*
 * CUDA_SUCCESS, or the driver's error for such an image, with a line in the log that says why. `code` says what is taken
 * of an image with both PTX and machine code. Takes the thread's image bound.
 */
CUresult softgpu_image_read(const void *data, enum softgpu_code code, struct softgpu_image *image);
void softgpu_image_free(struct softgpu_image *image);

#endif
