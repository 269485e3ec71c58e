/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of NVIDIA's driver, as data: error texts, calls before cuInit, codes, CUDA_VISIBLE_DEVICES. The program
 * opens the libraries by their names and so runs natively as well.
 *
 * usage: answers texts errors.txt | answers early libcuda.so.1.txt early.txt | answers codes | answers visible |
 *        answers addresses proc-addresses.txt | answers record-early libcuda.so.1.txt
 *
 * record-early prints a line for each function of the list: its name, and its codes before cuInit with five kinds of
 * arguments; -1: the process ended. early.txt has the lines of NVIDIA's driver: natively that is to be compared.
 * `early` is for virtio-cuda. The functions that are named here give NVIDIA's answers. All others, which have a line of
 * the file, too, give CUDA_ERROR_NOT_INITIALIZED, whatever the arguments are.
 *
 * Exit status 0: every probe got the expected answer. Each other one has a line on standard output.
 */
#include "test/local/native/native.h"

/* ---- texts ---- */

static void driver_texts(const char *code, const char *name, const char *text)
{
	const char *got = NULL;
	char what[64];

	snprintf(what, sizeof(what), "cuGetErrorName(%s)", code);
	CALL(cuGetErrorName, atoi(code), &got);
	expect_text(what, got, name);
	if (!strcmp(text, "?"))
		return;
	got = NULL;
	snprintf(what, sizeof(what), "cuGetErrorString(%s)", code);
	CALL(cuGetErrorString, atoi(code), &got);
	expect_text(what, got, text);
}

static void runtime_texts(void *runtime, const char *code, const char *name, const char *text)
{
	char what[64];

	snprintf(what, sizeof(what), "cudaGetErrorName(%s)", code);
	expect_text(what, ((const char *(*)(int))function(runtime, "cudaGetErrorName"))(atoi(code)), name);
	snprintf(what, sizeof(what), "cudaGetErrorString(%s)", code);
	expect_text(what, ((const char *(*)(int))function(runtime, "cudaGetErrorString"))(atoi(code)), text);
}

static void texts(const char *path)
{
	void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
	char line[512], code[16], driver[80], name[80], text[300];
	FILE *f = fopen(path, "r");
	const char *got = "";

	if (!f || !runtime) {
		fprintf(stderr, "%s: no such file, or no libcudart.so.13\n", path);
		exit(2);
	}
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%15[0-9] %79s %79s %299[^\n]", code, driver, name, text) != 4)
			continue;
		if (strcmp(driver, "-"))
			driver_texts(code, driver, text);
		if (strcmp(name, "-"))
			runtime_texts(runtime, code, name, text);
	}
	fclose(f);
	runtime_texts(runtime, "12345", "unrecognized error code", "unrecognized error code");
	expect("cuGetErrorName(12345)", CALL(cuGetErrorName, 12345, &got), CUDA_ERROR_INVALID_VALUE);
	expect("cuGetErrorString(12345)", CALL(cuGetErrorString, 12345, &got), CUDA_ERROR_INVALID_VALUE);
	expect("cuGetErrorString(12345): text", got != NULL, false);
}

/* ---- before cuInit ---- */

/* These answer before cuInit, or have nothing to do with it: guest/libcuda/before-init.txt. */
static const char *const early_ones[] = {
	"cuCheckpointProcessCheckpoint",
	"cuCheckpointProcessGetRestoreThreadId",
	"cuCheckpointProcessGetState",
	"cuCheckpointProcessLock",
	"cuCheckpointProcessRestore",
	"cuCheckpointProcessUnlock",
	"cuDriverGetVersion",
	"cuGetErrorName",
	"cuGetErrorString",
	"cuGetExportTable",
	"cuGetProcAddress",
	"cuGetProcAddress_v2",
	"cuInit",
	"cuLogsCurrent",
	"cuLogsDumpToFile",
	"cuLogsDumpToMemory",
	"cuLogsRegisterCallback",
	"cuLogsUnregisterCallback",
	"cuMemGetAttribute",
	"cuMemGetAttribute_v2",
	"cuProfilerInitialize",
};

