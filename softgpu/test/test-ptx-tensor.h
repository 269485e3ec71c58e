/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that copy boxes of tensors, and what they should give. */
#ifndef TEST_PTX_TENSOR_H
#define TEST_PTX_TENSOR_H

#include "softgpu/test/harness.h"

#include "softgpu/ops.h"
#include "softgpu/runtime/ptx-tensor-map.h"

#define SHARED 32768
#define EMPTY 0xee

/* The arguments of cuTensorMapEncodeTiled() for one map. */
struct tensor {
	int type, interleave, swizzle, promotion, fill;
	unsigned rank, size;
	cuuint64_t dim[5], strides[4];
	cuuint32_t box[5], steps[5];
};

static _Alignas(128) struct {
	CUtensorMap map;
	uint64_t out, offset, threads;
	int32_t at[6];
} params;

/* Kernels may access the first and the last member. */
static _Alignas(128) struct {
	uint8_t tensor[1 << 17], gap[4096], out[SHARED];
} memory;
static uint8_t before[sizeof(memory.tensor)];

/* A tensor without gaps, of which a box of `box` is taken. */
static __attribute__((unused)) struct tensor plain(int type, unsigned size, unsigned rank, const cuuint64_t *dim,
						   const cuuint32_t *box)
{
	struct tensor t = {.type = type, .rank = rank, .size = size};
	cuuint64_t stride = size;

	for (unsigned d = 0; d < rank; d++) {
		t.dim[d] = dim[d];
		t.box[d] = box[d];
		t.steps[d] = 1;
		if (d)
			t.strides[d - 1] = stride;
		stride *= dim[d];
	}
	return t;
}

static __attribute__((unused)) CUresult encode(struct tensor *t, CUtensorMap *to, void *address)
{
	return softgpu_cuTensorMapEncodeTiled(to, t->type, t->rank, address, t->dim, t->strides, t->box, t->steps,
					      t->interleave, t->swizzle, t->promotion, t->fill);
}

/* The bytes of a box in shared memory. */
static __attribute__((unused)) uint64_t box_bytes(const struct tensor *t)
{
	uint64_t bytes = t->size;

	for (unsigned d = 0; d < t->rank; d++)
		bytes *= (t->box[d] + (d ? t->steps[d] - 1 : 0)) / (d ? t->steps[d] : 1);
	return bytes;
}

/* Element n of the box: where it is in the tensor, or -1. */
static __attribute__((unused)) int64_t place(const struct tensor *t, const int32_t *at, uint64_t n)
{
	int64_t offset = 0;

	for (unsigned d = 0; d < t->rank; d++) {
		unsigned step = d ? t->steps[d] : 1, count = (t->box[d] + step - 1) / step;
		int64_t x = at[d] + (int64_t)(n % count) * step;

		if (x < 0 || (uint64_t)x >= t->dim[d])
			return -1;
		offset += x * (int64_t)(d ? t->strides[d - 1] : t->size);
		n /= count;
	}
	return offset;
}

/* Where byte `at` of a box goes in shared memory: eight chunks make a line, and lines differ in how chunks change
 * places. Rows begin where these groups of chunks do. */
static __attribute__((unused)) uint64_t swizzled(const struct tensor *t, uint64_t offset, uint64_t at)
{
	static const unsigned members[] = {1, 2, 4, 8};
	uint64_t group = members[t->swizzle], row = t->box[0] * t->size, pitch = t->swizzle ? group * 16 : row;
	uint64_t line, chunk;

	at = offset + at / row * pitch + at % row;
	line = at / 128;
	chunk = at / 16 % 8;
	return line * 128 + (chunk ^ line % group) * 16 + at % 16;
}

static __attribute__((unused)) const char head[] = PTX_HEAD_A
	".visible .const .align 64 .b8 fixed[128];\n"
	".visible .entry test(.param .align 128 .b8 map[128], .param .u64 p_out, .param .u64 p_offset, .param .u64 "
	"p_threads,\n"
	".param .align 4 .b8 at[24])\n{\n"
	".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<32>;\n.reg .b64 %l<16>;\n"
	".shared .align 1024 .b8 s[32768];\n.shared .align 8 .b64 bar;\n"
	"mov.b64 %l1, map;\ncvta.param.u64 %l1, %l1;\nld.param.u64 %l2, [p_out];\nld.param.u64 %l4, [p_offset];\n"
	"ld.param.u64 %l5, [p_threads];\ncvt.u32.u64 %r11, %l5;\ncvt.u32.u64 %r2, %l4;\nmov.u32 %r3, s;\nadd.u32 %r2, "
	"%r2, %r3;\n"
	"mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, %r11;\n"
	"ld.param.u32 %r4, [at];\nld.param.u32 %r5, [at+4];\nld.param.u32 %r6, [at+8];\nld.param.u32 %r7, [at+12];\n"
	"ld.param.u32 %r8, [at+16];\n";

