/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/virtio_config.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "vhost-message.h"

#define DAEMON_FEATURE_PROTOCOL (1ull << 30) /* VHOST_USER_F_PROTOCOL_FEATURES */
#define DAEMON_FEATURES (1ull << VIRTIO_F_VERSION_1 | DAEMON_FEATURE_PROTOCOL)
#define DAEMON_PROTOCOL_FEATURES                                                                                       \
	(DAEMON_VHOST_MQ | DAEMON_VHOST_REPLY_ACK | DAEMON_VHOST_CONFIG | DAEMON_VHOST_CONFIGURE_MEM_SLOTS |           \
	 DAEMON_VHOST_STATUS)

#define DAEMON_FD_INDEX 0xffull /* of the payload of KICK, CALL and ERR */
#define DAEMON_FD_NONE (1ull << 8)
#define DAEMON_STATUS_NEEDS_RESET 0x40

enum {
	GET_FEATURES = 1,
	SET_FEATURES = 2,
	SET_OWNER = 3,
	RESET_OWNER = 4,
	SET_MEM_TABLE = 5,
	SET_VRING_NUM = 8,
	SET_VRING_ADDR = 9,
	SET_VRING_BASE = 10,
	GET_VRING_BASE = 11,
	SET_VRING_KICK = 12,
	SET_VRING_CALL = 13,
	SET_VRING_ERR = 14,
	GET_PROTOCOL_FEATURES = 15,
	SET_PROTOCOL_FEATURES = 16,
	GET_QUEUE_NUM = 17,
	SET_VRING_ENABLE = 18,
	GET_CONFIG = 24,
	SET_CONFIG = 25,
	GET_MAX_MEM_SLOTS = 36,
	ADD_MEM_REG = 37,
	REM_MEM_REG = 38,
	SET_STATUS = 39,
	GET_STATUS = 40,
};

struct memory_region {
	uint64_t gpa, size, user, offset;
};

struct memory_table {
	uint32_t count, padding;
	struct memory_region regions[DAEMON_VHOST_FDS];
};

struct one_region {
	uint64_t padding;
	struct memory_region region;
};

struct vring_address {
	uint32_t index, flags;
	uint64_t descriptors, used, available, log;
};

struct config_space {
	uint32_t offset, size, flags;
	uint8_t region[256];
};

static int answer_number(struct daemon_vhost *vhost, uint64_t number)
{
	vhost->message.number = number;
	vhost->message.header.size = sizeof(number);
	return 0;
}

static int take_fd(struct daemon_vhost *vhost, unsigned int index)
{
	int fd = -1;

	if (index < vhost->fd_count) {
		fd = vhost->fds[index];
		vhost->fds[index] = -1;
	}
	return fd;
}

static struct daemon_queue *queue_of(struct daemon_vhost *vhost, uint64_t index)
{
	if (index < VCUDA_QUEUES) {
		vhost->queues_named |= 1u << index;
		return &vhost->device.queues[index];
	}
	vcuda_log("the VMM names queue %llu, but there are %d: give the device num_vqs=%d", (unsigned long long)index,
		  VCUDA_QUEUES, VCUDA_QUEUES);
	return NULL;
}

static int nothing(struct daemon_vhost *vhost)
{
	return 0;
}

/* ---- features ---- */

static int get_features(struct daemon_vhost *vhost)
{
	return answer_number(vhost, DAEMON_FEATURES);
}

static int set_features(struct daemon_vhost *vhost)
{
	uint64_t features = vhost->message.number;

	if (features & ~DAEMON_FEATURES) {
		vcuda_log("the VMM wants features %#llx that were not offered",
			  (unsigned long long)(features & ~DAEMON_FEATURES));
		return -EINVAL;
	}
	vhost->features = features;
	return 0;
}

static int get_protocol_features(struct daemon_vhost *vhost)
{
	return answer_number(vhost, DAEMON_PROTOCOL_FEATURES);
}

static int set_protocol_features(struct daemon_vhost *vhost)
{
	vhost->protocol_features = vhost->message.number & DAEMON_PROTOCOL_FEATURES;
	return vhost->protocol_features == vhost->message.number ? 0 : -EINVAL;
}