static bool is_early(const char *name)
{
	for (size_t i = 0; i < sizeof(early_ones) / sizeof(*early_ones); i++)
		if (!strcmp(name, early_ones[i]))
			return true;
	return false;
}

/* The arguments of each call: nothing but zeros, ones or places to write to, or these in turns. */
enum { ARGUMENTS = 12, PATTERNS = 5 };

static long argument(int pattern, int i)
{
	static _Alignas(64) char places[ARGUMENTS][8192];
	const long place = (long)(uintptr_t)places[i];

	switch (pattern) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return place;
	default:
		return i % 2 == pattern % 2 ? place : 0;
	}
}

struct early_call {
	const char *name;
	int pattern;
};

static void call_early(const void *with, void *result)
{
	const struct early_call *c = with;
	int (*call)(long, ...) = (int (*)(long, ...))function(cuda, c->name);
	long a[ARGUMENTS];

	for (int i = 0; i < ARGUMENTS; i++)
		a[i] = argument(c->pattern, i);
	alarm(10);
	*(int *)result = call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
}

/* -1: the process ended otherwise. */
static int code_of_early(const char *name, int pattern)
{
	const struct early_call c = {name, pattern};
	int result;

	return in_child(call_early, &c, &result, sizeof(result)) ? result : -1;
}

static const char *recorded; /* the file of NVIDIA's answers */

/* The recorded codes of a function; "?" where nothing is expected. False: it has no line. */
static bool find_recorded(const char *name, char codes[PATTERNS][8])
{
	char line[512], got[128];
	FILE *f = fopen(recorded, "r");
	bool found = false;

	if (!f) {
		perror(recorded);
		exit(2);
	}
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%127s %7s %7s %7s %7s %7s", got, codes[0], codes[1], codes[2], codes[3],
			       codes[4]) == 1 + PATTERNS &&
			!strcmp(got, name);
	fclose(f);
	return found;
}

/* Where NVIDIA's driver ended the process, a function that answers may answer anything. */
static void expect_recorded(const char *name)
{
	char codes[PATTERNS][8], what[192];

	if (!find_recorded(name, codes)) {
		snprintf(what, sizeof(what), "%s has a line in %s", name, recorded);
		expect(what, false, true);
		return;
	}
	for (int pattern = 0; pattern < PATTERNS; pattern++) {
		snprintf(what, sizeof(what), "%s, arguments %d", name, pattern);
		if (!is_early(name))
			expect(what, code_of_early(name, pattern), CUDA_ERROR_NOT_INITIALIZED);
		else if (strcmp(codes[pattern], "?") && strcmp(codes[pattern], "-1"))
			expect(what, code_of_early(name, pattern), atoi(codes[pattern]));
	}
}

static void print_early(const char *name)
{
	printf("%s", name);
	for (int pattern = 0; pattern < PATTERNS; pattern++)
		printf(" %d", code_of_early(name, pattern));
	printf("\n");
}

/* Each name of a list that the library exports. Those that are no calls are data or the debugger's. */
static void each_exported(const char *path, void (*ask)(const char *name))
{
	char line[512], name[128];
	FILE *f = fopen(path, "r");

	if (!f) {
		perror(path);
		exit(2);
	}
	while (fgets(line, sizeof(line), f))
		if (line[0] != '#' && sscanf(line, "%127s", name) == 1 && strncmp(name, "cudbg", 5) &&
		    dlsym(cuda, name))
			ask(name);
	fclose(f);
}

static void early(const char *names, const char *answers)
{
	recorded = answers;
	each_exported(names, expect_recorded);
}

/* ---- codes ---- */

