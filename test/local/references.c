/* SPDX-License-Identifier: Apache-2.0 */
/* Texture and surface references by the driver API, as programs and runtimes before CUDA 12 use them. */
#include "api.h"

enum { COUNT = 32 };

/*
 * read: to[tid] = line at tid. sample: to[tid] = board at (tid + 0.5, 0.5). twice: doubles the element of `paper` at
 * tid.
 */
static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".global .texref line;\n.global .texref board;\n.global .surfref paper;\n"
			  ".visible .global .align 4 .u32 plain;\n"
			  ".visible .entry read(.param .u64 to) {\n"
			  "  .reg .u64 %a, %b; .reg .u32 %v<4>, %x;\n"
			  "  ld.param.u64 %a, [to]; mov.u32 %x, %tid.x;\n"
			  "  tex.1d.v4.u32.s32 {%v0, %v1, %v2, %v3}, [line, {%x}];\n"
			  "  mul.wide.u32 %b, %x, 4; add.u64 %a, %a, %b; st.global.u32 [%a], %v0;\n  ret;\n}\n"
			  ".visible .entry sample(.param .u64 to) {\n"
			  "  .reg .u64 %a, %b; .reg .u32 %x; .reg .f32 %v<4>, %f, %y;\n"
			  "  ld.param.u64 %a, [to]; mov.u32 %x, %tid.x; cvt.rn.f32.u32 %f, %x;\n"
			  "  add.f32 %f, %f, 0f3F000000; mov.f32 %y, 0f3F000000;\n"
			  "  tex.2d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [board, {%f, %y}];\n"
			  "  mul.wide.u32 %b, %x, 4; add.u64 %a, %a, %b; st.global.f32 [%a], %v0;\n  ret;\n}\n"
			  ".visible .entry twice() {\n"
			  "  .reg .u32 %x, %y, %v;\n"
			  "  mov.u32 %x, %tid.x; shl.b32 %x, %x, 2; mov.u32 %y, 0;\n"
			  "  suld.b.2d.b32.trap {%v}, [paper, {%x, %y}];\n  add.u32 %v, %v, %v;\n"
			  "  sust.b.2d.b32.trap [paper, {%x, %y}], {%v};\n  ret;\n}\n";

static CUmodule module;
static CUdeviceptr out;

