/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices that this process sees: those of the host's that CUDA_VISIBLE_DEVICES leaves, numbered from 0. The
 * worker describes them once, so queries cost no call. Nothing changes after libcuda_devices_load(), so any thread may
 * ask, and descriptions stay valid until the process ends.
 */
#ifndef VCUDA_DEVICE_H
#define VCUDA_DEVICE_H

#include "protocol/types.h"

/* Asks the worker for all its `count` devices. CUDA_ERROR_NO_DEVICE, with a line that says why, if none is left. */
CUresult libcuda_devices_load(int count);

int libcuda_device_count(void);

/* libcuda_require_init() and CUDA_ERROR_INVALID_DEVICE if there is no such device. */
CUresult libcuda_require_device(CUdevice dev);

/* The worker's number of a device that exists, and the worker's description of it. */
CUdevice libcuda_device_host(CUdevice dev);
const vcuda_device_info *libcuda_device_info_of(CUdevice dev);

/* An attribute's value as programs see it, 0 if there is none. */
int libcuda_device_attribute(CUdevice dev, CUdevice_attribute attribute);

#endif
