/* SPDX-License-Identifier: Apache-2.0 */
/* The driver functions that this back end has: cpu_NAME implements NAME. */
#ifndef VCUDA_CPU_OPS_H
#define VCUDA_CPU_OPS_H

#include "protocol/backend.h"

/* One group for each object; new entries go to the end of their group. */
/* clang-format off */
#define SOFTGPU_FUNCTIONS(X) \
	X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) \
	X(cuDeviceGetUuid_v2) X(cuDeviceTotalMem_v2) X(cuDeviceGetAttribute) X(cuDeviceGetPCIBusId) \
	X(cuDeviceGetP2PAttribute) X(cuDeviceGetP2PAtomicCapabilities) X(cuDeviceCanAccessPeer) X(cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset_v2) X(cuDevicePrimaryCtxGetState) \
	X(cuDevicePrimaryCtxSetFlags_v2) X(cuDeviceGetHostAtomicCapabilities) X(cuDeviceGetTexture1DLinearMaxWidth) \
	X(cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxPopCurrent_v2) \
	X(cuCtxSynchronize) X(cuCtxGetLimit) X(cuCtxSetLimit) X(cuCtxGetCacheConfig) X(cuCtxSetCacheConfig) \
	X(cuCtxGetStreamPriorityRange) X(cuCtxGetFlags) X(cuCtxSetFlags) X(cuCtxEnablePeerAccess) \
	X(cuCtxDisablePeerAccess) X(cuCtxGetExecAffinity) X(cuProfilerStart) X(cuProfilerStop) \
	X(cuMemGetInfo_v2) X(cuMemAlloc_v2) X(cuMemAllocPitch_v2) X(cuMemFree_v2) X(cuMemHostRegister_v2) \
	X(cuMemHostUnregister) X(cuMemHostGetDevicePointer_v2) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) \
	X(cuMemcpyDtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync_v2) \
	X(cuMemsetD8_v2) X(cuMemsetD16_v2) X(cuMemsetD32_v2) X(cuMemsetD8Async) X(cuMemsetD16Async) \
	X(cuMemsetD32Async) X(cuMemsetD2D8Async) X(cuMemsetD2D16Async) X(cuMemsetD2D32Async) \
	X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemAllocFromPoolAsync) X(cuMemPoolCreate) X(cuMemPoolDestroy) \
	X(cuMemPoolTrimTo) X(cuMemPoolGetAttribute) X(cuMemPoolSetAttribute) X(cuDeviceGetDefaultMemPool) \
	X(cuDeviceGetMemPool) X(cuDeviceSetMemPool) X(cuMemPoolSetAccess) X(cuMemPoolGetAccess) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) \
	X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemGetAccess) \
	X(cuMemGetAllocationGranularity) X(hostPlace) X(hostLeave) \
	X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle_v2) X(cuIpcCloseMemHandle) X(cuMemGetAddressRange_v2) \
	X(cuIpcGetEventHandle) X(cuIpcOpenEventHandle) X(cuMemExportToShareableHandle) \
	X(cuMemImportFromShareableHandle) X(cuMemPoolExportToShareableHandle) \
	X(cuMemPoolImportFromShareableHandle) X(cuMemPoolExportPointer) X(cuMemPoolImportPointer) \
	X(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2) \
	X(codeNames) \
	X(cuLibraryLoadData) X(cuLibraryUnload) X(cuLibraryGetKernel) X(cuLibraryGetModule) \
	X(cuLibraryGetGlobal) X(cuLibraryGetManaged) X(managedCount) X(managedBytes) X(managedPlace) X(managedDrop) \
	X(cuKernelGetFunction) X(cuKernelSetAttribute) X(cuFuncGetAttribute) X(cuFuncSetAttribute) \
	X(cuFuncSetCacheConfig) X(cuFuncGetModule) X(cuFuncGetParamInfo) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) X(cuOccupancyAvailableDynamicSMemPerBlock) \
	X(cuLaunchKernel) X(cuLaunchCooperativeKernel) \
	X(cuStreamCreateWithPriority) X(cuStreamDestroy_v2) X(cuStreamQuery) X(cuStreamSynchronize) \
	X(cuStreamWaitEvent) X(cuStreamGetPriority) X(cuStreamGetFlags) X(cuStreamAddCallback) \
	X(cuStreamBatchMemOp_v2) X(cuCtxRecordEvent) X(cuCtxWaitEvent) X(contextEnds) X(hostUnregister) \
	X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecordWithFlags) X(cuEventQuery) X(cuEventSynchronize) \
	X(cuEventElapsedTime_v2) \
	X(cuArray3DCreate_v2) X(cuArrayDestroy) X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy) \
	X(cuMipmappedArrayGetLevel) X(cuMemcpy3DAsync_v2) X(cuTexObjectCreate) X(cuTexObjectDestroy) \
	X(cuSurfObjectCreate) X(cuSurfObjectDestroy) X(blas) X(matmulAsk) X(matmul) X(transform) X(randomCreate) X(randomDestroy) X(random) X(randomScrambles) \
	X(cuTensorMapEncodeTiled) X(cuTensorMapEncodeIm2col) X(cuTensorMapReplaceAddress) \
	X(cuLinkCreate_v2) X(cuLinkAddData_v2) X(cuLinkComplete) X(cuLinkDestroy) \
	X(cuGraphCreate) X(cuGraphAddEmptyNode) X(cuGraphAddKernelNode_v2) X(cuGraphKernelNodeSetAttribute) \
	X(cuGraphAddMemsetNode) X(cuGraphAddMemcpyNode) X(cuGraphAddNode_v2) X(cuGraphConditionalHandleCreate) \
	X(cuGraphInstantiateWithParams) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroyNode) X(cuGraphDestroy)
/* clang-format on */

#define X(name) __typeof__(*((struct vcuda_backend_ops *)0)->name) softgpu_##name;
SOFTGPU_FUNCTIONS(X)
#undef X

#endif
