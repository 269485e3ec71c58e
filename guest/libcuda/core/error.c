/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request.h"
#include "protocol/cuda-functions.h"

/* clang-format off */
static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define ERROR(code, text) {code, #code, text},
	ERROR(CUDA_SUCCESS, "no error")
	ERROR(CUDA_ERROR_INVALID_VALUE, "an argument is out of range or does not fit the others")
	ERROR(CUDA_ERROR_OUT_OF_MEMORY, "there is not enough memory")
	ERROR(CUDA_ERROR_NOT_INITIALIZED, "CUDA was not initialised in this process")
	ERROR(CUDA_ERROR_DEINITIALIZED, "CUDA is shutting down")
	ERROR(CUDA_ERROR_PROFILER_DISABLED, "the profiler is off")
	ERROR(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "the profiler was not set up")
	ERROR(CUDA_ERROR_PROFILER_ALREADY_STARTED, "the profiler runs already")
	ERROR(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "the profiler has stopped already")
	ERROR(CUDA_ERROR_STUB_LIBRARY, "a stub took the place of the driver library")
	ERROR(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "the call needs a newer driver")
	ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is busy or may not be used")
	ERROR(CUDA_ERROR_NO_DEVICE, "there is no CUDA device")
	ERROR(CUDA_ERROR_INVALID_DEVICE, "there is no device of that number")
	ERROR(CUDA_ERROR_DEVICE_NOT_LICENSED, "the device lacks a licence")
	ERROR(CUDA_ERROR_INVALID_IMAGE, "the module image cannot be read")
	ERROR(CUDA_ERROR_INVALID_CONTEXT, "there is no such context, or none is current")
	ERROR(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "the context is current already")
	ERROR(CUDA_ERROR_MAP_FAILED, "mapping failed")
	ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping failed")
	ERROR(CUDA_ERROR_ARRAY_IS_MAPPED, "the array is mapped")
	ERROR(CUDA_ERROR_ALREADY_MAPPED, "the resource is mapped already")
	ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no code in the image fits the device")
	ERROR(CUDA_ERROR_ALREADY_ACQUIRED, "the resource is held already")
	ERROR(CUDA_ERROR_NOT_MAPPED, "the resource is not mapped")
	ERROR(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "the resource is not mapped as an array")
	ERROR(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "the resource is not mapped as a pointer")
	ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "device memory is damaged beyond correction")
	ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "the device does not have that limit")
	ERROR(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "the context is bound to another thread")
	ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot reach each other's memory")
	ERROR(CUDA_ERROR_INVALID_PTX, "the PTX does not compile")
	ERROR(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "the graphics context is not usable")
	ERROR(CUDA_ERROR_NVLINK_UNCORRECTABLE, "NVLink had an error beyond correction")
	ERROR(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "the PTX compiler is missing")
	ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX is of a version newer than the compiler")
	ERROR(CUDA_ERROR_JIT_COMPILATION_DISABLED, "compiling PTX is switched off")
	ERROR(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the device does not support that execution affinity")
	ERROR(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, "the code waits for launches on the device, which is not supported")
	ERROR(CUDA_ERROR_CONTAINED, "a device error was contained; other work was not affected")
	ERROR(CUDA_ERROR_INVALID_SOURCE, "the source of a kernel is not valid")
	ERROR(CUDA_ERROR_FILE_NOT_FOUND, "the file cannot be opened")
	ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "a shared library lacks a symbol")
	ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "a shared library could not be set up")
	ERROR(CUDA_ERROR_OPERATING_SYSTEM, "the operating system refused")
	ERROR(CUDA_ERROR_INVALID_HANDLE, "the handle names no live object of the kind wanted")
	ERROR(CUDA_ERROR_ILLEGAL_STATE, "the object is not in a state that allows this")
	ERROR(CUDA_ERROR_LOSSY_QUERY, "the answer would leave information out")
	ERROR(CUDA_ERROR_NOT_FOUND, "there is nothing of that name")
	ERROR(CUDA_ERROR_NOT_READY, "the work is not finished yet")
	ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel used memory that it has no access to")
	ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the launch needs more registers or threads than the device has")
	ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran for too long")
	ERROR(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "the kernel uses textures in another mode")
	ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is on already")
	ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not on")
	ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is in use")
	ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed or is not active")
	ERROR(CUDA_ERROR_ASSERT, "an assertion in a kernel failed")
	ERROR(CUDA_ERROR_TOO_MANY_PEERS, "no more peers can be had")
	ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part of the memory is registered already")
	ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not registered")
	ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "a kernel broke its call stack")
	ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel met an instruction that the device does not have")
	ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel used an address that is not aligned")
	ERROR(CUDA_ERROR_INVALID_ADDRESS_SPACE, "a kernel used an address of the wrong address space")
	ERROR(CUDA_ERROR_INVALID_PC, "a kernel jumped to where there is no code")
	ERROR(CUDA_ERROR_LAUNCH_FAILED, "a kernel, or the process that ran it, ended with an error")
	ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the blocks of a cooperative launch do not all fit the device at once")
	ERROR(CUDA_ERROR_TENSOR_MEMORY_LEAK, "a kernel ended without giving its tensor memory back")
	ERROR(CUDA_ERROR_NOT_PERMITTED, "this is not permitted")
	ERROR(CUDA_ERROR_NOT_SUPPORTED, "this is not supported")
	ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "the system is still starting")
	ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "parts of the driver are of versions that do not fit")
	ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "the device does not support forward compatibility")
	ERROR(CUDA_ERROR_MPS_CONNECTION_FAILED, "the MPS daemon cannot be reached")
	ERROR(CUDA_ERROR_MPS_RPC_FAILURE, "the MPS daemon did not answer")
	ERROR(CUDA_ERROR_MPS_SERVER_NOT_READY, "the MPS daemon is not ready")
	ERROR(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "MPS has no room for another client")
	ERROR(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "MPS has no room for another connection")
	ERROR(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS daemon ended this client")
	ERROR(CUDA_ERROR_CDP_NOT_SUPPORTED, "launches from kernels are not supported")
	ERROR(CUDA_ERROR_CDP_VERSION_MISMATCH, "launches from kernels of different versions cannot be mixed")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "this cannot be done while the stream is captured")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture failed earlier")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would be joined")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was not begun on this stream")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a captured stream was not joined to the one that began")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "captured work would depend on work outside the capture")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "captured work would depend on the legacy stream")
	ERROR(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture")
	ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture")
	ERROR(CUDA_ERROR_TIMEOUT, "it took too long")
	ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph has changed too much to be updated")
	ERROR(CUDA_ERROR_EXTERNAL_DEVICE, "a device outside CUDA failed")
	ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the cluster size is not possible")
	ERROR(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded yet")
	ERROR(CUDA_ERROR_INVALID_RESOURCE_TYPE, "the resource is of a type that does not fit")
	ERROR(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "the resources are split in a way that is not possible")
	ERROR(CUDA_ERROR_KEY_ROTATION, "a key is being changed; try again")
	ERROR(CUDA_ERROR_UNKNOWN, "an error with no further description")
#undef ERROR
};
/* clang-format on */

/* Both give NULL for a number that is no error. */

VCUDA_EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*name = errors[i].name;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*text = errors[i].text;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
