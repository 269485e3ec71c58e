/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random instructions from templates. In a template, $ and a letter is an operand: r l h f d p a register of 32 or 64
 * bits, of 16, an f32, an f64, a predicate; u a 32-bit register that is the same in all threads; i an r or a number
 * of 32 bits, I an l or one of 64; j a small number, w one below 32, k a word's place in 32 bytes; m the mask of the
 * place; n the number of threads in a block. The first r, l, h, f, d, p or u is mostly the result. Registers %t, %T, %q,
 * %x, %y, %z, %F, %D hold what is needed in between.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random-kernel.h"

enum need { ANYWHERE, WARP, KNOWN_MASK, BLOCK, UNIFORM };

struct template {
	const char *text;
	unsigned char need, weight;
};

static const struct template templates[] = {
	/* integers */
	{"add.s32 $r, $r, $i;", ANYWHERE, 8},
	{"sub.u32 $r, $i, $r;", ANYWHERE, 6},
	{"ld.global.b32 %t, [%own+$k]; add.sat.s32 $r, $r, %t;", ANYWHERE, 2},
	{"ld.global.b32 %t, [%own+$k]; sub.sat.s32 $r, $r, %t;", ANYWHERE, 2},
	{"mul.lo.u32 $r, $r, $i;", ANYWHERE, 6},
	{"mul.hi.s32 $r, $r, $i;", ANYWHERE, 3},
	{"mul.hi.u32 $r, $r, $i;", ANYWHERE, 3},
	{"mad.lo.s32 $r, $r, $i, $r;", ANYWHERE, 6},
	{"mad.hi.u32 $r, $r, $r, $i;", ANYWHERE, 2},
	{"mad.hi.sat.s32 $r, $r, $r, $r;", ANYWHERE, 1},
	{"mul24.lo.u32 $r, $r, $r;", ANYWHERE, 1},
	{"mad24.lo.s32 $r, $r, $r, $i;", ANYWHERE, 1},
	{"mul.wide.s32 $l, $r, $i;", ANYWHERE, 3},
	{"mul.wide.u32 $l, $r, $r;", ANYWHERE, 3},
	{"mad.wide.s32 $l, $r, $r, $l;", ANYWHERE, 3},
	{"mul.wide.s16 $r, $h, $h;", ANYWHERE, 2},
	{"add.s64 $l, $l, $I;", ANYWHERE, 4},
	{"sub.s64 $l, $l, $l;", ANYWHERE, 3},
	{"mul.lo.s64 $l, $l, $I;", ANYWHERE, 3},
	{"mul.hi.u64 $l, $l, $l;", ANYWHERE, 2},
	{"mul.hi.s64 $l, $l, $l;", ANYWHERE, 2},
	{"mad.lo.u64 $l, $l, $l, $l;", ANYWHERE, 2},
	{"add.u16 $h, $h, $h;", ANYWHERE, 2},
	{"mul.lo.u16 $h, $h, $h;", ANYWHERE, 2},
	{"mul.hi.s16 $h, $h, $h;", ANYWHERE, 1},
	{"min.s16 $h, $h, $h;", ANYWHERE, 1},
	{"or.b32 %t, $i, 1; div.u32 $r, $r, %t;", ANYWHERE, 2},
	{"or.b32 %t, $r, 1; rem.u32 $r, $r, %t;", ANYWHERE, 2},
	{"or.b32 %t, $r, 2; and.b32 %t, %t, 0x7fffffff; div.s32 $r, $r, %t;", ANYWHERE, 2},
	{"or.b32 %t, $r, 2; and.b32 %t, %t, 0x7fffffff; rem.s32 $r, $r, %t;", ANYWHERE, 2},
	{"or.b64 %T, $l, 1; div.u64 $l, $l, %T;", ANYWHERE, 1},
	{"or.b64 %T, $l, 1; rem.u64 $l, $l, %T;", ANYWHERE, 1},
	{"or.b64 %T, $l, 4; shr.u64 %T, %T, 1; rem.s64 $l, $l, %T;", ANYWHERE, 1},
	{"min.s32 $r, $r, $i;", ANYWHERE, 3},
	{"max.u32 $r, $r, $i;", ANYWHERE, 3},
	{"min.u64 $l, $l, $l;", ANYWHERE, 1},
	{"max.s64 $l, $l, $l;", ANYWHERE, 1},
	{"abs.s32 $r, $r;", ANYWHERE, 2},
	{"neg.s32 $r, $r;", ANYWHERE, 2},
	{"neg.s64 $l, $l;", ANYWHERE, 1},
	{"sad.s32 $r, $r, $r, $r;", ANYWHERE, 1},
	{"sad.u32 $r, $r, $r, $i;", ANYWHERE, 1},
	{"vabsdiff4.u32.u32.u32.add $r, $r, $r, $r;", ANYWHERE, 1},
	{"dp4a.s32.u32 $r, $r, $r, $r;", ANYWHERE, 1},
	{"dp2a.lo.u32.s32 $r, $r, $r, $r;", ANYWHERE, 1},
	{"add.cc.u32 %t, $r, $r; addc.cc.u32 $r, $r, $r; addc.u32 $r, $r, %t;", ANYWHERE, 1},
	{"sub.cc.u32 %t, $r, $r; subc.u32 $r, $r, %t;", ANYWHERE, 1},
	{"mad.lo.cc.u32 %t, $r, $r, $r; madc.hi.u32 $r, $r, $r, %t;", ANYWHERE, 1},
	/* bits */
	{"and.b32 $r, $r, $i;", ANYWHERE, 3},
	{"or.b32 $r, $r, $i;", ANYWHERE, 3},
	{"xor.b32 $r, $r, $i;", ANYWHERE, 5},
	{"xor.b64 $l, $l, $I;", ANYWHERE, 3},
	{"and.b64 $l, $l, $l;", ANYWHERE, 2},
	{"or.b16 $h, $h, $h;", ANYWHERE, 1},
	{"not.b32 $r, $r;", ANYWHERE, 2},
	{"cnot.b32 $r, $r;", ANYWHERE, 1},
	{"shl.b32 $r, $r, $j;", ANYWHERE, 4},
	{"shr.u32 $r, $r, $j;", ANYWHERE, 4},
	{"shr.s32 $r, $r, $j;", ANYWHERE, 4},
	{"shl.b64 $l, $l, $j;", ANYWHERE, 3},
	{"shr.s64 $l, $l, $j;", ANYWHERE, 3},
	{"and.b32 %t, $r, 63; shr.u64 $l, $l, %t;", ANYWHERE, 3},
	{"shl.b32 $r, $r, $r;", ANYWHERE, 2},
	{"shr.s16 $h, $h, $j;", ANYWHERE, 1},
	{"shf.l.wrap.b32 $r, $r, $r, $j;", ANYWHERE, 2},
	{"shf.r.clamp.b32 $r, $r, $r, $r;", ANYWHERE, 2},
	{"popc.b32 $r, $r;", ANYWHERE, 2},
	{"clz.b64 $r, $l;", ANYWHERE, 2},
	{"brev.b32 $r, $r;", ANYWHERE, 2},
	{"brev.b64 $l, $l;", ANYWHERE, 1},
	{"bfind.s32 $r, $r;", ANYWHERE, 2},
	{"bfind.shiftamt.u64 $r, $l;", ANYWHERE, 1},
	{"bfe.u32 $r, $r, $j, $j;", ANYWHERE, 2},
	{"bfe.s32 $r, $r, $r, $j;", ANYWHERE, 2},
	{"bfe.s64 $l, $l, $j, $j;", ANYWHERE, 1},
	{"bfi.b32 $r, $r, $r, $j, $w;", ANYWHERE, 2},
	{"lop3.b32 $r, $r, $r, $r, 0x96;", ANYWHERE, 2},
	{"lop3.b32 $r, $r, $r, $r, 0xca;", ANYWHERE, 2},
	{"prmt.b32 $r, $r, $r, 0x3715;", ANYWHERE, 2},
	{"prmt.b32 $r, $r, $r, $r;", ANYWHERE, 2},
	{"prmt.b32.rc16 $r, $r, $r, $r;", ANYWHERE, 1},
	{"bmsk.clamp.b32 $r, $j, $j;", ANYWHERE, 1},
	{"szext.clamp.s32 $r, $r, $j;", ANYWHERE, 1},
	{"mov.b64 $l, {$r, $r};", ANYWHERE, 2},
	{"mov.b64 {%t, $r}, $l;", ANYWHERE, 2},
	{"mov.b32 $r, {$h, $h};", ANYWHERE, 2},
	{"mov.b32 {$h, %x}, $r;", ANYWHERE, 2},
	{"mov.b32 $r, $i;", ANYWHERE, 2},
	/* comparison and selection */
	{"setp.lt.s32 $p, $r, $i;", ANYWHERE, 6},
	{"setp.ge.u32 $p, $r, $i;", ANYWHERE, 4},
	{"setp.eq.b32 $p, $r, $r;", ANYWHERE, 2},
	{"setp.ne.s64 $p, $l, $l;", ANYWHERE, 2},
	{"setp.gt.u64 $p, $l, $I;", ANYWHERE, 2},
	{"setp.le.s16 $p, $h, $h;", ANYWHERE, 2},
	{"setp.lt.and.s32 $p, $r, $r, $p;", ANYWHERE, 2},
	{"setp.gt.xor.u32 $p|%q, $r, $r, $p;", ANYWHERE, 2},
	{"and.b32 %t, $r, 1; setp.ne.u32 $p, %t, 0;", ANYWHERE, 4},
	{"xor.pred $p, $p, $p;", ANYWHERE, 2},
	{"not.pred $p, $p;", ANYWHERE, 1},
	{"selp.b32 $r, $r, $i, $p;", ANYWHERE, 5},
	{"selp.b64 $l, $l, $l, $p;", ANYWHERE, 2},
	{"selp.f32 $f, $f, $f, $p;", ANYWHERE, 2},
	{"slct.s32.s32 $r, $r, $r, $r;", ANYWHERE, 1},
	{"set.lt.u32.s32 $r, $r, $i;", ANYWHERE, 2},
	{"set.geu.u32.f32 $r, $f, $f;", ANYWHERE, 1},
	/* floating point */
	{"add.rn.f32 $f, $f, $f;", ANYWHERE, 5},
	{"sub.rn.f32 $f, $f, $f;", ANYWHERE, 3},
	{"mul.rn.f32 $f, $f, $f;", ANYWHERE, 5},
	{"fma.rn.f32 $f, $f, $f, $f;", ANYWHERE, 5},
	{"fma.rz.f32 $f, $f, $f, $f;", ANYWHERE, 1},
	{"add.rm.f32 $f, $f, $f;", ANYWHERE, 1},
	{"mul.rp.f32 $f, $f, $f;", ANYWHERE, 1},
	{"add.rn.ftz.f32 $f, $f, $f;", ANYWHERE, 2},
	{"mul.rn.ftz.f32 $f, $f, $f;", ANYWHERE, 2},
	{"fma.rn.ftz.f32 $f, $f, $f, $f;", ANYWHERE, 2},
	{"fma.rn.sat.f32 $f, $f, $f, $f;", ANYWHERE, 1},
	{"mul.rz.sat.f32 $f, $f, $f;", ANYWHERE, 1},
	{"div.rn.f32 $f, $f, $f;", ANYWHERE, 2},
	{"div.rz.ftz.f32 $f, $f, $f;", ANYWHERE, 1},
	{"abs.f32 %F, $f; sqrt.rn.f32 $f, %F;", ANYWHERE, 2},
	{"rcp.rn.f32 $f, $f;", ANYWHERE, 1},
	{"rcp.rm.ftz.f32 $f, $f;", ANYWHERE, 1},
	{"min.f32 $f, $f, $f;", ANYWHERE, 2},
	{"max.NaN.f32 $f, $f, $f;", ANYWHERE, 2},
	{"max.ftz.f32 $f, $f, $f;", ANYWHERE, 1},
	{"abs.f32 $f, $f;", ANYWHERE, 1},
	{"neg.ftz.f32 $f, $f;", ANYWHERE, 1},
	{"add.rn.f64 $d, $d, $d;", ANYWHERE, 3},
	{"mul.rn.f64 $d, $d, $d;", ANYWHERE, 3},
	{"fma.rn.f64 $d, $d, $d, $d;", ANYWHERE, 3},
	{"fma.rp.f64 $d, $d, $d, $d;", ANYWHERE, 1},
	{"div.rn.f64 $d, $d, $d;", ANYWHERE, 1},
	{"sub.rm.f64 $d, $d, $d;", ANYWHERE, 1},
	{"abs.f64 %D, $d; sqrt.rn.f64 $d, %D;", ANYWHERE, 1},
	{"min.f64 $d, $d, $d;", ANYWHERE, 1},
	{"setp.lt.f32 $p, $f, $f;", ANYWHERE, 3},
	{"setp.neu.f32 $p, $f, $f;", ANYWHERE, 1},
	{"setp.geu.ftz.f32 $p, $f, $f;", ANYWHERE, 1},
	{"setp.gt.or.f64 $p, $d, $d, $p;", ANYWHERE, 2},
	{"testp.normal.f32 $p, $f;", ANYWHERE, 1},
	{"testp.infinite.f64 $p, $d;", ANYWHERE, 1},
	{"cvt.rn.f32.s32 $f, $r;", ANYWHERE, 3},
	{"cvt.rz.f32.u64 $f, $l;", ANYWHERE, 1},
	{"cvt.rn.f64.s64 $d, $l;", ANYWHERE, 1},
	{"cvt.f64.f32 $d, $f;", ANYWHERE, 2},
	{"cvt.rn.f32.f64 $f, $d;", ANYWHERE, 2},
	{"cvt.rp.f32.f64 $f, $d;", ANYWHERE, 1},
	{"cvt.rzi.s32.f32 $r, $f;", ANYWHERE, 3},
	{"cvt.rni.u32.f32 $r, $f;", ANYWHERE, 1},
	{"cvt.rmi.s64.f64 $l, $d;", ANYWHERE, 1},
	{"cvt.rpi.s32.f64 $r, $d;", ANYWHERE, 1},
	{"cvt.rmi.f32.f32 $f, $f;", ANYWHERE, 1},
	{"cvt.f32.f16 $f, $h;", ANYWHERE, 2},
	{"cvt.rn.f16.f32 %x, $f; setp.nan.f16 %q, %x, %x; selp.b16 $h, 0x7fff, %x, %q;", ANYWHERE, 2},
	{"add.rn.f16 %x, $h, $h; setp.nan.f16 %q, %x, %x; selp.b16 $h, 0x7fff, %x, %q;", ANYWHERE, 1},
	{"fma.rn.f16 %x, $h, $h, $h; setp.nan.f16 %q, %x, %x; selp.b16 $h, 0x7fff, %x, %q;", ANYWHERE, 1},
	/* pairs of numbers of which none is so large that a NaN could come of it */
	{"and.b32 %t, $r, 0xbbffbbff; and.b32 %y, $r, 0xbbffbbff; fma.rn.f16x2 $r, %t, %y, %t;", ANYWHERE, 2},
	{"and.b32 %t, $r, 0xbbffbbff; and.b32 %y, $r, 0xbbffbbff; mul.rn.ftz.f16x2 $r, %t, %y;", ANYWHERE, 1},
	{"and.b32 %t, $r, 0xbbffbbff; and.b32 %y, $r, 0xbbffbbff; sub.rn.f16x2 $r, %t, %y;", ANYWHERE, 1},
	{"and.b32 %t, $r, 0xbfffbfff; and.b32 %y, $r, 0xbfffbfff; fma.rn.bf16x2 $r, %t, %y, %t;", ANYWHERE, 2},
	{"mov.f32 %F, $f; setp.nan.f32 %q, %F, %F; mov.b32 %t, %F; selp.b32 $r, 0x7fffffff, %t, %q;", ANYWHERE, 2},
	{"and.b32 %t, $r, 0xbfffffff; mov.b32 $f, %t;", ANYWHERE, 3},
	{"and.b32 %t, $r, 0x803fffff; or.b32 %t, %t, 0x3f000000; mov.b32 $f, %t;", ANYWHERE, 3},
	{"and.b64 %T, $l, 0xbfffffffffffffff; mov.b64 $d, %T;", ANYWHERE, 2},
	/* conversions between integers */
	{"cvt.u16.u32 $h, $r;", ANYWHERE, 2},
	{"cvt.s32.s16 $r, $h;", ANYWHERE, 2},
	{"cvt.s32.s8 $r, $r;", ANYWHERE, 2},
	{"cvt.u64.u32 $l, $r;", ANYWHERE, 2},
	{"cvt.s64.s32 $l, $r;", ANYWHERE, 2},
	{"cvt.u32.u64 $r, $l;", ANYWHERE, 2},
	{"cvt.sat.s16.s32 $h, $r;", ANYWHERE, 1},
	{"cvt.sat.u8.s32 $r, $r;", ANYWHERE, 1},
	{"cvt.sat.s32.u64 $r, $l;", ANYWHERE, 1},
	/* memory: %T becomes an address in the input, in the thread's own global or local memory */
	{"and.b32 %t, $r, 0x3ffc; cvt.u64.u32 %T, %t; add.s64 %T, %T, %in; ld.global.b32 $r, [%T];", ANYWHERE, 4},
	{"and.b32 %t, $r, 0x3ff8; cvt.u64.u32 %T, %t; add.s64 %T, %T, %in; ld.global.nc.b64 $l, [%T];", ANYWHERE, 2},
	{"and.b32 %t, $r, 0x3fff; cvt.u64.u32 %T, %t; add.s64 %T, %T, %in; ld.global.s8 $r, [%T];", ANYWHERE, 2},
	{"and.b32 %t, $r, 0x3ffe; cvt.u64.u32 %T, %t; add.s64 %T, %T, %in; ld.global.u16 $h, [%T];", ANYWHERE, 2},
	{"and.b32 %t, $r, 0x3ff8; cvt.u64.u32 %T, %t; add.s64 %T, %T, %in; ld.global.v2.u32 {%t, $r}, [%T]; "
	 "xor.b32 $r, $r, %t;",
	 ANYWHERE, 2},
	{"and.b32 %t, $r, 0x3ff0; cvt.u64.u32 %T, %t; add.s64 %T, %T, %in; "
	 "ld.global.v4.b32 {%t, _, $r, _}, [%T]; xor.b32 $r, $r, %t;",
	 ANYWHERE, 2},
	{"mul.wide.u32 %T, %tuple, 4; add.s64 %T, %T, %in; ld.global.b32 $r, [%T+$k];", ANYWHERE, 3},
	{"and.b32 %t, $u, 0x3ffc; cvt.u64.u32 %T, %t; add.s64 %T, %T, %in; ld.global.b32 $r, [%T];", ANYWHERE, 1},
	{"st.global.b32 [%own+$k], $r;", ANYWHERE, 2},
	{"st.global.v2.b32 [%own+8], {$r, $r};", ANYWHERE, 1},
	{"st.global.u8 [%own+13], $r; ld.global.b32 $r, [%own+12];", ANYWHERE, 1},
	{"ld.global.b32 $r, [%own+$k];", ANYWHERE, 2},
	{"and.b32 %t, $r, 28; cvt.u64.u32 %T, %t; add.s64 %T, %T, %own; st.global.b32 [%T], $r;", ANYWHERE, 2},
	{"and.b32 %t, $r, 24; cvt.u64.u32 %T, %t; add.s64 %T, %T, %own; ld.global.b64 $l, [%T];", ANYWHERE, 2},
	{"atom.global.add.u32 $r, [%own+4], $r;", ANYWHERE, 1},
	{"atom.global.cas.b32 $r, [%own+8], $r, $r;", ANYWHERE, 1},
	{"atom.global.max.s64 $l, [%own+16], $l;", ANYWHERE, 1},
	{"st.local.b32 [%mine+$k], $r;", ANYWHERE, 2},
	{"and.b32 %t, $r, 28; cvt.u64.u32 %T, %t; add.s64 %T, %T, %mine; st.local.b32 [%T], $r;", ANYWHERE, 2},
	{"and.b32 %t, $r, 28; cvt.u64.u32 %T, %t; add.s64 %T, %T, %mine; ld.local.b32 $r, [%T];", ANYWHERE, 2},
	{"and.b32 %t, $r, 30; cvt.u64.u32 %T, %t; add.s64 %T, %T, %mine; cvta.local.u64 %T, %T; "
	 "ld.s16 $h, [%T];",
	 ANYWHERE, 1},
	{"ld.local.v2.b32 {$r, %t}, [%mine+16]; add.s32 $r, $r, %t;", ANYWHERE, 1},
	/* atomics that commute: each cell has one operation */
	{"red.global.add.u32 [%cells], $r;", ANYWHERE, 1},
	{"red.global.max.s32 [%cells+4], $r;", ANYWHERE, 1},
	{"red.global.xor.b32 [%cells+8], $r;", ANYWHERE, 1},
	{"red.global.add.u64 [%cells+16], $l;", ANYWHERE, 1},
	{"red.global.min.u32 [%cells+24], $r;", ANYWHERE, 1},
	{"atom.global.or.b32 %t, [%cells+28], $r;", ANYWHERE, 1},
	{"red.shared.add.u32 [cells], $r;", ANYWHERE, 2},
	{"red.shared.min.s32 [cells+4], $r;", ANYWHERE, 1},
	{"red.shared.xor.b32 [cells+8], $r;", ANYWHERE, 1},
	{"red.shared.and.b32 [cells+12], $r;", ANYWHERE, 1},
	{"red.shared.inc.u32 [cells+16], 1000;", ANYWHERE, 1},
	{"red.shared.max.u64 [cells+24], $l;", ANYWHERE, 1},
	/* the whole warp */
	{"shfl.sync.up.b32 $r, $r, $j, 0, -1;", WARP, 6},
	{"shfl.sync.down.b32 $r|$p, $r, $j, 31, -1;", WARP, 6},
	{"shfl.sync.bfly.b32 $r, $r, $j, 0x101f, -1;", WARP, 4},
	{"shfl.sync.idx.b32 $r|$p, $r, $r, 31, -1;", WARP, 4},
	{"vote.sync.ballot.b32 $r, $p, -1;", WARP, 4},
	{"vote.sync.any.pred $p, !$p, -1;", WARP, 2},
	{"vote.sync.all.pred $p, $p, -1;", WARP, 2},
	{"vote.sync.uni.pred $p, $p, -1;", WARP, 2},
	{"and.b32 %t, $r, 3; match.any.sync.b32 $r, %t, -1;", WARP, 2},
	{"match.all.sync.b32 $r|$p, $r, -1;", WARP, 2},
	{"match.any.sync.b64 $r, $l, -1;", WARP, 1},
	{"redux.sync.add.s32 $r, $r, -1;", WARP, 2},
	{"redux.sync.min.u32 $r, $r, -1;", WARP, 2},
	{"redux.sync.xor.b32 $r, $r, -1;", WARP, 2},
	{"bar.warp.sync -1;", WARP, 1},
	/* groups of lanes, each for itself */
	{"and.b32 %t, $r, 3; match.any.sync.b32 %t, %t, -1; redux.sync.add.u32 $r, $r, %t;", WARP, 2},
	{"and.b32 %t, $r, 1; match.any.sync.b32 %t, %t, -1; vote.sync.ballot.b32 $r, $p, %t;", WARP, 2},
	{"and.b32 %t, $r, 1; match.any.sync.b32 %t, %t, -1; vote.sync.all.pred $p, $p, %t;", WARP, 1},
	{"and.b32 %t, $r, 3; match.any.sync.b32 %t, %t, -1; bfind.u32 %y, %t; shfl.sync.idx.b32 $r, $r, %y, 31, %t;",
	 WARP, 2},
	/* the lanes that get here */
	{"redux.sync.add.u32 $r, $r, $m;", KNOWN_MASK, 12},
	{"redux.sync.max.s32 $r, $r, $m;", KNOWN_MASK, 8},
	{"vote.sync.ballot.b32 $r, $p, $m;", KNOWN_MASK, 12},
	{"vote.sync.any.pred $p, $p, $m;", KNOWN_MASK, 8},
	{"and.b32 %t, $r, 7; match.any.sync.b32 $r, %t, $m;", KNOWN_MASK, 8},
	{"bfind.u32 %t, $m; shfl.sync.idx.b32 $r, $r, %t, 31, $m;", KNOWN_MASK, 12},
	{"bar.warp.sync $m;", KNOWN_MASK, 4},
	/* the whole block: %s is the thread's word in `area` */
	{"st.shared.b32 [%s], $r; bar.sync 0; rem.u32 %t, $r, $n; shl.b32 %t, %t, 2; mov.u32 %y, area; "
	 "add.s32 %y, %y, %t; ld.shared.b32 $r, [%y]; bar.sync 0;",
	 BLOCK, 14},
	{"st.shared.b32 [%s], $r; barrier.sync 1; sub.u32 %t, $n, 1; sub.u32 %t, %t, %x0; mov.u32 %y, area; "
	 "mad.lo.u32 %y, %t, 4, %y; ld.shared.b32 $r, [%y]; barrier.sync 1;",
	 BLOCK, 10},
	{"bar.sync 2; ld.shared.v4.b32 {$r, %t, %y, %z}, [cells]; bar.sync 2; add.s32 $r, $r, %t; "
	 "xor.b32 $r, $r, %y; sub.s32 $r, $r, %z;",
	 BLOCK, 10},
	{"bar.sync 0; ld.shared.u32 $r, [cells+16]; ld.shared.b64 $l, [cells+24]; bar.sync 0;", BLOCK, 6},
	{"bar.red.popc.u32 $r, 0, $p;", BLOCK, 6},
	{"bar.red.and.pred $p, 3, $p;", BLOCK, 4},
	{"bar.red.or.pred $p, 3, !$p;", BLOCK, 4},
	{"bar.sync 0;", BLOCK, 2},
	/* uniform operands give uniform results */
	{"add.s32 $u, $u, $i;", UNIFORM, 4},
	{"mad.lo.s32 $u, $u, $u, $i;", UNIFORM, 4},
	{"xor.b32 $u, $u, $u;", UNIFORM, 2},
	{"shr.u32 $u, $u, $j;", UNIFORM, 2},
	{"mul.wide.u32 %T, $u, 5; cvt.u32.u64 $u, %T;", UNIFORM, 1},
	{"add.s32 $r, $r, $u;", ANYWHERE, 5},
	{"xor.b32 $r, $u, $i;", ANYWHERE, 2},
	{"mov.u32 $r, %tid.x;", ANYWHERE, 2},
	{"mov.u32 $r, %laneid;", ANYWHERE, 1},
	{"mad.lo.u32 $r, %tuple, 4, $u;", ANYWHERE, 3},
};

