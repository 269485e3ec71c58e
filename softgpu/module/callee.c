/* SPDX-License-Identifier: Apache-2.0 */
#include "module/callee.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/sass-callee.h"
#include "device/device.h"
#include "device/schedule.h"
#include "module/lifted.h"

struct callee {
	struct vcuda_list node; /* in the module */
	uint64_t address;
	struct softgpu_lifted *lifted;
	struct ptx_kernel *kernel;         /* NULL: it cannot be translated */
	const struct ptx_binary *prepared; /* for `block` */
	uint32_t block[3];
	bool in_making;
};

static struct callee *find(const struct CUmod_st *m, uint64_t address)
{
	vcuda_list_for_each (node, &m->callees) {
		struct callee *c = container_of(node, struct callee, node);

		if (c->address == address)
			return c;
	}
	return NULL;
}

/* Drops the lock while the function is translated. NULL: there is no memory. */
static struct callee *make(struct CUmod_st *m, uint64_t address, const char *name)
{
	struct callee *c = calloc(1, sizeof(*c));
	char *refusal = NULL;
	CUresult result;

	if (!c)
		return NULL;
	*c = (struct callee){.address = address, .in_making = true};
	vcuda_list_add(&c->node, &m->callees);
	result = softgpu_lifted_make(m, name, &c->lifted, &c->kernel, &refusal);
	if (refusal)
		vcuda_log("cannot compile the function at 0x%llx that a kernel calls: the instruction `%s` is not "
			  "supported",
			  (unsigned long long)address, refusal);
	free(refusal);
	c->in_making = false;
	softgpu_wake_waiters();
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return c;
	vcuda_list_remove(&c->node);
	free(c);
	return NULL;
}

static enum ptx_fault_kind prepare(struct callee *c, const uint32_t block[3], const struct ptx_binary **binary)
{
	struct ptx_error error = {0};
	enum ptx_status status;

	softgpu_unlock();
	status = ptx_kernel_prepare(c->kernel, block, binary, &error);
	softgpu_lock();
	if (status == PTX_OK) {
		c->prepared = *binary;
		memcpy(c->block, block, sizeof(c->block));
		return PTX_FAULT_NONE;
	}
	softgpu_compile_error(status, "cannot compile a function that a kernel calls", &error);
	return PTX_FAULT_TRAP;
}

static enum ptx_fault_kind get(struct CUmod_st *m, uint64_t address, const char *name, const uint32_t block[3],
			       struct softgpu_timer *timer, const struct ptx_binary **binary)
{
	struct callee *c = find(m, address);
	enum ptx_fault_kind kind;

	if (c && c->prepared && !memcmp(c->block, block, sizeof(c->block))) {
		*binary = c->prepared;
		return PTX_FAULT_NONE;
	}
	softgpu_timer_pause(timer);
	while ((c = find(m, address)) && c->in_making)
		softgpu_wait_any();
	if (!c)
		c = make(m, address, name);
	kind = c && c->kernel ? prepare(c, block, binary) : PTX_FAULT_TRAP;
	softgpu_timer_touch(timer);
	return kind;
}

enum ptx_fault_kind softgpu_callee_find(struct CUmod_st *m, uint64_t address, const uint32_t block[3],
					struct softgpu_timer *timer, const struct ptx_binary **binary)
{
	enum ptx_fault_kind kind;
	char name[64];

	if (!m->program.code || !vcuda_sass_callee(address, name, sizeof(name)))
		return PTX_FAULT_BAD_TARGET;
	softgpu_lock();
	kind = get(m, address, name, block, timer, binary);
	softgpu_unlock();
	return kind;
}

const struct softgpu_lifted *softgpu_callee_of(const struct CUmod_st *m, const struct ptx_kernel *kernel)
{
	vcuda_list_for_each (node, &m->callees) {
		const struct callee *c = container_of(node, struct callee, node);

		if (kernel && c->kernel == kernel)
			return c->lifted;
	}
	return NULL;
}

void softgpu_callees_free(struct CUmod_st *m)
{
	while (!vcuda_list_empty(&m->callees)) {
		struct callee *c = container_of(m->callees.next, struct callee, node);

		vcuda_list_remove(&c->node);
		softgpu_lifted_free(m->context, c->lifted);
		free(c);
	}
}
