#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes PTX with a kernel for each form of texture and surface instructions: sass-texture.py FILE.

Kernels are kGEOMETRY_NUMBER(out, object). Each thread writes four words at `out`, at 16 bytes times its number. Half of the
kernels read the object's handle from memory, in which machine code has a register with it and no bank: these end in _m.
"""

import sys

HEAD = """.version 6.3
.target sm_75
.address_size 64
"""
START = """{
.reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b64 %d<8>; .reg .b16 %h<4>;
ld.param.u64 %d1, [out];
ld.param.u64 %d2, [object];
cvta.to.global.u64 %d1, %d1;
mov.u32 %r0, %tid.x;
mad.wide.u32 %d3, %r0, 16, %d1;
and.b32 %r1, %r0, 7;
shr.u32 %r2, %r0, 2;
and.b32 %r3, %r0, 3;
cvt.rn.f32.u32 %f0, %r0;
fma.rn.f32 %f1, %f0, 0f3EBD70A4, 0fBF800000;
fma.rn.f32 %f2, %f0, 0f3E570A3D, 0f3E99999A;
fma.rn.f32 %f3, %f0, 0f3DCCCCCD, 0fBF000000;
mul.f32 %f4, %f0, 0f3D4CCCCD;
mov.u32 %r10, 0;
mov.u32 %r11, 0;
mov.u32 %r12, 0;
mov.u32 %r13, 0;
"""
END = "st.global.v4.b32 [%d3], {%r10, %r11, %r12, %r13};\nret;\n}\n"

NUMBERS = {"1d": "{%r1}", "2d": "{%r1, %r2}", "3d": "{%r1, %r2, %r3, %r3}", "a1d": "{%r3, %r1}", "a2d": "{%r3, %r1, %r2, %r2}"}
FLOATS = {"1d": "{%f1}", "2d": "{%f1, %f2}", "3d": "{%f1, %f2, %f3, %f3}", "a1d": "{%r3, %f1}", "a2d": "{%r3, %f1, %f2, %f2}",
          "cube": "{%f1, %f2, %f3, %f3}", "acube": "{%r3, %f1, %f2, %f3}"}
ALL = "{%r10, %r11, %r12, %r13}"


def textures(geometry):
    place = FLOATS[geometry]
    yield f"tex.{geometry}.v4.f32.f32 {ALL}, [%d2, {place}];"
    yield f"tex.level.{geometry}.v4.f32.f32 {ALL}, [%d2, {place}], %f4;"
    yield f"tex.{geometry}.v4.f32.f32 {{%r10, _, _, %r13}}, [%d2, {place}];"
    if geometry in NUMBERS:
        yield f"tex.{geometry}.v4.u32.s32 {ALL}, [%d2, {NUMBERS[geometry]}];"
        yield f"tex.level.{geometry}.v4.u32.s32 {ALL}, [%d2, {NUMBERS[geometry]}], 0;"
    if geometry in ("1d", "a1d"):
        yield f"tex.grad.{geometry}.v4.f32.f32 {ALL}, [%d2, {place}], {{%f4}}, {{%f2}};"
    if geometry in ("2d", "a2d"):
        yield f"tex.grad.{geometry}.v4.f32.f32 {ALL}, [%d2, {place}], {{%f4, %f2}}, {{%f3, %f1}};"
    if geometry == "2d":
        for component in "rgba":
            yield f"tld4.{component}.2d.v4.f32.f32 {ALL}, [%d2, {place}];"
        yield "txq.width.b32 %r10, [%d2];\ntxq.height.b32 %r11, [%d2];"
    if geometry == "3d":
        yield "txq.depth.b32 %r10, [%d2];"


def surfaces(geometry):
    place = NUMBERS[geometry]
    for bounds in ("trap", "clamp", "zero"):
        yield f"suld.b.{geometry}.v4.b32.{bounds} {ALL}, [%d2, {place}];"
    yield (f"sust.b.{geometry}.v4.b32.trap [%d2, {place}], {{%r0, %r1, %r2, %r3}};\n"
           f"suld.b.{geometry}.v4.b32.trap {ALL}, [%d2, {place}];")
    yield f"suld.b.{geometry}.v2.b32.zero {{%r10, %r11}}, [%d2, {place}];"
    yield f"suld.b.{geometry}.b32.clamp %r12, [%d2, {place}];"
    yield f"suld.b.{geometry}.b16.clamp %h1, [%d2, {place}];\ncvt.u32.u16 %r12, %h1;"
    yield f"suld.b.{geometry}.b8.clamp %h1, [%d2, {place}];\ncvt.u32.u8 %r12, %h1;"
    yield (f"cvt.u16.u32 %h1, %r0;\nsust.b.{geometry}.b8.trap [%d2, {place}], %h1;\n"
           f"suld.b.{geometry}.v4.b32.trap {ALL}, [%d2, {place}];")


def reductions():
    """With one thread for each texel."""
    place = "{%r4, %r2}"
    for operation, kind in (("add", "u32"), ("min", "s32"), ("max", "u32"), ("max", "s32"), ("and", "b32"), ("or", "b32")):
        yield (f"shl.b32 %r4, %r3, 2;\nxor.b32 %r5, %r0, 0x80000001;\nsured.b.{operation}.2d.{kind}.trap [%d2, {place}], %r5;\n"
               f"suld.b.2d.b32.trap %r10, [%d2, {place}];")
    yield ("xor.b32 %r5, %r0, 0x80000001;\nsured.p.add.2d.b32.trap [%d2, {%r3, %r2}], %r5;\nshl.b32 %r4, %r3, 2;\n"
           "suld.b.2d.b32.trap %r10, [%d2, {%r4, %r2}];")
    yield ("sust.p.2d.v4.b32.trap [%d2, {%r3, %r2}], {%r0, %r1, %r2, %r3};\nshl.b32 %r4, %r3, 2;\n"
           "suld.b.2d.b32.trap %r10, [%d2, {%r4, %r2}];")


def main():
    kernels = {geometry: list(textures(geometry)) for geometry in FLOATS}
    # The first coordinate of a surface is in bytes. No thread has the texel of another one.
    kernels.update({f"s{geometry}": ["shl.b32 %r1, %r0, 4;\n" + text for text in surfaces(geometry)] for geometry in NUMBERS})
    kernels["r2d"] = list(reductions())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(HEAD)
        for geometry, texts in kernels.items():
            for number, text in enumerate(texts):
                for end, load in (("", ""), ("_m", "ld.global.u64 %d2, [%d1];\nbar.sync 0;\n")):
                    file.write(f".visible .entry k{geometry}_{number}{end}(.param .u64 out, .param .u64 object)\n{START}{load}{text}\n{END}")


if __name__ == "__main__":
    main()