#define COUNT (sizeof(templates) / sizeof(templates[0]))

uint64_t random_next(struct random_state *s)
{
	uint64_t z = s->value += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

unsigned random_below(struct random_state *s, unsigned limit)
{
	return (unsigned)(random_next(s) >> 33) % limit;
}

/* A number of 2 to 32 bits. */
static unsigned few_bits(struct random_state *s)
{
	uint64_t bits = random_next(s);

	return (unsigned)(bits >> (32 + random_below(s, 31)));
}

static void number(struct random_state *s, FILE *out, unsigned bits)
{
	static const char *const special[] = {"0", "1", "-1", "2", "31", "255", "0x7fffffff", "0x80000000", "0x10000"};

	if (random_below(s, 2))
		fputs(special[random_below(s, sizeof(special) / sizeof(special[0]))], out);
	else if (bits == 64 && random_below(s, 2))
		fprintf(out, "0x%llx", (unsigned long long)random_next(s));
	else
		fprintf(out, "%u", few_bits(s));
}

static void operand(struct random_state *s, const struct random_place *place, FILE *out, char kind)
{
	static const struct {
		char kind, count;
	} files[] = {{'r', 8}, {'l', 4}, {'h', 3}, {'f', 5}, {'d', 3}, {'p', 4}, {'u', 2}};

	for (unsigned n = 0; n < sizeof(files) / sizeof(files[0]); n++)
		if (files[n].kind == kind)
			fprintf(out, "%%%c%u", kind, random_below(s, (unsigned)files[n].count));
	switch (kind) {
	case 'i':
		if (random_below(s, 3))
			number(s, out, 32);
		else
			operand(s, place, out, place->function || random_below(s, 4) ? 'r' : 'u');
		break;
	case 'I':
		if (random_below(s, 3))
			number(s, out, 64);
		else
			operand(s, place, out, 'l');
		break;
	case 'j':
		fprintf(out, "%u", random_below(s, random_below(s, 8) ? 32 : 70));
		break;
	case 'w':
		fprintf(out, "%u", random_below(s, 32));
		break;
	case 'k':
		fprintf(out, "%u", 4 * random_below(s, 8));
		break;
	case 'm':
		fputs(place->mask, out);
		break;
	case 'n':
		fprintf(out, "%u", s->threads);
		break;
	}
}

char *random_fill(struct random_state *s, const struct random_place *place, const char *template)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (; *template; template++)
		if (*template == '$')
			operand(s, place, out, *++template);
		else
			fputc(*template, out);
	fclose(out);
	return text;
}

