/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of less than a page, or of a few, that two processes of one guest work on; others lie on the same pages.
 */
#include <sys/wait.h>

#include "pair.h"

enum { COUNT = 8, MOST = 65535, LARGE = 1 << 20 };

/* Allocations beside one another, from less than a page to 16 pages and more. The last one is offered to no process. */
static const size_t sizes[COUNT] = {1, 100, 5000, MOST, 4096, 512, 60000, 3000};

static bool is_offered(int i)
{
	return i < COUNT - 1;
}

static uint8_t data[LARGE + 1];

/* A copy of pageable memory may return before the device has made it, which another process would see. */
static void fill(CUdeviceptr p, size_t bytes, uint8_t value)
{
	memset(data, value, bytes);
	OK(cuMemcpyHtoD_v2(p, data, bytes));
	OK(cuCtxSynchronize());
}

static void expect(CUdeviceptr p, size_t bytes, uint8_t value)
{
	memset(data, ~value, bytes);
	OK(cuMemcpyDtoH_v2(data, p, bytes));
	for (size_t n = 0; n < bytes; n++)
		CHECK(data[n] == value);
}

/* ---- the child: opens what it is given, finds `base` + i in the ith, and leaves ten more ---- */

static CUdeviceptr open_one(int parent, size_t bytes, uint8_t value)
{
	CUipcMemHandle handle;
	CUdeviceptr p;

	CHECK(read(parent, &handle, sizeof(handle)) == sizeof(handle));
	OK(cuIpcOpenMemHandle_v2(&p, handle, 1));
	expect(p, bytes, value);
	/* memory beside the allocation is inaccessible, except in a GPU's pages */
	if (is_software())
		GIVES(cuMemcpyDtoH_v2(data, p, bytes + 1), CUDA_ERROR_INVALID_VALUE);
	fill(p, bytes, value + 10);
	return p;
}

/* A kernel does not reach it either, by default: it is the parent's, though on the same page. */
static void stray(CUdeviceptr p)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
				  ".visible .entry look(.param .u64 p)\n{\n	.reg .b64 %rd<2>; .reg .b32 %r<2>;\n"
				  "	ld.param.u64 %rd1, [p];\n	ld.global.u32 %r1, [%rd1];\n"
				  "	st.global.u32 [%rd1], %r1;\n	ret;\n}\n";
	void *params[] = {&p};
	CUcontext context, before;
	CUmodule module;
	CUfunction f;

	OK(cuCtxGetCurrent(&before));
	OK(cuCtxCreate_v2(&context, 0, 0));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&f, module, "look"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	OK(cuCtxDestroy_v2(context));
	OK(cuCtxSetCurrent(before));
}

static void child_round(int parent, uint8_t base, CUdeviceptr *kept)
{
	CUdeviceptr p[COUNT];

	for (int i = 0; i < COUNT; i++)
		if (is_offered(i))
			p[i] = open_one(parent, sizes[i], base + i);
	if (is_software()) {
		stray(p[1] + 512);
		stray(p[1] - 512);
	}
	say(parent);
	hear(parent);
	for (int i = kept ? 1 : 0; i < COUNT; i++)
		if (is_offered(i))
			OK(cuIpcCloseMemHandle(p[i]));
	if (kept)
		*kept = p[0];
	say(parent);
}

static void child(int parent)
{
	CUdeviceptr kept, p;
	bool keeps;

	start();
	keeps = is_software();
	child_round(parent, 20, NULL);
	/* a GPU's memory that is freed while another process has it open is CUDA's undefined behaviour */
	child_round(parent, 50, keeps ? &kept : NULL);
	hear(parent);
	p = open_one(parent, LARGE, 80);
	say(parent);
	hear(parent);
	OK(cuIpcCloseMemHandle(p));
	if (keeps) {
		/* the parent's memory there is its own now */
		expect(kept, sizes[0], 60);
		OK(cuIpcCloseMemHandle(kept));
	}
	say(parent);
	exit(0);
}

/* ---- the parent ---- */

static void offer(int child, CUdeviceptr p)
{
	CUipcMemHandle handle, again;

	OK(cuIpcGetMemHandle(&handle, p));
	OK(cuIpcGetMemHandle(&again, p));
	CHECK(!memcmp(&handle, &again, sizeof(handle)));
	CHECK(write(child, &handle, sizeof(handle)) == sizeof(handle));
}

static void parent_round(int child, uint8_t base, CUdeviceptr p[])
{
	for (int i = 0; i < COUNT; i++) {
		OK(cuMemAlloc_v2(&p[i], sizes[i]));
		fill(p[i], sizes[i], base + i);
	}
	for (int i = 0; i < COUNT; i++)
		if (is_offered(i))
			offer(child, p[i]);
	hear(child);
	for (int i = 0; i < COUNT; i++)
		expect(p[i], sizes[i], base + i + (is_offered(i) ? 10 : 0));
	say(child);
	hear(child);
}

static void parent(int child)
{
	CUdeviceptr p[COUNT], large;

	start();
	parent_round(child, 20, p);
	/* in an order that leaves pages of which only a part is free */
	for (int i = 0; i < COUNT; i += 2)
		OK(cuMemFree_v2(p[i]));
	for (int i = 1; i < COUNT; i += 2)
		expect(p[i], sizes[i], 20 + i + (is_offered(i) ? 10 : 0));
	for (int i = 1; i < COUNT; i += 2)
		OK(cuMemFree_v2(p[i]));
	parent_round(child, 50, p);
	for (int i = COUNT - 1; i >= 0; i--)
		OK(cuMemFree_v2(p[i]));
	/* the same pages, of one allocation now */
	OK(cuMemAlloc_v2(&large, LARGE));
	fill(large, LARGE, 80);
	say(child);
	offer(child, large);
	hear(child);
	expect(large, LARGE, 90);
	OK(cuMemFree_v2(large));
	OK(cuMemAlloc_v2(&p[0], sizes[0]));
	fill(p[0], sizes[0], 1);
	say(child);
	hear(child);
	expect(p[0], sizes[0], 1);
}

int main(void)
{
	int end, status;
	pid_t pid;

	pid = fork_pair(&end);
	if (!pid)
		child(end);
	parent(end);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	puts("ipc-small: passed");
	return 0;
}
