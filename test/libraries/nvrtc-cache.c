/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc-cache SOURCE OPTION... compiles as often as COMPILATIONS says and prints NVRTC's version and, in hexadecimal,
 * what came out; nvrtc-cache.py compares.
 */
#include "check.h"

#include <nvrtc.h>

static void print(const char *name, const char *data, size_t size)
{
	printf("%s ", name);
	for (size_t n = 0; n < size; n++)
		printf("%02x", (unsigned char)data[n]);
	printf("\n");
}

static void compile(const char *source, int count, const char *const *options)
{
	nvrtcProgram program;
	size_t bytes;
	char *data;

	OK(nvrtcCreateProgram(&program, source, "a.cu", 0, NULL, NULL));
	OK(nvrtcCompileProgram(program, count, options));
	OK(nvrtcGetPTXSize(program, &bytes));
	data = malloc(bytes);
	OK(nvrtcGetPTX(program, data));
	print("ptx", data, bytes);
	free(data);
	OK(nvrtcGetCUBINSize(program, &bytes));
	data = malloc(bytes);
	OK(nvrtcGetCUBIN(program, data));
	print("cubin", data, bytes);
	free(data);
	OK(nvrtcDestroyProgram(&program));
}

int main(int argc, char **argv)
{
	int major, minor, times = getenv("COMPILATIONS") ? atoi(getenv("COMPILATIONS")) : 1;

	OK(nvrtcVersion(&major, &minor));
	printf("version %d.%d\n", major, minor);
	for (int n = 0; n < times; n++)
		compile(argv[1], argc - 2, (const char *const *)argv + 2);
	return 0;
}
