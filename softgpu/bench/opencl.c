/* SPDX-License-Identifier: Apache-2.0 */
/* The same kernels in OpenCL C, on the platform whose name begins with "Portable" (PoCL), or else on the first CPU. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu.h"

static cl_context context;
static cl_device_id device;
static cl_command_queue queue;
static cl_program program;
static cl_kernel kernel;
static cl_mem buffers[MAX_BUFFERS];

static bool check(cl_int result, const char *what)
{
	if (result != CL_SUCCESS)
		fprintf(stderr, "%s failed with OpenCL error %d\n", what, (int)result);
	return result == CL_SUCCESS;
}

static bool find_device(void)
{
	cl_platform_id platforms[16];
	cl_uint count = 0;
	char name[256];
	cl_device_id candidate;

	if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS)
		count = 0;
	for (cl_uint n = 0; n < count && n < 16; n++) {
		if (clGetDeviceIDs(platforms[n], CL_DEVICE_TYPE_CPU, 1, &candidate, NULL) != CL_SUCCESS)
			continue;
		if (clGetPlatformInfo(platforms[n], CL_PLATFORM_NAME, sizeof(name), name, NULL) != CL_SUCCESS)
			continue;
		if (!device || !strncmp(name, "Portable", 8))
			device = candidate;
	}
	if (!device)
		fprintf(stderr, "no OpenCL CPU device: install pocl-opencl-icd\n");
	return device != NULL;
}

static bool build(const char *path)
{
	char *text = calloc(1, 1 << 20), log[4096] = "";
	const char *source = text;
	FILE *f = fopen(path, "r");
	cl_int result;

	if (!f || !text || !fread(text, 1, (1 << 20) - 1, f))
		return false;
	fclose(f);
	program = clCreateProgramWithSource(context, 1, &source, NULL, &result);
	if (!check(result, "clCreateProgramWithSource"))
		return false;
	result = clBuildProgram(program, 1, &device, "", NULL, NULL);
	if (result != CL_SUCCESS)
		clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof(log), log, NULL);
	fputs(log, stderr);
	free(text);
	return check(result, "clBuildProgram");
}

/* args: the file with the kernels */
static bool open_opencl(char **args)
{
	char version[256];
	cl_int result;

	if (!find_device())
		return false;
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &result);
	if (!check(result, "clCreateContext"))
		return false;
	queue = clCreateCommandQueue(context, device, 0, &result);
	if (!check(result, "clCreateCommandQueue") || !build(args[0]))
		return false;
	if (clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof(version), version, NULL) == CL_SUCCESS)
		fprintf(stderr, "version: %s\n", version);
	return true;
}

static bool prepare(const struct bench_case *c, void **host)
{
	const char *name = c->opencl ? c->opencl : c->kernel;
	cl_int result;
	cl_uint at = 0;

	kernel = clCreateKernel(program, name, &result);
	if (!check(result, name))
		return false;
	for (; at < MAX_BUFFERS && c->buffers[at].count; at++) {
		buffers[at] = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, c->buffers[at].count * 4, host[at],
					     &result);
		if (!check(result, "clCreateBuffer") ||
		    !check(clSetKernelArg(kernel, at, sizeof(cl_mem), &buffers[at]), "clSetKernelArg"))
			return false;
	}
	if (c->scale && !check(clSetKernelArg(kernel, at++, sizeof(float), &c->scale), "clSetKernelArg"))
		return false;
	for (unsigned n = 0; n < c->int_count; n++)
		if (!check(clSetKernelArg(kernel, at++, sizeof(int), &c->ints[n]), "clSetKernelArg"))
			return false;
	return true;
}

static bool run(const struct bench_case *c)
{
	size_t local[2] = {c->block[0], c->block[1]}, global[2] = {local[0] * c->grid[0], local[1] * c->grid[1]};

	return check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL), "clEnqueueNDRangeKernel") &&
	       check(clFinish(queue), "clFinish");
}

static void fetch(const struct bench_case *c, void *to)
{
	check(clEnqueueReadBuffer(queue, buffers[c->output], CL_TRUE, 0, c->buffers[c->output].count * 4, to, 0, NULL, NULL),
	      "clEnqueueReadBuffer");
}

static void end(const struct bench_case *c)
{
	for (unsigned n = 0; n < MAX_BUFFERS && c->buffers[n].count; n++)
		clReleaseMemObject(buffers[n]);
	clReleaseKernel(kernel);
}

const struct side opencl_side = {open_opencl, prepare, run, fetch, end, NULL};
