/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before CUDA 10.1 the runtime numbered its errors by itself; since then they have the driver's numbers. Inside the
 * library they always have those of today: error.c translates what a program of 9.1 or 10.0 gets and asks about.
 */
#include "error-number.h"

/* By the old number. 0 but for cudaSuccess: no error had that number. */
static const uint16_t today[] = {
	[1] = cudaErrorMissingConfiguration,
	[2] = cudaErrorMemoryAllocation,
	[3] = cudaErrorInitializationError,
	[4] = cudaErrorLaunchFailure,
	[5] = cudaErrorPriorLaunchFailure,
	[6] = cudaErrorLaunchTimeout,
	[7] = cudaErrorLaunchOutOfResources,
	[8] = cudaErrorInvalidDeviceFunction,
	[9] = cudaErrorInvalidConfiguration,
	[10] = cudaErrorInvalidDevice,
	[11] = cudaErrorInvalidValue,
	[12] = cudaErrorInvalidPitchValue,
	[13] = cudaErrorInvalidSymbol,
	[14] = cudaErrorMapBufferObjectFailed,
	[15] = cudaErrorUnmapBufferObjectFailed,
	[16] = cudaErrorInvalidHostPointer,
	[17] = cudaErrorInvalidDevicePointer,
	[18] = cudaErrorInvalidTexture,
	[19] = cudaErrorInvalidTextureBinding,
	[20] = cudaErrorInvalidChannelDescriptor,
	[21] = cudaErrorInvalidMemcpyDirection,
	[22] = cudaErrorAddressOfConstant,
	[23] = cudaErrorTextureFetchFailed,
	[24] = cudaErrorTextureNotBound,
	[25] = cudaErrorSynchronizationError,
	[26] = cudaErrorInvalidFilterSetting,
	[27] = cudaErrorInvalidNormSetting,
	[28] = cudaErrorMixedDeviceExecution,
	[29] = cudaErrorCudartUnloading,
	[OLD_ERROR_UNKNOWN] = cudaErrorUnknown,
	[31] = cudaErrorNotYetImplemented,
	[32] = cudaErrorMemoryValueTooLarge,
	[33] = cudaErrorInvalidResourceHandle,
	[34] = cudaErrorNotReady,
	[35] = cudaErrorInsufficientDriver,
	[36] = cudaErrorSetOnActiveProcess,
	[37] = cudaErrorInvalidSurface,
	[38] = cudaErrorNoDevice,
	[39] = cudaErrorECCUncorrectable,
	[40] = cudaErrorSharedObjectSymbolNotFound,
	[41] = cudaErrorSharedObjectInitFailed,
	[42] = cudaErrorUnsupportedLimit,
	[43] = cudaErrorDuplicateVariableName,
	[44] = cudaErrorDuplicateTextureName,
	[45] = cudaErrorDuplicateSurfaceName,
	[46] = cudaErrorDevicesUnavailable,
	[47] = cudaErrorInvalidKernelImage,
	[48] = cudaErrorNoKernelImageForDevice,
	[49] = cudaErrorIncompatibleDriverContext,
	[50] = cudaErrorPeerAccessAlreadyEnabled,
	[51] = cudaErrorPeerAccessNotEnabled,
	[54] = cudaErrorDeviceAlreadyInUse,
	[55] = cudaErrorProfilerDisabled,
	[56] = cudaErrorProfilerNotInitialized,
	[57] = cudaErrorProfilerAlreadyStarted,
	[58] = cudaErrorProfilerAlreadyStopped,
	[59] = cudaErrorAssert,
	[60] = cudaErrorTooManyPeers,
	[61] = cudaErrorHostMemoryAlreadyRegistered,
	[62] = cudaErrorHostMemoryNotRegistered,
	[63] = cudaErrorOperatingSystem,
	[64] = cudaErrorPeerAccessUnsupported,
	[65] = cudaErrorLaunchMaxDepthExceeded,
	[66] = cudaErrorLaunchFileScopedTex,
	[67] = cudaErrorLaunchFileScopedSurf,
	[68] = cudaErrorSyncDepthExceeded,
	[69] = cudaErrorLaunchPendingCountExceeded,
	[70] = cudaErrorNotPermitted,
	[71] = cudaErrorNotSupported,
	[72] = cudaErrorHardwareStackError,
	[73] = cudaErrorIllegalInstruction,
	[74] = cudaErrorMisalignedAddress,
	[75] = cudaErrorInvalidAddressSpace,
	[76] = cudaErrorInvalidPc,
	[77] = cudaErrorIllegalAddress,
	[78] = cudaErrorInvalidPtx,
	[79] = cudaErrorInvalidGraphicsContext,
	[80] = cudaErrorNvlinkUncorrectable,
	[81] = cudaErrorJitCompilerNotFound,
	[82] = cudaErrorCooperativeLaunchTooLarge,
	[83] = cudaErrorSystemNotReady,
	[84] = cudaErrorIllegalState,
	[127] = cudaErrorStartupFailure,
};

#define COUNT (sizeof(today) / sizeof(*today))

/* The errors of captures and the base of unknown ones kept their numbers. */
static bool same(int number)
{
	return number == cudaSuccess || number == cudaErrorApiFailureBase ||
	       (number >= cudaErrorStreamCaptureUnsupported && number <= cudaErrorCapturedEvent);
}

int old_error(cudaError_t error)
{
	if (same(error))
		return error;
	for (size_t i = 1; i < COUNT; i++)
		if (today[i] == error)
			return (int)i;
	return OLD_ERROR_UNKNOWN;
}

cudaError_t old_error_today(int number)
{
	if (same(number))
		return (cudaError_t)number;
	return number > 0 && (size_t)number < COUNT && today[number] ? (cudaError_t)today[number] : (cudaError_t)-1;
}