static int get_queue_num(struct daemon_vhost *vhost)
{
	return answer_number(vhost, VCUDA_QUEUES);
}

/* ---- memory ---- */

static void remap_queues(struct daemon_vhost *vhost)
{
	unsigned int i;

	for (i = 0; i < VCUDA_QUEUES; i++)
		daemon_queue_remap(&vhost->device.queues[i]);
}

static int add_region(struct daemon_vhost *vhost, const struct memory_region *r, int fd)
{
	int status;

	if (fd < 0) {
		vcuda_log("a memory region without a file: the VM needs -object "
			  "memory-backend-memfd,id=m,size=...,share=on and "
			  "-machine memory-backend=m");
		return -EINVAL;
	}
	status = daemon_memory_add(&vhost->device.memory, r->gpa, r->size, r->user, r->offset, fd);
	if (status)
		vcuda_log("cannot use guest memory at %#llx (%llu MiB): %s", (unsigned long long)r->gpa,
			  (unsigned long long)r->size >> 20, strerror(-status));
	else
		vcuda_log_debug("guest memory at %#llx, %llu MiB", (unsigned long long)r->gpa,
				(unsigned long long)r->size >> 20);
	return status;
}

static int set_mem_table(struct daemon_vhost *vhost)
{
	struct memory_table table;
	int status = 0;
	uint32_t i;

	memcpy(&table, vhost->message.bytes, sizeof(table));
	if (table.count > DAEMON_VHOST_FDS)
		return -EINVAL;
	daemon_memory_clear(&vhost->device.memory);
	for (i = 0; i < table.count && !status; i++)
		status = add_region(vhost, &table.regions[i], take_fd(vhost, i));
	remap_queues(vhost);
	return status;
}

static int get_max_mem_slots(struct daemon_vhost *vhost)
{
	return answer_number(vhost, DAEMON_MEMORY_REGIONS);
}

static int add_mem_reg(struct daemon_vhost *vhost)
{
	struct one_region one;

	memcpy(&one, vhost->message.bytes, sizeof(one));
	return add_region(vhost, &one.region, take_fd(vhost, 0));
}

static int rem_mem_reg(struct daemon_vhost *vhost)
{
	struct one_region one;
	int status;

	memcpy(&one, vhost->message.bytes, sizeof(one));
	status = daemon_memory_remove(&vhost->device.memory, one.region.gpa, one.region.size, one.region.user);
	if (!status)
		remap_queues(vhost);
	return status;
}

/* ---- rings ---- */

static int set_vring_num(struct daemon_vhost *vhost)
{
	struct daemon_queue *queue = queue_of(vhost, vhost->message.state.index);

	return queue ? daemon_queue_set_size(queue, vhost->message.state.number) : -EINVAL;
}

static int set_vring_addr(struct daemon_vhost *vhost)
{
	struct vring_address a;
	struct daemon_queue *queue;
	int status;

	memcpy(&a, vhost->message.bytes, sizeof(a));
	queue = queue_of(vhost, a.index);
	if (!queue)
		return -EINVAL;
	status = daemon_queue_set_address(queue, a.descriptors, a.available, a.used);
	if (status && vhost->device.memory.count)
		vcuda_log("queue %u: its rings are not in guest memory", a.index);
	return status;
}

static int set_vring_base(struct daemon_vhost *vhost)
{
	struct daemon_queue *queue = queue_of(vhost, vhost->message.state.index);

	if (!queue)
		return -EINVAL;
	queue->last_available = (uint16_t)vhost->message.state.number;
	return 0;
}

static void set_kick(struct daemon_vhost *vhost, unsigned int index, int fd)
{
	struct daemon_kick *kick = &vhost->kicks[index];

	daemon_source_remove(vhost->loop, &kick->source);
	if (kick->fd >= 0)
		close(kick->fd);
	kick->fd = fd;
	if (fd >= 0 && daemon_source_add(vhost->loop, &kick->source, fd, EPOLLIN))
		vcuda_log("queue %u: the VMM's kick descriptor cannot be waited for: %m", index);
	daemon_device_kick(&vhost->device, index);
}

/*
 * The first message for a device. The VMM that unplugs its device and plugs another one in keeps the connection, and
 * takes no memory back before.
 */
