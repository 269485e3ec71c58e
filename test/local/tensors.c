/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors for the memory accelerator: kernels copy boxes of them. A device without one refuses. */
#include "api.h"
#include "tensors-box.h"
#include "tensors-ptx.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARED = 16384, TENSOR = 1 << 17, EMPTY = 0xee, THREADS = 256 };

/* The location of the map. */
enum place { PARAMETER, CONSTANT, GLOBAL };

static CUmodule module;
static CUdeviceptr tensor, memory;
static unsigned char numbers[TENSOR], inside[SHARED + sizeof(CUtensorMap)], got[TENSOR];

/* Runs a kernel with what is in `map`. */
static CUresult run(const char *name, const struct tensor *t, const int *at, enum place which)
{
	unsigned int bytes = box_elements(t) * t->size;
	struct {
		int at[5];
		unsigned int offsets;
	} place_at = {{0}, offsets};
	void *params[] = {&map, &memory, &place_at, &bytes, &which};
	CUtensorMap given = map;
	CUdeviceptr fixed;
	CUfunction function;

	memcpy(place_at.at, at, t->rank * sizeof(*at));
	OK(cuMemcpyHtoD_v2(memory, inside, SHARED));
	OK(cuModuleGetGlobal_v2(&fixed, NULL, module, "fixed"));
	if (which) {
		OK(cuMemcpyHtoD_v2(which == CONSTANT ? fixed : memory + SHARED, &map, sizeof(map)));
		memset(&given, 0, sizeof(given));
		params[0] = &given;
	}
	OK(cuModuleGetFunction(&function, module, name));
	return cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL);
}

static void check_load(const struct tensor *t, const int *at, CUdeviceptr address, enum place which)
{
	static unsigned char want[SHARED];
	char name[16];

	snprintf(name, sizeof(name), "%s%u", t->pixels ? "images" : "load", t->rank);
	memset(inside, EMPTY, SHARED);
	memset(want, EMPTY, SHARED);
	for (unsigned int n = 0; n < box_elements(t); n++) {
		int64_t from = place(t, at, n);
		unsigned char *to = want + swizzled(t, n * t->size);

		if (from < 0)
			memset(to, 0, t->size);
		else
			memcpy(to, numbers + (address - tensor) + from, t->size);
	}
	OK(run(name, t, at, which));
	OK(cuMemcpyDtoH_v2(got, memory, SHARED));
	CHECK(!memcmp(got, want, SHARED));
}

static void fill_tensor(void)
{
	for (unsigned int n = 0; n < TENSOR; n++)
		numbers[n] = (unsigned char)(n * 41 + (n >> 7));
	OK(cuMemcpyHtoD_v2(tensor, numbers, TENSOR));
}

static const cuuint64_t small_dim[] = {20, 7, 6, 5, 4};
static const cuuint32_t small_box[] = {8, 3, 2, 3, 2};
/* In dimension 0 boxes begin where 16 bytes do, and the first number counts those. Stores go to the first four. */
static const int places[][5] = {{0, 0, 0, 0, 0}, {2, 2, 3, 1, 1},      {4, 6, 5, 4, 3},
				{1, 1, 0, 9, 0}, {-1, -1, -1, -2, -1}, {-25, 0, 0, 0, 0}};
enum { STORE_PLACES = 4, PLACES = sizeof(places) / sizeof(places[0]) };

/* Place n, in elements of so many bytes. */
static const int *elements_at(int n, cuuint32_t size)
{
	static int at[5];

	memcpy(at, places[n], sizeof(at));
	at[0] *= 16 / (int)size;
	return at;
}

static void loads(void)
{
	fill_tensor();
	for (cuuint32_t rank = 1; rank <= 5; rank++) {
		struct tensor t = usual(TYPE_UINT32, 4, rank, small_dim, small_box);

		OK(encode(&t, tensor));
		for (int n = 0; n < PLACES; n++)
			check_load(&t, elements_at(n, t.size), tensor, n % 2u ? GLOBAL : PARAMETER);
		OK(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)(tensor + 48)));
		check_load(&t, elements_at(1, t.size), tensor + 48, PARAMETER);
		if (rank == 3)
			check_load(&t, elements_at(4, t.size), tensor + 48, CONSTANT);
	}
}

