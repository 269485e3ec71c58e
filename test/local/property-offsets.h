/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the property structure of each toolkit has what: the offsets of CUDA 11.8, 12.9 and 13.0 are those of NVIDIA's
 * headers; those of 9 and 10 were seen in what NVIDIA's libraries of 9.0 and 10.0 to 10.2 wrote. -1: no such member.
 */
#ifndef VCUDA_TEST_PROPERTY_OFFSETS_H
#define VCUDA_TEST_PROPERTY_OFFSETS_H

/* P(member, device attribute, size, offset in 9, in 10, in 11, in 12, in 13) */
#define PROPERTY_OFFSETS(P) \
	P(sharedMemPerBlock, 8, 8, 264, 296, 296, 296, 296) \
	P(regsPerBlock, 12, 4, 272, 304, 304, 304, 304) \
	P(warpSize, 10, 4, 276, 308, 308, 308, 308) \
	P(memPitch, 11, 8, 280, 312, 312, 312, 312) \
	P(maxThreadsPerBlock, 1, 4, 288, 320, 320, 320, 320) \
	P(maxThreadsDim[0], 2, 4, 292, 324, 324, 324, 324) \
	P(maxThreadsDim[1], 3, 4, 296, 328, 328, 328, 328) \
	P(maxThreadsDim[2], 4, 4, 300, 332, 332, 332, 332) \
	P(maxGridSize[0], 5, 4, 304, 336, 336, 336, 336) \
	P(maxGridSize[1], 6, 4, 308, 340, 340, 340, 340) \
	P(maxGridSize[2], 7, 4, 312, 344, 344, 344, 344) \
	P(clockRate, 13, 4, 316, 348, 348, 348, -1) \
	P(totalConstMem, 9, 8, 320, 352, 352, 352, 352) \
	P(major, 75, 4, 328, 360, 360, 360, 360) \
	P(minor, 76, 4, 332, 364, 364, 364, 364) \
	P(textureAlignment, 14, 8, 336, 368, 368, 368, 368) \
	P(texturePitchAlignment, 51, 8, 344, 376, 376, 376, 376) \
	P(deviceOverlap, 15, 4, 352, 384, 384, 384, -1) \
	P(multiProcessorCount, 16, 4, 356, 388, 388, 388, 384) \
	P(kernelExecTimeoutEnabled, 17, 4, 360, 392, 392, 392, -1) \
	P(integrated, 18, 4, 364, 396, 396, 396, 388) \
	P(canMapHostMemory, 19, 4, 368, 400, 400, 400, 392) \
	P(computeMode, 20, 4, 372, 404, 404, 404, -1) \
	P(maxTexture1D, 21, 4, 376, 408, 408, 408, 396) \
	P(maxTexture1DMipmap, 77, 4, 380, 412, 412, 412, 400) \
	P(maxTexture1DLinear, 69, 4, 384, 416, 416, 416, -1) \
	P(maxTexture2D[0], 22, 4, 388, 420, 420, 420, 404) \
	P(maxTexture2D[1], 23, 4, 392, 424, 424, 424, 408) \
	P(maxTexture2DMipmap[0], 73, 4, 396, 428, 428, 428, 412) \
	P(maxTexture2DMipmap[1], 74, 4, 400, 432, 432, 432, 416) \
	P(maxTexture2DLinear[0], 70, 4, 404, 436, 436, 436, 420) \
	P(maxTexture2DLinear[1], 71, 4, 408, 440, 440, 440, 424) \
	P(maxTexture2DLinear[2], 72, 4, 412, 444, 444, 444, 428) \
	P(maxTexture2DGather[0], 45, 4, 416, 448, 448, 448, 432) \
	P(maxTexture2DGather[1], 46, 4, 420, 452, 452, 452, 436) \
	P(maxTexture3D[0], 24, 4, 424, 456, 456, 456, 440) \
	P(maxTexture3D[1], 25, 4, 428, 460, 460, 460, 444) \
	P(maxTexture3D[2], 26, 4, 432, 464, 464, 464, 448) \
	P(maxTexture3DAlt[0], 47, 4, 436, 468, 468, 468, 452) \
	P(maxTexture3DAlt[1], 48, 4, 440, 472, 472, 472, 456) \
	P(maxTexture3DAlt[2], 49, 4, 444, 476, 476, 476, 460) \
	P(maxTextureCubemap, 52, 4, 448, 480, 480, 480, 464) \
	P(maxTexture1DLayered[0], 42, 4, 452, 484, 484, 484, 468) \
	P(maxTexture1DLayered[1], 43, 4, 456, 488, 488, 488, 472) \
	P(maxTexture2DLayered[0], 27, 4, 460, 492, 492, 492, 476) \
	P(maxTexture2DLayered[1], 28, 4, 464, 496, 496, 496, 480) \
	P(maxTexture2DLayered[2], 29, 4, 468, 500, 500, 500, 484) \
	P(maxTextureCubemapLayered[0], 53, 4, 472, 504, 504, 504, 488) \
	P(maxTextureCubemapLayered[1], 54, 4, 476, 508, 508, 508, 492) \
	P(maxSurface1D, 55, 4, 480, 512, 512, 512, 496) \
	P(maxSurface2D[0], 56, 4, 484, 516, 516, 516, 500) \
	P(maxSurface2D[1], 57, 4, 488, 520, 520, 520, 504) \
	P(maxSurface3D[0], 58, 4, 492, 524, 524, 524, 508) \
	P(maxSurface3D[1], 59, 4, 496, 528, 528, 528, 512) \
	P(maxSurface3D[2], 60, 4, 500, 532, 532, 532, 516) \
	P(maxSurface1DLayered[0], 61, 4, 504, 536, 536, 536, 520) \
	P(maxSurface1DLayered[1], 62, 4, 508, 540, 540, 540, 524) \
	P(maxSurface2DLayered[0], 63, 4, 512, 544, 544, 544, 528) \
	P(maxSurface2DLayered[1], 64, 4, 516, 548, 548, 548, 532) \
	P(maxSurface2DLayered[2], 65, 4, 520, 552, 552, 552, 536) \
	P(maxSurfaceCubemap, 66, 4, 524, 556, 556, 556, 540) \
	P(maxSurfaceCubemapLayered[0], 67, 4, 528, 560, 560, 560, 544) \
	P(maxSurfaceCubemapLayered[1], 68, 4, 532, 564, 564, 564, 548) \
	P(surfaceAlignment, 30, 8, 536, 568, 568, 568, 552) \
	P(concurrentKernels, 31, 4, 544, 576, 576, 576, 560) \
	P(ECCEnabled, 32, 4, 548, 580, 580, 580, 564) \
	P(pciBusID, 33, 4, 552, 584, 584, 584, 568) \
	P(pciDeviceID, 34, 4, 556, 588, 588, 588, 572) \
	P(pciDomainID, 50, 4, 560, 592, 592, 592, 576) \
	P(tccDriver, 35, 4, 564, 596, 596, 596, 580) \
	P(asyncEngineCount, 40, 4, 568, 600, 600, 600, 584) \
	P(unifiedAddressing, 41, 4, 572, 604, 604, 604, 588) \
	P(memoryClockRate, 36, 4, 576, 608, 608, 608, -1) \
	P(memoryBusWidth, 37, 4, 580, 612, 612, 612, 592) \
	P(l2CacheSize, 38, 4, 584, 616, 616, 616, 596) \
	P(persistingL2CacheMaxSize, 108, 4, -1, -1, 620, 620, 600) \
	P(maxThreadsPerMultiProcessor, 39, 4, 588, 620, 624, 624, 604) \
	P(streamPrioritiesSupported, 78, 4, 592, 624, 628, 628, 608) \
	P(globalL1CacheSupported, 79, 4, 596, 628, 632, 632, 612) \
	P(localL1CacheSupported, 80, 4, 600, 632, 636, 636, 616) \
	P(sharedMemPerMultiprocessor, 81, 8, 608, 640, 640, 640, 624) \
	P(regsPerMultiprocessor, 82, 4, 616, 648, 648, 648, 632) \
	P(managedMemory, 83, 4, 620, 652, 652, 652, 636) \
	P(isMultiGpuBoard, 84, 4, 624, 656, 656, 656, 640) \
	P(multiGpuBoardGroupID, 85, 4, 628, 660, 660, 660, 644) \
	P(hostNativeAtomicSupported, 86, 4, 632, 664, 664, 664, 648) \
	P(singleToDoublePrecisionPerfRatio, 87, 4, 636, 668, 668, 668, -1) \
	P(pageableMemoryAccess, 88, 4, 640, 672, 672, 672, 652) \
	P(concurrentManagedAccess, 89, 4, 644, 676, 676, 676, 656) \
	P(computePreemptionSupported, 90, 4, 648, 680, 680, 680, 660) \
	P(canUseHostPointerForRegisteredMem, 91, 4, 652, 684, 684, 684, 664) \
	P(cooperativeLaunch, 95, 4, 656, 688, 688, 688, 668) \
	P(cooperativeMultiDeviceLaunch, 96, 4, 660, 692, 692, 692, -1) \
	P(sharedMemPerBlockOptin, 97, 8, 664, 696, 696, 696, 672) \
	P(pageableMemoryAccessUsesHostPageTables, 100, 4, -1, 704, 704, 704, 680) \
	P(directManagedMemAccessFromHost, 101, 4, -1, 708, 708, 708, 684) \
	P(maxBlocksPerMultiProcessor, 106, 4, -1, -1, 712, 712, 688) \
	P(accessPolicyMaxWindowSize, 109, 4, -1, -1, 716, 716, 692) \
	P(reservedSharedMemPerBlock, 111, 8, -1, -1, 720, 720, 696) \
	P(hostRegisterSupported, 99, 4, -1, -1, -1, 728, 704) \
	P(sparseCudaArraySupported, 112, 4, -1, -1, -1, 732, 708) \
	P(hostRegisterReadOnlySupported, 113, 4, -1, -1, -1, 736, 712) \
	P(timelineSemaphoreInteropSupported, 114, 4, -1, -1, -1, 740, 716) \
	P(memoryPoolsSupported, 115, 4, -1, -1, -1, 744, 720) \
	P(gpuDirectRDMASupported, 116, 4, -1, -1, -1, 748, 724) \
	P(gpuDirectRDMAFlushWritesOptions, 117, 4, -1, -1, -1, 752, 728) \
	P(gpuDirectRDMAWritesOrdering, 118, 4, -1, -1, -1, 756, 732) \
	P(memoryPoolSupportedHandleTypes, 119, 4, -1, -1, -1, 760, 736) \
	P(deferredMappingCudaArraySupported, 121, 4, -1, -1, -1, 764, 740) \
	P(ipcEventSupported, 125, 4, -1, -1, -1, 768, 744) \
	P(clusterLaunch, 120, 4, -1, -1, -1, 772, 748) \
	P(unifiedFunctionPointers, 129, 4, -1, -1, -1, 776, 752) \
	P(deviceNumaConfig, 130, 4, -1, -1, -1, -1, 756) \
	P(deviceNumaId, 131, 4, -1, -1, -1, -1, 760) \
	P(mpsEnabled, 133, 4, -1, -1, -1, -1, 764) \
	P(hostNumaId, 134, 4, -1, -1, -1, -1, 768) \
	P(gpuPciDeviceID, 139, 4, -1, -1, -1, -1, 772) \
	P(gpuPciSubsystemID, 140, 4, -1, -1, -1, -1, 776) \
	P(hostNumaMultinodeIpcSupported, 143, 4, -1, -1, -1, -1, 780)

#endif
