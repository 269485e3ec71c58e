/* SPDX-License-Identifier: Apache-2.0 */
#include "images/image.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "ring/ring.h"
#include "session/ledger.h"

/* Limit for the bytes of images that one guest process has sent and not loaded. */
#define MAX_IMAGE_BYTES (1ull << 30)

/* Put on huge pages: it is written from end to end at once. */
#define LARGE_BYTES (2u << 20)

/* Zeroes behind an image, so that PTX text ends. */
#define IMAGE_PADDING 64

/* The memory of this size of a freed image is kept for the next one. */
#define KEPT_BYTES (sizeof(struct worker_image) + VCUDA_STAGE_BLOCK_BYTES + IMAGE_PADDING)

static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t images_bytes;
static struct worker_image *images;
static struct worker_image *spare_image; /* reused for the next image; NULL: none */

static size_t memory_bytes(size_t bytes)
{
	return sizeof(struct worker_image) + bytes + IMAGE_PADDING;
}

/* The pages that it may come to. */
static uint64_t cost(uint64_t bytes)
{
	return (memory_bytes(bytes) + 4095) & ~4095ull;
}

static bool account(uint64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&images_lock);
	fits = bytes <= MAX_IMAGE_BYTES && cost(bytes) + images_bytes <= MAX_IMAGE_BYTES &&
	       worker_ledger_host_hold(cost(bytes));
	if (fits)
		images_bytes += cost(bytes);
	pthread_mutex_unlock(&images_lock);
	return fits;
}

static void unaccount(uint64_t bytes)
{
	pthread_mutex_lock(&images_lock);
	images_bytes -= cost(bytes);
	pthread_mutex_unlock(&images_lock);
	worker_ledger_host_release(cost(bytes));
}

/* NULL: destroyed; another thread of the guest may have done that while this call was on its way. */
static struct worker_image *take(vcuda_image handle)
{
	struct worker_image *image;

	pthread_mutex_lock(&images_lock);
	for (image = images; image && (vcuda_image)image != handle; image = image->next)
		continue;
	if (image)
		image->users++;
	pthread_mutex_unlock(&images_lock);
	return image;
}

/* All zeroes again. */
static void clear(struct worker_image *image)
{
	bool logs = image->jit.wants_log;

	memset(image->data, 0, image->bytes);
	memset(image, 0, logs ? sizeof(*image) : offsetof(struct worker_image, jit.info));
}

/*
 * Zeroes. To map the pages of a small image, to have them and to unmap them takes longer than to clear what the last
 * one used of its.
 */
static struct worker_image *take_memory(size_t bytes)
{
	bool small = memory_bytes(bytes) <= KEPT_BYTES;
	size_t all = small ? KEPT_BYTES : memory_bytes(bytes);
	struct worker_image *image = NULL;

	if (small) {
		pthread_mutex_lock(&images_lock);
		image = spare_image;
		spare_image = NULL;
		pthread_mutex_unlock(&images_lock);
	}
	if (image) {
		clear(image);
		return image;
	}
	image = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (image == MAP_FAILED)
		return NULL;
	if (bytes >= LARGE_BYTES)
		madvise(image, all, MADV_HUGEPAGE);
	return image;
}

static void give_memory(struct worker_image *image)
{
	bool small = memory_bytes(image->bytes) <= KEPT_BYTES;

	if (small) {
		struct worker_image *other;

		pthread_mutex_lock(&images_lock);
		other = spare_image;
		spare_image = image;
		pthread_mutex_unlock(&images_lock);
		image = other;
	}
	if (image)
		munmap(image, small ? KEPT_BYTES : memory_bytes(image->bytes));
}

void worker_image_retain(struct worker_image *image)
{
	pthread_mutex_lock(&images_lock);
	image->users++;
	pthread_mutex_unlock(&images_lock);
}

void worker_image_release(struct worker_image *image)
{
	bool last;

	pthread_mutex_lock(&images_lock);
	last = !--image->users;
	pthread_mutex_unlock(&images_lock);
	if (!last)
		return;
	unaccount(image->bytes);
	give_memory(image);
}

CUresult worker_image_with(struct worker_session *s, vcuda_image handle,
			   CUresult (*part)(struct worker_session *s, struct worker_image *image, void *arguments),
			   void *arguments)
{
	struct worker_image *image = take(handle);
	CUresult result;

	if (!image)
		return CUDA_ERROR_INVALID_HANDLE;
	result = part(s, image, arguments);
	worker_image_release(image);
	return result;
}

/* The last that is done to a new one: a guest that guesses its handle may destroy it from then on. */
static vcuda_image publish(struct worker_image *image)
{
	image->users = 1;
	pthread_mutex_lock(&images_lock);
	image->next = images;
	images = image;
	pthread_mutex_unlock(&images_lock);
	return (vcuda_image)image;
}

CUresult worker_image_new(size_t bytes, const void *data, size_t count, vcuda_image *made)
{
	struct worker_image *image;

	if (!bytes || !account(bytes))
		return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	image = take_memory(bytes);
	if (!image) {
		unaccount(bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	image->bytes = bytes;
	memcpy(image->data, data, count);
	*made = publish(image);
	return CUDA_SUCCESS;
}

CUresult worker_image_destroy(vcuda_image handle)
{
	struct worker_image **at, *image;

	pthread_mutex_lock(&images_lock);
	for (at = &images; *at && (vcuda_image)*at != handle; at = &(*at)->next)
		continue;
	image = *at;
	if (image)
		*at = image->next;
	pthread_mutex_unlock(&images_lock);
	if (!image)
		return CUDA_ERROR_INVALID_HANDLE;
	worker_image_release(image);
	return CUDA_SUCCESS;
}

CUresult worker_image_add_option(struct worker_image *image, uint32_t option, uint64_t value)
{
	CUresult result;

	pthread_mutex_lock(&images_lock);
	result = worker_jit_add(&image->jit, option, value);
	pthread_mutex_unlock(&images_lock);
	return result;
}

struct worker_jit_options worker_image_options(struct worker_image *image)
{
	struct worker_jit_options all;

	pthread_mutex_lock(&images_lock);
	all = worker_jit_all(&image->jit);
	pthread_mutex_unlock(&images_lock);
	return all;
}

struct worker_jit_options worker_image_numbers(struct worker_image *image)
{
	struct worker_jit_options numbers;

	pthread_mutex_lock(&images_lock);
	numbers = image->jit.numbers;
	pthread_mutex_unlock(&images_lock);
	return numbers;
}
