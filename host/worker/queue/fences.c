/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/fences.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/fatbin.h"
#include "common/start-thread.h"
#include "images/image.h"
#include "session/session.h"

/* Unpacking takes about 1 ms for 1 MiB: at most so many bytes of a process's code are searched. */
#define MOST_BYTES (4u << 20)

/*
 * Images that wait for the search still count as the guest's images (handle-image.c). So at most this many wait, in
 * case the guest loads faster than the search, and no large image, which takes long to load anyway.
 */
#define MOST_WAITING 64
#define LARGE_BYTES (1u << 20)

/* Searching so many bytes of unpacked code takes less time than waking a thread. */
#define LITTLE_BYTES (16u * 1024)

/* The function that PTX and machine code call to print. */
static const char print[] = "vprintf";

/* An image that is to be looked at, and is kept until then. */
struct look {
	struct look *next;
	struct worker_image *image;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	bool offered;		/* there is a thread that looks */
	bool prints;		/* code was loaded that may print: for ever, as it may stay */
	unsigned int waiting;	/* images in the queue, and the one that is being looked at */
	struct look *first, **last;
	_Atomic size_t bytes_looked_at; /* of code, unpacked; of several threads at once some more */
} fences = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .last = &fences.first};

static bool names_print(const void *code, size_t bytes)
{
	return memmem(code, bytes, print, sizeof(print) - 1);
}

static bool takes_major(struct worker_session *s, unsigned int major)
{
	int count = 0, has;

	s->ops->cuDeviceGetCount(&count);
	for (int i = 0; i < count; i++)
		if (s->ops->cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, i) ==
			    CUDA_SUCCESS &&
		    (unsigned int)has == major)
			return true;
	return false;
}

/* A thread of the guest may write to the image meanwhile, which who unpacks it must not see. */
static int unpack_copy(struct fatbin_entry e, char **code, size_t *bytes)
{
	void *copy = malloc(e.stored_bytes);
	int err = copy ? 0 : -ENOMEM;

	if (copy) {
		e.payload = memcpy(copy, e.payload, e.stored_bytes);
		err = fatbin_unpack(&e, code, bytes);
	}
	free(copy);
	return err;
}

/* Machine code for other devices is not used. */
static bool entry_may_print(struct worker_session *s, const struct fatbin_entry *e)
{
	bool may = true;
	size_t bytes;
	char *code;

	if (e->kind == FATBIN_ELF && !takes_major(s, e->sm / 10))
		return false;
	if ((e->kind != FATBIN_ELF && e->kind != FATBIN_PTX) ||
	    e->bytes + atomic_load(&fences.bytes_looked_at) > MOST_BYTES)
		return true;
	atomic_fetch_add(&fences.bytes_looked_at, e->bytes);
	if (!unpack_copy(*e, &code, &bytes)) {
		may = names_print(code, bytes);
		free(code);
	}
	return may;
}

static bool container_may_print(struct worker_session *s, const void *image, size_t bytes)
{
	struct fatbin_reader reader;
	struct fatbin_entry entry;
	int more;

	if (fatbin_open(&reader, image, bytes))
		return true;
	do {
		while ((more = fatbin_next(&reader, &entry)) > 0)
			if (entry_may_print(s, &entry))
				return true;
	} while (!more && fatbin_next_container(&reader));
	return more;
}

static bool is_container(const void *image, size_t bytes)
{
	return bytes >= FATBIN_HEADER_BYTES && fatbin_size(image);
}

static bool may_print(struct worker_session *s, const void *image, size_t bytes)
{
	if (is_container(image, bytes))
		return container_may_print(s, image, bytes);
	return names_print(image, bytes);
}

/* With the lock held. */
static void tell_guest(struct worker_session *s)
{
	struct vcuda_shm *shm = s->shm;

	atomic_store(&shm->fences, fences.offered && !fences.prints && !fences.waiting);
}

/* With the lock held, which it gives up while it looks. */
static void look_at_first(struct worker_session *s)
{
	struct look *l = fences.first;
	bool prints, known = fences.prints;

	fences.first = l->next;
	if (!l->next)
		fences.last = &fences.first;
	pthread_mutex_unlock(&fences.lock);
	prints = !known && may_print(s, l->image->data, l->image->bytes);
	pthread_mutex_lock(&fences.lock);
	/* Another image may have set `prints` meanwhile. */
	fences.prints |= prints;
	fences.waiting--;
	tell_guest(s);
	worker_image_release(l->image);
	free(l);
}

static void *looks(void *session)
{
	pthread_mutex_lock(&fences.lock);
	for (;;) {
		while (!fences.first)
			pthread_cond_wait(&fences.more, &fences.lock);
		look_at_first(session);
	}
	return NULL;
}

void worker_fences_offer(struct worker_session *s)
{
	int has = 0;

	/* The software GPU's waiters run what they wait for. */
	if (!strcmp(s->ops->name, "cpu") || !s->peer_minor || !s->ops->cuStreamWriteValue32_v2 ||
	    s->ops->cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0) || !has)
		return;
	pthread_mutex_lock(&fences.lock);
	if (!fences.offered)
		fences.offered = vcuda_thread_start(looks, s);
	tell_guest(s);
	pthread_mutex_unlock(&fences.lock);
}

/* With the lock held. False: it is to be looked at now. */
static bool put_off(struct worker_image *image)
{
	struct look *l = fences.waiting < MOST_WAITING ? malloc(sizeof(*l)) : NULL;

	if (!l)
		return false;
	worker_image_retain(image);
	*l = (struct look){.image = image};
	*fences.last = l;
	fences.last = &l->next;
	fences.waiting++;
	pthread_cond_signal(&fences.more);
	return true;
}

static bool is_for_later(const struct worker_image *image)
{
	return image->bytes <= LARGE_BYTES && (image->bytes > LITTLE_BYTES || is_container(image->data, image->bytes));
}

void worker_fences_inspect(struct worker_session *s, struct worker_image *image)
{
	bool later = is_for_later(image), prints;

	pthread_mutex_lock(&fences.lock);
	if (!fences.offered || fences.prints) {
		pthread_mutex_unlock(&fences.lock);
		return;
	}
	if (later && put_off(image)) {
		prints = false;
	} else {
		pthread_mutex_unlock(&fences.lock);
		prints = may_print(s, image->data, image->bytes);
		pthread_mutex_lock(&fences.lock);
	}
	fences.prints |= prints;
	tell_guest(s);
	pthread_mutex_unlock(&fences.lock);
}
