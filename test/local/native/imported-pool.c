/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codes of calls for shared memory pools: in the process that exports, and for the imported pool in another
 * process. The program opens the library by its name and so runs natively as well.
 *
 * usage: imported-pool          prints a line for each call: its name, its code
 *        imported-pool FILE     compares with lines that NVIDIA's driver gave; each other one is printed, exit status 1
 */
#include "test/local/native/native.h"
#include "test/local/send-file.h"

#define BYTES ((size_t)1 << 20)
#define TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static FILE *expected;

static void say(const char *what, CUresult code)
{
	char wanted[160] = "", got[160];

	snprintf(got, sizeof(got), "%s %d", what, (int)code);
	if (!expected) {
		puts(got);
		return;
	}
	next_line(expected, wanted, sizeof(wanted));
	expect_text(what, got, wanted);
}

static void say_value(const char *what, int number, CUresult code)
{
	char text[128];

	snprintf(text, sizeof(text), "%s %d", what, number);
	say(text, code);
}

static void begin(void)
{
	CUcontext context;

	NEED(cuInit, 0);
	NEED(cuDevicePrimaryCtxRetain, &context, 0);
	NEED(cuCtxSetCurrent, context);
}

static const CUmemPoolProps shared = {
	.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = TYPE, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

/* The data for the importing process, besides the descriptors of two pools. */
struct offer {
	CUmemPoolPtrExportData whole, of_second;
	int probes, different;
	long place; /* in the file of expected lines */
};

static void ask_attributes(CUmemoryPool pool)
{
	uint64_t value;
	int flag;

	for (int i = 1; i <= 8; i++) {
		void *place = i <= 3 ? (void *)&flag : (void *)&value;

		value = 0;
		flag = 0;
		say_value("get attribute", i, CALL(cuMemPoolGetAttribute, pool, i, place));
		if (i > 4)
			value = 0;
		say_value("set attribute", i, CALL(cuMemPoolSetAttribute, pool, i, place));
	}
}

static void ask_access(CUmemoryPool pool)
{
	static const int flags[] = {0, 1, 3};
	CUmemLocation place = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	int flag = -1;

	say("get access", CALL(cuMemPoolGetAccess, &flag, pool, &place));
	say_value("access", flag, CUDA_SUCCESS);
	for (int i = 0; i < 3; i++) {
		access.flags = flags[i];
		say_value("set access", flags[i], CALL(cuMemPoolSetAccess, pool, &access, (size_t)1));
	}
	flag = -1;
	say("get access", CALL(cuMemPoolGetAccess, &flag, pool, &place));
	say_value("access", flag, CUDA_SUCCESS);
}

static void export_pools(int to)
{
	struct offer offer;
	CUmemoryPool pool, second, alone, standard;
	CUmemPoolProps props = shared;
	CUmemPoolPtrExportData data;
	CUdeviceptr p, freed, of_second, plain;
	int fd = -1, fd2 = -1, again = -1;

	begin();
	NEED(cuMemPoolCreate, &pool, &shared);
	NEED(cuMemPoolCreate, &second, &shared);
	NEED(cuMemAllocFromPoolAsync, &p, BYTES, pool, NULL);
	NEED(cuMemAllocFromPoolAsync, &freed, BYTES, pool, NULL);
	NEED(cuMemAllocFromPoolAsync, &of_second, BYTES, second, NULL);
	NEED(cuMemsetD8_v2, p, 5, BYTES);
	NEED(cuMemAlloc_v2, &plain, BYTES);
	say("pointer before the pool", CALL(cuMemPoolExportPointer, &data, p));
	say("export, flags", CALL(cuMemPoolExportToShareableHandle, &fd, pool, TYPE, 1ull));
	say("export, no place", CALL(cuMemPoolExportToShareableHandle, NULL, pool, TYPE, 0ull));
	say("export, type 0", CALL(cuMemPoolExportToShareableHandle, &fd, pool, 0, 0ull));
	say("export, type 8", CALL(cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0ull));
	say("export", CALL(cuMemPoolExportToShareableHandle, &fd, pool, TYPE, 0ull));
	say("export again", CALL(cuMemPoolExportToShareableHandle, &again, pool, TYPE, 0ull));
	close(again);
	say("pointer", CALL(cuMemPoolExportPointer, &offer.whole, p));
	say("pointer again", CALL(cuMemPoolExportPointer, &data, p));
	say("pointer, inside", CALL(cuMemPoolExportPointer, &data, p + 4));
	say("pointer, not of a pool", CALL(cuMemPoolExportPointer, &data, plain));
	say("pointer, 0", CALL(cuMemPoolExportPointer, &data, (CUdeviceptr)0));
	say("pointer, no place", CALL(cuMemPoolExportPointer, NULL, p));
	say("pointer of another pool before it", CALL(cuMemPoolExportPointer, &data, of_second));
	say("export another", CALL(cuMemPoolExportToShareableHandle, &fd2, second, TYPE, 0ull));
	say("pointer of another pool", CALL(cuMemPoolExportPointer, &offer.of_second, of_second));
	say("pointer to be freed", CALL(cuMemPoolExportPointer, &data, freed));
	props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
	NEED(cuMemPoolCreate, &alone, &props);
	say("export of one that is not shared", CALL(cuMemPoolExportToShareableHandle, &again, alone, TYPE, 0ull));
	NEED(cuDeviceGetDefaultMemPool, &standard, 0);
	say("export of the default one", CALL(cuMemPoolExportToShareableHandle, &again, standard, TYPE, 0ull));
	say("trim", CALL(cuMemPoolTrimTo, pool, (size_t)0));
	ask_access(pool);
	say("free", CALL(cuMemFreeAsync, freed, NULL));
	NEED(cuCtxSynchronize, );
	say("pointer of freed memory", CALL(cuMemPoolExportPointer, &data, freed));
	offer.probes = probes;
	offer.different = different;
	offer.place = expected ? ftell(expected) : 0;
	fflush(stdout);
	if (!send_file(to, fd) || !send_file(to, fd2) || write(to, &offer, sizeof(offer)) != sizeof(offer))
		exit(2);
}

static void import_pools(int from)
{
	int fd = receive_file(from), fd2 = receive_file(from), flag = 0;
	struct offer offer;
	CUmemPoolPtrExportData data;
	CUmemoryPool pool, twice, other, current;
	CUdeviceptr p = 0, q = 0, other_p = 0, base;
	CUipcMemHandle handle;
	char bytes[16] = {0};
	size_t size;

	if (fd < 0 || fd2 < 0 || read(from, &offer, sizeof(offer)) != sizeof(offer))
		exit(2);
	probes = offer.probes;
	different = offer.different;
	if (expected)
		fseek(expected, offer.place, SEEK_SET);
	begin();
	say("import, flags", CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)fd, TYPE, 1ull));
	say("import, type 0", CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)fd, 0, 0ull));
	say("import, no place", CALL(cuMemPoolImportFromShareableHandle, NULL, (void *)(intptr_t)fd, TYPE, 0ull));
	say("import", CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)fd, TYPE, 0ull));
	say("import twice", CALL(cuMemPoolImportFromShareableHandle, &twice, (void *)(intptr_t)fd, TYPE, 0ull));
	say("import another", CALL(cuMemPoolImportFromShareableHandle, &other, (void *)(intptr_t)fd2, TYPE, 0ull));
	ask_attributes(pool);
	ask_access(pool);
	say("trim", CALL(cuMemPoolTrimTo, pool, (size_t)0));
	say("allocate", CALL(cuMemAllocFromPoolAsync, &base, BYTES, pool, NULL));
	say("export", CALL(cuMemPoolExportToShareableHandle, &flag, pool, TYPE, 0ull));
	say("set for the device", CALL(cuDeviceSetMemPool, 0, pool));
	NEED(cuDeviceGetMemPool, &current, 0);
	say_value("is the device's", current == pool, CUDA_SUCCESS);
	data = offer.of_second;
	say("pointer of another pool", CALL(cuMemPoolImportPointer, &base, pool, &data));
	memset(&data, 0, sizeof(data));
	say("pointer of zeroes", CALL(cuMemPoolImportPointer, &base, pool, &data));
	data = offer.whole;
	say("pointer, no place", CALL(cuMemPoolImportPointer, NULL, pool, &data));
	say("pointer, no data", CALL(cuMemPoolImportPointer, &p, pool, NULL));
	say("pointer", CALL(cuMemPoolImportPointer, &p, pool, &data));
	say("pointer again", CALL(cuMemPoolImportPointer, &q, pool, &data));
	say_value("the same address", p == q, CUDA_SUCCESS);
	say("pointer by the other import", CALL(cuMemPoolImportPointer, &other_p, twice, &data));
	say_value("the same address", p == other_p, CUDA_SUCCESS);
	say("read", CALL(cuMemcpyDtoH_v2, bytes, p, sizeof(bytes)));
	say_value("value", bytes[3], CUDA_SUCCESS);
	say("range", CALL(cuMemGetAddressRange_v2, &base, &size, p));
	say_value("its size", (int)size, CUDA_SUCCESS);
	say("export the pointer", CALL(cuMemPoolExportPointer, &data, p));
	say("IPC handle", CALL(cuIpcGetMemHandle, &handle, p));
	say("IPC close", CALL(cuIpcCloseMemHandle, p));
	ask_attributes(pool);
	say("free", CALL(cuMemFreeAsync, p, NULL));
	NEED(cuCtxSynchronize, );
	say("read after", CALL(cuMemcpyDtoH_v2, bytes, p, sizeof(bytes)));
	say("free the second", CALL(cuMemFree_v2, q));
	say("read after", CALL(cuMemcpyDtoH_v2, bytes, q, sizeof(bytes)));
	data = offer.whole;
	say("pointer after", CALL(cuMemPoolImportPointer, &p, pool, &data));
	say("destroy with a pointer", CALL(cuMemPoolDestroy, pool));
	say("destroy twice", CALL(cuMemPoolDestroy, pool));
	say("read after", CALL(cuMemcpyDtoH_v2, bytes, p, sizeof(bytes)));
	say("destroy the second import", CALL(cuMemPoolDestroy, twice));
	say("destroy the other", CALL(cuMemPoolDestroy, other));
}

int main(int argc, char **argv)
{
	int ends[2], status;
	char rest[160];
	pid_t child;

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	expected = argc > 1 ? fopen(argv[1], "r") : NULL;
	if (!cuda || argc > 2 || (argc > 1 && !expected) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) {
		fprintf(stderr, "usage: imported-pool [FILE]; a CUDA driver\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* The child exports: its lines come first. It lives until the parent has closed its end. */
	child = fork();
	if (!child) {
		close(ends[0]);
		export_pools(ends[1]);
		_exit(read(ends[1], rest, 1) != 0);
	}
	close(ends[1]);
	import_pools(ends[0]);
	close(ends[0]);
	if (child < 0 || waitpid(child, &status, 0) != child || status) {
		printf("the exporting process ended with %#x\n", status);
		return 1;
	}
	if (!expected)
		return 0;
	next_line(expected, rest, sizeof(rest));
	expect_text("the end", "", rest);
	printf("%d probes, %d differ\n", probes, different);
	return !probes || different;
}
