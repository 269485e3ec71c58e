/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of NVTX that are reported to tools, in the order of CUPTI's numbers, which begin with 1. */
#ifndef VCUDA_NVTX_FUNCTIONS_H
#define VCUDA_NVTX_FUNCTIONS_H

#define VCUDA_NVTX_FUNCTIONS(X)                                                                                        \
	X(MarkA)                                                                                                       \
	X(MarkW)                                                                                                       \
	X(MarkEx)                                                                                                      \
	X(RangeStartA)                                                                                                 \
	X(RangeStartW)                                                                                                 \
	X(RangeStartEx)                                                                                                \
	X(RangeEnd)                                                                                                    \
	X(RangePushA)                                                                                                  \
	X(RangePushW)                                                                                                  \
	X(RangePushEx)                                                                                                 \
	X(RangePop)                                                                                                    \
	X(NameCategoryA)                                                                                               \
	X(NameCategoryW)                                                                                               \
	X(NameOsThreadA)                                                                                               \
	X(NameOsThreadW)                                                                                               \
	X(NameCuDeviceA)                                                                                               \
	X(NameCuDeviceW)                                                                                               \
	X(NameCuContextA)                                                                                              \
	X(NameCuContextW)                                                                                              \
	X(NameCuStreamA)                                                                                               \
	X(NameCuStreamW)                                                                                               \
	X(NameCuEventA)                                                                                                \
	X(NameCuEventW)                                                                                                \
	X(NameCudaDeviceA)                                                                                             \
	X(NameCudaDeviceW)                                                                                             \
	X(NameCudaStreamA)                                                                                             \
	X(NameCudaStreamW)                                                                                             \
	X(NameCudaEventA)                                                                                              \
	X(NameCudaEventW)                                                                                              \
	X(DomainMarkEx)                                                                                                \
	X(DomainRangeStartEx)                                                                                          \
	X(DomainRangeEnd)                                                                                              \
	X(DomainRangePushEx)                                                                                           \
	X(DomainRangePop)                                                                                              \
	X(DomainResourceCreate)                                                                                        \
	X(DomainResourceDestroy)                                                                                       \
	X(DomainNameCategoryA)                                                                                         \
	X(DomainNameCategoryW)                                                                                         \
	X(DomainRegisterStringA)                                                                                       \
	X(DomainRegisterStringW)                                                                                       \
	X(DomainCreateA)                                                                                               \
	X(DomainCreateW)                                                                                               \
	X(DomainDestroy)                                                                                               \
	X(DomainSyncUserCreate)                                                                                        \
	X(DomainSyncUserDestroy)                                                                                       \
	X(DomainSyncUserAcquireStart)                                                                                  \
	X(DomainSyncUserAcquireFailed)                                                                                 \
	X(DomainSyncUserAcquireSuccess)                                                                                \
	X(DomainSyncUserReleasing)

#define VCUDA_NVTX_NUMBER(function) VCUDA_NVTX_##function,
enum vcuda_nvtx_function { VCUDA_NVTX_NONE, VCUDA_NVTX_FUNCTIONS(VCUDA_NVTX_NUMBER) VCUDA_NVTX_LIMIT };
#undef VCUDA_NVTX_NUMBER

#endif