static void swizzle_rows(int swizzle, cuuint32_t size, cuuint32_t bytes)
{
	static const cuuint64_t dim[] = {200, 60};
	const cuuint32_t box[] = {bytes / size, 40};
	struct tensor t = usual(size == 4 ? TYPE_INT32 : (int)size - 1, size, 2, dim, box);

	t.swizzle = swizzle;
	OK(encode(&t, tensor));
	check_load(&t, (int[]){16, 3}, tensor, PARAMETER);
	check_load(&t, (int[]){-16 / (int)size, 30}, tensor, PARAMETER);
	check_load(&t, (int[]){192, 30}, tensor, PARAMETER);
}

/* As wide as what chunks change places in, and narrower. */
static void swizzles(void)
{
	fill_tensor();
	for (int swizzle = 0; swizzle < 4; swizzle++)
		for (cuuint32_t size = 1; size <= 4; size *= 2)
			for (cuuint32_t bytes = 16; bytes <= 16u << swizzle; bytes *= 2)
				swizzle_rows(swizzle, size, bytes);
}

/* Every so many elements of the outer dimensions. */
static void steps(void)
{
	static const cuuint64_t dim[] = {32, 40, 9};
	static const cuuint32_t box[] = {16, 17, 5};
	struct tensor t = usual(TYPE_UINT16, 2, 3, dim, box);

	fill_tensor();
	t.strides[0] = 80;
	t.strides[1] = 80 * 41;
	t.steps[1] = 3;
	t.steps[2] = 2;
	OK(encode(&t, tensor));
	check_load(&t, (int[]){8, 2, 1}, tensor, PARAMETER);
	check_load(&t, (int[]){24, 30, -1}, tensor, PARAMETER);
}

/* Elements that are filled with NaN may have any NaN's bits. */
static void no_numbers(void)
{
	static const cuuint64_t dim[] = {64, 4};
	static const cuuint32_t box[] = {16, 2};

	for (int type = TYPE_FLOAT16; type <= TYPE_FLOAT32; type++) {
		cuuint32_t size = type == TYPE_FLOAT16 ? 2 : 4;
		struct tensor t = usual(type, size, 2, dim, box);

		fill_tensor();
		t.fill = 1;
		OK(encode(&t, tensor));
		OK(run("load2", &t, (int[]){56, 3}, PARAMETER));
		OK(cuMemcpyDtoH_v2(got, memory, SHARED));
		CHECK(!memcmp(got, numbers + 3 * 64 * size + 56 * size, 8 * size));
		for (unsigned int n = 8; n < 32; n++) {
			unsigned int bits = 0;

			memcpy(&bits, got + n * size, size);
			CHECK(size == 2 ? (bits & 0x7fff) > 0x7c00 : (bits & 0x7fffffff) > 0x7f800000);
		}
	}
}

/* The tensor gets what is in the box, and where that ends it is as it was. */
static void check_store(const struct tensor *t, const int *at, enum place which)
{
	char name[16];

	snprintf(name, sizeof(name), "store%s%u", t->pixels ? "_images" : "", t->rank);
	OK(encode(t, tensor));
	for (unsigned int k = 0; k < box_elements(t); k++) {
		int64_t to = place(t, at, k);

		if (to >= 0)
			memcpy(numbers + to, inside + swizzled(t, k * t->size), t->size);
	}
	OK(run(name, t, at, which));
	OK(cuMemcpyDtoH_v2(got, tensor, TENSOR));
	CHECK(!memcmp(got, numbers, TENSOR));
}

static void fill_inside(void)
{
	for (unsigned int n = 0; n < SHARED; n++)
		inside[n] = (unsigned char)(n * 7 + (n >> 8));
}