static bool allowed(const struct random_state *s, const struct random_place *place, const struct template *t)
{
	bool memory = strchr(t->text, '[') || strstr(t->text, "%tuple") || strstr(t->text, "$u");

	if (place->function && memory)
		return false;
	if (s->alone && strstr(t->text, "shared"))
		return false;
	switch ((enum need)t->need) {
	case WARP:
		return !place->divergent && s->warp;
	case KNOWN_MASK:
		return place->mask && s->warp;
	case BLOCK:
		return !place->divergent && !s->alone;
	case UNIFORM:
		return !place->divergent;
	case ANYWHERE:
		break;
	}
	return true;
}

/* In UNIFORM templates an `i` must be a number or uniform too: only numbers are taken there. */
static char *uniform_text(struct random_state *s, const struct random_place *place, const char *template)
{
	struct random_place alone = *place;
	char *text = strdup(template), *at, *filled;

	while ((at = strstr(text, "$i")))
		at[1] = 'u';
	filled = random_fill(s, &alone, text);
	free(text);
	return filled;
}

char *random_instruction(struct random_state *s, const struct random_place *place)
{
	unsigned total = 0, pick;
	const struct template *t = NULL;
	char *text, *guarded;

	for (unsigned n = 0; n < COUNT; n++)
		total += allowed(s, place, &templates[n]) ? templates[n].weight : 0;
	pick = random_below(s, total);
	for (unsigned n = 0; n < COUNT; n++) {
		unsigned weight = allowed(s, place, &templates[n]) ? templates[n].weight : 0;

		if (pick < weight) {
			t = &templates[n];
			break;
		}
		pick -= weight;
	}
	if (!t)
		abort();
	if (t->need == UNIFORM)
		return uniform_text(s, place, t->text);
	text = random_fill(s, place, t->text);
	/*
	 * Adds a guard, if the text is one instruction that needs no other thread. The driver's assembler ignores the
	 * guard of testp.
	 */
	if (t->need == ANYWHERE && strncmp(text, "testp", 5) && strchr(text, ';') == text + strlen(text) - 1 && !random_below(s, 6)) {
		unsigned predicate = random_below(s, 4);

		if (asprintf(&guarded, "@%s%%p%u %s", random_below(s, 2) ? "!" : "", predicate, text) < 0)
			abort();
		free(text);
		return guarded;
	}
	return text;
}
