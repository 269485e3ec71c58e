/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface instructions of machine code give the bits that those of the same PTX give.
 * usage: machine-code-textures PTX ARCHITECTURE CUBIN..., all of softgpu/test/sass-texture.py.
 */
#include "api.h"

#define THREADS 32
#define MAX_BYTES (4 << 20)

/* NORMALIZED: coordinates, which wrap around. LINEAR: memory, which has only fetches by integers. */
enum { LAYERED = 1, SURFACE = 2, CUBE = 4, OF_ARRAY = 7, NORMALIZED = 8, LINEAR = 16 };

/* Among the kernels of a one-dimensional texture. */
enum { FIRST_BY_INTEGERS = 3, LAST_BY_INTEGERS = 4 };

/* The kernels' names begin with that of the object. */
static const struct object {
	const char *name;
	CUarray_format format;
	unsigned int channels, width, height, depth, flags;
} objects[] = {
	{"k1d", CU_AD_FORMAT_FLOAT, 4, 16, 0, 0, 0},
	{"k2d", CU_AD_FORMAT_FLOAT, 4, 16, 8, 0, 0},
	{"k2d", CU_AD_FORMAT_UNSIGNED_INT8, 4, 16, 8, 0, NORMALIZED},
	{"k1d", CU_AD_FORMAT_FLOAT, 4, 16, 0, 0, LINEAR},
	{"k1d", CU_AD_FORMAT_HALF, 2, 16, 0, 0, NORMALIZED},
	{"k3d", CU_AD_FORMAT_FLOAT, 4, 16, 8, 4, 0},
	{"k3d", CU_AD_FORMAT_UNSIGNED_INT16, 2, 16, 8, 4, NORMALIZED},
	{"ka1d", CU_AD_FORMAT_FLOAT, 4, 16, 0, 4, LAYERED},
	{"ka2d", CU_AD_FORMAT_FLOAT, 4, 16, 8, 4, LAYERED},
	{"kcube", CU_AD_FORMAT_FLOAT, 4, 8, 8, 6, CUBE},
	{"kacube", CU_AD_FORMAT_FLOAT, 4, 8, 8, 24, CUBE | LAYERED},
	{"ks1d", CU_AD_FORMAT_UNSIGNED_INT32, 4, 32, 0, 0, SURFACE},
	{"ks2d", CU_AD_FORMAT_UNSIGNED_INT32, 4, 32, 8, 0, SURFACE},
	{"ks3d", CU_AD_FORMAT_UNSIGNED_INT32, 4, 32, 8, 8, SURFACE},
	{"ksa1d", CU_AD_FORMAT_UNSIGNED_INT32, 4, 32, 0, 4, SURFACE | LAYERED},
	{"ksa2d", CU_AD_FORMAT_UNSIGNED_INT32, 4, 32, 8, 4, SURFACE | LAYERED},
	{"kr2d", CU_AD_FORMAT_UNSIGNED_INT32, 1, 4, 8, 0, SURFACE},
};

static CUmodule load(const char *path)
{
	static char text[MAX_BYTES];
	FILE *file = fopen(path, "rb");
	CUmodule module;

	CHECK(file);
	memset(text, 0, sizeof(text));
	CHECK(fread(text, 1, sizeof(text) - 1, file) > 64);
	fclose(file);
	OK(cuModuleLoadData(&module, text));
	return module;
}

static unsigned int texel_bytes(const struct object *o)
{
	unsigned int bytes = o->format == CU_AD_FORMAT_UNSIGNED_INT8                                      ? 1
			     : o->format == CU_AD_FORMAT_UNSIGNED_INT16 || o->format == CU_AD_FORMAT_HALF ? 2
													  : 4;

	return bytes * o->channels;
}

/* Numbers, of which neighbours differ. */
static void fill(const struct object *o, CUarray array, CUdeviceptr memory)
{
	static uint32_t words[32 * 8 * 8 * 4];
	size_t height = o->height ? o->height : 1, row = (size_t)o->width * texel_bytes(o);
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = words,
			      .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			      .dstArray = array,
			      .srcPitch = row,
			      .srcHeight = height,
			      .WidthInBytes = row,
			      .Height = height,
			      .Depth = o->depth ? o->depth : 1};

	for (unsigned int n = 0; n < sizeof(words) / sizeof(words[0]); n++) {
		float number = (float)(n * 2654435761u >> 8) / 1024;

		words[n] = n * 2654435761u;
		if (o->format == CU_AD_FORMAT_FLOAT)
			memcpy(&words[n], &number, 4);
		else if (o->format == CU_AD_FORMAT_HALF) /* finite */
			words[n] &= 0xbbffbbff;
	}
	if (array)
		OK(cuMemcpy3D_v2(&copy));
	else
		OK(cuMemcpyHtoD_v2(memory, words, row));
}

