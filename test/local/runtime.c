/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of an older toolkit, with declarations of its own: built once for each runtime library and linked with it.
 * RELEASE is the toolkit's number in the manner of CUDART_VERSION. Prints "runtime: passed", else what differs.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "property-offsets.h"
#include "runtime.h"

#define SINCE(release) (RELEASE >= (release))
#define INVALID_VALUE (SINCE(10010) ? 1 : 11)
#define INVALID_DEVICE (SINCE(10010) ? 101 : 10)
#define INVALID_FUNCTION (SINCE(10010) ? 98 : 8)
#define CANARY 0xa5

static int failures;

static void check(bool right, const char *what, long long got)
{
	if (right)
		return;
	printf("runtime %d: %s: %lld\n", RELEASE, what, got);
	failures++;
}

static void succeeds(int error, const char *what)
{
	check(error == 0, what, error);
}

#define DO(call) succeeds(call, #call)

/* The bytes that a call has written are the first `bytes` at most, and some of the last eight. */
static void check_extent(const unsigned char *buffer, size_t size, size_t bytes, const char *what)
{
	size_t end = size;

	while (end && buffer[end - 1] == CANARY)
		end--;
	check(end <= bytes && end + 8 > bytes, what, (long long)end);
}

/* ---- properties ---- */

struct property {
	const char *name;
	int attribute, size;
	int at[5]; /* in CUDA 9, 10, 11, 12, 13 */
};

#define P(name, attribute, size, ...) {#name, attribute, size, {__VA_ARGS__}},
static const struct property properties[] = {PROPERTY_OFFSETS(P)};

static void check_properties(int (*get)(void *, int), int column, size_t bytes)
{
	unsigned char prop[2048];

	memset(prop, CANARY, sizeof(prop));
	succeeds(get(prop, 0), "cudaGetDeviceProperties");
	check_extent(prop, sizeof(prop), bytes, "size of cudaDeviceProp");
	check(strnlen((char *)prop, 256) > 0 && strnlen((char *)prop, 256) < 256, "name", 0);
	for (size_t i = 0; i < sizeof(properties) / sizeof(*properties); i++) {
		const struct property *p = &properties[i];
		long long have;
		int want = -1, narrow;

		if (p->at[column] < 0)
			continue;
		DO(cudaDeviceGetAttribute(&want, p->attribute, 0));
		memcpy(&narrow, prop + p->at[column], sizeof(narrow));
		have = narrow;
		if (p->size == 8)
			memcpy(&have, prop + p->at[column], sizeof(have));
		check(have == want, p->name, have);
	}
}

static void test_properties(void)
{
	static const size_t bytes[] = {672, 712, 728, 1032, 1008};
	int column = SINCE(13000) ? 4 : SINCE(11000) ? 2 : SINCE(10000) ? 1 : 0;
	unsigned char wish[2048] = {0};
	int device = -1;

	check_properties(cudaGetDeviceProperties, column, bytes[column]);
#if RELEASE / 1000 == 12
	check_properties(cudaGetDeviceProperties_v2, 3, bytes[3]);
#endif
	DO(cudaChooseDevice(&device, wish));
	check(device == 0, "device chosen", device);
}

/* ---- errors ---- */

static void test_errors(void)
{
	int error = cudaSetDevice(4096);

	check(error == INVALID_DEVICE, "no such device", error);
	check(!strcmp(cudaGetErrorName(error), "cudaErrorInvalidDevice"), cudaGetErrorName(error), error);
	error = cudaGetLastError();
	check(error == INVALID_DEVICE, "last error", error);
	error = cudaMemcpy(&error, &error, 4, 99);
	check(error == 21, "direction of a copy", error);
	check(cudaGetLastError() == 21 && cudaGetLastError() == 0, "last error, taken", 0);
}

/* ---- memory ---- */

struct where {
	int old_type, type, device, managed;
	void *on_device, *on_host;
};

