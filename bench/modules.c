/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading PTX: a small module and one with many kernels; as found in the driver's cache, and new to it, for which each
 * gets a name that no other has.
 */
#include "driver-bench.h"

#include <string.h>
#include <unistd.h>

struct module {
	char *text;
	char function[64];
	int kernels;
	CUmodule module;
};

static const char kernel_body[] =
	"{\n.reg .u32 %%x, %%i;\n.reg .u64 %%p;\n.reg .pred %%q;\nld.param.u64 %%p, [p];\nmov.u32 %%x, %%tid.x;\n"
	"mov.u32 %%i, 0;\nagain:\nmad.lo.u32 %%x, %%x, %d, 1013904223;\nxor.b32 %%x, %%x, %%i;\nshr.u32 %%x, %%x, 1;\n"
	"add.u32 %%i, %%i, 1;\nsetp.lt.u32 %%q, %%i, 100;\n@%%q bra again;\nst.global.u32 [%%p], %%x;\nret;\n}\n";

static void write_text(struct module *m)
{
	static unsigned int number;
	size_t size;
	FILE *out = open_memstream(&m->text, &size);

	if (!out)
		check(1, "open_memstream");
	snprintf(m->function, sizeof(m->function), "k%d_%ld_%u", getpid(), (long)(now_us() * 1e-3), number++);
	fputs(".version 6.3\n.target sm_50\n.address_size 64\n", out);
	for (int k = 0; k < m->kernels; k++) {
		fprintf(out, ".visible .entry %s_%d(.param .u64 p)\n", m->function, k);
		fprintf(out, kernel_body, 2 * k + 1664525);
	}
	fclose(out);
	strcat(m->function, "_0");
}

static void unload(void *argument)
{
	struct module *m = argument;

	if (m->module)
		check(cuModuleUnload(m->module), "cuModuleUnload");
	m->module = NULL;
}

/* Drivers put off work until a function is asked for. */
static void load(void *argument)
{
	struct module *m = argument;
	CUfunction function;

	check(cuModuleLoadData(&m->module, m->text), "cuModuleLoadData");
	check(cuModuleGetFunction(&function, m->module, m->function), "cuModuleGetFunction");
}

static void renew(void *argument)
{
	struct module *m = argument;

	unload(m);
	free(m->text);
	write_text(m);
}

void bench_modules(void)
{
	struct module small = {.kernels = 1}, large = {.kernels = settings.large_kernels};

	for (struct module *m = &small; m; m = m == &small ? &large : NULL) {
		const char *size = m == &small ? "small" : "large";
		char name[64];

		snprintf(name, sizeof(name), "module_%s_new", size);
		report(name, time_call(load, renew, m) * 1e-3, "ms");
		snprintf(name, sizeof(name), "module_%s_cached", size);
		report(name, time_call(load, unload, m) * 1e-3, "ms");
		unload(m);
		free(m->text);
	}
}
