/* SPDX-License-Identifier: Apache-2.0 */
/* Names and one-line explanations of the runtime's errors. */
#include "error-number.h"

struct explanation {
	cudaError_t error;
	const char *name, *text;
};

#define E(error, text)                                                                                                 \
	{                                                                                                              \
		error, #error, text                                                                                    \
	}

/* In ascending order. */
static const struct explanation explanations[] = {
	E(cudaSuccess, "no error"),
	E(cudaErrorInvalidValue, "invalid argument"),
	E(cudaErrorMemoryAllocation, "out of memory"),
	E(cudaErrorInitializationError, "the driver could not be initialised"),
	E(cudaErrorCudartUnloading, "the driver is shutting down"),
	E(cudaErrorProfilerDisabled, "the profiler is disabled for this process"),
	E(cudaErrorProfilerNotInitialized, "the profiler was not initialised"),
	E(cudaErrorProfilerAlreadyStarted, "the profiler already runs"),
	E(cudaErrorProfilerAlreadyStopped, "the profiler does not run"),
	E(cudaErrorInvalidConfiguration, "invalid launch configuration"),
	E(cudaErrorInvalidPitchValue, "a pitch is too small or too large"),
	E(cudaErrorInvalidSymbol, "no such device symbol"),
	E(cudaErrorInvalidHostPointer, "invalid host pointer"),
	E(cudaErrorInvalidDevicePointer, "invalid device pointer"),
	E(cudaErrorInvalidTexture, "invalid texture"),
	E(cudaErrorInvalidTextureBinding, "the texture is not bound as this call needs it"),
	E(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
	E(cudaErrorInvalidMemcpyDirection, "invalid direction of a copy"),
	E(cudaErrorAddressOfConstant, "address of a constant taken"),
	E(cudaErrorTextureFetchFailed, "a texture fetch failed"),
	E(cudaErrorTextureNotBound, "the texture is not bound"),
	E(cudaErrorSynchronizationError, "a synchronisation failed"),
	E(cudaErrorInvalidFilterSetting, "this texture cannot be filtered linearly"),
	E(cudaErrorInvalidNormSetting, "this texture cannot be read as normalised float"),
	E(cudaErrorMixedDeviceExecution, "device and emulated code were mixed"),
	E(cudaErrorNotYetImplemented, "not implemented yet"),
	E(cudaErrorMemoryValueTooLarge, "a memory value is too large"),
	E(cudaErrorStubLibrary, "the program runs with a stub instead of the driver library"),
	E(cudaErrorInsufficientDriver, "the driver is too old for this runtime"),
	E(cudaErrorCallRequiresNewerDriver, "the driver is too old for this call"),
	E(cudaErrorInvalidSurface, "invalid surface"),
	E(cudaErrorDuplicateVariableName, "two device variables share a name"),
	E(cudaErrorDuplicateTextureName, "two textures share a name"),
	E(cudaErrorDuplicateSurfaceName, "two surfaces share a name"),
	E(cudaErrorDevicesUnavailable, "all devices are busy or unavailable"),
	E(cudaErrorIncompatibleDriverContext, "the current driver context does not suit the runtime"),
	E(cudaErrorMissingConfiguration, "the launch was not configured"),
	E(cudaErrorPriorLaunchFailure, "an earlier launch failed"),
	E(cudaErrorLaunchMaxDepthExceeded, "device-side launches are nested too deeply"),
	E(cudaErrorLaunchFileScopedTex, "a device-side launch cannot use file-scope textures"),
	E(cudaErrorLaunchFileScopedSurf, "a device-side launch cannot use file-scope surfaces"),
	E(cudaErrorSyncDepthExceeded, "device-side synchronisation is nested too deeply"),
	E(cudaErrorLaunchPendingCountExceeded, "too many device-side launches are pending"),
	E(cudaErrorInvalidDeviceFunction, "no such device function"),
	E(cudaErrorNoDevice, "no CUDA device was found"),
	E(cudaErrorInvalidDevice, "no device has this number"),
	E(cudaErrorDeviceNotLicensed, "the device is not licensed"),
	E(cudaErrorSoftwareValidityNotEstablished, "the driver could not be verified"),
	E(cudaErrorStartupFailure, "the runtime failed to start"),
	E(cudaErrorInvalidKernelImage, "a device code image is invalid"),
	E(cudaErrorDeviceUninitialized, "no valid context is current"),
	E(cudaErrorMapBufferObjectFailed, "a buffer object could not be mapped"),
	E(cudaErrorUnmapBufferObjectFailed, "a buffer object could not be unmapped"),
	E(cudaErrorArrayIsMapped, "the array is mapped"),
	E(cudaErrorAlreadyMapped, "the resource is mapped already"),
	E(cudaErrorNoKernelImageForDevice, "the program holds no code for this device"),
	E(cudaErrorAlreadyAcquired, "the resource is acquired already"),
	E(cudaErrorNotMapped, "the resource is not mapped"),
	E(cudaErrorNotMappedAsArray, "the resource is not mapped as an array"),
	E(cudaErrorNotMappedAsPointer, "the resource is not mapped as a pointer"),
	E(cudaErrorECCUncorrectable, "device memory has an uncorrectable error"),
	E(cudaErrorUnsupportedLimit, "the device does not know this limit"),
	E(cudaErrorDeviceAlreadyInUse, "another thread uses the device exclusively"),
	E(cudaErrorPeerAccessUnsupported, "these devices cannot access one another"),
	E(cudaErrorInvalidPtx, "the PTX of a kernel could not be compiled"),
	E(cudaErrorInvalidGraphicsContext, "invalid graphics context"),
	E(cudaErrorNvlinkUncorrectable, "NVLink had an uncorrectable error"),
	E(cudaErrorJitCompilerNotFound, "the PTX compiler was not found"),
	E(cudaErrorUnsupportedPtxVersion, "the PTX is too new for the driver's compiler"),
	E(cudaErrorJitCompilationDisabled, "compilation of PTX is disabled"),
	E(cudaErrorUnsupportedExecAffinity, "the device does not support this execution affinity"),
	E(cudaErrorUnsupportedDevSideSync, "device-side cudaDeviceSynchronize is not supported"),
	E(cudaErrorContained, "an error in device memory was contained; the process must restart"),
	E(cudaErrorInvalidSource, "invalid device source"),
	E(cudaErrorFileNotFound, "file not found"),
	E(cudaErrorSharedObjectSymbolNotFound, "a shared library lacks a symbol"),
	E(cudaErrorSharedObjectInitFailed, "a shared library failed to initialise"),
	E(cudaErrorOperatingSystem, "a call to the operating system failed"),
	E(cudaErrorInvalidResourceHandle, "invalid handle"),
	E(cudaErrorIllegalState, "an object is in a state that this call does not allow"),
	E(cudaErrorLossyQuery, "the answer would lose information"),
	E(cudaErrorSymbolNotFound, "no such name"),
	E(cudaErrorNotReady, "the device has not finished"),
	E(cudaErrorIllegalAddress, "a kernel accessed memory that does not belong to it"),
	E(cudaErrorLaunchOutOfResources, "the launch needs more resources than the device has"),
	E(cudaErrorLaunchTimeout, "a kernel ran too long and was stopped"),
	E(cudaErrorLaunchIncompatibleTexturing, "the launch uses an incompatible texturing mode"),
	E(cudaErrorPeerAccessAlreadyEnabled, "peer access is enabled already"),
	E(cudaErrorPeerAccessNotEnabled, "peer access is not enabled"),
	E(cudaErrorSetOnActiveProcess, "too late: a context exists already"),
	E(cudaErrorContextIsDestroyed, "the context was destroyed"),
	E(cudaErrorAssert, "an assertion failed in a kernel"),
	E(cudaErrorTooManyPeers, "no more peers can be enabled"),
	E(cudaErrorHostMemoryAlreadyRegistered, "part of this memory is registered already"),
	E(cudaErrorHostMemoryNotRegistered, "this memory is not registered"),
	E(cudaErrorHardwareStackError, "the call stack of a kernel is damaged or too deep"),
	E(cudaErrorIllegalInstruction, "a kernel ran an illegal instruction"),
	E(cudaErrorMisalignedAddress, "a kernel accessed a misaligned address"),
	E(cudaErrorInvalidAddressSpace, "a kernel used an address of the wrong kind"),
	E(cudaErrorInvalidPc, "a kernel jumped to an invalid address"),
	E(cudaErrorLaunchFailure, "a kernel failed"),
	E(cudaErrorCooperativeLaunchTooLarge, "a cooperative launch does not fit on the device at once"),
	E(cudaErrorTensorMemoryLeak, "a kernel ended without freeing its tensor memory"),
	E(cudaErrorNotPermitted, "not permitted"),
	E(cudaErrorNotSupported, "not supported"),
	E(cudaErrorSystemNotReady, "the system's CUDA services are not ready"),
	E(cudaErrorSystemDriverMismatch, "the parts of the driver differ in version"),
	E(cudaErrorCompatNotSupportedOnDevice, "forward compatibility is not available on this device"),
	E(cudaErrorMpsConnectionFailed, "no connection to the MPS server"),
	E(cudaErrorMpsRpcFailure, "a call to the MPS server failed"),
	E(cudaErrorMpsServerNotReady, "the MPS server is not ready"),
	E(cudaErrorMpsMaxClientsReached, "the MPS server has too many clients"),
	E(cudaErrorMpsMaxConnectionsReached, "the MPS server has too many connections"),
	E(cudaErrorMpsClientTerminated, "the MPS server ended this client"),
	E(cudaErrorCdpNotSupported, "dynamic parallelism is not supported"),
	E(cudaErrorCdpVersionMismatch, "two versions of dynamic parallelism were mixed"),
	E(cudaErrorStreamCaptureUnsupported, "not permitted while the stream is captured"),
	E(cudaErrorStreamCaptureInvalidated, "an earlier error ended the capture"),
	E(cudaErrorStreamCaptureMerge, "the call would merge two captures"),
	E(cudaErrorStreamCaptureUnmatched, "the capture did not begin in this stream"),
	E(cudaErrorStreamCaptureUnjoined, "a stream of the capture was not joined"),
	E(cudaErrorStreamCaptureIsolation, "a captured stream would depend on work outside the capture"),
	E(cudaErrorStreamCaptureImplicit, "the call would make the captured stream wait for the default stream"),
	E(cudaErrorCapturedEvent, "not permitted for an event that was captured"),
	E(cudaErrorStreamCaptureWrongThread, "the capture belongs to another thread"),
	E(cudaErrorTimeout, "the wait took too long"),
	E(cudaErrorGraphExecUpdateFailure, "the change to the graph cannot be made in place"),
	E(cudaErrorExternalDevice, "a device outside CUDA reported an error"),
	E(cudaErrorInvalidClusterSize, "invalid cluster size"),
	E(cudaErrorFunctionNotLoaded, "the function is not loaded"),
	E(cudaErrorInvalidResourceType, "invalid type of resource"),
	E(cudaErrorInvalidResourceConfiguration, "invalid configuration of a resource"),
	E(cudaErrorUnknown, "unknown error"),
	E(cudaErrorApiFailureBase, "failure of the runtime"),
};

static const struct explanation *explain(cudaError_t error)
{
	size_t low = 0, high = sizeof(explanations) / sizeof(*explanations);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (explanations[middle].error == error)
			return &explanations[middle];
		if (explanations[middle].error < error)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

CUDART_API const char *cudaGetErrorName(cudaError_t error)
{
	const struct explanation *found = explain(cudart_error_of(error));

	return found ? found->name : "unrecognized error code";
}

CUDART_API const char *cudaGetErrorString(cudaError_t error)
{
	const struct explanation *found = explain(cudart_error_of(error));

	return found ? found->text : "unrecognized error code";
}