static int set_owner(struct daemon_vhost *vhost)
{
	for (unsigned int i = 0; i < VCUDA_QUEUES; i++)
		set_kick(vhost, i, -1);
	vhost->status = 0;
	daemon_device_forget(&vhost->device);
	return 0;
}

/* Ends the use of the ring; the workers are gone by now. */
static int get_vring_base(struct daemon_vhost *vhost)
{
	struct daemon_queue *queue = queue_of(vhost, vhost->message.state.index);

	vhost->message.header.size = sizeof(vhost->message.state);
	vhost->message.state.number = 0;
	if (!queue)
		return -EINVAL;
	vhost->message.state.number = queue->last_available;
	queue->enabled = queue->broken = false;
	set_kick(vhost, queue->index, -1);
	return 0;
}

static int set_vring_kick(struct daemon_vhost *vhost)
{
	struct daemon_queue *queue = queue_of(vhost, vhost->message.number & DAEMON_FD_INDEX);

	if (!queue)
		return -EINVAL;
	if (vhost->message.number & DAEMON_FD_NONE || !vhost->fd_count) {
		vcuda_log("queue %u: the VMM gives no kick descriptor, and polling is not supported", queue->index);
		return -EINVAL;
	}
	/* Without the protocol features there is no SET_VRING_ENABLE. */
	if (!vhost->protocol_features)
		queue->enabled = true;
	set_kick(vhost, queue->index, take_fd(vhost, 0));
	return 0;
}

static int replace_fd(struct daemon_vhost *vhost, int *place)
{
	if (*place >= 0)
		close(*place);
	*place = vhost->message.number & DAEMON_FD_NONE ? -1 : take_fd(vhost, 0);
	return 0;
}

static int set_vring_call(struct daemon_vhost *vhost)
{
	struct daemon_queue *queue = queue_of(vhost, vhost->message.number & DAEMON_FD_INDEX);

	if (!queue)
		return -EINVAL;
	replace_fd(vhost, &queue->call);
	/* Signal buffers that were used before the call descriptor was set; a spurious interrupt does no harm. */
	if (daemon_queue_ready(queue))
		daemon_queue_signal(queue);
	return 0;
}

static int set_vring_err(struct daemon_vhost *vhost)
{
	struct daemon_queue *queue = queue_of(vhost, vhost->message.number & DAEMON_FD_INDEX);

	return queue ? replace_fd(vhost, &queue->error) : -EINVAL;
}

static int set_vring_enable(struct daemon_vhost *vhost)
{
	struct daemon_queue *queue = queue_of(vhost, vhost->message.state.index);

	if (!queue)
		return -EINVAL;
	queue->enabled = vhost->message.state.number;
	if (!queue->enabled)
		return 0;
	if (!vhost->device.memory.count) {
		vcuda_log("the VM shares no memory, so its device cannot work: start QEMU with "
			  "-object memory-backend-memfd,id=m,size=...,share=on and -machine memory-backend=m");
		return -EINVAL;
	}
	if (!daemon_queue_ready(queue))
		vcuda_log("queue %u is enabled before its rings are set up", queue->index);
	daemon_device_kick(&vhost->device, queue->index);
	return 0;
}

/* ---- config space and status ---- */

/* QEMU names a device's queues when the VM starts. The guest's driver reads the config space later, and needs all. */
static void check_queues(struct daemon_vhost *vhost)
{
	const uint32_t all = (1u << VCUDA_QUEUES) - 1;

	if (!vhost->queues_named)
		return;
	if (vhost->queues_named != all)
		vcuda_log("the VMM has %d queues for the device, and the guest's driver needs %d: give the device "
			  "num_vqs=%d",
			  __builtin_popcount(vhost->queues_named), VCUDA_QUEUES, VCUDA_QUEUES);
	vhost->queues_named = all;
}

