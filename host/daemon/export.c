/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the guest's that hold what its processes have exported: requests that the VM's keeper answers. */
#include <errno.h>
#include <string.h>

#include "device.h"
#include "keeper/keeper.h"

struct request {
	struct daemon_keeper_request keeper; /* `entry` is in `unused` while the request is free */
	struct daemon_device *device;
	struct daemon_owed owed;
};

/* One for each request that the queue can hold: the end of a file never allocates memory. */
static struct request requests[VCUDA_QUEUE_SIZE];
static struct vcuda_list unused = VCUDA_LIST_INIT(unused);

static struct request *take_request(void)
{
	static bool is_ready;
	struct request *request;

	for (unsigned int i = 0; !is_ready && i < VCUDA_QUEUE_SIZE; i++)
		vcuda_list_add(&requests[i].keeper.entry, &unused);
	is_ready = true;
	if (vcuda_list_empty(&unused))
		return NULL;
	request = vcuda_list_first(&unused, struct request, keeper.entry);
	vcuda_list_remove(&request->keeper.entry);
	return request;
}

static void done(struct daemon_keeper_request *keeper, int status)
{
	struct request *request = container_of(keeper, struct request, keeper);

	daemon_device_reply(request->device, &request->owed, &(struct vcuda_ctl_reply){.status = status});
	vcuda_list_add(&keeper->entry, &unused);
}

int daemon_export_hold(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	const uint64_t name[2] = {p->request.address, p->request.length};
	struct request *request = take_request();
	uint8_t key[VCUDA_KEEPER_KEY_BYTES];
	int status;

	/* The guest gave some of its buffers twice. */
	if (!request)
		return -EBUSY;
	request->keeper.done = done;
	request->device = device;
	request->owed = *owed;
	memcpy(key, name, sizeof(key));
	status = daemon_keeper_ask(&request->keeper,
				   p->request.type == VCUDA_CTL_HOLD ? VCUDA_KEEPER_HOLD : VCUDA_KEEPER_DROP, key);
	if (!status)
		return DAEMON_LATER;
	vcuda_list_add(&request->keeper.entry, &unused);
	return status;
}
