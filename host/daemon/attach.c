/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"

#include <errno.h>

#include "common/log.h"

int daemon_extents_for_worker(const struct daemon_context *context, const struct daemon_parsed *p,
			      struct vcuda_channel_extent *extents)
{
	const struct daemon_memory *memory = &context->device->memory;
	unsigned int i, known, count = 0;

	for (i = 0; i < p->count; i++) {
		const struct daemon_memory_file *file = &memory->files[p->extents[i].region];
		struct vcuda_channel_extent *last = count ? &extents[count - 1] : NULL;

		for (known = 0; known < context->file_count; known++)
			if (context->files[known].device == file->device && context->files[known].inode == file->inode)
				break;
		if (known == context->file_count) {
			vcuda_log_peer(
				"guest process %u uses memory that was plugged in after it started: start it again",
				context->pid);
			return -ENXIO;
		}
		if (last && last->region == known && last->offset + last->length == p->extents[i].offset) {
			last->length += p->extents[i].length;
			continue;
		}
		extents[count] = p->extents[i];
		extents[count++].region = known;
	}
	return (int)count;
}

/* The files that this and later workers of the context know as region 0, 1, ... */
static void number_files(struct daemon_context *context)
{
	const struct daemon_memory *memory = &context->device->memory;
	unsigned int i;

	for (i = 0; i < DAEMON_MEMORY_REGIONS; i++) {
		const struct daemon_memory_file *file = &memory->files[i];

		if (file->fd < 0)
			continue;
		context->files[context->file_count].device = file->device;
		context->files[context->file_count].inode = file->inode;
		context->file_count++;
	}
}

static const struct daemon_memory_file *file_of(const struct daemon_context *context, unsigned int known)
{
	const struct daemon_memory *memory = &context->device->memory;
	unsigned int i;

	for (i = 0; i < DAEMON_MEMORY_REGIONS; i++) {
		const struct daemon_memory_file *file = &memory->files[i];

		if (file->fd >= 0 && file->device == context->files[known].device &&
		    file->inode == context->files[known].inode)
			return file;
	}
	return NULL;
}

/* Two of each region for the mapper, one for a worker without. Their number, or -ENXIO: a file was unplugged. */
static int descriptors(const struct daemon_context *context, bool mapper, int *fds)
{
	unsigned int known;
	int count = 0;

	for (known = 0; known < context->file_count; known++) {
		const struct daemon_memory_file *file = file_of(context, known);

		if (!file)
			return -ENXIO;
		fds[count++] = file->fd;
		if (mapper)
			fds[count++] = file->read_only >= 0 ? file->read_only : file->fd;
	}
	return count;
}

/* The files of guest RAM go to the mapper, or to a worker without one. */
static int send(struct daemon_context *context, const struct vcuda_channel_extent *extents)
{
	struct daemon_worker *worker = context->worker;
	bool mapper = worker->mapper.made;
	int ram[2 * DAEMON_MEMORY_REGIONS], fds[VCUDA_CHANNEL_MAX_FDS] = {worker->doorbell, worker->notify};
	int count = descriptors(context, mapper, mapper ? ram : fds + 2), status;

	if (count < 0)
		return count;
	if (!mapper)
		return daemon_worker_send(worker, &context->attached, extents, fds, 2 + (unsigned int)count);
	status = daemon_mapper_give(&worker->mapper, ram, (unsigned int)count);
	return status ? status : daemon_worker_send(worker, &context->attached, extents, fds, 2);
}

int daemon_attach(struct daemon_context *context, const struct daemon_parsed *p)
{
	const struct vcuda_ctl_request *r = &p->request;
	struct vcuda_channel_extent extents[VCUDA_CHANNEL_MAX_EXTENTS];
	int count;

	number_files(context);
	count = daemon_extents_for_worker(context, p, extents);
	if (count < 0)
		return count;
	context->attached = (struct vcuda_channel_message){.type = VCUDA_CHANNEL_ATTACH,
							   .length = p->bytes,
							   .major = r->major,
							   .minor = r->minor,
							   .uid = r->uid,
							   .pid = r->pid,
							   .extents = (uint32_t)count};
	if (daemon_grants_add(&context->shared_area, 0, extents, context->attached.extents, true))
		return -ENOMEM;
	return send(context, extents);
}

int daemon_attach_again(struct daemon_context *context)
{
	struct vcuda_channel_extent extents[VCUDA_CHANNEL_MAX_EXTENTS];
	uint32_t i;

	for (i = 0; i < context->shared_area.count; i++)
		extents[i] = (struct vcuda_channel_extent){.region = context->shared_area.grants[i].region,
							   .offset = context->shared_area.grants[i].offset,
							   .length = context->shared_area.grants[i].length};
	return send(context, extents);
}