static void stores(void)
{
	fill_tensor();
	fill_inside();
	for (cuuint32_t rank = 1; rank <= 5; rank++)
		for (int n = 0; n < STORE_PLACES; n++) {
			struct tensor t = usual(TYPE_FLOAT16, 2, rank, (const cuuint64_t[]){24, 7, 6, 5, 4},
						(const cuuint32_t[]){16, 3, 2, 3, 2});

			t.swizzle = n % 2;
			check_store(&t, elements_at(n, t.size), n % 2u ? GLOBAL : PARAMETER);
		}
}

static unsigned int reduced(unsigned int operation, unsigned int a, unsigned int b)
{
	switch (operation) {
	case 0:
		return a + b;
	case 1:
		return a < b ? a : b;
	case 2:
		return a > b ? a : b;
	case 3:
		return a >= b ? 0 : a + 1;
	case 4:
		return !a || a > b ? b : a - 1;
	case 5:
		return a & b;
	case 6:
		return a | b;
	default:
		return a ^ b;
	}
}

static void reductions(void)
{
	static const char *const names[] = {"reduce_add", "reduce_min", "reduce_max", "reduce_inc",
					    "reduce_dec", "reduce_and", "reduce_or",  "reduce_xor"};
	struct tensor t = usual(TYPE_UINT32, 4, 2, (const cuuint64_t[]){20, 9}, small_box);
	const int at[] = {16, 7};

	fill_tensor();
	for (unsigned int n = 0; n < SHARED; n++)
		inside[n] = (unsigned char)(n * 13 + (n >> 6));
	OK(encode(&t, tensor));
	for (unsigned int operation = 0; operation < 8; operation++) {
		for (unsigned int k = 0; k < box_elements(&t); k++) {
			int64_t to = place(&t, at, k);
			unsigned int a, b;

			if (to < 0)
				continue;
			memcpy(&a, numbers + to, 4);
			memcpy(&b, inside + k * 4, 4);
			a = reduced(operation, a, b);
			memcpy(numbers + to, &a, 4);
		}
		OK(run(names[operation], &t, at, PARAMETER));
		OK(cuMemcpyDtoH_v2(got, tensor, TENSOR));
		CHECK(!memcmp(got, numbers, TENSOR));
	}
}

/* Sums of f32: with subnormals, or with zeroes of their sign instead of them. */
static void sums(void)
{
	static const int types[] = {TYPE_FLOAT32, TYPE_TFLOAT32, TYPE_FLOAT32_FTZ, TYPE_TFLOAT32_FTZ};
	static const unsigned int a[] = {0x00300007, 0x80400001, 1, 0x80000000},
				  b[] = {0x00400001, 0x00400000, 1, 0x80000000},
				  want[][4] = {{0x00700008, 0x80000001, 2, 0x80000000}, {0, 0, 0, 0x80000000}};

	for (int n = 0; n < 4; n++) {
		struct tensor t = usual(types[n], 4, 2, (const cuuint64_t[]){4, 1}, (const cuuint32_t[]){4, 1});

		memcpy(inside, b, sizeof(b));
		OK(cuMemcpyHtoD_v2(tensor, a, sizeof(a)));
		OK(encode(&t, tensor));
		OK(run("reduce_add", &t, (int[]){0, 0}, PARAMETER));
		OK(cuMemcpyDtoH_v2(got, tensor, sizeof(a)));
		CHECK(!memcmp(got, want[n / 2], sizeof(a)));
	}
}

static void remade(void)
{
	const cuuint32_t box[] = {8, 4};
	struct tensor t = usual(TYPE_UINT32, 4, 2, small_dim, box);
	CUdeviceptr to = tensor + 1024;
	unsigned int columns = 6;
	void *params[] = {&map, &memory, &to, &columns};
	CUfunction function;
	CUmodule own;

	fill_tensor();
	OK(encode(&t, tensor));
	OK(cuModuleLoadData(&own, remake));
	OK(cuModuleGetFunction(&function, own, "remake"));
	OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(got, memory, 128));
	for (unsigned int n = 0; n < 32; n++) {
		unsigned int want = 0;

		if (n % 8 < columns)
			memcpy(&want, numbers + 1024 + n / 8 * 160 + n % 8 * 4, 4);
		CHECK(!memcmp(got + n * 4, &want, 4));
	}
}