static unsigned long long object_of(const struct object *o, CUarray array, CUdeviceptr memory)
{
	CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	/* Only the first coordinate has a border of another value. */
	CUDA_TEXTURE_DESC t = {
		.addressMode = {CU_TR_ADDRESS_MODE_BORDER, CU_TR_ADDRESS_MODE_BORDER, CU_TR_ADDRESS_MODE_CLAMP},
		.filterMode = CU_TR_FILTER_MODE_LINEAR,
		.borderColor = {1, 2, 3, 4}};
	unsigned long long object;

	if (o->flags & NORMALIZED) {
		memset(t.addressMode, 0, sizeof(t.addressMode));
		t.flags = CU_TRSF_NORMALIZED_COORDINATES;
	}
	if (o->flags & LINEAR) {
		r.resType = CU_RESOURCE_TYPE_LINEAR;
		r.res.linear.devPtr = memory;
		r.res.linear.format = o->format;
		r.res.linear.numChannels = o->channels;
		r.res.linear.sizeInBytes = (size_t)o->width * texel_bytes(o);
	}
	if (o->flags & SURFACE)
		OK(cuSurfObjectCreate(&object, &r));
	else
		OK(cuTexObjectCreate(&object, &r, &t, NULL));
	CHECK(object <= UINT32_MAX);
	return object;
}

/* False: the module has no such kernel. */
static bool run(CUmodule module, const char *name, unsigned long long object, unsigned int *results)
{
	size_t bytes = THREADS * 16;
	CUdeviceptr out;
	void *params[] = {&out, &object};
	CUfunction f;
	CUresult found = cuModuleGetFunction(&f, module, name);

	if (found == CUDA_ERROR_NOT_FOUND)
		return false;
	OK(found);
	OK(cuMemAlloc_v2(&out, bytes));
	memset(results, 0xee, bytes);
	memcpy(results, &object, sizeof(object));
	OK(cuMemcpyHtoD_v2(out, results, bytes));
	OK(cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, out, bytes));
	OK(cuMemFree_v2(out));
	return true;
}

static void compare(const char *name, const unsigned int *expected, const unsigned int *found)
{
	bool is_zero = true;

	for (unsigned int n = 0; n < THREADS * 4; n++) {
		is_zero &= !expected[n];
		if (expected[n] != found[n]) {
			fprintf(stderr, "%s: word %u is %#x, not %#x\n", name, n, found[n], expected[n]);
			exit(1);
		}
	}
	if (is_zero) {
		fprintf(stderr, "%s stores nothing\n", name);
		exit(1);
	}
}

static unsigned int check_object(const struct object *o, CUmodule text, CUmodule code)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = o->width,
				     .Height = o->height,
				     .Depth = o->depth,
				     .Format = o->format,
				     .NumChannels = o->channels,
				     .Flags = o->flags & OF_ARRAY};
	unsigned int expected[THREADS * 4], found[THREADS * 4], count = 0;
	unsigned long long object;
	CUdeviceptr memory = 0;
	CUarray array = NULL;
	char name[32];

	if (o->flags & LINEAR)
		OK(cuMemAlloc_v2(&memory, (size_t)o->width * texel_bytes(o)));
	else
		OK(cuArray3DCreate_v2(&array, &d));
	object = object_of(o, array, memory);
	for (unsigned int n = 0;; n++) {
		if (o->flags & LINEAR && n / 2 < FIRST_BY_INTEGERS)
			continue;
		if (o->flags & LINEAR && n / 2 > LAST_BY_INTEGERS)
			break;
		snprintf(name, sizeof(name), "%s_%u%s", o->name, n / 2, n % 2 ? "_m" : "");
		fill(o, array, memory);
		if (!run(text, name, object, expected))
			break;
		fill(o, array, memory);
		CHECK(run(code, name, object, found));
		compare(name, expected, found);
		count++;
	}
	CHECK(count > 1);
	if (o->flags & SURFACE)
		OK(cuSurfObjectDestroy(object));
	else
		OK(cuTexObjectDestroy(object));
	if (array)
		OK(cuArrayDestroy(array));
	else
		OK(cuMemFree_v2(memory));
	return count;
}

int main(int argc, char **argv)
{
	CUmodule text, code;
	CUcontext context;

	CHECK(argc > 3);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	text = load(argv[1]);
	for (int i = 2; i + 1 < argc; i += 2) {
		unsigned int count = 0;

		code = load(argv[i + 1]);
		for (size_t n = 0; n < sizeof(objects) / sizeof(objects[0]); n++)
			count += check_object(&objects[n], text, code);
		printf("sm_%s: %u kernels\n", argv[i], count);
		OK(cuModuleUnload(code));
	}
	return 0;
}
