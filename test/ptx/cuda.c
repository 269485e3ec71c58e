/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                                                   \
	X(cuInit, "cuInit", unsigned int)                                                                              \
	X(cuCtxCreate, "cuCtxCreate_v2", CUcontext *, unsigned int, CUdevice)                                          \
	X(cuCtxDestroy, "cuCtxDestroy_v2", CUcontext)                                                                  \
	X(cuCtxSynchronize, "cuCtxSynchronize", void)                                                                  \
	X(cuMemAlloc, "cuMemAlloc_v2", CUdeviceptr *, size_t)                                                          \
	X(cuMemFree, "cuMemFree_v2", CUdeviceptr)                                                                      \
	X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", CUdeviceptr, const void *, size_t)                                          \
	X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", void *, CUdeviceptr, size_t)                                                \
	X(cuModuleLoadDataEx, "cuModuleLoadDataEx", CUmodule *, const void *, unsigned int, CUjit_option *, void **)   \
	X(cuModuleUnload, "cuModuleUnload", CUmodule)                                                                  \
	X(cuModuleGetFunction, "cuModuleGetFunction", CUfunction *, CUmodule, const char *)                            \
	X(cuLaunchKernel, "cuLaunchKernel", CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,        \
	  unsigned int, unsigned int, unsigned int, CUstream, void **, void **)

#define DECLARE(name, symbol, ...) static CUresult (*name)(__VA_ARGS__);
FUNCTIONS(DECLARE)

static CUcontext context;
static char log_text[4096];

static void need(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: CUDA error %d\n", what, (int)result);
	exit(3);
}

static void resolve(void)
{
	const char *file = getenv("PTX_LIBCUDA");
	void *library = dlopen(file ? file : "libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(77);
	}
#define RESOLVE(name, symbol, ...)                                                                                     \
	name = (CUresult(*)(__VA_ARGS__))dlsym(library, symbol);                                                       \
	if (!name) {                                                                                                   \
		fprintf(stderr, "no %s in the driver\n", symbol);                                                      \
		exit(3);                                                                                               \
	}
	FUNCTIONS(RESOLVE)
}

void cuda_open(void)
{
	if (!cuInit) {
		resolve();
		need(cuInit(0), "cuInit");
	}
	need(cuCtxCreate(&context, 0, 0), "cuCtxCreate");
}

void cuda_reopen(void)
{
	cuCtxDestroy(context);
	cuda_open();
}

CUdeviceptr cuda_allocate(size_t bytes)
{
	CUdeviceptr memory = 0;

	need(cuMemAlloc(&memory, bytes), "cuMemAlloc");
	return memory;
}

void cuda_free(CUdeviceptr memory)
{
	cuMemFree(memory);
}

void cuda_write(CUdeviceptr to, const void *from, size_t bytes)
{
	need(cuMemcpyHtoD(to, from, bytes), "cuMemcpyHtoD");
}

CUresult cuda_read(void *to, CUdeviceptr from, size_t bytes)
{
	return cuMemcpyDtoH(to, from, bytes);
}

static CUresult load_image(CUmodule *module, const void *image)
{
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
				  CU_JIT_OPTIMIZATION_LEVEL};
	const char *level = getenv("PTX_OPTIMISE");
	void *values[] = {log_text, (void *)sizeof(log_text), (void *)(level ? strtoul(level, NULL, 10) : 0)};

	log_text[0] = 0;
	return cuModuleLoadDataEx(module, image, level ? 3 : 2, options, values);
}

/* The whole file, NUL-terminated, for free(); NULL: it is not there. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *data = NULL;
	size_t length = 0, room = 0;

	if (!file)
		return NULL;
	do {
		room += 1 << 16;
		data = realloc(data, room + 1);
		length += fread(data + length, 1, room - length, file);
	} while (length == room);
	fclose(file);
	data[length] = 0;
	return data;
}

/*
 * PTX_ASSEMBLER=COMMAND: what the driver gets in place of the text is the file OUT of `COMMAND IN OUT`. NULL: the
 * command has failed, as it does for a text that the assembler's target does not have.
 */
static char *assemble(const char *command, const char *text)
{
	char folder[] = "/tmp/ptx-XXXXXX", in[64], out[64], line[512], *image = NULL;
	FILE *file;

	if (!mkdtemp(folder))
		return NULL;
	snprintf(in, sizeof(in), "%s/in.ptx", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	file = fopen(in, "w");
	if (file) {
		fputs(text, file);
		fclose(file);
		snprintf(line, sizeof(line), "%s %s %s", command, in, out);
		if (system(line) == 0)
			image = read_file(out);
	}
	unlink(in);
	unlink(out);
	rmdir(folder);
	return image;
}

static CUresult load(CUmodule *module, const char *text)
{
	const char *command = getenv("PTX_ASSEMBLER");
	char *image = command ? assemble(command, text) : NULL;
	CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;

	if (!command || image)
		result = load_image(module, command ? image : text);
	free(image);
	return result;
}

CUresult cuda_run(const char *text, const struct cuda_shape *shape, const CUdeviceptr *pointers, unsigned count,
		  const char **step)
{
	const unsigned *b = shape->blocks, *t = shape->threads;
	void *params[8];
	CUmodule module;
	CUfunction f;
	CUresult result;

	for (unsigned n = 0; n < count; n++)
		params[n] = (void *)&pointers[n];
	*step = "load";
	result = load(&module, text);
	if (result)
		return result;
	result = cuModuleGetFunction(&f, module, "test");
	if (!result) {
		*step = "launch";
		result = cuLaunchKernel(f, b[0], b[1], b[2], t[0], t[1], t[2], 0, NULL, params, NULL);
	}
	if (!result) {
		*step = "run";
		result = cuCtxSynchronize();
	}
	cuModuleUnload(module);
	return result;
}

const char *cuda_log(void)
{
	return log_text;
}
