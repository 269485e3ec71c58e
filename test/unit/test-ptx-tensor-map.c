/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps: what cuTensorMapEncodeTiled() takes, and what becomes of kernels with maps that are none. */
#include "test-ptx-tensor.h"

static void give(const char *instruction, enum ptx_fault_kind kind)
{
	char body[512];
	struct ptx_fault fault;

	snprintf(body, sizeof(body), "%s%s\n$done:\n", PREPARE, instruction);
	run(body, &fault);
	if (fault.kind != kind)
		fail_msg("%s: %d, not %d", instruction, fault.kind, kind);
	if (kind)
		assert_true(fault.line);
}

/* A map with the byte at `offset` changed is none; with a good seal it is one that may be wrong. */
static void wrong_maps(void **state)
{
	struct ptx_tensor_map m, good;

	(void)state;
	usual();
	memcpy(&good, &params.map, sizeof(good));
	for (size_t offset = 0; offset < sizeof(good); offset++) {
		memcpy(&params.map, &good, sizeof(good));
		((uint8_t *)&params.map)[offset] ^= 0x10;
		assert_int_equal(cpu_cuTensorMapReplaceAddress(&params.map, memory.tensor), CUDA_ERROR_INVALID_VALUE);
		if (offset % 9 == 0)
			give(LOAD " [s], [%l1, {%r4, %r5}], [bar];", PTX_FAULT_TENSOR_MAP);
	}
	memset(&params.map, 0, sizeof(params.map));
	give(STORE " [%l1, {%r4, %r5}], [s];", PTX_FAULT_TENSOR_MAP);
	give("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%l1, {%r4, %r5}], [s];",
	     PTX_FAULT_TENSOR_MAP);
	give(PREFETCH " [%l1, {%r4, %r5}];", PTX_FAULT_TENSOR_MAP);
#define FORGED(change, kind)                                                                                           \
	do {                                                                                                           \
		m = good;                                                                                              \
		change;                                                                                                \
		ptx_tensor_map_seal(&m);                                                                               \
		memcpy(&params.map, &m, sizeof(m));                                                                    \
		give(LOAD " [s], [%l1, {%r4, %r5}], [bar];", kind);                                                    \
	} while (0)
	FORGED((void)0, PTX_FAULT_NONE);
	FORGED(m.rank = 3, PTX_FAULT_TENSOR_MAP);
	FORGED(m.rank = 200, PTX_FAULT_TENSOR_MAP);
	FORGED(m.type = 77, PTX_FAULT_TENSOR_MAP);
	FORGED(m.swizzle = 9, PTX_FAULT_TENSOR_MAP);
	FORGED(m.box[0] = 65532, PTX_FAULT_TENSOR_MAP);
	FORGED(m.steps[1] = 0, PTX_FAULT_TENSOR_MAP);
	FORGED(m.address += 4, PTX_FAULT_TENSOR_MAP);
	FORGED((m.box[0] = 256, m.box[1] = 256), PTX_FAULT_ILLEGAL_ADDRESS);
	FORGED(m.address = (uintptr_t)&good & ~15ull, PTX_FAULT_ILLEGAL_ADDRESS);
	FORGED(m.address = UINT64_MAX - 15, PTX_FAULT_ILLEGAL_ADDRESS);
}

