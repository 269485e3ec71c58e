/* SPDX-License-Identifier: Apache-2.0 */
/* What names an image in the host's cache of images, and what the guest may ask of that. */
#ifndef VCUDA_IMAGE_CACHE_H
#define VCUDA_IMAGE_CACHE_H

#include <stdint.h>

/*
 * An image's name is the SHA-256 of the prefix, without its NUL, of its length in bytes, 8 bytes little-endian, and of
 * the SHA-256 of each of its parts. A part has VCUDA_IMAGE_PART_BYTES, the last one what is left. Parts can be hashed
 * side by side, and two images of one name would be two texts of one SHA-256.
 */
#define VCUDA_IMAGE_NAME_PREFIX "virtio-cuda image, version 1"
#define VCUDA_IMAGE_PART_BYTES (64u << 10)

typedef struct vcuda_image_name {
	uint8_t bytes[32];
} vcuda_image_name;

/* Smaller ones are shipped faster than found, and are not kept. */
#define VCUDA_IMAGE_LEAST_BYTES (512u << 10)

/* What the host answers to a length (vcudaImageLook). */
enum vcuda_image_look {
	VCUDA_IMAGE_NEVER, /* it keeps none of that length */
	VCUDA_IMAGE_NONE,  /* it has none now, and may keep one that it is offered */
	VCUDA_IMAGE_SOME,  /* it has one or more: the name will tell */
};

#endif
