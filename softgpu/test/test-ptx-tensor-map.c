/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps: what cuTensorMapEncodeTiled() takes, and what becomes of kernels with maps that are none. */
#include "softgpu/test/test-ptx-tensor.h"

static struct ptx_fault give(const char *instruction, enum ptx_fault_kind kind)
{
	char body[512];
	struct ptx_fault fault;

	snprintf(body, sizeof(body), "%s%s\n$done:\n", PREPARE, instruction);
	for (threads = 1; threads <= 64; threads += 63) {
		run(body, &fault);
		if (fault.kind != kind)
			fail_msg("%s, %u threads: %d, not %d", instruction, threads, fault.kind, kind);
		if (kind)
			assert_true(fault.line);
	}
	threads = 64;
	return fault;
}

/* As give(), of an instruction into which the rank and the box's place, which is params.at, are to be put. */
static struct ptx_fault give_box(const struct tensor *t, const char *instruction, enum ptx_fault_kind kind)
{
	char text[256];

	snprintf(text, sizeof(text), instruction, t->rank, coords[t->rank]);
	return give(text, kind);
}

#define LOAD_BOX "cp.async.bulk.tensor.%ud.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%%l1, %s], [bar];"
#define STORE_BOX "cp.async.bulk.tensor.%ud.global.shared::cta.bulk_group [%%l1, %s], [s];"
#define ADD_BOX "cp.reduce.async.bulk.tensor.%ud.global.shared::cta.add.bulk_group [%%l1, %s], [s];"
#define PREFETCH_BOX "cp.async.bulk.prefetch.tensor.%ud.L2.global [%%l1, %s];"

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
		assert_int_equal(softgpu_cuTensorMapReplaceAddress(&params.map, memory.tensor),
				 CUDA_ERROR_INVALID_VALUE);
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

/* Boxes begin where 16 bytes do, those outside of the tensor as well. */
static void unaligned(void **state)
{
	static const char *const copies[] = {LOAD_BOX, PREFETCH_BOX, STORE_BOX, ADD_BOX};
	static const int types[] = {PTX_TENSOR_U8, PTX_TENSOR_F16, PTX_TENSOR_U32, PTX_TENSOR_U64};

	(void)state;
	for (int n = 0; n < 16; n++) {
		int32_t size = 1 << n % 4, chunk = 16 / size;
		const int32_t wrong[] = {1, chunk - 1, 100 * chunk + 1, -chunk / 2}, right[] = {chunk, 100 * chunk};
		struct tensor t = plain(types[n % 4], (unsigned)size, 1 + (unsigned)n % 2,
					(cuuint64_t[]){256 / (unsigned)size, 4}, (cuuint32_t[]){(unsigned)chunk, 2});
		int copy = (n / 4 + n) % (size == 1 ? 3 : 4); /* nothing is added to bytes */

		params = (typeof(params)){.threads = 1};
		t.swizzle = n / 4;
		assert_int_equal(encode(&t, &params.map, memory.tensor), CUDA_SUCCESS);
		for (int k = 0; k < 4; k++) {
			params.at[0] = wrong[k];
			assert_int_equal((int64_t)give_box(&t, copies[copy], PTX_FAULT_TENSOR_BEGIN).address, wrong[k]);
		}
		for (int k = 0; k < 2; k++) {
			params.at[0] = right[k];
			give_box(&t, copies[copy], PTX_FAULT_NONE);
		}
		params.at[0] = -chunk;
		give_box(&t, copies[copy], copy < 2 ? PTX_FAULT_NONE : PTX_FAULT_TENSOR_NEGATIVE);
	}
}