static const char *const coords[] = {
	"", "{%r4}", "{%r4, %r5}", "{%r4, %r5, %r6}", "{%r4, %r5, %r6, %r7}", "{%r4, %r5, %r6, %r7, %r8}"};

static uint32_t threads = 64; /* of the block */

static __attribute__((unused)) void run(const char *body, struct ptx_fault *fault)
{
	static char text[16384];
	struct ptx_module *m;

	snprintf(text, sizeof(text), "%s%sret;\n}\n", head, body);
	params.out = (uintptr_t)memory.out;
	map.count = 0;
	add_range(memory.tensor, sizeof(memory.tensor), true);
	add_range(memory.out, sizeof(memory.out), true);
	m = load(text);
	fault->kind = PTX_FAULT_NONE;
	launch(m, 1, threads, 1, 0, &params, fault);
	ptx_module_destroy(m);
}

static __attribute__((unused)) const char in_from_global[] =
	"shl.b32 %r12, %r1, 4;\n$in:\ncvt.u64.u32 %l6, %r12;\nadd.u64 %l7, %l2, %l6;\n"
	"add.u32 %r9, %r3, %r12;\nld.global.v4.b32 {%r20,%r21,%r22,%r23}, [%l7];\n"
	"st.shared.v4.b32 [%r9], {%r20,%r21,%r22,%r23};\nadd.u32 %r12, %r12, 1024;\n"
	"setp.lt.u32 %p2, %r12, 32768;\n@%p2 bra $in;\nfence.proxy.async;\nbar.sync 0;\n";
static __attribute__((unused)) const char out_to_global[] =
	"bar.sync 0;\nshl.b32 %r12, %r1, 4;\n$out:\ncvt.u64.u32 %l6, %r12;\nadd.u64 %l7, %l2, %l6;\n"
	"add.u32 %r9, %r3, %r12;\nld.shared.v4.b32 {%r20,%r21,%r22,%r23}, [%r9];\n"
	"st.global.v4.b32 [%l7], {%r20,%r21,%r22,%r23};\nadd.u32 %r12, %r12, 1024;\n"
	"setp.lt.u32 %p2, %r12, 32768;\n@%p2 bra $out;\n";

/* `out` goes to shared memory, then the tensor's box; then all of it comes back. */
static __attribute__((unused)) void run_load(const struct tensor *t, const char *name, const char *from,
					     struct ptx_fault *fault)
{
	static char body[8192];

	snprintf(body, sizeof(body),
		 "%s@%%p1 bra $ready;\nmbarrier.init.shared.b64 [bar], 1;\nfence.proxy.async;\n"
		 "mbarrier.arrive.expect_tx.shared.b64 %%l9, [bar], %u;\n%s [%%r2], [%s, %s], "
		 "[bar];\n$ready:\nbar.sync 0;\n"
		 "$again:\nmbarrier.try_wait.parity.shared.b64 %%p3, [bar], 0;\n@!%%p3 bra $again;\n%s",
		 in_from_global, (unsigned)box_bytes(t), name, from, coords[t->rank], out_to_global);
	run(body, fault);
}

static __attribute__((unused)) void numbers(void)
{
	for (size_t n = 0; n < sizeof(memory.tensor); n += 2) {
		memory.tensor[n] = (uint8_t)(n * 37 >> 3);
		memory.tensor[n + 1] = (uint8_t)(n >> 9);
	}
	memcpy(before, memory.tensor, sizeof(memory.tensor));
}

#define LOAD "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
#define STORE "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
#define PREFETCH "cp.async.bulk.prefetch.tensor.2d.L2.global"
#define PREPARE "@%p1 bra $done;\nmbarrier.init.shared.b64 [bar], 1;\n"

static __attribute__((unused)) struct tensor usual(void)
{
	static const cuuint64_t dim[] = {64, 16};
	static const cuuint32_t box[] = {32, 4};
	struct tensor t = plain(PTX_TENSOR_U32, 4, 2, dim, box);

	params = (typeof(params)){.threads = 1, .at = {4, 2}};
	assert_int_equal(encode(&t, &params.map, memory.tensor), CUDA_SUCCESS);
	return t;
}

#endif
