/* SPDX-License-Identifier: Apache-2.0 */
#include "marks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fatbin.h"
#include "session.h"

/* To unpack code takes time, about 1 ms for 1 MiB: so much of a process's is looked at. */
#define MOST_BYTES (4u << 20)

/* What PTX and machine code call to print. */
static const char print[] = "vprintf";

static bool names_print(const void *code, size_t bytes)
{
	return memmem(code, bytes, print, sizeof(print) - 1);
}

static bool takes_major(struct vcuda_session *s, unsigned int major)
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
static bool entry_may_print(struct vcuda_session *s, const struct fatbin_entry *e)
{
	bool may = true;
	size_t bytes;
	char *code;

	if (e->kind == FATBIN_ELF && !takes_major(s, e->sm / 10))
		return false;
	if ((e->kind != FATBIN_ELF && e->kind != FATBIN_PTX) ||
	    e->bytes + atomic_load(&s->bytes_looked_at) > MOST_BYTES)
		return true;
	atomic_fetch_add(&s->bytes_looked_at, e->bytes);
	if (!unpack_copy(*e, &code, &bytes)) {
		may = names_print(code, bytes);
		free(code);
	}
	return may;
}

static bool container_may_print(struct vcuda_session *s, const void *image, size_t bytes)
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

static bool may_print(struct vcuda_session *s, const void *image, size_t bytes)
{
	if (bytes >= FATBIN_HEADER_BYTES && fatbin_size(image))
		return container_may_print(s, image, bytes);
	return names_print(image, bytes);
}

static void set(struct vcuda_session *s, bool on)
{
	struct vcuda_shm *shm = s->shm;

	s->marks = on;
	atomic_store(&shm->marks, on);
}

void vcuda_marks_offer(struct vcuda_session *s)
{
	int has = 0;

	/* The software GPU's waiters run what they wait for. */
	if (strcmp(s->ops->name, "cpu") && s->peer_minor && s->ops->cuStreamWriteValue32_v2 &&
	    s->ops->cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0) == CUDA_SUCCESS &&
	    has)
		set(s, true);
}

void vcuda_marks_look_at(struct vcuda_session *s, const void *image, size_t bytes)
{
	if (s->marks && may_print(s, image, bytes))
		set(s, false);
}
