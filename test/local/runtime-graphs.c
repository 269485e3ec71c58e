/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of graphs through the runtime: in the general form, of variables, of events; and how a graph is drawn. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/cuda-runtime-abi.h"
#include "test/check.h"

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *thread,
			    void *block, void *block_size, void *grid_size, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
		       int global);

cudaError_t cudaMalloc(void **address, size_t bytes);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaFree(void *address);
cudaError_t cudaMemset(void *address, int value, size_t bytes);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
			     const cudaGraphEdgeData *data, size_t count, struct cudaGraphNodeParams *params);
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t count,
				   const struct cudaMemsetParams *params);
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph, unsigned int value,
					     unsigned int flags);
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *params);
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, struct cudaGraphNodeParams *params);
cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					   size_t count, const void *symbol, const void *from, size_t bytes,
					   size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					     size_t count, void *to, const void *symbol, size_t bytes, size_t offset,
					     enum cudaMemcpyKind kind);
cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *from,
						 size_t bytes, size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
						       const void *symbol, size_t bytes, size_t offset,
						       enum cudaMemcpyKind kind);
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *params);
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event);
cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event);
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event);
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
					    const cudaLaunchAttributeValue *value);
cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
					    cudaLaunchAttributeValue *value);
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from);
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags);

/* variable[0] = variable[0] * k */
static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			  ".visible .global .align 4 .b8 variable[16];\n"
			  ".visible .entry times(.param .u32 k)\n"
			  "{\n"
			  "	.reg .b32 %r<4>;\n"
			  "	ld.param.u32 %r1, [k];\n"
			  "	ld.global.u32 %r2, [variable];\n"
			  "	mul.lo.u32 %r3, %r1, %r2;\n"
			  "	st.global.u32 [variable], %r3;\n"
			  "	ret;\n"
			  "}\n";

static char variable; /* the address is the handle of the variable above */

static void times(void)
{
}

static cudaStream_t stream;

static cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNode_t behind, struct cudaGraphNodeParams *p)
{
	cudaGraphNode_t node;

	OK(cudaGraphAddNode(&node, graph, &behind, NULL, behind ? 1 : 0, p));
	return node;
}

static struct cudaGraphNodeParams kernel(uint32_t **argument)
{
	struct cudaGraphNodeParams p = {.type = cudaGraphNodeTypeKernel};

	p.kernel.func = (void *)times;
	p.kernel.gridDim = (dim3){1, 1, 1};
	p.kernel.blockDim = (dim3){1, 1, 1};
	p.kernel.kernelParams = (void **)argument;
	return p;
}

