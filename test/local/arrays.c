/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays, textures and surfaces as an application uses them, through both libraries. Ends with a kernel that fetches
 * through a handle that names nothing.
 */
#include "api.h"

#include "protocol/cuda-runtime-abi.h"

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
			    unsigned int flags);
cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
			      unsigned int flags);
cudaError_t cudaFreeArray(cudaArray_t array);
cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *desc,
				     struct cudaExtent extent, unsigned int levels, unsigned int flags);
cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array);
cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent, unsigned int *flags,
			     cudaArray_t array);
cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
				size_t height, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t count,
			      enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t count,
				enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *params);
cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const struct cudaResourceDesc *resource,
				    const struct cudaTextureDesc *texture, const struct cudaResourceViewDesc *view);
cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *texture, cudaTextureObject_t object);
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object);

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	/* out[tid] = texture(tid / 4 + 0.25, 1.5) */
	".visible .entry fetch(.param .u64 p_out, .param .u64 p_texture)\n{\n"
	".reg .b32 %r<4>;\n.reg .f32 %f<8>;\n.reg .b64 %l<4>;\n"
	"ld.param.u64 %l1, [p_out];\nld.param.u64 %l2, [p_texture];\nmov.u32 %r1, %tid.x;\n"
	"cvt.rn.f32.u32 %f1, %r1;\nfma.rn.f32 %f1, %f1, 0f3E800000, 0f3E800000;\nmov.f32 %f2, 0f3FC00000;\n"
	"tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%l2, {%f1, %f2}];\n"
	"mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l1, %l1, %l3;\nst.global.f32 [%l1], %f3;\nret;\n}\n"
	/* out[tid] = texture[tid + first] */
	".visible .entry element(.param .u64 p_out, .param .u64 p_texture, .param .u32 p_first)\n{\n"
	".reg .b32 %r<3>;\n.reg .f32 %f<5>;\n.reg .b64 %l<4>;\n"
	"ld.param.u64 %l1, [p_out];\nld.param.u64 %l2, [p_texture];\nld.param.u32 %r2, [p_first];\nmov.u32 %r1, "
	"%tid.x;\n"
	"mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l1, %l1, %l3;\nadd.s32 %r1, %r1, %r2;\n"
	"tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%l2, {%r1}];\nst.global.f32 [%l1], %f1;\nret;\n}\n"
	/* surface(tid, 0) += 1000 */
	".visible .entry change(.param .u64 p_surface)\n{\n"
	".reg .b32 %r<4>;\n.reg .f32 %f<2>;\n.reg .b64 %l<2>;\n"
	"ld.param.u64 %l1, [p_surface];\nmov.u32 %r1, %tid.x;\nshl.b32 %r1, %r1, 2;\nmov.u32 %r2, 0;\n"
	"suld.b.2d.b32.trap {%r3}, [%l1, {%r1, %r2}];\nmov.b32 %f1, %r3;\nadd.f32 %f1, %f1, 0f447A0000;\n"
	"mov.b32 %r3, %f1;\nsust.b.2d.b32.trap [%l1, {%r1, %r2}], {%r3};\nret;\n}\n";

static CUmodule module;

static CUresult launch(const char *name, unsigned int threads, void **params)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	OK(cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL));
	return cuCtxSynchronize();
}

static CUarray make(size_t width, size_t height, size_t depth, unsigned int channels, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {width, height, depth, CU_AD_FORMAT_FLOAT, channels, flags}, got;
	CUarray array;

	OK(cuArray3DCreate_v2(&array, &d));
	OK(cuArray3DGetDescriptor_v2(&got, array));
	CHECK(!memcmp(&d, &got, sizeof(d)));
	return array;
}

static CUDA_MEMCPY3D whole(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	size_t row = d->Width * 4 * d->NumChannels;

	return (CUDA_MEMCPY3D){.srcPitch = row,
			       .srcHeight = d->Height,
			       .dstPitch = row,
			       .dstHeight = d->Height,
			       .WidthInBytes = row,
			       .Height = d->Height ? d->Height : 1,
			       .Depth = d->Depth ? d->Depth : 1};
}

