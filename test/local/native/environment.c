/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The behaviour of NVIDIA's driver for the variables CUDA_MODULE_LOADING, CUDA_LAUNCH_BLOCKING,
 * CUDA_DEVICE_MAX_CONNECTIONS and CUDA_DEVICE_ORDER, on one GPU. The expected results are those of the CUDA programming
 * guide and the driver API, which list valid values only. The program opens the library by its name and so runs
 * natively as well. Each setting has a process of its own.
 *
 * usage: environment loading|blocking|devices
 *
 * Exit status 0: every probe got the expected answer. Each other one has a line on standard output.
 */
#include "test/local/native/native.h"

#include <pthread.h>

static const char text[] = ".version 6.3\n.target sm_52\n.address_size 64\n"
			   /* says that it runs, waits for a word, says that it ends */
			   ".visible .entry wait(.param .u64 words)\n{\n.reg .b64 %w; .reg .b32 %r; .reg .pred %p;\n"
			   "ld.param.u64 %w, [words];\nst.volatile.global.u32 [%w], 1;\n"
			   "AGAIN: ld.volatile.global.u32 %r, [%w+4];\nsetp.eq.u32 %p, %r, 0;\n@%p bra AGAIN;\n"
			   "st.volatile.global.u32 [%w+8], 1;\nmembar.sys;\nret;\n}\n"
			   ".visible .entry wild()\n{\n.reg .b64 %w; .reg .b32 %r;\nmov.u64 %w, 16;\nmov.u32 %r, 1;\n"
			   "st.global.u32 [%w], %r;\nret;\n}\n"
			   ".visible .entry quick()\n{\nret;\n}\n";

static CUmodule module;

static void start(void)
{
	CUcontext context;

	alarm(60);
	NEED(cuInit, 0);
	NEED(cuDevicePrimaryCtxRetain, &context, 0);
	NEED(cuCtxSetCurrent, context);
	NEED(cuModuleLoadData, &module, text);
}

static CUfunction kernel(const char *name)
{
	CUfunction f;

	NEED(cuModuleGetFunction, &f, module, name);
	return f;
}

