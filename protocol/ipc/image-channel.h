/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a worker and the cache of images in vcudad: a SOCK_SEQPACKET Unix socket, file descriptor
 * VCUDA_IMAGE_CHANNEL_FD of a new worker, which asks. It is none of a socket where vcudad keeps no images.
 *
 * vcudad treats the worker as hostile: it takes no word for what an image is called, and none for what it holds. One
 * that breaks these rules has its end closed, and goes on without. To vcudad nothing here is an image but bytes.
 */
#ifndef VCUDA_IMAGE_CHANNEL_H
#define VCUDA_IMAGE_CHANNEL_H

#include <fcntl.h>
#include <stdint.h>

#include "protocol/image-cache.h"

#define VCUDA_IMAGE_CHANNEL_FD 5

/* Zeroes behind an image, so that PTX text ends. */
#define VCUDA_IMAGE_PADDING 64

/* What a kept image's file must have: nobody can change it, its length, or that. */
#define VCUDA_IMAGE_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

enum vcuda_image_request {
	/* bytes; the reply's `look`. */
	VCUDA_IMAGE_LOOK = 1,
	/* bytes and name; the reply's fds {file}, or its status is -ENOENT. */
	VCUDA_IMAGE_FIND,
	/*
	 * bytes, fds {file}: a memfd with VCUDA_IMAGE_SEALS, of vcuda_image_file_bytes(), zero behind the image. There
	 * is no reply: vcudad keeps it or not.
	 */
	VCUDA_IMAGE_OFFER,
};

struct vcuda_image_message {
	uint32_t type;  /* enum vcuda_image_request; the reply repeats it */
	int32_t status; /* reply: 0 or -errno */
	uint64_t bytes; /* of the image */
	uint32_t look;  /* enum vcuda_image_look */
	uint32_t reserved;
	struct vcuda_image_name name;
};

/* Whole pages: behind the end of a file a page's rest could hold what no seal protects. */
static inline uint64_t vcuda_image_file_bytes(uint64_t bytes)
{
	return (bytes + VCUDA_IMAGE_PADDING + 4095) & ~4095ull;
}

#endif