/* Out and back, whole and in part, through `a` and `b`: pageable or pinned memory. */
static void round_trip(CUarray array, float *a, float *b)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUDA_MEMCPY3D c;
	size_t count;

	OK(cuArray3DGetDescriptor_v2(&d, array));
	c = whole(&d);
	count = c.WidthInBytes / 4 * c.Height * c.Depth;
	for (size_t n = 0; n < count; n++) {
		a[n] = (float)(n % 1000003);
		b[n] = -1;
	}
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = a;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	OK(cuMemcpy3D_v2(&c));
	c = whole(&d);
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = array;
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	c.dstHost = b;
	/* without its first texel, row and slice, and to the same place */
	c.srcXInBytes = c.dstXInBytes = 4 * d.NumChannels;
	c.WidthInBytes -= 4 * d.NumChannels;
	c.srcY = c.dstY = c.Height > 1;
	c.Height -= c.srcY;
	c.srcZ = c.dstZ = c.Depth > 1;
	c.Depth -= c.srcZ;
	OK(cuMemcpy3D_v2(&c));
	for (size_t n = 0; n < count; n++) {
		size_t row = d.Width * d.NumChannels, rows = d.Height ? d.Height : 1;
		bool inside = n % row >= d.NumChannels && n / row % rows >= c.srcY && n / row / rows >= c.srcZ;

		CHECK(b[n] == (inside ? a[n] : -1));
	}
	c.srcY += c.Height;
	GIVES(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
}

static void copies(void)
{
	/* many slices at a time, rows of a slice, parts of a row */
	static const size_t sizes[][3] = {{70, 0, 0}, {33, 20, 0}, {50, 40, 30}, {700, 300, 3}, {40000, 3, 0}};
	const size_t most = 700 * 300 * 3 * 4ul;
	float *a = malloc(most), *b = malloc(most), *pinned, line[70] = {0};
	CUarray one, two;
	CUdeviceptr p;

	CHECK(a && b);
	OK(cuMemHostAlloc((void **)&pinned, 2 * most, 0));
	for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++) {
		CUarray array = make(sizes[n][0], sizes[n][1], sizes[n][2], n == 4 ? 4 : 1, 0);

		round_trip(array, a, b);
		round_trip(array, pinned, pinned + most / 4);
		OK(cuArrayDestroy(array));
		GIVES(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	}
	one = make(70, 0, 0, 1, 0);
	two = make(70, 0, 0, 1, 0);
	OK(cuMemAlloc_v2(&p, 280));
	for (int n = 0; n < 70; n++)
		a[n] = (float)n;
	OK(cuMemcpyHtoA_v2(one, 0, a, 280));
	OK(cuMemcpyAtoA_v2(two, 40, one, 0, 240));
	OK(cuMemcpyAtoD_v2(p, two, 40, 200));
	OK(cuMemcpyDtoH_v2(line, p + 100, 100));
	CHECK(line[0] == 25 && line[24] == 49);
	OK(cuMemcpyAtoH_v2(line, two, 276, 4));
	CHECK(line[0] == 59);
	GIVES(cuMemcpyAtoH_v2(line, two, 277, 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(one));
	OK(cuArrayDestroy(two));
	OK(cuMemFree_v2(p));
	OK(cuMemFreeHost(pinned));
	free(a);
	free(b);
}

static void objects(void)
{
	CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY}, got;
	CUDA_TEXTURE_DESC t = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP},
			       .filterMode = CU_TR_FILTER_MODE_LINEAR};
	CUarray array = make(8, 4, 0, 1, CUDA_ARRAY3D_SURFACE_LDST), plain = make(8, 4, 0, 1, 0);
	float texels[32], out[32];
	CUtexObject texture;
	CUsurfObject surface;
	CUdeviceptr p;
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = texels,
			   .srcPitch = 32,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstArray = array,
			   .WidthInBytes = 32,
			   .Height = 4};

	for (int n = 0; n < 32; n++)
		texels[n] = (float)n;
	OK(cuMemcpy2DUnaligned_v2(&c));
	OK(cuMemAlloc_v2(&p, sizeof(out)));
	r.res.array.hArray = array;
	OK(cuTexObjectCreate(&texture, &r, &t, NULL));
	OK(cuTexObjectGetResourceDesc(&got, texture));
	CHECK(got.res.array.hArray == array);
	OK(launch("fetch", 32, (void *[]){&p, &texture}));
	OK(cuMemcpyDtoH_v2(out, p, sizeof(out)));
	for (int n = 0; n < 32; n++) {
		float x = (float)n / 4 + 0.25f - 0.5f;

		CHECK(out[n] == 8 + (x < 0 ? 0 : x > 7 ? 7 : x));
	}
	/* the flag is not insisted on: levels of plain mipmapped arrays are written to by programs */
	r.res.array.hArray = plain;
	OK(cuSurfObjectCreate(&surface, &r));
	OK(cuSurfObjectDestroy(surface));
	r.res.array.hArray = array;
	OK(cuSurfObjectCreate(&surface, &r));
	OK(launch("change", 8, (void *[]){&surface}));
	OK(launch("fetch", 32, (void *[]){&p, &texture}));
	c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			    .srcArray = array,
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			    .dstDevice = p,
			    .dstPitch = 32,
			    .WidthInBytes = 32,
			    .Height = 4};
	OK(cuMemcpy2DUnaligned_v2(&c));
	OK(cuMemcpyDtoH_v2(out, p, sizeof(out)));
	for (int n = 0; n < 32; n++)
		CHECK(out[n] == texels[n] + (n < 8 ? 1000 : 0));
	OK(cuSurfObjectDestroy(surface));
	/* as on an H100: nothing is said of objects that are not there, and the number is good for nothing else */
	OK(cuSurfObjectDestroy(surface));
	OK(cuTexObjectDestroy(12345));
	OK(cuTexObjectDestroy(0));
	GIVES(cuSurfObjectGetResourceDesc(&r, surface), CUDA_ERROR_INVALID_VALUE);
	/* an object may outlive its array */
	OK(cuArrayDestroy(array));
	OK(cuArrayDestroy(plain));
	OK(cuTexObjectDestroy(texture));
	OK(cuMemFree_v2(p));
}