static int where_is(const void *pointer, struct where *w)
{
	static const size_t size = SINCE(13000) ? 88 : SINCE(11000) ? 24 : SINCE(10000) ? 40 : 32;
	unsigned char bytes[256];
	int at = 0, error;

	memset(bytes, CANARY, sizeof(bytes));
	error = cudaPointerGetAttributes(bytes, pointer);
	check_extent(bytes, sizeof(bytes), size, "size of cudaPointerAttributes");
	memset(w, 0, sizeof(*w));
	memcpy(&w->old_type, bytes, 4);
	if (SINCE(10000) && !SINCE(11000))
		at = 4;
	memcpy(&w->type, bytes + at, 4);
	memcpy(&w->device, bytes + at + 4, 4);
	at = at ? 16 : 8;
	memcpy(&w->on_device, bytes + at, 8);
	memcpy(&w->on_host, bytes + at + 8, 8);
	if (!SINCE(11000))
		memcpy(&w->managed, bytes + at + 16, 4);
	return error;
}

static void test_pointers(void)
{
	void *device, *pinned, *managed;
	struct where w;
	int local, error;

	DO(cudaMalloc(&device, 4096));
	DO(cudaMallocHost(&pinned, 4096));
	DO(cudaMallocManaged(&managed, 4096, 1));
	DO(where_is(device, &w));
	check(w.type == 2 && w.old_type == 2 && !w.device && w.on_device == device && !w.on_host && !w.managed,
	      "device", w.type);
	DO(where_is(pinned, &w));
	check(w.type == 1 && w.old_type == 1 && w.on_device == pinned && w.on_host == pinned && !w.managed, "pinned",
	      w.type);
	DO(where_is(managed, &w));
	check(w.type == (SINCE(10000) ? 3 : 2) && w.old_type == (SINCE(11000) ? 3 : 2), "managed", w.type);
	check(w.on_device == managed && w.on_host == managed && w.managed == !SINCE(11000), "managed", w.managed);
	error = where_is(&local, &w);
	check(error == (SINCE(11000) ? 0 : INVALID_VALUE) && w.type == 0, "unknown memory", error);
	check(w.device == (SINCE(11000) ? -2 : -1) && !w.on_device && !w.on_host, "unknown memory", w.device);
	cudaGetLastError();
#if SINCE(13000)
	{
		struct {
			int type, id;
		} there = {1, 0};

		DO(cudaMemPrefetchAsync(managed, (size_t)4096, there, 0u, (handle)NULL));
	}
#else
	DO(cudaMemPrefetchAsync(managed, (size_t)4096, 0, (handle)NULL));
#endif
}

/* ---- textures ---- */

static void test_textures(void)
{
	struct {
		int type;
		void *address;
		int channels[5];
		size_t bytes;
		unsigned char rest[104];
	} resource = {2, NULL, {32, 0, 0, 0, 2}, 4096, {0}};
	/* The flags behind the structure of this toolkit are not looked at. */
	int texture[32] = {1, 1, 1, 0, 0};
	size_t sampling = SINCE(12000) ? 72 : SINCE(11000) ? 68 : 64;
	unsigned char back[512];
	unsigned long long object;

	DO(cudaMalloc(&resource.address, 4096));
	memset(resource.rest + sizeof(resource.rest) - 64, SINCE(13000) ? 0 : 0xff, 64);
	memset((char *)texture + sampling, 0xff, sizeof(texture) - sampling);
	DO(cudaCreateTextureObject(&object, &resource, texture, NULL));
	memset(back, CANARY, sizeof(back));
	DO(cudaGetTextureObjectResourceDesc(back, object));
	check_extent(back, sizeof(back), SINCE(13000) ? 144 : 64, "size of cudaResourceDesc");
	check(!memcmp(back + 8, &resource.address, 8) && !memcmp(back + 16, resource.channels, 20), "resource", 0);
	memset(back, CANARY, sizeof(back));
	DO(cudaGetTextureObjectTextureDesc(back, object));
	check_extent(back, sizeof(back), sampling, "size of cudaTextureDesc");
	check(!memcmp(back, texture, sampling), "texture", 0);
}

/* ---- launches ---- */

