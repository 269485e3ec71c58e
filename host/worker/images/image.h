/* SPDX-License-Identifier: Apache-2.0 */
/* Images that a guest process ships: code to load, or a part to link, with the compiler's options and its two logs. */
#ifndef VCUDA_WORKER_IMAGE_H
#define VCUDA_WORKER_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "images/jit.h"
#include "protocol/types.h"

struct worker_session;

/* Another thread of the guest may write to it at any time. Zeroes follow, so that PTX text ends. */
struct worker_image {
	struct worker_image *next; /* with the number of users, under the images' lock */
	unsigned int users;        /* the handle, and each call and thread that is at it */
	size_t bytes;
	struct worker_jit jit; /* the options are under the lock: threads of a guest may use one image at once */
	_Alignas(64) uint8_t data[];
};

/*
 * Makes an image of `bytes` bytes: the `count` bytes of `data`, then zeroes. *image is the guest's handle; the guest
 * may destroy the image at once. CUDA_ERROR_OUT_OF_MEMORY: beyond the limit of one guest process.
 */
CUresult worker_image_new(size_t bytes, const void *data, size_t count, vcuda_image *image);

/* Ends a handle. CUDA_ERROR_INVALID_HANDLE: there is none. */
CUresult worker_image_destroy(vcuda_image image);

/* Runs a call's own part with its image, which stays until that is done. CUDA_ERROR_INVALID_HANDLE: there is none. */
CUresult worker_image_with(struct worker_session *s, vcuda_image handle,
			   CUresult (*part)(struct worker_session *s, struct worker_image *image, void *arguments),
			   void *arguments);

/* A caller that has an image keeps it: the image stays until it is released as often. From any thread. */
void worker_image_retain(struct worker_image *image);
void worker_image_release(struct worker_image *image);

/* Adds an option of the guest's, as worker_jit_add(). */
CUresult worker_image_add_option(struct worker_image *image, uint32_t option, uint64_t value);

/* The options for the back end: the guest's options, and the logs. */
struct worker_jit_options worker_image_options(struct worker_image *image);

/* The guest's numeric options alone, without the logs. */
struct worker_jit_options worker_image_numbers(struct worker_image *image);

#endif