struct integers {
	CUarray_format format;
	unsigned int bytes;
	bool is_signed, wide; /* wide: never a float */
};

static void fill_integers(const struct integers *i, uint8_t texels[32], int32_t values[8])
{
	for (unsigned int n = 0; n < 8; n++) {
		values[n] = (int32_t)(n * 37 % 120) - (i->is_signed ? 60 : 0);
		memcpy(texels + n * i->bytes, &values[n], i->bytes);
	}
}

/* At a quarter of n texels: an H200 rounds texels of 8 and 16 bits to the nearest number, and those of 32 bits down. */
static int32_t filtered(const struct integers *i, const int32_t values[8], int n)
{
	int at = n - 2, low = at >> 2, part = at & 3;
	int32_t first = values[low < 0 ? 0 : low > 7 ? 7 : low], second = values[low < -1 ? 0 : low > 6 ? 7 : low + 1];
	int32_t sum = first * (4 - part) + second * part;

	return (sum + (i->wide ? 0 : 2)) >> 2;
}

static void read_integers(const struct integers *i, const CUDA_RESOURCE_DESC *r, unsigned int flags,
			  const int32_t values[8])
{
	CUDA_TEXTURE_DESC t = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP},
			       .filterMode = CU_TR_FILTER_MODE_LINEAR,
			       .mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR,
			       .flags = flags};
	int32_t out[32];
	CUtexObject texture;
	CUdeviceptr p;

	OK(cuTexObjectCreate(&texture, r, &t, NULL));
	if (i->wide || flags & CU_TRSF_READ_AS_INTEGER) {
		OK(cuMemAlloc_v2(&p, sizeof(out)));
		OK(launch("fetch", 32, (void *[]){&p, &texture}));
		OK(cuMemcpyDtoH_v2(out, p, sizeof(out)));
		for (int n = 0; n < 32; n++)
			CHECK(out[n] == filtered(i, values, n + 1));
		OK(cuMemFree_v2(p));
	}
	OK(cuTexObjectDestroy(texture));
}

