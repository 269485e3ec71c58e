/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: module images, and what is looked up in a module. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dispatch.h"
#include "handlers.h"
#include "lane.h"
#include "types.h"
#include "session.h"
#include "worker.h"

/* What one guest process may ship and not yet have loaded. */
#define MAX_IMAGE_BYTES (1ull << 30)

/* Zeroes behind an image, so that PTX text ends. */
#define IMAGE_PADDING 64

/* Of each of the compiler's two logs. */
#define LOG_BYTES 16384

#define MAX_OPTIONS 16
#define LOG_OPTIONS 4

struct jit_options {
	unsigned int count;
	CUjit_option options[MAX_OPTIONS + LOG_OPTIONS];
	void *values[MAX_OPTIONS + LOG_OPTIONS];
};

struct image {
	struct image *next; /* with the number of users, under images_lock */
	unsigned int users; /* the handle, and each call that is at it */
	size_t bytes;
	bool wants_log;
	struct jit_options jit; /* under images_lock: a guest's threads may use one image at once */
	char info[LOG_BYTES], errors[LOG_BYTES];
	_Alignas(64) uint8_t data[];
};

static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t images_bytes;
static struct image *images;

static bool account(uint64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&images_lock);
	fits = bytes <= MAX_IMAGE_BYTES && images_bytes <= MAX_IMAGE_BYTES - bytes;
	if (fits)
		images_bytes += bytes;
	pthread_mutex_unlock(&images_lock);
	return fits;
}

static void unaccount(uint64_t bytes)
{
	pthread_mutex_lock(&images_lock);
	images_bytes -= bytes;
	pthread_mutex_unlock(&images_lock);
}

/* NULL: destroyed; another thread of the guest may have done that while this call was on its way. */
static struct image *take(vcuda_image handle)
{
	struct image *image;

	pthread_mutex_lock(&images_lock);
	for (image = images; image && (vcuda_image)image != handle; image = image->next)
		continue;
	if (image)
		image->users++;
	pthread_mutex_unlock(&images_lock);
	return image;
}

static void put(struct image *image)
{
	bool last;

	pthread_mutex_lock(&images_lock);
	last = !--image->users;
	if (last)
		images_bytes -= image->bytes;
	pthread_mutex_unlock(&images_lock);
	if (last)
		munmap(image, sizeof(*image) + image->bytes + IMAGE_PADDING);
}

/* Runs a call's own part with its image, which stays until that is done. */
static CUresult with_image(struct vcuda_session *s, vcuda_image handle,
			   CUresult (*part)(struct vcuda_session *s, struct image *image, void *arguments), void *arguments)
{
	struct image *image = take(handle);
	CUresult result;

	if (!image)
		return CUDA_ERROR_INVALID_HANDLE;
	result = part(s, image, arguments);
	put(image);
	return result;
}

