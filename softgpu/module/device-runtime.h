/* SPDX-License-Identifier: Apache-2.0 */
/* PTX of what NVIDIA's device runtime library (libcudadevrt.a) leaves to the driver. */
#ifndef VCUDA_CPU_DEVICE_RUNTIME_H
#define VCUDA_CPU_DEVICE_RUNTIME_H

/* Where this stands in a program it is to be linked with cpu_device_runtime. */
#define CPU_DEVICE_RUNTIME_MARK "__cuda_syscall_CGS_"

extern const char cpu_device_runtime[];

#endif