static void wrong_places(void **state)
{
	struct tensor t = usual();

	(void)state;
	give("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [%l1, {%r4}], "
	     "[bar];",
	     PTX_FAULT_TENSOR_MAP);
	give(PREFETCH " [%l1+16, {%r4, %r5}];", PTX_FAULT_MISALIGNED);
	give(PREFETCH " [4096, {%r4, %r5}];", PTX_FAULT_ILLEGAL_ADDRESS);
	give(LOAD " [s+64], [%l1, {%r4, %r5}], [bar];", PTX_FAULT_MISALIGNED);
	give(LOAD " [s], [%l1, {%r4, %r5}], [s+4];", PTX_FAULT_MISALIGNED);
	give(LOAD " [s+32640], [%l1, {%r4, %r5}], [bar];", PTX_FAULT_ILLEGAL_ADDRESS);
	give(STORE " [%l1, {%r4, %r5}], [s+64];", PTX_FAULT_MISALIGNED);
	give(STORE " [%l1, {%r4, %r5}], [s+32640];", PTX_FAULT_ILLEGAL_ADDRESS);
	/* the last row is not in any allocation: it matters to those who touch it */
	assert_int_equal(encode(&t, &params.map, memory.tensor + sizeof(memory.tensor) - 15 * 256), CUDA_SUCCESS);
	params.at[0] = 0;
	params.at[1] = 11;
	give(LOAD " [s], [%l1, {%r4, %r5}], [bar];", PTX_FAULT_NONE);
	params.at[1] = 12;
	give(LOAD " [s], [%l1, {%r4, %r5}], [bar];", PTX_FAULT_ILLEGAL_ADDRESS);
	give(STORE " [%l1, {%r4, %r5}], [s];", PTX_FAULT_ILLEGAL_ADDRESS);
	params.at[1] = 16;
	give(STORE " [%l1, {%r4, %r5}], [s];", PTX_FAULT_NONE);
	/* an address beyond the last one */
	t.dim[1] = 1ull << 32;
	t.strides[0] = (1ull << 40) - 16;
	assert_int_equal(encode(&t, &params.map, memory.tensor), CUDA_SUCCESS);
	params.at[1] = INT32_MAX;
	give(LOAD " [s], [%l1, {%r4, %r5}], [bar];", PTX_FAULT_ILLEGAL_ADDRESS);
}

#define WRONG(change)                                                                                                  \
	do {                                                                                                           \
		struct tensor t = usual();                                                                             \
		change;                                                                                                \
		if (encode(&t, &made, memory.tensor) != CUDA_ERROR_INVALID_VALUE)                                      \
			fail_msg("%s", #change);                                                                       \
	} while (0)

static void arguments(void **state)
{
	struct tensor u = usual();
	CUtensorMap made, kept;

	(void)state;
	memset(&made, 1, sizeof(made));
	kept = made;
	WRONG(t.type = -1);
	WRONG(t.type = 16);
	WRONG(t.rank = 0);
	WRONG(t.rank = 6);
	WRONG(t.interleave = 3);
	WRONG(t.swizzle = 7);
	WRONG(t.promotion = 4);
	WRONG(t.fill = 2);
	WRONG(t.fill = 1); /* of integers */
	WRONG(t.dim[0] = 0);
	WRONG(t.dim[1] = (1ull << 32) + 1);
	WRONG(t.strides[0] = 264);
	WRONG(t.strides[0] = 1ull << 40);
	WRONG(t.box[1] = 0);
	WRONG(t.box[1] = 257);
	WRONG(t.box[0] = 1ull << 31);
	WRONG(t.box[0] = 7);
	WRONG(t.steps[1] = 0);
	WRONG(t.steps[1] = 9);
	WRONG((t.swizzle = 1, t.box[0] = 12));
	WRONG((t.swizzle = 3, t.box[0] = 36));
	assert_int_equal(encode(&u, &made, memory.tensor + 8), CUDA_ERROR_INVALID_VALUE);
	/* what there is, but not here */
	u.interleave = 1;
	assert_int_equal(encode(&u, &made, memory.tensor), CUDA_ERROR_NOT_SUPPORTED);
	u = usual();
	u.type = 13;
	assert_int_equal(encode(&u, &made, memory.tensor), CUDA_ERROR_NOT_SUPPORTED);
	u = usual();
	u.swizzle = 4;
	assert_int_equal(encode(&u, &made, memory.tensor), CUDA_ERROR_NOT_SUPPORTED);
	assert_memory_equal(&made, &kept, sizeof(made));
	u = usual();
	u.dim[1] = 1ull << 32;
	u.promotion = 3;
	assert_int_equal(encode(&u, &made, memory.tensor), CUDA_SUCCESS);
	assert_int_equal(cpu_cuTensorMapReplaceAddress(&made, memory.tensor + 8), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cpu_cuTensorMapReplaceAddress(&made, memory.tensor + 1024), CUDA_SUCCESS);
	assert_int_equal(encode(&u, &kept, memory.tensor + 1024), CUDA_SUCCESS);
	assert_memory_equal(&made, &kept, sizeof(made));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_maps),
		cmocka_unit_test(wrong_places),
		cmocka_unit_test(arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
