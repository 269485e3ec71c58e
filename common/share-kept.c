/* SPDX-License-Identifier: Apache-2.0 */
#include "share-kept.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

static vcuda_share_exchange *keeper;

void vcuda_share_set_keeper(vcuda_share_exchange *exchange)
{
	keeper = exchange;
}

int vcuda_share_ask_keeper(struct vcuda_keeper_message *m, int fd, int *answer)
{
	*answer = -1;
	return keeper ? keeper(m, fd, answer) : -ENOTCONN;
}

/* A request whose reply has no descriptor. */
static int tell(struct vcuda_keeper_message *m, int fd)
{
	int answer, err = vcuda_share_ask_keeper(m, fd, &answer);

	if (answer >= 0)
		close(answer);
	return err;
}

void vcuda_share_kept_handle(const uint8_t key[16], const uint8_t tail[VCUDA_SHARE_TAIL_BYTES],
			     struct vcuda_share_handle *handle)
{
	*handle = (struct vcuda_share_handle){.zero = {0}};
	memcpy(handle->magic, VCUDA_SHARE_KEPT_MAGIC, sizeof(handle->magic));
	memcpy(handle->key, key, sizeof(handle->key));
	memcpy(handle->zero, tail, sizeof(handle->zero));
}

/* Without a keeper: as long as this worker lives. */
static int offer(const struct vcuda_share_kept *what, struct vcuda_share_handle *handle)
{
	uint8_t tail[VCUDA_SHARE_TAIL_BYTES];
	bool done;

	memcpy(tail, handle->zero, sizeof(tail));
	done = what->part.bytes ? vcuda_share_offer(what->kind, what->part, what->fd, handle)
				: vcuda_share_offer_note(what->kind, what->note, what->fd, handle);
	memcpy(handle->zero, tail, sizeof(tail));
	return done ? 0 : -ENOMEM;
}

int vcuda_share_keep(const struct vcuda_share_kept *what, struct vcuda_share_handle *handle)
{
	struct vcuda_keeper_message m = {
		.type = VCUDA_KEEPER_OFFER,
		.kind = what->kind,
		.device = what->device,
		.has_fd = what->fd >= 0,
		.part = what->part,
		.bytes = what->bytes,
	};
	int err;

	if (what->note)
		memcpy(m.note, what->note, sizeof(m.note));
	if (what->pool)
		memcpy(m.key, what->pool->key, sizeof(m.key));
	memcpy(m.tail, handle->zero, sizeof(m.tail));
	err = tell(&m, what->fd);
	if (err == -ENOTCONN)
		return offer(what, handle);
	if (what->fd >= 0)
		close(what->fd);
	/* vcudad says that the limit is reached, once. */
	if (err && err != -EDQUOT)
		vcuda_log("cannot export memory or a pool: %s", strerror(-err));
	if (err)
		return -ENOMEM;
	vcuda_share_kept_handle(m.key, m.tail, handle);
	return 0;
}

void vcuda_share_resize(const struct vcuda_share_handle *handle, uint64_t bytes)
{
	struct vcuda_keeper_message m = {.type = VCUDA_KEEPER_RESIZE, .bytes = bytes};

	memcpy(m.key, handle->key, sizeof(m.key));
	if (vcuda_share_is_kept(handle))
		tell(&m, -1);
}

void vcuda_share_let_go(const struct vcuda_share_handle *handle)
{
	struct vcuda_keeper_message m = {.type = VCUDA_KEEPER_WITHDRAW};

	memcpy(m.key, handle->key, sizeof(m.key));
	tell(&m, -1);
}
