/* SPDX-License-Identifier: Apache-2.0 */
/* PTX of what NVIDIA's device runtime library (libcudadevrt.a) leaves to the driver. */
#ifndef VCUDA_CPU_DEVICE_RUNTIME_H
#define VCUDA_CPU_DEVICE_RUNTIME_H

/* A program whose text has this is linked with softgpu_device_runtime. */
#define SOFTGPU_DEVICE_RUNTIME_PREFIX "__cuda_syscall_CGS_"

extern const char softgpu_device_runtime[];

#endif