/* With a border there are pixels before the image, and nothing can be stored to these. */
static void images(void)
{
	static const int begins[][5] = {{8, 7, 1}, {8, 2, 3, 0}, {16, 1, 2, 0, 1}};

	fill_tensor();
	fill_inside();
	for (cuuint32_t rank = 3; rank <= 5; rank++)
		for (int border = 0; border < 2; border++)
			for (unsigned int step = 1; step < 3; step++) {
				struct tensor t = bordered(rank, border, step);

				OK(encode(&t, tensor));
				for (offsets = 0; offsets <= 0x020202; offsets += 0x010001)
					check_load(&t, begins[rank - 3], tensor, PARAMETER);
				offsets = 0;
				if (rank == 4 && !border)
					check_store(&t, begins[1], PARAMETER);
			}
}

#define WRONG(change)                                                                                                  \
	do {                                                                                                           \
		struct tensor t = usual(TYPE_UINT32, 4, 2, small_dim, small_box);                                      \
		change;                                                                                                \
		GIVES(encode(&t, tensor), CUDA_ERROR_INVALID_VALUE);                                                   \
	} while (0)

static void mistakes(void)
{
	struct tensor good = usual(TYPE_UINT32, 4, 2, small_dim, small_box);

	WRONG(t.rank = 0);
	WRONG(t.rank = 6);
	WRONG(t.type = 99);
	WRONG(t.dim[1] = 0);
	WRONG(t.strides[0] = 72);
	WRONG(t.strides[0] = 1ull << 40);
	WRONG(t.box[0] = 1024);
	WRONG(t.box[1] = 0);
	WRONG(t.box[0] = 7);
	WRONG(t.steps[1] = 0);
	WRONG(t.steps[1] = 9);
	WRONG((t.swizzle = 1, t.box[0] = 12));
	GIVES(encode(&good, tensor + 4), CUDA_ERROR_INVALID_VALUE);
}

/*
 * Bad arguments, for which NVIDIA's driver differs: an error leaves the program's map as it was, and a call without a
 * map fails.
 */