IMAGE(image, ".version 6.0\n.target sm_30\n.address_size 64\n"
	     ".visible .entry add(.param .u64 to, .param .u32 what, .param .f64 more) {\n"
	     "  .reg .u64 %a; .reg .u32 %v, %w; .reg .f64 %d;\n"
	     "  ld.param.u64 %a, [to]; ld.param.u32 %v, [what]; ld.param.f64 %d, [more];\n"
	     "  cvt.rzi.u32.f64 %w, %d; add.u32 %v, %v, %w;\n"
	     "  cvta.to.global.u64 %a, %a; atom.global.add.u32 %w, [%a], %v;\n"
	     "  ret;\n}\n"
	     ".global .texref picture;\n.global .surfref board;\n"
	     ".visible .entry fetch(.param .u64 to, .param .u32 at) {\n"
	     "  .reg .u64 %a; .reg .u32 %v<4>, %x, %y;\n"
	     "  ld.param.u64 %a, [to]; ld.param.u32 %x, [at]; cvta.to.global.u64 %a, %a;\n"
	     "  tex.1d.v4.u32.s32 {%v0, %v1, %v2, %v3}, [picture, {%x}];\n"
	     "  shl.b32 %x, %x, 2; mov.u32 %y, 0;\n"
	     "  suld.b.2d.b32.trap {%y}, [board, {%x, %y}];\n"
	     "  add.u32 %v0, %v0, %y; st.global.u32 [%a], %v0;\n"
	     "  mov.u32 %y, 0; add.u32 %v0, %v0, 1; sust.b.2d.b32.trap [board, {%x, %y}], {%v0};\n"
	     "  ret;\n}\n");

static char add, missing;

static unsigned int read_back(void *device)
{
	unsigned int value = 0;

	DO(cudaMemcpy(&value, device, 4, 2));
	return value;
}

static const struct size3 two = {2, 1, 1}, eight = {8, 1, 1};

static void launch(void *to, unsigned int what, double more, handle stream)
{
	void *args[] = {&to, &what, &more};

#if SINCE(9020)
	struct size3 grid, block;
	size_t shared;
	handle s;

	check(!__cudaPushCallConfiguration(two, eight, 0, stream), "push", 0);
	DO(__cudaPopCallConfiguration(&grid, &block, &shared, &s));
	DO(cudaLaunchKernel(&add, grid, block, args, shared, s));
#else
	DO(cudaLaunchKernel(&add, two, eight, args, 0, stream));
#endif
}

#if SINCE(12000)
static void register_references(void **fatbin)
{
}

static void test_references(void)
{
}
#else
struct texture {
	int normalized, filter, address[3];
	int channels[5];
	int rest[21];
};

void __cudaRegisterTexture(void **fatbin, const void *host, const void **device, const char *name, int dim, int norm,
			   int ext);
void __cudaRegisterSurface(void **fatbin, const void *host, const void **device, const char *name, int dim, int ext);
int cudaBindTexture(size_t *offset, const void *texture, const void *address, const void *channels, size_t bytes);
int cudaUnbindTexture(const void *texture);
int cudaGetTextureAlignmentOffset(size_t *offset, const void *texture);
int cudaGetTextureReference(const void **texture, const void *symbol);
int cudaBindSurfaceToArray(const void *surface, handle array, const void *channels);
int cudaMallocArray(handle *array, const void *channels, size_t width, size_t height, unsigned int flags);
int cudaMemcpyToArray(handle array, size_t x, size_t y, const void *from, size_t bytes, int kind);

static struct texture picture = {.address = {1, 1, 1}, .channels = {32, 0, 0, 0, 1}};
static struct texture unknown;
static char fetch;
static int board[5];