static CUstream stream(void)
{
	CUstream s;

	NEED(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	return s;
}

static CUresult launch(CUfunction f, CUstream s, void **params)
{
	return CALL(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
}

/* ---- a setting, in a child ---- */

struct setting {
	const char *variable, *value; /* value NULL: not set */
	int with;                     /* of the question */
};

static void set(const struct setting *s)
{
	if (s->value)
		setenv(s->variable, s->value, 1);
	else
		unsetenv(s->variable);
}

/* Asks in a child; -1000: it did not end as it should. */
static int ask(void (*question)(const void *with, void *answer), struct setting setting)
{
	int answer;

	return in_child(question, &setting, &answer, sizeof(answer)) ? answer : -1000;
}

static void ask_all(const char *what, void (*question)(const void *with, void *answer), struct setting setting,
		    int expected)
{
	char line[160];

	snprintf(line, sizeof(line), "%s=%s: %s %d", setting.variable, setting.value ? setting.value : "(none)", what,
		 setting.with);
	expect(line, ask(question, setting), expected);
}

/* ---- CUDA_MODULE_LOADING ---- */

static void loading_mode(const void *with, void *answer)
{
	CUmoduleLoadingMode mode;

	set(with);
	start();
	NEED(cuModuleGetLoadingMode, &mode);
	*(int *)answer = (int)mode;
}

/* A kernel that no cuModuleGetFunction() has found. */
static CUfunction listed(unsigned int which)
{
	CUfunction all[3];

	NEED(cuModuleEnumerateFunctions, all, 3u, module);
	return all[which];
}

static CUfunction of_library(void)
{
	CUlibrary library;
	CUfunction f;
	CUkernel k;

	NEED(cuLibraryLoadData, &library, text, NULL, NULL, 0, NULL, NULL, 0);
	NEED(cuLibraryGetKernel, &k, library, "quick");
	NEED(cuKernelGetFunction, &f, k);
	return f;
}

/*
 * 0: when it was found. 1: after cuFuncLoad(). 2: after a launch. 3: of another kernel than that was launched. 4: of one that was listed.
 * 5: the same, after another was found. 6: of a library's kernel.
 */
static void loading_state(const void *with, void *answer)
{
	const struct setting *setting = with;
	CUfunctionLoadingState state;
	CUfunction f;

	set(setting);
	start();
	f = setting->with == 6 ? of_library() : setting->with == 4 ? listed(0) : kernel("quick");
	if (setting->with == 5) {
		CUfunction first = listed(0);

		f = first == f ? listed(1) : first;
	}
	if (setting->with == 1)
		NEED(cuFuncLoad, f);
	if (setting->with == 2 || setting->with == 3)
		need("launch", launch(f, NULL, NULL));
	if (setting->with == 3)
		f = kernel("wild");
	NEED(cuFuncIsLoaded, &state, f);
	*(int *)answer = (int)state;
}

static void module_loading(void)
{
	static const char *const values[] = {NULL, "DEFAULT", "LAZY", "EAGER"};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		bool eager = values[i] && !strcmp(values[i], "EAGER");
		struct setting s = {"CUDA_MODULE_LOADING", values[i], 0};

		ask_all("cuModuleGetLoadingMode", loading_mode, s,
			eager ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING);
		/* a kernel that was found is loaded: NVIDIA's driver 580 on an H100 */
		for (s.with = 0; s.with < 7; s.with++)
			ask_all("cuFuncIsLoaded", loading_state, s,
				eager || (s.with != 4 && s.with != 5) ? CU_FUNCTION_LOADING_STATE_LOADED
								      : CU_FUNCTION_LOADING_STATE_UNLOADED);
	}
}

/* ---- CUDA_LAUNCH_BLOCKING ---- */

static struct gate {
	volatile uint32_t *words;
	_Atomic bool returned; /* from the launch */
	bool blocks;           /* the launch is expected to return after the kernel's end */
} gate;

static void *open_gate(void *nothing)
{
	(void)nothing;
	while (!gate.words[0])
		usleep(1000);
	/* One that should wait and does not has returned by then; one that waits and should not ends at last. */
	for (int i = 0; i < (gate.blocks ? 100 : 20000) && !gate.returned; i++)
		usleep(1000);
	gate.words[1] = 1;
	return NULL;
}

enum way { LEGACY, OTHER_STREAM, COOPERATIVE, BY_CONFIG, OF_LIBRARY, WAYS };

static CUresult launch_so(enum way way, void **params)
{
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
	CUlibrary library;
	CUkernel k;

	switch (way) {
	case OTHER_STREAM:
		return launch(kernel("wait"), stream(), params);
	case COOPERATIVE:
		return CALL(cuLaunchCooperativeKernel, kernel("wait"), 1, 1, 1, 1, 1, 1, 0, stream(), params);
	case BY_CONFIG:
		return CALL(cuLaunchKernelEx, &config, kernel("wait"), params, NULL);
	case OF_LIBRARY:
		NEED(cuLibraryLoadData, &library, text, NULL, NULL, 0, NULL, NULL, 0);
		NEED(cuLibraryGetKernel, &k, library, "wait");
		return launch((CUfunction)k, NULL, params);
	default:
		return launch(kernel("wait"), NULL, params);
	}
}

/* Whether the kernel has ended when its launch returns. */
static void ended_at_return(const void *with, void *answer)
{
	const struct setting *setting = with;
	pthread_t thread;
	void *words;

	set(setting);
	start();
	NEED(cuMemHostAlloc, &words, (size_t)12, CU_MEMHOSTALLOC_DEVICEMAP);
	memset(words, 0, 12);
	gate.words = words;
	gate.blocks = setting->value && !strcmp(setting->value, "1");
	if (pthread_create(&thread, NULL, open_gate, NULL))
		_exit(1);
	need("launch", launch_so((enum way)setting->with, (void *[]){&words}));
	*(int *)answer = (int)gate.words[2];
	gate.returned = true;
	pthread_join(thread, NULL);
	NEED(cuCtxSynchronize);
}

/* 0: the launch's result. 1: the next wait's. */
static void wild_result(const void *with, void *answer)
{
	const struct setting *setting = with;
	CUresult launched, waited;

	set(setting);
	start();
	launched = launch(kernel("wild"), NULL, NULL);
	waited = CALL(cuCtxSynchronize);
	*(int *)answer = (int)(setting->with ? waited : launched);
}

/* 0: of the launch. 1: of the capture's end. 2: the graph's nodes. */
static void captured(const void *with, void *answer)
{
	const struct setting *setting = with;
	CUstream s;
	CUgraph graph = NULL;
	size_t nodes = 0;
	int results[3];

	set(setting);
	start();
	s = stream();
	NEED(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
	results[0] = (int)launch(kernel("quick"), s, NULL);
	results[1] = (int)CALL(cuStreamEndCapture, s, &graph);
	if (graph)
		NEED(cuGraphGetNodes, graph, NULL, &nodes);
	results[2] = (int)nodes;
	*(int *)answer = results[setting->with];
}

static void launch_blocking(void)
{
	static const char *const values[] = {NULL, "0", "1"};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		bool blocks = values[i] && !strcmp(values[i], "1");
		struct setting s = {"CUDA_LAUNCH_BLOCKING", values[i], 0};

		for (s.with = 0; s.with < WAYS; s.with++)
			ask_all("ended at its return: launch", ended_at_return, s, blocks);
		s.with = 1;
		ask_all("illegal access: the wait", wild_result, s, CUDA_ERROR_ILLEGAL_ADDRESS);
		for (s.with = 0; s.with < 3; s.with++)
			ask_all("captured", captured, s, s.with == 2);
	}
	ask_all("illegal access: the launch", wild_result, (struct setting){"CUDA_LAUNCH_BLOCKING", "1", 0},
		CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- CUDA_DEVICE_MAX_CONNECTIONS and CUDA_DEVICE_ORDER ---- */

static void device_count(const void *with, void *answer)
{
	set(with);
	NEED(cuInit, 0);
	NEED(cuDeviceGetCount, (int *)answer);
}

/* A kernel of one stream ends while that of another waits. */
static void side_by_side(const void *with, void *answer)
{
	CUfunction waits, ends;
	CUstream other;
	void *words;

	set(with);
	start();
	NEED(cuMemHostAlloc, &words, (size_t)12, CU_MEMHOSTALLOC_DEVICEMAP);
	memset(words, 0, 12);
	gate.words = words;
	other = stream();
	/* both are found first: to load one may wait for all that runs */
	waits = kernel("wait");
	ends = kernel("quick");
	need("launch", launch(waits, stream(), (void *[]){&words}));
	need("launch", launch(ends, other, NULL));
	NEED(cuStreamSynchronize, other);
	*(int *)answer = (int)gate.words[2];
	gate.words[1] = 1;
	NEED(cuCtxSynchronize);
}

static void devices(void)
{
	static const struct setting settings[] = {
		{"CUDA_DEVICE_MAX_CONNECTIONS", "1", 0},  {"CUDA_DEVICE_MAX_CONNECTIONS", "8", 0},
		{"CUDA_DEVICE_MAX_CONNECTIONS", "32", 0}, {"CUDA_DEVICE_ORDER", "FASTEST_FIRST", 0},
		{"CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0},
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		ask_all("cuDeviceGetCount", device_count, settings[i], 1);
		/* with one connection streams may wait for one another */
		if (strcmp(settings[i].value, "1"))
			ask_all("two streams", side_by_side, settings[i], 0);
	}
}

int main(int argc, char **argv)
{
	const char *part = argc == 2 ? argv[1] : "";

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda || argc != 2) {
		fprintf(stderr, "%s\n", cuda ? "usage: environment loading|blocking|devices" : dlerror());
		return 2;
	}
	if (!strcmp(part, "loading"))
		module_loading();
	else if (!strcmp(part, "blocking"))
		launch_blocking();
	else if (!strcmp(part, "devices"))
		devices();
	printf("%s: %d probes, %d differ\n", part, probes, different);
	return probes && !different ? 0 : 1;
}