/* The linear filter works on integers, as on an H200. */
static void integers(void)
{
	static const struct integers formats[] = {
		{CU_AD_FORMAT_UNSIGNED_INT8, 1, false, false},  {CU_AD_FORMAT_SIGNED_INT8, 1, true, false},
		{CU_AD_FORMAT_UNSIGNED_INT16, 2, false, false}, {CU_AD_FORMAT_SIGNED_INT16, 2, true, false},
		{CU_AD_FORMAT_UNSIGNED_INT32, 4, false, true},  {CU_AD_FORMAT_SIGNED_INT32, 4, true, true},
	};

	for (size_t n = 0; n < sizeof(formats) / sizeof(formats[0]); n++) {
		CUDA_ARRAY3D_DESCRIPTOR d = {8, 1, 0, formats[n].format, 1, 0};
		CUDA_RESOURCE_DESC array = {.resType = CU_RESOURCE_TYPE_ARRAY},
				   pitched = {.resType = CU_RESOURCE_TYPE_PITCH2D};
		uint8_t texels[32];
		int32_t values[8];
		CUdeviceptr p;

		fill_integers(&formats[n], texels, values);
		OK(cuArray3DCreate_v2(&array.res.array.hArray, &d));
		OK(cuMemcpy2DUnaligned_v2(&(CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
							   .srcHost = texels,
							   .srcPitch = 32,
							   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
							   .dstArray = array.res.array.hArray,
							   .WidthInBytes = 8 * formats[n].bytes,
							   .Height = 1}));
		OK(cuMemAlloc_v2(&p, 512));
		OK(cuMemcpyHtoD_v2(p, texels, sizeof(texels)));
		pitched.res.pitch2D.devPtr = p;
		pitched.res.pitch2D.format = formats[n].format;
		pitched.res.pitch2D.numChannels = 1;
		pitched.res.pitch2D.width = 8;
		pitched.res.pitch2D.height = 1;
		pitched.res.pitch2D.pitchInBytes = 512;
		for (unsigned int flags = 0; flags <= CU_TRSF_READ_AS_INTEGER; flags += CU_TRSF_READ_AS_INTEGER) {
			read_integers(&formats[n], &array, flags, values);
			read_integers(&formats[n], &pitched, flags, values);
		}
		OK(cuArrayDestroy(array.res.array.hArray));
		OK(cuMemFree_v2(p));
	}
}

/*
 * A texture that extends past its allocation: convolutionFFT2D of NVIDIA's samples has one. The content there is
 * specific to a GPU.
 */