static void register_references(void **fatbin)
{
	__cudaRegisterFunction(fatbin, &fetch, "fetch", "fetch", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterTexture(fatbin, &picture, (void *)"picture", "::picture", 1, 0, 0);
	__cudaRegisterSurface(fatbin, board, (void *)"board", "::board", 2, 0);
}

static unsigned int fetched(void *to, unsigned int at)
{
	void *args[] = {&to, &at};

	DO(cudaLaunchKernel(&fetch, (struct size3){1, 1, 1}, (struct size3){1, 1, 1}, args, 0, NULL));
	return read_back(to);
}

/* A texture of memory that does not begin where textures do, and a surface. */
static void test_references(void)
{
	static const unsigned int line[4] = {10, 20, 30, 40};
	unsigned int numbers[300];
	const void *found = NULL;
	char *memory;
	handle array;
	size_t offset = 0, kept = 0;
	void *to;
	int error;

	for (unsigned int i = 0; i < 300; i++)
		numbers[i] = 1000 * i;
	DO(cudaMalloc((void **)&memory, sizeof(numbers)));
	DO(cudaMalloc(&to, 4));
	DO(cudaMemcpy(memory, numbers, sizeof(numbers), 1));
	DO(cudaMallocArray(&array, picture.channels, 4, 1, 2));
	DO(cudaMemcpyToArray(array, 0, 0, line, sizeof(line), 1));
	DO(cudaBindSurfaceToArray(board, array, picture.channels));
	DO(cudaBindTexture(NULL, &picture, memory, picture.channels, (size_t)0xffffffff));
	check(fetched(to, 1) == 1020, "texture and surface", read_back(to));
	check(fetched(to, 1) == 1000 + 1021, "surface written", read_back(to));
	DO(cudaBindTexture(&offset, &picture, memory + 8, picture.channels, 64));
	DO(cudaGetTextureAlignmentOffset(&kept, &picture));
	check(offset == 8 && kept == 8, "offset", (long long)offset);
	check(fetched(to, 3) == 3040, "texture of aligned memory", read_back(to));
	error = cudaBindTexture(NULL, &picture, memory + 8, picture.channels, 64);
	check(error == INVALID_VALUE, "offset that is not taken", error);
	DO(cudaGetTextureReference(&found, &picture));
	check(found == &picture, "reference", 0);
	error = cudaBindTexture(NULL, &unknown, memory, picture.channels, 64);
	check(error == 18, "texture that is none", error);
	DO(cudaUnbindTexture(&picture));
	error = cudaGetTextureAlignmentOffset(&kept, &picture);
	check(error == 19, "offset of an unbound texture", error);
	cudaGetLastError();
}
#endif

static void test_launches(void)
{
	void **fatbin = __cudaRegisterFatBinary(&image_wrapper);
	unsigned char attributes[512];
	void *to;
	unsigned int zero = 0;
	int error;

	__cudaRegisterFunction(fatbin, &add, "add", "add", -1, NULL, NULL, NULL, NULL, NULL);
	register_references(fatbin);
#if SINCE(10010)
	__cudaRegisterFatBinaryEnd(fatbin);
#endif
	DO(cudaMalloc(&to, 4));
	DO(cudaMemcpy(to, &zero, 4, 1));
	launch(to, 3, 4.0, NULL);
	check(read_back(to) == 16 * 7, "sum of cudaLaunchKernel", read_back(to));
#if !SINCE(10010) || SINCE(13000)
	{
		unsigned int what = 1;
		double more = 1;

		DO(cudaConfigureCall(two, eight, 0, NULL));
		DO(cudaSetupArgument(&to, 8, 0));
		DO(cudaSetupArgument(&what, 4, 8));
		DO(cudaSetupArgument(&more, 8, 16));
		DO(cudaLaunch(&add));
		DO(cudaThreadSynchronize());
		check(read_back(to) == 16 * 9, "sum of cudaLaunch", read_back(to));
	}
#endif
	memset(attributes, CANARY, sizeof(attributes));
	DO(cudaFuncGetAttributes(attributes, &add));
	check_extent(attributes, sizeof(attributes), SINCE(12000) ? 144 : 56, "size of cudaFuncAttributes");
	error = cudaLaunchKernel(&missing, two, eight, NULL, 0, NULL);
	check(error != 0, "launch of what is no kernel", error);
	error = cudaFuncGetAttributes(attributes, NULL);
	check(error == INVALID_FUNCTION, "attributes of no kernel", error);
	cudaGetLastError();
}

/*
 * How NVIDIA's own runtimes, which static programs hold, use the driver: those of 13.2 as they begin, and those before
 * CUDA 12 to load what is registered.
 */
static void test_private_table(void)
{
	static const unsigned char uuid[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
					       0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
	int (*get_table)(const void *table, const void *id) = dlsym(RTLD_DEFAULT, "cuGetExportTable");
	int (*get_function)(handle * function, handle module, const char *name) =
		dlsym(RTLD_DEFAULT, "cuModuleGetFunction");
	int (*unload)(handle module) = dlsym(RTLD_DEFAULT, "cuModuleUnload");
	int (*load)(handle * module, const void *wrapper, void *, void *, size_t);
	int (*forget)(const void *wrapper);
	int (*begin)(void);
	handle module = NULL, function = NULL;
	void *const *table = NULL;

	DO(get_table(&table, uuid));
	memcpy(&load, &table[6], sizeof(load));
	memcpy(&forget, &table[7], sizeof(forget));
	memcpy(&begin, &table[12], sizeof(begin));
	DO(begin());
	DO(load(&module, &image_wrapper, NULL, NULL, 0));
	DO(get_function(&function, module, "add"));
	check(function != NULL, "function of a registered module", 0);
	DO(unload(module));
	DO(forget(&image_wrapper));
}

/* ---- streams ---- */

static void called(handle stream, int status, void *user)
{
	*(int *)user = 1000 + status;
}

static void test_streams(void)
{
	volatile int seen = 0;
	handle stream;

	DO(cudaStreamCreate(&stream));
	DO(cudaStreamAddCallback(stream, called, (void *)&seen, 0));
	DO(cudaStreamSynchronize(stream));
	check(seen == 1000, "callback", seen);
}

#if SINCE(10000)
/* Two launches in a captured stream: two nodes and one edge. */
static void test_capture(void)
{
	handle stream, graph, exec, nodes[4];
	unsigned int zero = 0;
	size_t count = 4, edges = 4;
	void *to;

	DO(cudaMalloc(&to, 4));
	DO(cudaMemcpy(to, &zero, 4, 1));
	DO(cudaStreamCreate(&stream));
#if SINCE(10010)
	DO(cudaStreamBeginCapture(stream, 0));
#else
	DO(cudaStreamBeginCapture(stream));
#endif
	launch(to, 1, 0.0, stream);
#if SINCE(10010)
	{
		unsigned long long id = 0;
		int status = 0;

#if SINCE(13000)
		DO(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
#else
		DO(cudaStreamGetCaptureInfo(stream, &status, &id));
#endif
		check(status == 1 && id != 0, "capture", status);
	}
#endif
	launch(to, 1, 0.0, stream);
	DO(cudaStreamEndCapture(stream, &graph));
	DO(cudaGraphGetNodes(graph, nodes, &count));
	check(count == 2, "nodes", (long long)count);
	{
		handle from[4], into[4];

#if SINCE(13000)
		DO(cudaGraphGetEdges(graph, from, into, NULL, &edges));
#else
		DO(cudaGraphGetEdges(graph, from, into, &edges));
#endif
		check(edges == 1 && from[0] != into[0], "edges", (long long)edges);
	}
#if SINCE(12000)
	DO(cudaGraphInstantiate(&exec, graph, 0ull));
	{
		struct {
			int result;
			handle node, from;
		} info = {-1, NULL, NULL};

		DO(cudaGraphExecUpdate(exec, graph, &info));
		check(info.result == 0, "update", info.result);
	}
#else
	{
		char log[16] = "unused";
		handle node = &log;
		int result = -1;

		DO(cudaGraphInstantiate(&exec, graph, &node, log, sizeof(log)));
		check(!node && !*log, "instantiation", *log);
#if SINCE(10020)
		DO(cudaGraphExecUpdate(exec, graph, &node, &result));
		check(result == 0 && !node, "update", result);
#endif
		(void)result;
	}
#endif
	DO(cudaGraphLaunch(exec, stream));
	DO(cudaStreamSynchronize(stream));
	check(read_back(to) == 2 * 16, "sum of the graph", read_back(to));
}
#endif

#if SINCE(11000)
static void test_entry_point(void)
{
	void *function = NULL;

#if SINCE(12000)
	int status = -1;

	DO(cudaGetDriverEntryPoint("cuInit", &function, 0ull, &status));
	check(status == 0, "status of cuInit", status);
#else
	/* The argument that later toolkits use for the status is not touched. */
	int status = cudaGetDriverEntryPoint("cuInit", &function, 0ull, (void *)1);

	check(status == 0, "cuInit", status);
#endif
	check(function != NULL, "cuInit", 0);
}
#endif

int main(void)
{
	int version = 0;

	DO(cudaRuntimeGetVersion(&version));
	check(version == RELEASE, "version", version);
	test_properties();
	test_errors();
	test_pointers();
	test_textures();
	test_launches();
	test_references();
	test_private_table();
	test_streams();
#if SINCE(10000)
	test_capture();
#endif
#if SINCE(11000)
	test_entry_point();
#endif
	DO(cudaDeviceSynchronize());
	printf("runtime: %s\n", failures ? "failed" : "passed");
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