static void careless(void)
{
	struct tensor good = usual(TYPE_UINT32, 4, 2, small_dim, small_box);
	CUtensorMap before;

	OK(encode(&good, tensor));
	before = map;
	GIVES(encode(&good, tensor + 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuTensorMapEncodeTiled(&map, TYPE_UINT32, 2, (void *)(uintptr_t)tensor, good.dim, good.strides, NULL,
				     good.steps, 0, 0, 0, 0),
	      CUDA_ERROR_INVALID_VALUE);
	GIVES(cuTensorMapReplaceAddress(NULL, (void *)(uintptr_t)tensor), CUDA_ERROR_INVALID_VALUE);
	CHECK(!memcmp(&before, &map, sizeof(map)));
}

/* A box takes 228 KiB at most, without what steps leave out of it. */
static void limits(void)
{
	const cuuint64_t dim[] = {256, 256, 256};
	struct tensor t = usual(TYPE_FLOAT16, 2, 3, dim, (const cuuint32_t[]){8, 152, 96});

	for (t.swizzle = 0; t.swizzle < 4; t.swizzle++) {
		t.box[2] = 96;
		t.steps[2] = 1;
		OK(encode(&t, tensor));
		t.box[2] = 97;
		GIVES(encode(&t, tensor), CUDA_ERROR_INVALID_VALUE);
		t.steps[2] = 8;
		OK(encode(&t, tensor));
	}
	t = usual(TYPE_FLOAT16, 2, 3, dim, (const cuuint32_t[]){8, 253, 115});
	t.steps[1] = 2; /* takes 127, which are counted as 126 */
	OK(encode(&t, tensor));
	t.box[1] = 254;
	GIVES(encode(&t, tensor), CUDA_ERROR_INVALID_VALUE);
	t = usual(TYPE_FLOAT16, 2, 3, dim, (const cuuint32_t[]){256, 1, 1});
	t.pixels = 456;
	OK(encode(&t, tensor));
	t.pixels = 457;
	GIVES(encode(&t, tensor), CUDA_ERROR_INVALID_VALUE);
}

/* Into the current context. */
static void prepare(void)
{
	OK(cuMemAlloc_v2(&tensor, TENSOR));
	OK(cuMemAlloc_v2(&memory, sizeof(inside)));
	OK(cuModuleLoadData(&module, ptx));
}

/* Boxes that begin amid 16 bytes, and stores to what is before the tensor, or by a map that would have them there. */
static const struct {
	const char *kernel;
	enum { PLAIN, INNER, BORDERED, BEYOND } kind;
	int at[4];
} wrong[] = {
	{"load2", PLAIN, {2, 0}},
	{"load2", PLAIN, {-3, 0}},
	{"load2", PLAIN, {101, 0}},
	{"store2", PLAIN, {2, 0}},
	{"store2", PLAIN, {-4, 0}},
	{"store2", PLAIN, {4, -1}},
	{"reduce_add", PLAIN, {1, 0}},
	{"reduce_add", PLAIN, {-4, 0}},
	{"reduce_add", PLAIN, {0, -1}},
	{"images4", INNER, {4, 0, 0, 0}},
	{"store_images4", INNER, {4, 0, 0, 0}},
	{"store_images4", BORDERED, {8, 2, 3, 0}},
	{"store_images4", BEYOND, {8, 2, 3, 0}},
};
enum { WRONG_PLACES = sizeof(wrong) / sizeof(wrong[0]) };

/* In the current context, which is then of no use, and on a GPU the process neither. */
static void fail(int n)
{
	struct tensor t = wrong[n].kind == PLAIN ? usual(TYPE_UINT32, 4, 2, small_dim, small_box)
						 : bordered(4, wrong[n].kind == BORDERED, 1);

	if (wrong[n].kind == BEYOND)
		t.upper[1] = 1;
	OK(encode(&t, tensor));
	OK(run(wrong[n].kernel, &t, wrong[n].at, PARAMETER));
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

static void faults(void)
{
	for (int n = 0; n < WRONG_PLACES; n++) {
		char number[8];
		pid_t child;
		int status;

		snprintf(number, sizeof(number), "%d", n);
		child = fork();
		if (!child) {
			execl("/proc/self/exe", "tensors", number, (char *)NULL);
			_exit(127);
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		if (status)
			fprintf(stderr, "tensors: %s at %d, %d\n", wrong[n].kernel, wrong[n].at[0], wrong[n].at[1]);
		CHECK(!status);
	}
}

/* Prints the part's name, so that a failure can be located. */
#define PART(part)                                                                                                     \
	do {                                                                                                           \
		fputs("tensors: " #part "\n", stderr);                                                                 \
		part();                                                                                                \
	} while (0)

int main(int argc, char **argv)
{
	struct tensor t = usual(TYPE_UINT32, 4, 2, small_dim, small_box);
	CUcontext context;
	int has, major;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
	if (argc == 2 && atoi(argv[1]) < WRONG_PLACES) {
		prepare();
		fail(atoi(argv[1]));
		return 0;
	}
	if (has) {
		prepare();
		PART(loads);
		PART(swizzles);
		PART(steps);
		PART(no_numbers);
		PART(stores);
		PART(reductions);
		PART(sums);
		/* Code for sm_90a is Hopper's only. */
		OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
		if (major == 9)
			PART(remade);
		PART(mistakes);
		PART(limits);
		PART(images);
		PART(faults);
		PART(careless);
	} else {
		GIVES(encode(&t, 0x1000), CUDA_ERROR_NOT_SUPPORTED);
		GIVES(cuTensorMapReplaceAddress(&map, (void *)0x1000), CUDA_ERROR_NOT_SUPPORTED);
	}
	puts("tensors: passed");
	return 0;
}