/* In, times 3, out: then times 5, from another place, to another place. */
static void variables(void)
{
	uint32_t in[2] = {7, 11}, out[2] = {0, 0}, k = 3, *argument = &k;
	struct cudaGraphNodeParams p = kernel(&argument);
	struct cudaMemcpy3DParms described;
	cudaGraphNode_t to, times_k, from;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	OK(cudaGraphCreate(&graph, 0));
	OK(cudaGraphAddMemcpyNodeToSymbol(&to, graph, NULL, 0, &variable, &in[0], 4, 0, cudaMemcpyHostToDevice));
	times_k = add(graph, to, &p);
	OK(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &times_k, 1, &out[0], &variable, 4, 0, cudaMemcpyDefault));
	GIVES(cudaGraphAddMemcpyNodeToSymbol(&to, graph, NULL, 0, &variable, in, 8, 12, cudaMemcpyHostToDevice),
	      cudaErrorInvalidValue);
	GIVES(cudaGraphAddMemcpyNodeToSymbol(&to, graph, NULL, 0, in, in, 4, 0, cudaMemcpyHostToDevice),
	      cudaErrorInvalidSymbol);
	OK(cudaGraphMemcpyNodeGetParams(to, &described));
	CHECK(described.srcPtr.ptr == &in[0] && described.extent.width == 4 &&
	      described.kind == cudaMemcpyHostToDevice);
	OK(cudaGraphInstantiate(&exec, graph, 0));
	OK(cudaGraphLaunch(exec, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(out[0] == 21);
	k = 5;
	OK(cudaGraphExecNodeSetParams(exec, times_k, &p));
	OK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, from, &out[1], &variable, 4, 0, cudaMemcpyDeviceToHost));
	OK(cudaGraphLaunch(exec, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(out[0] == 21 && out[1] == 35);
	OK(cudaGraphExecDestroy(exec));
	OK(cudaGraphMemcpyNodeSetParamsToSymbol(to, &variable, &in[1], 4, 0, cudaMemcpyHostToDevice));
	OK(cudaGraphNodeSetParams(times_k, &p));
	OK(cudaGraphInstantiate(&exec, graph, 0));
	OK(cudaGraphLaunch(exec, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(out[0] == 55);
	OK(cudaGraphExecDestroy(exec));
	OK(cudaGraphDestroy(graph));
}

/* A conditional node: its body is filled by the runtime's calls, and runs where the condition is not 0. */
static void conditional(void)
{
	for (unsigned int value = 0; value < 2; value++) {
		struct cudaGraphNodeParams decide = {.type = cudaGraphNodeTypeConditional};
		cudaGraph_t graph, body;
		cudaGraphNode_t node;
		cudaGraphExec_t exec;
		uint32_t *device, out;

		OK(cudaMalloc((void **)&device, 4));
		OK(cudaMemset(device, 0, 4));
		OK(cudaGraphCreate(&graph, 0));
		OK(cudaGraphConditionalHandleCreate(&decide.conditional.handle, graph, value,
						    cudaGraphCondAssignDefault));
		decide.conditional.type = cudaGraphCondTypeIf;
		decide.conditional.size = 1;
		OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &decide));
		body = decide.conditional.phGraph_out[0];
		OK(cudaGraphAddMemsetNode(
			&node, body, NULL, 0,
			&(struct cudaMemsetParams){
				.dst = device, .value = 5, .elementSize = 1, .width = 4, .height = 1}));
		OK(cudaGraphInstantiate(&exec, graph, 0));
		OK(cudaGraphLaunch(exec, NULL));
		OK(cudaMemcpy(&out, device, 4, cudaMemcpyDeviceToHost));
		CHECK(out == (value ? 0x05050505u : 0u));
		OK(cudaGraphExecDestroy(exec));
		OK(cudaGraphDestroy(graph));
		OK(cudaFree(device));
	}
}

/* The other types, in the general form. */
static void general(void)
{
	struct cudaGraphNodeParams fill = {.type = cudaGraphNodeTypeMemset}, copy = {.type = cudaGraphNodeTypeMemcpy},
				   record = {.type = cudaGraphNodeTypeEventRecord},
				   wait = {.type = cudaGraphNodeTypeWaitEvent},
				   decide = {.type = cudaGraphNodeTypeConditional},
				   memory = {.type = cudaGraphNodeTypeMemAlloc};
	cudaGraphNode_t at, record_node, wait_node;
	uint32_t out[4] = {0};
	cudaEvent_t first, second, got;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	void *device;

	OK(cudaMalloc(&device, 16));
	OK(cudaEventCreate(&first));
	OK(cudaEventCreate(&second));
	OK(cudaGraphCreate(&graph, 0));
	fill.memset = (struct cudaMemsetParams){device, 0, 0x1234, 4, 4, 1};
	at = add(graph, NULL, &fill);
	record.eventRecord.event = first;
	at = record_node = add(graph, at, &record);
	wait.eventWait.event = first;
	at = wait_node = add(graph, at, &wait);
	copy.memcpy.copyParams.srcPtr = (struct cudaPitchedPtr){device, 16, 16, 1};
	copy.memcpy.copyParams.dstPtr = (struct cudaPitchedPtr){out, 16, 16, 1};
	copy.memcpy.copyParams.extent = (struct cudaExtent){16, 1, 1};
	copy.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
	at = add(graph, at, &copy);
	GIVES(cudaGraphAddNode(&at, graph, NULL, NULL, 0, &decide), cudaErrorInvalidValue);
	GIVES(cudaGraphAddNode(&at, graph, NULL, NULL, 0, NULL), cudaErrorInvalidValue);
	memory.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
	memory.alloc.poolProps.location = (struct cudaMemLocation){cudaMemLocationTypeDevice, 0};
	memory.alloc.bytesize = 4096;
	add(graph, NULL, &memory);
	CHECK(memory.alloc.dptr);
	OK(cudaGraphEventRecordNodeGetEvent(record_node, &got));
	CHECK(got == first);
	OK(cudaGraphEventRecordNodeSetEvent(record_node, second));
	OK(cudaGraphEventRecordNodeGetEvent(record_node, &got));
	CHECK(got == second);
	GIVES(cudaGraphEventRecordNodeGetEvent(wait_node, &got), cudaErrorInvalidValue);
	OK(cudaGraphInstantiate(&exec, graph, 0));
	OK(cudaGraphExecEventWaitNodeSetEvent(exec, wait_node, second));
	OK(cudaGraphLaunch(exec, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(out[0] == 0x1234 && out[3] == 0x1234);
	OK(cudaEventQuery(second));
	OK(cudaGraphExecDestroy(exec));
	OK(cudaGraphDestroy(graph));
}

static void drawn(void)
{
	uint32_t k = 3, *argument = &k;
	struct cudaGraphNodeParams p = kernel(&argument), child = {.type = cudaGraphNodeTypeGraph},
				   empty = {.type = cudaGraphNodeTypeEmpty};
	cudaLaunchAttributeValue value = {.cooperative = 1};
	char path[] = "/tmp/vcuda-graph-XXXXXX", text[4096];
	cudaGraphNode_t a, b;
	cudaGraph_t graph, inner;
	size_t length;
	FILE *f;
	int fd;

	OK(cudaGraphCreate(&graph, 0));
	OK(cudaGraphCreate(&inner, 0));
	add(inner, NULL, &empty);
	a = add(graph, NULL, &p);
	b = add(graph, a, &p);
	OK(cudaGraphKernelNodeSetAttribute(a, cudaLaunchAttributeCooperative, &value));
	OK(cudaGraphKernelNodeCopyAttributes(b, a));
	memset(&value, 0, sizeof(value));
	OK(cudaGraphKernelNodeGetAttribute(b, cudaLaunchAttributeCooperative, &value));
	CHECK(value.cooperative == 1);
	child.graph.graph = inner;
	add(graph, b, &child);
	GIVES(cudaGraphKernelNodeCopyAttributes(b, NULL), cudaErrorInvalidValue);
	fd = mkstemp(path);
	CHECK(fd >= 0);
	OK(cudaGraphDebugDotPrint(graph, path, 1));
	f = fdopen(fd, "r");
	CHECK(f);
	length = fread(text, 1, sizeof(text) - 1, f);
	text[length] = 0;
	fclose(f);
	unlink(path);
	CHECK(!strncmp(text, "digraph", 7) && text[length - 2] == '}');
	CHECK(strstr(text, "KERNEL\\ntimes\\ngrid 1,1,1") && strstr(text, "\"0\" -> \"1\"") && strstr(text, "\"2.0\""));
	GIVES(cudaGraphDebugDotPrint(graph, "/dev/null/graph.dot", 0), cudaErrorOperatingSystem);
	GIVES(cudaGraphDebugDotPrint(graph, NULL, 0), cudaErrorInvalidValue);
	OK(cudaGraphDestroy(inner));
	OK(cudaGraphDestroy(graph));
}

/* A program that closes a shared library with kernels does not know the captures elsewhere. */
static void closed_beside_a_capture(void **handle)
{
	cudaGraph_t graph;

	OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	__cudaUnregisterFatBinary(handle);
	OK(cudaStreamEndCapture(stream, &graph));
	OK(cudaGraphDestroy(graph));
}

int main(void)
{
	struct {
		uint32_t magic, version;
		const void *data, *unused;
	} wrapper = {0x466243b1, 1, ptx, NULL};
	void **handle = __cudaRegisterFatBinary(&wrapper);

	__cudaRegisterFunction(handle, (const char *)times, NULL, "times", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterVar(handle, &variable, NULL, "variable", 0, 16, 0, 0);
	__cudaRegisterFatBinaryEnd(handle);
	OK(cudaStreamCreate(&stream));
	variables();
	general();
	conditional();
	drawn();
	closed_beside_a_capture(handle);
	printf("runtime-graphs: passed\n");
	return 0;
}