static void long_row(void)
{
	enum { TEXELS = 1024 };
	CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_LINEAR}, got;
	CUDA_TEXTURE_DESC t = {.addressMode = {CU_TR_ADDRESS_MODE_WRAP}, .filterMode = CU_TR_FILTER_MODE_LINEAR};
	float texels[TEXELS], out[32];
	unsigned int first = TEXELS - 16;
	CUtexObject texture;
	CUdeviceptr p, to;

	for (int n = 0; n < TEXELS; n++)
		texels[n] = (float)(n + 1);
	OK(cuMemAlloc_v2(&p, sizeof(texels)));
	OK(cuMemAlloc_v2(&to, sizeof(out)));
	OK(cuMemcpyHtoD_v2(p, texels, sizeof(texels)));
	r.res.linear.devPtr = p;
	r.res.linear.format = CU_AD_FORMAT_FLOAT;
	r.res.linear.numChannels = 1;
	r.res.linear.sizeInBytes = sizeof(texels) + 65536;
	OK(cuTexObjectCreate(&texture, &r, &t, NULL));
	OK(cuTexObjectGetResourceDesc(&got, texture));
	CHECK(got.res.linear.sizeInBytes == r.res.linear.sizeInBytes);
	OK(launch("element", 32, (void *[]){&to, &texture, &first}));
	OK(cuMemcpyDtoH_v2(out, to, sizeof(out)));
	for (unsigned int n = 0; n < 16; n++)
		CHECK(out[n] == (float)(first + n + 1));
	for (unsigned int n = 16; n < 32 && is_software(); n++)
		CHECK(out[n] == 0);
	OK(cuTexObjectDestroy(texture));
	OK(cuMemFree_v2(p));
	OK(cuMemFree_v2(to));
	/* an address without memory gives no texture */
	if (is_software())
		GIVES(cuTexObjectCreate(&texture, &r, &t, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* As NVIDIA's runtime of CUDA 13.0 answers on this driver. F: cudaErrorInvalidFilterSetting, N: InvalidNormSetting. */
static void runtime_filters(void)
{
	static const struct {
		int bits;
		enum cudaChannelFormatKind kind;
		/* point and linear with the element's type, then both with fractions of 1 */
		char errors[5];
	} cases[] = {
		{8, cudaChannelFormatKindSigned, ".F.."},    {8, cudaChannelFormatKindUnsigned, ".F.."},
		{16, cudaChannelFormatKindSigned, ".F.."},   {16, cudaChannelFormatKindUnsigned, ".F.."},
		{16, cudaChannelFormatKindFloat, "..NN"},    {32, cudaChannelFormatKindSigned, ".FNF"},
		{32, cudaChannelFormatKindUnsigned, ".FNF"}, {32, cudaChannelFormatKindFloat, "..NN"},
	};

	for (size_t n = 0; n < 2 * sizeof(cases) / sizeof(cases[0]); n++) {
		struct cudaChannelFormatDesc desc = {cases[n / 2].bits, 0, 0, 0, cases[n / 2].kind};
		struct cudaResourceDesc r = {.resType = n % 2 ? cudaResourceTypeMipmappedArray : cudaResourceTypeArray};
		cudaTextureObject_t texture;

		if (n % 2)
			OK((CUresult)cudaMallocMipmappedArray(&r.res.mipmap.mipmap, &desc, (struct cudaExtent){8, 4, 0},
							      2, 0));
		else
			OK((CUresult)cudaMallocArray(&r.res.array.array, &desc, 8, 4, 0));
		for (unsigned int i = 0; i < 4; i++) {
			struct cudaTextureDesc t = {.filterMode = (enum cudaTextureFilterMode)(i % 2),
						    .readMode = (enum cudaTextureReadMode)(i / 2),
						    .normalizedCoords = n % 2};
			char error = cases[n / 2].errors[i];

			GIVES((int)cudaCreateTextureObject(&texture, &r, &t, NULL),
			      (int)(error == 'F'   ? cudaErrorInvalidFilterSetting
				    : error == 'N' ? cudaErrorInvalidNormSetting
						   : cudaSuccess));
			if (error == '.')
				OK((CUresult)cudaDestroyTextureObject(texture));
		}
		OK((CUresult)(n % 2 ? cudaFreeMipmappedArray(r.res.mipmap.mipmap) : cudaFreeArray(r.res.array.array)));
	}
}

static void mipmaps(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {12, 5, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	CUmipmappedArray mipmapped;
	CUarray level;

	OK(cuMipmappedArrayCreate(&mipmapped, &d, 99));
	OK(cuMipmappedArrayGetLevel(&level, mipmapped, 3));
	OK(cuArray3DGetDescriptor_v2(&d, level));
	CHECK(d.Width == 1 && d.Height == 1 && d.Depth == 0);
	GIVES(cuMipmappedArrayGetLevel(&level, mipmapped, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
	OK(cuMipmappedArrayDestroy(mipmapped));
	GIVES(cuArray3DGetDescriptor_v2(&d, level), CUDA_ERROR_INVALID_HANDLE);
	d = (CUDA_ARRAY3D_DESCRIPTOR){12, 5, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE};
	GIVES(cuArray3DCreate_v2(&level, &d), CUDA_ERROR_NOT_SUPPORTED);
	d.Flags = 0;
	d.NumChannels = 5;
	GIVES(cuArray3DCreate_v2(&level, &d), CUDA_ERROR_INVALID_VALUE);
}

static void runtime(void)
{
	struct cudaChannelFormatDesc desc = {32, 0, 0, 0, cudaChannelFormatKindFloat}, got;
	struct cudaResourceDesc r = {.resType = cudaResourceTypeArray};
	struct cudaTextureDesc t = {.normalizedCoords = 1, .sRGB = 1}, t_got;
	struct cudaMemcpy3DParms copy = {.extent = {3, 2, 2}, .kind = cudaMemcpyHostToDevice};
	cudaTextureObject_t texture;
	struct cudaExtent extent;
	float in[64], out[64];
	cudaArray_t array;

	for (int n = 0; n < 64; n++)
		in[n] = (float)n;
	OK((CUresult)cudaMallocArray(&array, &desc, 8, 4, 0));
	OK((CUresult)cudaMemcpy2DToArray(array, 0, 0, in, 32, 32, 4, cudaMemcpyHostToDevice));
	/* from the last texel of a row, over two rows, into another one */
	OK((CUresult)cudaMemcpyToArray(array, 28, 0, in + 40, 76, cudaMemcpyHostToDevice));
	OK((CUresult)cudaMemcpyFromArray(out, array, 4, 0, 124, cudaMemcpyDeviceToHost));
	for (int n = 1; n < 32; n++)
		CHECK(out[n - 1] == (n < 7 || n >= 26 ? in[n] : in[40 + n - 7]));
	OK((CUresult)cudaArrayGetInfo(&got, &extent, NULL, array));
	CHECK(!memcmp(&desc, &got, sizeof(desc)) && extent.width == 8 && extent.height == 4 && !extent.depth);
	r.res.array.array = array;
	OK((CUresult)cudaCreateTextureObject(&texture, &r, &t, NULL));
	OK((CUresult)cudaGetTextureObjectTextureDesc(&t_got, texture));
	CHECK(t_got.normalizedCoords == 1 && t_got.sRGB == 1 && t_got.readMode == cudaReadModeElementType);
	OK((CUresult)cudaDestroyTextureObject(texture));
	OK((CUresult)cudaFreeArray(array));
	desc.y = 16;
	GIVES(cudaMallocArray(&array, &desc, 8, 4, 0), cudaErrorInvalidChannelDescriptor);
	desc.y = 0;
	/* widths in elements where an array takes part */
	OK((CUresult)cudaMalloc3DArray(&array, &desc, (struct cudaExtent){4, 3, 2}, 0));
	copy.srcPtr = (struct cudaPitchedPtr){in, 16, 16, 3};
	copy.dstArray = array;
	copy.dstPos.x = 1;
	OK((CUresult)cudaMemcpy3D(&copy));
	copy = (struct cudaMemcpy3DParms){.srcArray = array,
					  .srcPos = {1, 0, 0},
					  .dstPtr = {out, 16, 16, 3},
					  .extent = {3, 2, 2},
					  .kind = cudaMemcpyDeviceToHost};
	OK((CUresult)cudaMemcpy3D(&copy));
	CHECK(out[0] == 0 && out[2] == 2 && out[4] == 4 && out[12] == 12 && out[18] == 18);
	OK((CUresult)cudaFreeArray(array));
}

int main(void)
{
	unsigned long long nothing = 1234567;
	CUcontext context;
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	copies();
	objects();
	integers();
	long_row();
	runtime_filters();
	mipmaps();
	runtime();
	OK(cuMemAlloc_v2(&p, 128));
	GIVES(launch("fetch", 32, (void *[]){&p, &nothing}), CUDA_ERROR_ILLEGAL_ADDRESS);
	printf("arrays: passed\n");
	return 0;
}
