/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that test/local/tensors runs. */
#ifndef TEST_LOCAL_TENSORS_PTX_H
#define TEST_LOCAL_TENSORS_PTX_H

/*
 * A kernel of THREADS threads: shared memory as in `memory`, then thread 0 does something, and all of shared memory is
 * stored there again. `which` says where the map is: in global memory at `memory` + SHARED.
 */
#define HEAD ".version 8.3\n.target sm_90\n.address_size 64\n.visible .const .align 64 .b8 fixed[128];\n"
#define ENTRY(name)                                                                                                    \
	".visible .entry " name "(.param .align 64 .b8 map[128], .param .u64 memory, .param .align 4 .b8 at[24],\n"    \
	"	.param .u32 bytes, .param .u32 which)\n{\n"                                                                  \
	"	.reg .b16 %h<4>;"                                                                                            \
	"	.reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %l<8>;\n"                                                      \
	"	.shared .align 1024 .b8 tile[16384];\n"                                                                      \
	"	.shared .align 8 .b64 arrived;\n"                                                                            \
	"	mov.b64 %l1, map;\n	cvta.param.u64 %l1, %l1;\n"                                                              \
	"	ld.param.u64 %l2, [memory];\n	cvta.to.global.u64 %l2, %l2;\n"                                                \
	"	ld.param.u32 %r1, [which];\n	setp.eq.u32 %p1, %r1, 1;\n	setp.eq.u32 %p2, %r1, 2;\n"                          \
	"	mov.b64 %l3, fixed;\n	cvta.const.u64 %l3, %l3;\n	@%p1 mov.b64 %l1, %l3;\n"                                   \
	"	add.u64 %l3, %l2, 16384;\n	cvta.global.u64 %l3, %l3;\n	@%p2 mov.b64 %l1, %l3;\n"                             \
	"	ld.param.u32 %r2, [at];\n	ld.param.u32 %r3, [at+4];\n	ld.param.u32 %r4, [at+8];\n"                           \
	"	ld.param.u32 %r5, [at+12];\n	ld.param.u32 %r6, [at+16];\n	ld.param.u32 %r7, [bytes];\n"                      \
	"	mov.u32 %r8, %tid.x;\n	shl.b32 %r9, %r8, 2;\n	cvt.u64.u32 %l4, %r9;\n	add.u64 %l4, %l2, %l4;\n"              \
	"	mov.u32 %r10, tile;\n	mov.u32 %r11, arrived;\n	add.u32 %r9, %r10, %r9;\n"                                    \
	"	mov.u32 %r12, 0;\n	mov.u32 %r13, %r9;\n	mov.b64 %l5, %l4;\n"                                                 \
	"IN:\n"                                                                                                        \
	"	ld.global.u32 %r14, [%l5];\n	st.shared.u32 [%r13], %r14;\n	add.u32 %r13, %r13, 1024;\n"                      \
	"	add.u64 %l5, %l5, 1024;\n	add.u32 %r12, %r12, 1;\n	setp.lt.u32 %p3, %r12, 16;\n"                             \
	"	@%p3 bra IN;\n"                                                                                              \
	"	@!%p2 bra KNOWN;\n	fence.proxy.tensormap::generic.acquire.sys [%l1], 128;\nKNOWN:\n"                         \
	"	setp.ne.u32 %p4, %r8, 0;\n	@%p4 bra READY;\n"                                                                \
	"	mbarrier.init.shared::cta.b64 [%r11], 1;\n"                                                                  \
	"READY:\n	fence.proxy.async;\n	bar.sync 0;\n	@%p4 bra DONE;\n"
#define JOIN "DONE:\n	bar.sync 0;\n"
#define EXIT                                                                                                           \
	"	mov.u32 %r12, 0;\n	mov.u32 %r13, %r9;\n	mov.b64 %l5, %l4;\n"                                                 \
	"OUT:\n"                                                                                                       \
	"	ld.shared.u32 %r14, [%r13];\n	st.global.u32 [%l5], %r14;\n	add.u32 %r13, %r13, 1024;\n"                      \
	"	add.u64 %l5, %l5, 1024;\n	add.u32 %r12, %r12, 1;\n	setp.lt.u32 %p3, %r12, 16;\n"                             \
	"	@%p3 bra OUT;\n	ret;\n}\n"
#define LOADED "WAIT:\n	mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r11], 0;\n	@!%p3 bra WAIT;\n"
#define LOAD(rank, coords)                                                                                             \
	ENTRY("load" rank)                                                                                             \
	"	mbarrier.arrive.expect_tx.shared::cta.b64 %l6, [%r11], %r7;\n"                                               \
	"	cp.async.bulk.tensor." rank "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"               \
	" [%r10], [%l1, {" coords "}], [%r11];\n" JOIN LOADED EXIT
#define STORED "	cp.async.bulk.commit_group;\n	cp.async.bulk.wait_group 0;\n"
#define STORE(rank, coords)                                                                                            \
	ENTRY("store" rank)                                                                                            \
	"	cp.async.bulk.prefetch.tensor." rank "d.L2.global.tile [%l1, {" coords "}];\n"                         \
	"	cp.async.bulk.tensor." rank "d.global.shared::cta.tile.bulk_group [%l1, {" coords                      \
	"}], [%r10];\n" STORED JOIN EXIT