static int get_config(struct daemon_vhost *vhost)
{
	struct config_space *space = (struct config_space *)vhost->message.bytes;
	uint8_t bytes[sizeof(space->region)] = {0};
	struct vcuda_config config;

	if (vhost->message.header.size < offsetof(struct config_space, region) || space->size > sizeof(space->region) ||
	    space->offset > sizeof(bytes) - space->size) {
		vhost->message.header.size = 0; /* a reply without a payload reports an error */
		return -EINVAL;
	}
	check_queues(vhost);
	daemon_device_config(&vhost->device, &config);
	_Static_assert(sizeof(config) == VCUDA_CONFIG_SIZE, "config space");
	memcpy(bytes, &config, sizeof(config));
	memcpy(space->region, bytes + space->offset, space->size);
	vhost->message.header.size = (uint32_t)offsetof(struct config_space, region) + space->size;
	return 0;
}

static int set_status(struct daemon_vhost *vhost)
{
	vhost->status = (uint8_t)vhost->message.number;
	return 0;
}

static int get_status(struct daemon_vhost *vhost)
{
	uint8_t status = vhost->status;
	unsigned int i;

	for (i = 0; i < VCUDA_QUEUES; i++)
		if (vhost->device.queues[i].broken)
			status |= DAEMON_STATUS_NEEDS_RESET;
	return answer_number(vhost, status);
}

static const struct {
	int (*handle)(struct daemon_vhost *vhost);
	uint32_t size; /* of the payload, at least */
	bool replies;
} requests[] = {
	[GET_FEATURES] = {get_features, 0, true},
	[SET_FEATURES] = {set_features, sizeof(uint64_t), false},
	[SET_OWNER] = {set_owner, 0, false},
	[RESET_OWNER] = {nothing, 0, false},
	[SET_MEM_TABLE] = {set_mem_table, 8, false},
	[SET_VRING_NUM] = {set_vring_num, 8, false},
	[SET_VRING_ADDR] = {set_vring_addr, sizeof(struct vring_address), false},
	[SET_VRING_BASE] = {set_vring_base, 8, false},
	[GET_VRING_BASE] = {get_vring_base, 8, true},
	[SET_VRING_KICK] = {set_vring_kick, sizeof(uint64_t), false},
	[SET_VRING_CALL] = {set_vring_call, sizeof(uint64_t), false},
	[SET_VRING_ERR] = {set_vring_err, sizeof(uint64_t), false},
	[GET_PROTOCOL_FEATURES] = {get_protocol_features, 0, true},
	[SET_PROTOCOL_FEATURES] = {set_protocol_features, sizeof(uint64_t), false},
	[GET_QUEUE_NUM] = {get_queue_num, 0, true},
	[SET_VRING_ENABLE] = {set_vring_enable, 8, false},
	[GET_CONFIG] = {get_config, 0, true},
	[SET_CONFIG] = {nothing, 0, false}, /* read-only: a guest's write changes nothing */
	[GET_MAX_MEM_SLOTS] = {get_max_mem_slots, 0, true},
	[ADD_MEM_REG] = {add_mem_reg, sizeof(struct one_region), false},
	[REM_MEM_REG] = {rem_mem_reg, sizeof(struct one_region), false},
	[SET_STATUS] = {set_status, sizeof(uint64_t), false},
	[GET_STATUS] = {get_status, 0, true},
};

static bool known(uint32_t request)
{
	return request < sizeof(requests) / sizeof(requests[0]) && requests[request].handle;
}

bool daemon_vhost_replies(uint32_t request)
{
	return known(request) && requests[request].replies;
}

bool daemon_vhost_stops(const struct daemon_vhost *vhost)
{
	const struct daemon_vhost_message *m = &vhost->message;

	switch (m->header.request) {
	case GET_VRING_BASE:
	case SET_OWNER:
	case RESET_OWNER:
		return true;
	case SET_VRING_ENABLE:
		return !m->state.number;
	case SET_STATUS:
		return !m->number;
	default:
		return false;
	}
}

int daemon_vhost_handle(struct daemon_vhost *vhost)
{
	const struct daemon_vhost_header *header = &vhost->message.header;

	if (!known(header->request)) {
		vcuda_log_debug("vhost-user request %u is not known", header->request);
		return -EOPNOTSUPP;
	}
	/* The payload is zeroed behind what came: a short one is refused, yet harmless. */
	if (header->size < requests[header->request].size) {
		vcuda_log("vhost-user request %u is too short (%u bytes)", header->request, header->size);
		if (!requests[header->request].replies)
			return -EINVAL;
	}
	return requests[header->request].handle(vhost);
}