static void run(const char *name, void *to)
{
	void *params[] = {&out};
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	OK(cuLaunchKernel(f, 1, 1, 1, COUNT, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
	if (to)
		OK(cuMemcpyDtoH_v2(to, out, COUNT * 4));
}

/* The format is said after the address, as some programs do; bound to something else the old is forgotten. */
static void linear(void)
{
	uint32_t values[2 * COUNT], read[COUNT];
	CUarray_format format;
	CUdeviceptr p, bound;
	CUtexref ref, again;
	int channels;
	size_t offset;

	for (uint32_t i = 0; i < 2 * COUNT; i++)
		values[i] = 1000 + i;
	OK(cuMemAlloc_v2(&p, 4096));
	OK(cuMemcpyHtoD_v2(p, values, COUNT * 4));
	OK(cuMemcpyHtoD_v2(p + 2048, values + COUNT, COUNT * 4));
	OK(cuModuleGetTexRef(&ref, module, "line"));
	OK(cuModuleGetTexRef(&again, module, "line"));
	CHECK(ref == again);
	GIVES(cuTexRefGetAddress_v2(&bound, ref), CUDA_ERROR_INVALID_VALUE);
	OK(cuTexRefSetAddress_v2(&offset, ref, p, COUNT * 4));
	CHECK(offset == 0);
	OK(cuTexRefSetFormat(ref, CU_AD_FORMAT_UNSIGNED_INT32, 1));
	OK(cuTexRefSetFlags(ref, CU_TRSF_READ_AS_INTEGER));
	run("read", read);
	CHECK(!memcmp(read, values, sizeof(read)));
	OK(cuTexRefSetAddress_v2(NULL, ref, p + 2048, COUNT * 4));
	run("read", read);
	CHECK(!memcmp(read, values + COUNT, sizeof(read)));
	OK(cuTexRefGetAddress_v2(&bound, ref));
	OK(cuTexRefGetFormat(&format, &channels, ref));
	CHECK(bound == p + 2048 && format == CU_AD_FORMAT_UNSIGNED_INT32 && channels == 1);
	GIVES(cuTexRefSetAddress_v2(NULL, ref, p + 4, COUNT * 4 - 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuTexRefSetAddress_v2(&offset, ref, p + 4, COUNT * 4 - 4));
	CHECK(offset == 4);
	run("read", read);
	CHECK(!memcmp(read, values, sizeof(read)));
	OK(cuMemFree_v2(p));
}

static CUarray make_array(CUarray_format format, unsigned int flags, const void *values, size_t bytes)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = COUNT, .Height = 1, .Format = format, .NumChannels = 1, .Flags = flags};
	CUarray array;

	OK(cuArray3DCreate_v2(&array, &d));
	OK(cuMemcpyHtoA_v2(array, 0, values, bytes));
	return array;
}

/* Bytes become fractions, unless they are to be read as integers; the way it is read is changed while it is bound. */
static void arrays(void)
{
	uint8_t shades[COUNT];
	float read[COUNT];
	CUfilter_mode filter;
	CUaddress_mode mode;
	unsigned int flags;
	CUarray array, bound;
	CUtexref ref;

	for (int i = 0; i < COUNT; i++)
		shades[i] = (uint8_t)(5 * i);
	array = make_array(CU_AD_FORMAT_UNSIGNED_INT8, 0, shades, sizeof(shades));
	OK(cuModuleGetTexRef(&ref, module, "board"));
	OK(cuTexRefSetArray(ref, array, CU_TRSA_OVERRIDE_FORMAT));
	OK(cuTexRefSetAddressMode(ref, 0, CU_TR_ADDRESS_MODE_CLAMP));
	OK(cuTexRefSetAddressMode(ref, 1, CU_TR_ADDRESS_MODE_CLAMP));
	OK(cuTexRefSetFilterMode(ref, CU_TR_FILTER_MODE_POINT));
	OK(cuTexRefSetFlags(ref, 0));
	run("sample", read);
	for (int i = 0; i < COUNT; i++)
		CHECK(read[i] > (float)shades[i] / 255 - 1e-4f && read[i] < (float)shades[i] / 255 + 1e-4f);
	/* all coordinates lie behind the last texel now */
	OK(cuTexRefSetFlags(ref, CU_TRSF_NORMALIZED_COORDINATES));
	run("sample", read);
	for (int i = 1; i < COUNT; i++)
		CHECK(read[i] > (float)shades[COUNT - 1] / 255 - 1e-4f);
	OK(cuTexRefGetArray(&bound, ref));
	OK(cuTexRefGetFilterMode(&filter, ref));
	OK(cuTexRefGetAddressMode(&mode, ref, 1));
	OK(cuTexRefGetFlags(&flags, ref));
	CHECK(bound == array && filter == CU_TR_FILTER_MODE_POINT && mode == CU_TR_ADDRESS_MODE_CLAMP &&
	      flags == CU_TRSF_NORMALIZED_COORDINATES);
}

static void surfaces(void)
{
	uint32_t values[COUNT], read[COUNT];
	CUarray array, bound;
	CUsurfref ref;

	for (uint32_t i = 0; i < COUNT; i++)
		values[i] = 7 * i;
	array = make_array(CU_AD_FORMAT_UNSIGNED_INT32, CUDA_ARRAY3D_SURFACE_LDST, values, sizeof(values));
	OK(cuModuleGetSurfRef(&ref, module, "paper"));
	OK(cuSurfRefSetArray(ref, array, 0));
	OK(cuSurfRefGetArray(&bound, ref));
	CHECK(bound == array);
	run("twice", NULL);
	OK(cuMemcpyAtoH_v2(read, array, 0, sizeof(read)));
	for (uint32_t i = 0; i < COUNT; i++)
		CHECK(read[i] == 14 * i);
}

/* As programs of CUDA 1 to 3 say it before a launch. */
static void named(void)
{
	CUsurfref surface;
	CUfunction f;
	CUtexref ref;

	OK(cuModuleGetFunction(&f, module, "read"));
	OK(cuModuleGetTexRef(&ref, module, "line"));
	OK(cuModuleGetSurfRef(&surface, module, "paper"));
	OK(cuParamSetTexRef(f, CU_PARAM_TR_DEFAULT, ref));
	GIVES(cuParamSetTexRef(f, 0, ref), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuParamSetTexRef(f, CU_PARAM_TR_DEFAULT, (CUtexref)surface), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuParamSetTexRef((CUfunction)&ref, CU_PARAM_TR_DEFAULT, ref), CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
	CUcontext context;
	CUtexref ref, old;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuMemAlloc_v2(&out, COUNT * 4));
	GIVES(cuModuleGetTexRef(&ref, module, "nothing"), CUDA_ERROR_NOT_FOUND);
	GIVES(cuModuleGetTexRef(&ref, module, "plain"), CUDA_ERROR_NOT_FOUND);
	GIVES(cuModuleGetTexRef(NULL, module, "line"), CUDA_ERROR_INVALID_VALUE);
	linear();
	arrays();
	surfaces();
	named();
	OK(cuModuleGetTexRef(&old, module, "line"));
	OK(cuModuleUnload(module));
	GIVES(cuTexRefSetFlags(old, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuTexRefSetFlags((CUtexref)&context, 0), CUDA_ERROR_INVALID_VALUE);
	/* a module that takes its place begins anew */
	OK(cuModuleLoadData(&module, ptx));
	linear();
	puts("references: passed");
	return 0;
}