static int proc_address(const char *name, int version, uint64_t flags, bool with_status)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
	void *found = NULL;
	CUresult result = CALL(cuGetProcAddress_v2, name, &found, version, flags, with_status ? &status : NULL);

	if (result != CUDA_SUCCESS)
		return result;
	/* 1000: found; 1001 and 1002: the two reasons why not */
	return !with_status ? 0 : 1000 + (int)status + (found && status ? 100 : 0);
}

static const struct {
	const char *name;
	int version;
	uint64_t flags;
	bool with_status;
	int expected;
} addresses[] = {
	{"cuMemAlloc", 12000, 0, true, 1000},
	{"cuMemAlloc", 99000, 0, true, 1},
	{"cuMemAlloc", 99000, 0, false, 1},
	{"cuNoSuchFunction", 99000, 0, true, 1},
	{"cuNoSuchFunction", 12000, 0, true, 1001},
	{"cuNoSuchFunction", 12000, 0, false, 0},
	{"cuLaunchKernelEx", 11000, 0, true, 1002},
	{"cuLaunchKernelEx", 11000, 0, false, 0},
	{"cuGLGetDevices", 12000, 0, true, 1000},
	{"cuGLGetDevices", 4000, 0, true, 1002},
	{"cuGraphicsGLRegisterBuffer", 12000, 0, true, 1000},
	{"cuGraphicsGLRegisterImage", 12000, 0, true, 1000},
	{"cuEGLStreamConsumerConnect", 12000, 0, true, 1000},
	{"cuGraphicsEGLRegisterImage", 12000, 0, true, 1000},
	{"cuVDPAUGetDevice", 12000, 0, true, 1000},
	{"cuGLMapBufferObject", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, true, 1000},
	{"cudbgGetAPIVersion", 12000, 0, true, 1001},
};

static void address_codes(void)
{
	void *older = NULL, *newer = NULL;
	char what[128];
	int version;

	for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
		snprintf(what, sizeof(what), "cuGetProcAddress(\"%s\", %d)", addresses[i].name, addresses[i].version);
		expect(what,
		       proc_address(addresses[i].name, addresses[i].version, addresses[i].flags,
				    addresses[i].with_status),
		       addresses[i].expected);
	}
	CALL(cuDriverGetVersion, &version);
	CALL(cuGetProcAddress_v2, "cuCtxSynchronize", &older, 12090, (uint64_t)0, NULL);
	CALL(cuGetProcAddress_v2, "cuCtxSynchronize", &newer, 13000, (uint64_t)0, NULL);
	expect("cuGetProcAddress(\"cuCtxSynchronize\") of 12.9 and 13.0 are one", older == newer, version < 13000);
	expect("cuGetProcAddress of the driver's version", proc_address("cuMemAlloc", version, 0, true), 1000);
	expect("cuGetProcAddress of the next version", proc_address("cuMemAlloc", version + 10, 0, true), 1);
	expect("cuGetProcAddress without a status of no function",
	       CALL(cuGetProcAddress, "cuNoSuchFunction", &older, 12000, (uint64_t)0), CUDA_ERROR_NOT_FOUND);
	expect("cuGetProcAddress without a status of an older version",
	       CALL(cuGetProcAddress, "cuLaunchKernelEx", &older, 11000, (uint64_t)0), CUDA_ERROR_NOT_FOUND);
}

/* Each function of each version up to the driver's is found. */
static void addresses_of(const char *path)
{
	char line[512], name[128], what[192], *suffix;
	FILE *f = fopen(path, "r");
	int version, newest;

	if (!f || CALL(cuDriverGetVersion, &newest)) {
		perror(path);
		exit(2);
	}
	while (fgets(line, sizeof(line), f)) {
		uint64_t flags = 0;

		if (line[0] == '#' || sscanf(line, "%127s %d", name, &version) != 2 || version > newest)
			continue;
		suffix = strstr(name, "_pt");
		if (suffix) {
			*suffix = 0;
			flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
		}
		snprintf(what, sizeof(what), "cuGetProcAddress(\"%s\", %d, %d)", name, version, (int)flags);
		expect(what, proc_address(name, version, flags, true), 1000);
	}
	fclose(f);
}