/* Places before the tensor may be read, in whichever dimension, but not stored to, even where all else is behind it. */
static void negative(void **state)
{
	static const cuuint64_t dim[] = {16, 5, 4, 3, 2};
	static const cuuint32_t box[] = {8, 2, 2, 2, 2};

	(void)state;
	for (unsigned rank = 1; rank <= 5; rank++) {
		struct tensor t = plain(PTX_TENSOR_U32, 4, rank, dim, box);

		for (unsigned d = 0; d < rank; d++) {
			params = (typeof(params)){.threads = 1, .at = {8, 4, 0, 2, 9}};
			assert_int_equal(encode(&t, &params.map, memory.tensor), CUDA_SUCCESS);
			give_box(&t, STORE_BOX, PTX_FAULT_NONE);
			params.at[d] = d ? -1 : -4;
			give_box(&t, LOAD_BOX, PTX_FAULT_NONE);
			give_box(&t, PREFETCH_BOX, PTX_FAULT_NONE);
			for (int adds = 0; adds < 2; adds++) {
				struct ptx_fault fault =
					give_box(&t, adds ? ADD_BOX : STORE_BOX, PTX_FAULT_TENSOR_NEGATIVE);

				assert_int_equal((int64_t)fault.address, params.at[d]);
				assert_int_equal(fault.bytes, d);
			}
		}
	}
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
	/* valid values that the software GPU does not have */
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
	assert_int_equal(softgpu_cuTensorMapReplaceAddress(&made, memory.tensor + 8), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(softgpu_cuTensorMapReplaceAddress(&made, memory.tensor + 1024), CUDA_SUCCESS);
	assert_int_equal(encode(&u, &kept, memory.tensor + 1024), CUDA_SUCCESS);
	assert_memory_equal(&made, &kept, sizeof(made));
}

/* A box takes 228 KiB at most, without what steps leave out of it and however its rows lie in shared memory. */
static void limits(void **state)
{
	static const cuuint64_t dim[] = {64, 256, 256};
	CUtensorMap made;

	(void)state;
	for (int swizzle = 0; swizzle < PTX_TENSOR_SWIZZLE_COUNT; swizzle++) {
		struct tensor t = plain(PTX_TENSOR_U32, 4, 3, dim, (const cuuint32_t[]){4, 152, 96});

		t.swizzle = swizzle;
		assert_int_equal(encode(&t, &made, memory.tensor), CUDA_SUCCESS);
		t.box[1] = 139;
		t.box[2] = 105;
		assert_int_equal(encode(&t, &made, memory.tensor), CUDA_ERROR_INVALID_VALUE);
		t.steps[2] = 8;
		assert_int_equal(encode(&t, &made, memory.tensor), CUDA_SUCCESS);
		t.steps[2] = 1;
		t.steps[1] = 2;
		t.box[1] = 253; /* of which 127 are taken and 126 counted */
		t.box[2] = 115;
		assert_int_equal(encode(&t, &made, memory.tensor), CUDA_SUCCESS);
		t.box[1] = 254;
		assert_int_equal(encode(&t, &made, memory.tensor), CUDA_ERROR_INVALID_VALUE);
		t.box[2] = 1;
		for (unsigned step = 1; step <= 8; step++) {
			t.steps[0] = step;
			assert_int_equal(encode(&t, &made, memory.tensor), CUDA_SUCCESS);
		}
		t.strides[0] = (1ull << 40) - 16;
		t.strides[1] = 0;
		assert_int_equal(encode(&t, &made, memory.tensor), CUDA_SUCCESS);
	}
}

#define FIELD(name, type, value) "tensormap.replace.tile." name ".shared::cta.b1024." type " [s], " value ";\n"

/* In shared memory, from nothing to what `t` says, all but the dimensions; then to the beginning of `out`. */
static void build(const struct tensor *t, unsigned type, struct ptx_fault *fault)
{
	static char body[8192];
	size_t length = (size_t)snprintf(
		body, sizeof(body),
		"mov.u32 %%r12, 0;\nmov.u32 %%r13, s;\nmov.u64 %%l9, 0;\n$zero:\nst.shared.u64 [%%r13], %%l9;\nadd.u32 "
		"%%r13, %%r13, 8;\n"
		"add.u32 %%r12, %%r12, 8;\nsetp.lt.u32 %%p2, %%r12, 128;\n@%%p2 bra $zero;\nbar.sync 0;\n@%%p1 bra "
		"$done;\n"
		"mov.u64 %%l6, %llu;\nmov.u32 %%r14, %u;\n" FIELD("global_address", "b64", "%%l6")
			FIELD("rank", "b32", "%%r14") FIELD("elemtype", "b32", "%u")
				FIELD("interleave_layout", "b32", "0") FIELD("swizzle_mode", "b32", "%d")
					FIELD("swizzle_atomicity", "b32", "0") FIELD("fill_mode", "b32", "%d"),
		(unsigned long long)(uintptr_t)memory.tensor, t->rank - 1, type, t->swizzle, t->fill);

	for (unsigned d = 0; d < t->rank; d++) {
		length += (size_t)snprintf(body + length, sizeof(body) - length,
					   FIELD("box_dim", "b32", "%u, %u") FIELD("global_dim", "b32", "%u, %u")
						   FIELD("element_stride", "b32", "%u, %u"),
					   d, t->box[d], d, (unsigned)t->dim[d], d, t->steps[d]);
		if (d)
			length += (size_t)snprintf(body + length, sizeof(body) - length,
						   FIELD("global_stride", "b64", "%u, %llu"), d - 1,
						   (unsigned long long)t->strides[d - 1]);
	}
	snprintf(body + length, sizeof(body) - length,
		 "$done:\nbar.sync "
		 "0;\ntensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
		 " [%%l2], [s], 128;\n");
	run(body, fault);
}

/* A map built by a kernel equals the map of the driver's function. */
static void built(void **state)
{
	/* PTX's number of each type */
	static const unsigned types[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12};
	static const unsigned sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
	static const cuuint64_t dim[] = {48, 7, 6, 5, 4};
	static const cuuint32_t box[] = {16, 3, 2, 3, 2};

	(void)state;
	for (int type = 0; type < PTX_TENSOR_TYPE_COUNT; type++) {
		struct tensor t = plain(type, sizes[type], (unsigned)type % 5 + 1, dim, box);
		struct ptx_fault fault;

		t.steps[t.rank - 1] = t.rank > 1 ? 3 : 1;
		t.swizzle = sizes[type] * 16 <= 32 ? 1 + type % 3 : 3;
		t.fill = type >= PTX_TENSOR_F16;
		params = (typeof(params)){.threads = 1};
		assert_int_equal(encode(&t, &params.map, memory.tensor), CUDA_SUCCESS);
		build(&t, types[type], &fault);
		assert_int_equal(fault.kind, PTX_FAULT_NONE);
		assert_memory_equal(memory.out, &params.map, sizeof(params.map));
	}
}

/* A map that is changed in global memory; a number that does not fit makes it one that nothing can be copied by. */
static void changed(void **state)
{
	static const char *const wrong[] = {
		"rank.global.b1024.b32 [%l6], 5",         "rank.global.b1024.b32 [%l6], 255",
		"box_dim.global.b1024.b32 [%l6], 1, 257", "box_dim.global.b1024.b32 [%l6], 1, 65537",
		"box_dim.b1024.b32 [%l6], 0, 3",          "element_stride.b1024.b32 [%l6], 1, 257",
		"global_stride.b1024.b64 [%l6], 0, 8",    "global_address.b1024.b64 [%l6], 8",
		"fill_mode.b1024.b32 [%l6], 1",           "swizzle_mode.b1024.b32 [%l6], 1"};
	struct ptx_fault fault;
	char body[1024];

	(void)state;
	usual();
	numbers();
	for (size_t n = 0; n <= sizeof(wrong) / sizeof(wrong[0]); n++) {
		memcpy(memory.out + 1024, &params.map, sizeof(params.map));
		snprintf(body, sizeof(body),
			 "%sadd.u64 %%l6, %%l2, 1024;\nmov.u64 %%l7, %llu;\n"
			 "tensormap.replace.tile.global_address.global.b1024.b64 [%%l6], %%l7;\n%s%s%s" LOAD
			 " [s], [%%l6, {0, 0}], [bar];\nld.shared.u32 %%r12, [s];\nst.global.u32 [%%l2], "
			 "%%r12;\n$done:\n",
			 PREPARE, (unsigned long long)(uintptr_t)(memory.tensor + 512),
			 n ? "tensormap.replace.tile." : "", n ? wrong[n - 1] : "", n ? ";\n" : "");
		run(body, &fault);
		if (fault.kind != (n ? PTX_FAULT_TENSOR_MAP : PTX_FAULT_NONE))
			fail_msg("%zu: %d", n, fault.kind);
		if (!n)
			assert_memory_equal(memory.out, memory.tensor + 512, 4);
	}
	memset(memory.out + 1024, 1, sizeof(params.map));
	give("tensormap.replace.tile.rank.b1024.b32 [%l2+1024], 0;", PTX_FAULT_TENSOR_MAP);
	give("tensormap.replace.tile.rank.b1024.b32 [%l2+1032], 0;", PTX_FAULT_MISALIGNED);
	give("tensormap.replace.tile.rank.b1024.b32 [%l1], 0;", PTX_FAULT_ILLEGAL_ADDRESS);
	give("tensormap.replace.tile.rank.shared::cta.b1024.b32 [s+65536], 0;", PTX_FAULT_ILLEGAL_ADDRESS);
}

static struct {
	cuuint64_t dim[5], strides[4];
	int lower[3], upper[3];
	cuuint32_t steps[5];
	unsigned rank, channels, pixels;
	int swizzle;
} images;

static CUresult encode_images(CUtensorMap *to)
{
	return softgpu_cuTensorMapEncodeIm2col(to, PTX_TENSOR_F16, images.rank, memory.tensor, images.dim,
					       images.strides, images.lower, images.upper, images.channels,
					       images.pixels, images.steps, 0, images.swizzle, 0, 0);
}

#define WRONG_IMAGES(change)                                                                                           \
	do {                                                                                                           \
		CUtensorMap made;                                                                                      \
		images = good;                                                                                         \
		change;                                                                                                \
		if (encode_images(&made) != CUDA_ERROR_INVALID_VALUE)                                                  \
			fail_msg("%s", #change);                                                                       \
	} while (0)

#define IMAGES                                                                                                         \
	"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [s], [%l1, {0, 0, 0, "     \
	"0}], [bar], "

#define STORE_IMAGES "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%l1, "
#define PREFETCH_IMAGES "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%l1, "

/* `images` with its lower corner at -1: a store must not touch pixels outside of the image. */
static void stores_of_images(void)
{
	struct ptx_fault fault;

	images.pixels = 64;
	assert_int_equal(encode_images(&params.map), CUDA_SUCCESS);
	fault = give(STORE_IMAGES "{0, 0, 0, 0}], [s];", PTX_FAULT_TENSOR_CORNER);
	assert_int_equal((int64_t)fault.address, -1);
	assert_int_equal(fault.bytes, 1);
	give(STORE_IMAGES "{4, 0, 0, 0}], [s];", PTX_FAULT_TENSOR_BEGIN);
	give(PREFETCH_IMAGES "{4, 0, 0, 0}], {0, 0};", PTX_FAULT_TENSOR_BEGIN);
	give(PREFETCH_IMAGES "{-8, -1, -1, -1}], {0, 0};", PTX_FAULT_NONE);
	images.pixels = 2; /* which come to none outside */
	images.lower[0] = images.lower[1] = 0;
	images.upper[1] = 1;
	assert_int_equal(encode_images(&params.map), CUDA_SUCCESS);
	fault = give(STORE_IMAGES "{0, 2, 3, 0}], [s];", PTX_FAULT_TENSOR_CORNER);
	assert_int_equal((int64_t)fault.address, 1);
	assert_int_equal(fault.bytes, 2);
	images.pixels = 64;
	images.upper[1] = -1;
	assert_int_equal(encode_images(&params.map), CUDA_SUCCESS);
	give(STORE_IMAGES "{0, 0, 0, 0}], [s];", PTX_FAULT_NONE);
	images.lower[1] = 1;
	assert_int_equal(encode_images(&params.map), CUDA_SUCCESS);
	give(STORE_IMAGES "{0, 0, 1, 0}], [s];", PTX_FAULT_NONE);
	give(STORE_IMAGES "{0, 0, 0, -1}], [s];", PTX_FAULT_TENSOR_NEGATIVE);
	give(STORE_IMAGES "{-8, 0, 0, 0}], [s];", PTX_FAULT_TENSOR_NEGATIVE);
}

/* The arguments that cuTensorMapEncodeIm2col() accepts; a map is for instructions of its own mode. */
static void of_images(void **state)
{
	typeof(images) good = {.dim = {32, 9, 7, 3, 2},
			       .strides = {64, 576, 4032, 12096},
			       .lower = {-1, -1, -1},
			       .upper = {-1, -1, -1},
			       .steps = {1, 1, 1, 1, 1},
			       .rank = 4,
			       .channels = 32,
			       .pixels = 64};

	(void)state;
	WRONG_IMAGES(images.rank = 2);
	WRONG_IMAGES(images.rank = 6);
	WRONG_IMAGES(images.channels = 0);
	WRONG_IMAGES(images.channels = 4);
	WRONG_IMAGES(images.channels = 264);
	WRONG_IMAGES((images.channels = 40, images.swizzle = 2));
	WRONG_IMAGES(images.pixels = 0);
	WRONG_IMAGES(images.pixels = 1025);
	WRONG_IMAGES(images.lower[1] = -129);
	WRONG_IMAGES(images.upper[0] = 128);
	WRONG_IMAGES((images.rank = 5, images.lower[2] = -17));
	WRONG_IMAGES((images.rank = 3, images.lower[0] = -32769));
	WRONG_IMAGES((images.rank = 3, images.lower[0] = -1 - (1 << 16)));
	WRONG_IMAGES(images.upper[1] = -8); /* there is no base pixel */
	WRONG_IMAGES(images.steps[2] = 9);
	WRONG_IMAGES(images.dim[3] = 0);
	WRONG_IMAGES((images.channels = 256, images.pixels = 457));
	images = good;
	images.channels = 256;
	images.pixels = 456;
	assert_int_equal(encode_images(&params.map), CUDA_SUCCESS);
	images = good;
	params = (typeof(params)){.threads = 1};
	assert_int_equal(encode_images(&params.map), CUDA_SUCCESS);
	give(IMAGES "{1, 2};", PTX_FAULT_NONE);
	give("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%l1, {0, 0, 0, 0}], [s];",
	     PTX_FAULT_TENSOR_MAP);
	give("cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%l1, {0, 0, 0, 0, 0}], [s];",
	     PTX_FAULT_TENSOR_MAP);
	give(IMAGES "{1, 2};", PTX_FAULT_NONE);
	images.pixels = 1024;
	assert_int_equal(encode_images(&params.map), CUDA_SUCCESS);
	give(IMAGES "{1, 2};", PTX_FAULT_ILLEGAL_ADDRESS);
	images = good;
	stores_of_images();
	usual();
	give("cp.async.bulk.prefetch.tensor.3d.L2.global.im2col [%l1, {0, 0, 0}], {7};", PTX_FAULT_TENSOR_MAP);
	/* to other blocks alone, and with a policy */
	images = good;
	assert_int_equal(encode_images(&params.map), CUDA_SUCCESS);
	give("mov.u16 %h1, 2;\nst.shared.u32 [s], 77;\n"
	     "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster.L2:"
	     ":cache_hint"
	     " [s], [%l1, {0, 0, 0, 0}], [bar], {%h1, 2}, %h1, %l1;\nld.shared.u32 %r12, [s];\n"
	     "setp.ne.u32 %p2, %r12, 77;\n@%p2 trap;",
	     PTX_FAULT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_maps), cmocka_unit_test(wrong_places), cmocka_unit_test(unaligned),
		cmocka_unit_test(negative),   cmocka_unit_test(arguments),    cmocka_unit_test(limits),
		cmocka_unit_test(built),      cmocka_unit_test(changed),      cmocka_unit_test(of_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