CUresult vcuda_handle_vcudaImageCreate(struct vcuda_session *s, struct vcuda_args_vcudaImageCreate *a)
{
	struct image *image;

	if (!a->total || !account(a->total))
		return a->total ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	/* mmap, not calloc: large, and its pages cost nothing before they are written */
	image = mmap(NULL, sizeof(*image) + a->total + IMAGE_PADDING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (image == MAP_FAILED) {
		unaccount(a->total);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	image->bytes = a->total;
	image->users = 1;
	pthread_mutex_lock(&images_lock);
	image->next = images;
	images = image;
	pthread_mutex_unlock(&images_lock);
	a->image = (vcuda_image)image;
	return CUDA_SUCCESS;
}

static CUresult write_image(struct vcuda_session *s, struct image *image, void *arguments)
{
	struct vcuda_args_vcudaImageWrite *a = arguments;
	const void *from = vcuda_lane_stage(s, a->block, a->bytes);

	if (!from || a->offset > image->bytes || a->bytes > image->bytes - a->offset)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(image->data + a->offset, from, a->bytes);
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaImageWrite(struct vcuda_session *s, struct vcuda_args_vcudaImageWrite *a)
{
	return with_image(s, a->image, write_image, a);
}

CUresult vcuda_handle_vcudaImageDestroy(struct vcuda_session *s, struct vcuda_args_vcudaImageDestroy *a)
{
	struct image **at, *image;

	pthread_mutex_lock(&images_lock);
	for (at = &images; *at && (vcuda_image)*at != a->image; at = &(*at)->next)
		continue;
	image = *at;
	if (image)
		*at = image->next;
	pthread_mutex_unlock(&images_lock);
	if (!image)
		return CUDA_ERROR_INVALID_HANDLE;
	put(image);
	return CUDA_SUCCESS;
}

static CUresult add_option(struct vcuda_session *s, struct image *image, void *arguments)
{
	struct vcuda_args_vcudaImageOption *a = arguments;
	bool log = a->option == CU_JIT_INFO_LOG_BUFFER || a->option == CU_JIT_ERROR_LOG_BUFFER, fits;

	if (!log && (a->option >= CU_JIT_NUM_OPTIONS || !(VCUDA_JIT_NUMBERS >> a->option & 1)))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&images_lock);
	image->wants_log |= log;
	fits = log || image->jit.count < MAX_OPTIONS;
	if (!log && fits) {
		image->jit.options[image->jit.count] = (CUjit_option)a->option;
		image->jit.values[image->jit.count++] = (void *)(uintptr_t)a->value;
	}
	pthread_mutex_unlock(&images_lock);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vcuda_handle_vcudaImageOption(struct vcuda_session *s, struct vcuda_args_vcudaImageOption *a)
{
	return with_image(s, a->image, add_option, a);
}

static CUresult read_log(struct vcuda_session *s, struct image *image, void *arguments)
{
	struct vcuda_args_vcudaImageLog *a = arguments;
	const char *log = a->option == CU_JIT_INFO_LOG_BUFFER ? image->info : image->errors;
	void *to = vcuda_lane_stage(s, a->block, a->bytes);

	if (!to)
		return CUDA_ERROR_INVALID_VALUE;
	a->length = strnlen(log, a->bytes < LOG_BYTES ? a->bytes : LOG_BYTES);
	memcpy(to, log, a->length);
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaImageLog(struct vcuda_session *s, struct vcuda_args_vcudaImageLog *a)
{
	return with_image(s, a->image, read_log, a);
}

/* The options for the back end: what the guest said, and the logs. */
static struct jit_options jit_options(struct image *image)
{
	const struct {
		CUjit_option option;
		void *value;
	} logs[LOG_OPTIONS] = {{CU_JIT_INFO_LOG_BUFFER, image->info},
			       {CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, (void *)(uintptr_t)LOG_BYTES},
			       {CU_JIT_ERROR_LOG_BUFFER, image->errors},
			       {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void *)(uintptr_t)LOG_BYTES}};
	struct jit_options jit;

	pthread_mutex_lock(&images_lock);
	jit = image->jit;
	pthread_mutex_unlock(&images_lock);
	for (unsigned int i = 0; image->wants_log && i < LOG_OPTIONS; i++) {
		jit.options[jit.count] = logs[i].option;
		jit.values[jit.count++] = logs[i].value;
	}
	return jit;
}

#define CONTAINER_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* of the entries that follow the header */
};

/*
 * What a program compiled with -rdc=true hands to the driver: the device linker's code, and what it was made from, for
 * the driver to link where that code is for another GPU, or empty.
 */
struct relocatable {
	uint32_t magic, version;
	const void *data;
	const void *const *extra;
	const void *parts[];
};

/* The size of the container at an offset of an image, 0: there is none. */
static size_t container_at(const struct image *image, size_t offset)
{
	struct container c;

	if (image->bytes - offset < sizeof(c))
		return 0;
	memcpy(&c, image->data + offset, sizeof(c));
	if (c.magic != CONTAINER_MAGIC || c.header_size < sizeof(c) || c.size > image->bytes - offset ||
	    c.header_size > image->bytes - offset - c.size)
		return 0;
	return c.header_size + c.size;
}

/* An image of several containers is such a program's, put together by the guest. NULL: it is not, or memory is out. */
static struct relocatable *find_relocatable(const struct image *image)
{
	size_t first = container_at(image, 0), count = 0;
	struct relocatable *r;

	for (size_t at = first, size; at && (size = container_at(image, at)); at += size)
		count++;
	r = count ? calloc(1, sizeof(*r) + (count + 1) * sizeof(r->parts[0])) : NULL;
	if (!r)
		return NULL;
	r->magic = WRAPPER_MAGIC;
	r->version = 2;
	r->data = image->data;
	r->extra = r->parts;
	/* another thread of the guest may write to the image meanwhile: no more parts than there was room for */
	for (size_t at = first, size, n = 0; n < count && (size = container_at(image, at)); at += size)
		r->parts[n++] = image->data + at;
	return r;
}

/* A back end that knows how long an image is takes it as it is. `*relocatable` is to be freed after the call. */
static const void *image_for_backend(const struct image *image, struct relocatable **relocatable)
{
	*relocatable = NULL;
	if (vcuda_worker_loaded.set_image_bound)
		vcuda_worker_loaded.set_image_bound(image->bytes);
	else
		*relocatable = find_relocatable(image);
	return *relocatable ? (const void *)*relocatable : image->data;
}

/* How many variables wait for memory of the guest's before anything of it can be used (handle-managed.c). */
static CUresult count_managed(struct vcuda_session *s, void *owner, uint32_t *count)
{
	*count = 0;
	return s->ops->managedCount ? s->ops->managedCount(owner, count) : CUDA_SUCCESS;
}

static CUresult load_module(struct vcuda_session *s, struct image *image, void *arguments)
{
	struct vcuda_args_cuModuleLoadData *a = arguments;
	struct jit_options jit = jit_options(image);
	struct relocatable *relocatable;
	CUresult result;

	if (!s->ops->cuModuleLoadDataEx)
		return vcuda_unsupported(s, VCUDA_OP_cuModuleLoadData);
	result = s->ops->cuModuleLoadDataEx(&a->module, image_for_backend(image, &relocatable), jit.count,
					    jit.options, jit.values);
	free(relocatable);
	return result == CUDA_SUCCESS ? count_managed(s, a->module, &a->managed) : result;
}

CUresult vcuda_handle_cuModuleLoadData(struct vcuda_session *s, struct vcuda_args_cuModuleLoadData *a)
{
	return with_image(s, a->image, load_module, a);
}

static CUresult load_library(struct vcuda_session *s, struct image *image, void *arguments)
{
	struct vcuda_args_cuLibraryLoadData *a = arguments;
	struct jit_options jit = jit_options(image);
	struct relocatable *relocatable;
	CUresult result;

	if (!s->ops->cuLibraryLoadData)
		return vcuda_unsupported(s, VCUDA_OP_cuLibraryLoadData);
	result = s->ops->cuLibraryLoadData(&a->library, image_for_backend(image, &relocatable), jit.options,
					   jit.values, jit.count, NULL, NULL, 0);
	free(relocatable);
	return result == CUDA_SUCCESS ? count_managed(s, a->library, &a->managed) : result;
}

CUresult vcuda_handle_cuLibraryLoadData(struct vcuda_session *s, struct vcuda_args_cuLibraryLoadData *a)
{
	return with_image(s, a->image, load_library, a);
}
