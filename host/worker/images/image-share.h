/* SPDX-License-Identifier: Apache-2.0 */
/* Images that workers of one guest have from one another, through vcudad (image-channel.h). Thread-safe. */
#ifndef VCUDA_IMAGE_SHARE_H
#define VCUDA_IMAGE_SHARE_H

#include <stdint.h>

#include "protocol/image-cache.h"
#include "images/image.h"

/* Before this process opens anything: vcudad may have given it no way. */
void worker_image_share_open(void);

/* Whether vcudad may have one of that length. */
enum vcuda_image_look worker_image_share_look(uint64_t bytes);

/*
 * The one of that name, mapped for reading, with VCUDA_IMAGE_PADDING zeroes behind it: vcuda_image_file_bytes() to be
 * unmapped. NULL: there is none.
 */
void *worker_image_share_find(uint64_t bytes, const struct vcuda_image_name *name);

/* Has vcudad have a copy, which is made in the background; none if there is too much to copy. Waits for nothing. */
void worker_image_share_offer(struct worker_image *image);

/* Whether VCUDA_IMAGE_CHANNEL_FD was a way to vcudad when this program began, and not whatever was opened first. */
bool worker_image_share_has_way(void);

/* The guest has ended, perhaps right after it loaded one: waits for what is being copied, though not for long. */
void worker_image_share_finish(void);

#endif