/* The offsets, 8 bits each, follow the coordinates. */
#define LOAD_IMAGES(rank, coords, offsets)                                                                             \
	ENTRY("images" rank)                                                                                           \
	"	ld.param.u32 %r15, [at+20];\n	bfe.u32 %r16, %r15, 0, 8;\n	cvt.u16.u32 %h1, %r16;\n"                          \
	"	bfe.u32 %r16, %r15, 8, 8;\n	cvt.u16.u32 %h2, %r16;\n	bfe.u32 %r16, %r15, 16, 8;\n"                           \
	"	cvt.u16.u32 %h3, %r16;\n"                                                                                    \
	"	mbarrier.arrive.expect_tx.shared::cta.b64 %l6, [%r11], %r7;\n"                                               \
	"	cp.async.bulk.prefetch.tensor." rank "d.L2.global.im2col [%l1, {" coords "}], {" offsets "};\n"        \
	"	cp.async.bulk.tensor." rank "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"             \
	" [%r10], [%l1, {" coords "}], [%r11], {" offsets "};\n" JOIN LOADED EXIT
#define STORE_IMAGES(rank, coords)                                                                                     \
	ENTRY("store_images" rank)                                                                                     \
	"	cp.async.bulk.tensor." rank "d.global.shared::cta.im2col_no_offs.bulk_group [%l1, {" coords            \
	"}], [%r10];\n" STORED JOIN EXIT
#define REDUCE(operation)                                                                                              \
	ENTRY("reduce_" operation)                                                                                     \
	"	cp.reduce.async.bulk.tensor.2d.global.shared::cta." operation                                          \
	".tile.bulk_group [%l1, {%r2, %r3}], [%r10];\n" STORED JOIN EXIT

#define X1 "%r2"
#define X2 X1 ", %r3"
#define X3 X2 ", %r4"
#define X4 X3 ", %r5"
#define X5 X4 ", %r6"

static const char ptx[] = HEAD LOAD("1", X1) LOAD("2", X2) LOAD("3", X3) LOAD("4", X4) LOAD("5", X5) STORE("1", X1)
	STORE("2", X2) STORE("3", X3) STORE("4", X4) STORE("5", X5) REDUCE("add") REDUCE("min") REDUCE("max")
		REDUCE("inc") REDUCE("dec") REDUCE("and") REDUCE("or") REDUCE("xor") LOAD_IMAGES("3", X3, "%h1")
			LOAD_IMAGES("4", X4, "%h1, %h2") LOAD_IMAGES("5", X5, "%h1, %h2, %h3") STORE_IMAGES("4", X4);

/* One warp changes a copy of its map, publishes it and reads the box at the tensor's beginning by it. */
static const char remake[] =
	".version 8.3\n.target sm_90a\n.address_size 64\n"
	".visible .entry remake(.param .align 64 .b8 map[128], .param .u64 memory, .param .u64 to, .param .u32 "
	"columns)\n{\n"
	"	.reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %l<10>;\n"
	"	.shared .align 128 .b8 tile[128]; .shared .align 128 .b8 copy[128]; .shared .align 8 .b64 arrived;\n"
	"	mov.b64 %l1, map;\n	cvta.param.u64 %l1, %l1;\n	ld.param.u64 %l2, [memory];\n"
	"	ld.param.u64 %l3, [to];\n	ld.param.u32 %r1, [columns];\n	mov.b64 %l4, 160;\n"
	"	mov.u32 %r2, %tid.x;\n	shl.b32 %r3, %r2, 2;\n	cvt.u64.u32 %l5, %r3;\n"
	"	mov.u32 %r4, tile;\n	mov.u32 %r5, copy;\n	mov.u32 %r6, arrived;\n"
	"	add.u64 %l6, %l1, %l5;\n	ld.u32 %r7, [%l6];\n	add.u32 %r8, %r5, %r3;\n	st.shared.u32 "
	"[%r8], %r7;\n"
	"	bar.sync 0;\n	setp.ne.u32 %p1, %r2, 0;\n	@%p1 bra CHANGED;\n"
	"	tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r5], %l3;\n"
	"	tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r5], 0, %r1;\n"
	"	tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r5], 0, %l4;\n"
	"	mbarrier.init.shared::cta.b64 [%r6], 1;\n	fence.proxy.async;\n"
	"CHANGED:\n	bar.sync 0;\n	add.u64 %l7, %l2, 16384;\n"
	"	tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%l7], [%r5], "
	"128;\n"
	"	fence.proxy.tensormap::generic.acquire.gpu [%l7], 128;\n	@%p1 bra ISSUED;\n"
	"	mov.u32 %r9, 0;\n	mbarrier.arrive.expect_tx.shared::cta.b64 %l8, [%r6], 128;\n"
	"	cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
	" [%r4], [%l7, {%r9, %r9}], [%r6];\n"
	"ISSUED:\n	bar.sync 0;\n"
	"WAIT:\n	mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0;\n	@!%p2 bra WAIT;\n"
	"	add.u32 %r4, %r4, %r3;\n	ld.shared.u32 %r7, [%r4];\n	add.u64 %l9, %l2, %l5;\n	"
	"st.global.u32 [%l9], %r7;\n"
	"	ret;\n}\n";

#endif