static void file_codes(void)
{
	char empty[] = "/tmp/vcuda-empty.XXXXXX";
	int fd = mkstemp(empty);
	CUlinkState link = NULL;
	CUlibrary library = NULL;
	CUkernel kernel;
	CUmodule module;

	if (fd < 0)
		exit(2);
	close(fd);
	expect("cuModuleLoad(empty file)", CALL(cuModuleLoad, &module, empty), CUDA_ERROR_INVALID_IMAGE);
	expect("cuModuleLoad(no file)", CALL(cuModuleLoad, &module, "/dev/null/none"), CUDA_ERROR_FILE_NOT_FOUND);
	expect("cuLinkCreate", CALL(cuLinkCreate_v2, 0, NULL, NULL, &link), CUDA_SUCCESS);
	expect("cuLinkAddFile(empty file)", CALL(cuLinkAddFile_v2, link, CU_JIT_INPUT_PTX, empty, 0, NULL, NULL),
	       CUDA_ERROR_INVALID_IMAGE);
	expect("cuLinkAddFile(no file)",
	       CALL(cuLinkAddFile_v2, link, CU_JIT_INPUT_PTX, "/dev/null/none", 0, NULL, NULL),
	       CUDA_ERROR_FILE_NOT_FOUND);
	expect("cuLinkDestroy", CALL(cuLinkDestroy, link), CUDA_SUCCESS);
	expect("cuLibraryLoadData(garbage)",
	       CALL(cuLibraryLoadData, &library, "this is no image", NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	/* not asked natively: the error of an image that was loaded */
	expect("cuLibraryGetKernel(of garbage)", library ? (int)CALL(cuLibraryGetKernel, &kernel, library, "k") : -1,
	       CUDA_ERROR_INVALID_IMAGE);
	expect("cuLibraryUnload(of garbage)", library ? (int)CALL(cuLibraryUnload, library) : -1, CUDA_SUCCESS);
	unlink(empty);
}

static void codes(void)
{
	CUdevice devices[4];
	CUcontext context;
	unsigned int count;
	const char *name;
	size_t value;

	expect("cuInit(1)", CALL(cuInit, 1), CUDA_ERROR_INVALID_VALUE);
	expect("cuDriverGetVersion(NULL)", CALL(cuDriverGetVersion, NULL), CUDA_ERROR_INVALID_VALUE);
	address_codes();
	expect("cuInit", CALL(cuInit, 0), CUDA_SUCCESS);
	expect("cuGLGetDevices", CALL(cuGLGetDevices_v2, &count, devices, 4, 1), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT);
	expect("cuDevicePrimaryCtxRetain", CALL(cuDevicePrimaryCtxRetain, &context, 0), CUDA_SUCCESS);
	expect("cuCtxSetCurrent", CALL(cuCtxSetCurrent, context), CUDA_SUCCESS);
	expect("cuCtxGetLimit(9999)", CALL(cuCtxGetLimit, &value, 9999), CUDA_ERROR_INVALID_VALUE);
	expect("cuCtxSetLimit(9999, 4)", CALL(cuCtxSetLimit, 9999, (size_t)4), CUDA_ERROR_INVALID_VALUE);
	expect("cuFuncGetName(NULL)", CALL(cuFuncGetName, &name, NULL), CUDA_ERROR_INVALID_VALUE);
	expect("cuKernelGetName(NULL)", CALL(cuKernelGetName, &name, NULL), CUDA_ERROR_INVALID_VALUE);
	address_codes();
	file_codes();
}

/* ---- CUDA_VISIBLE_DEVICES ---- */

/* With one GPU. %s is its UUID. No count: cuInit fails. */
static const struct {
	const char *value;
	int result, count;
} visible_values[] = {
	{"0", 0, 1},          {"0 ", 0, 1},           {"0abc", 0, 1},  {"0;1", 0, 1},
	{" 0 , 1 ", 0, 1},    {"0,7", 0, 1},          {"00", 0, 1},    {"0x0", 0, 1},
	{"+0", 0, 1},         {"0 ,1", 0, 1},         {"0.5", 0, 1},   {"0\n", 0, 1},
	{"\t0", 0, 1},        {"%s", 0, 1},           {"%.36s", 0, 1}, {"%.14s", 0, 1},
	{"%.10s", 0, 1},      {"%.5s", 0, 1},         {"%s,0", 0, 1},  {"0,%s", 0, 1},
	{"%sx", 0, 1},        {"%s;7", 0, 1},         {" %s", 100, 0}, {"x%s", 100, 0},
	{"4294967296", 0, 1}, {"4294967297", 100, 0}, {"", 100, 0},    {" ", 100, 0},
	{"-1,0", 100, 0},     {"7,0", 100, 0},        {"1e0", 100, 0}, {"-1", 100, 0},
	{"MIG-xx,0", 100, 0}, {"gpu-%s", 100, 0},     {"0,0", 101, 0}, {"GPU-", 100, 0},
	{"MIG-", 100, 0},
};

struct visible {
	int result, count;
};

static void ask_visible(const void *value, void *answer)
{
	struct visible *v = answer;

	if (value)
		setenv("CUDA_VISIBLE_DEVICES", value, 1);
	v->count = 0;
	v->result = CALL(cuInit, 0);
	if (!v->result)
		v->result = CALL(cuDeviceGetCount, &v->count);
}

static void ask_uuid(const void *nothing, void *answer)
{
	CUuuid uuid = {{0}};
	char *at = answer;

	(void)nothing;
	if (CALL(cuInit, 0) || CALL(cuDeviceGetUuid_v2, &uuid, 0))
		_exit(1);
	at += sprintf(at, "GPU-");
	for (int i = 0; i < 16; i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)uuid.bytes[i]);
}

static void visible(void)
{
	char uuid[41], value[128], what[256];
	struct visible got;

	unsetenv("CUDA_VISIBLE_DEVICES");
	if (!in_child(ask_uuid, NULL, uuid, sizeof(uuid)) || !in_child(ask_visible, NULL, &got, sizeof(got)) ||
	    got.count != 1) {
		fprintf(stderr, "the table is of a machine with one GPU\n");
		exit(2);
	}
	for (size_t i = 0; i < sizeof(visible_values) / sizeof(*visible_values); i++) {
		const char *format = visible_values[i].value;

		/* the digits alone behind a prefix of the value's own */
		snprintf(value, sizeof(value), format, uuid + (strncmp(format, "gpu-", 4) ? 0 : 4));
		if (!in_child(ask_visible, value, &got, sizeof(got)))
			got = (struct visible){-1, 0};
		snprintf(what, sizeof(what), "CUDA_VISIBLE_DEVICES=\"%s\", cuInit", value);
		expect(what, got.result, visible_values[i].result);
		snprintf(what, sizeof(what), "CUDA_VISIBLE_DEVICES=\"%s\", count", value);
		expect(what, got.count, visible_values[i].count);
	}
}

int main(int argc, char **argv)
{
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda || argc < 2) {
		fprintf(stderr, "%s\n",
			cuda ? "usage: answers texts|early|record-early|codes|visible|addresses [FILE]" : dlerror());
		return 2;
	}
	if (!strcmp(argv[1], "texts") && argc == 3)
		texts(argv[2]);
	else if (!strcmp(argv[1], "early") && argc == 4)
		early(argv[2], argv[3]);
	else if (!strcmp(argv[1], "record-early") && argc == 3)
		return each_exported(argv[2], print_early), 0;
	else if (!strcmp(argv[1], "codes"))
		codes();
	else if (!strcmp(argv[1], "addresses") && argc == 3)
		addresses_of(argv[2]);
	else if (!strcmp(argv[1], "visible"))
		visible();
	printf("%s: %d probes, %d differ\n", argv[1], probes, different);
	return probes && !different ? 0 : 1;
}
