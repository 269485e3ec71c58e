/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory of each GPU a process of this host has, as NVIDIA's management library says. vcudad starts the
 * program vcuda-gpu-use with a SOCK_SEQPACKET Unix socket as descriptor VCUDA_GPU_USE_FD. The program sends one
 * message a second for each GPU, and ends when vcudad closes the socket. vcudad sends nothing.
 */
#ifndef VCUDA_GPU_USE_IPC_H
#define VCUDA_GPU_USE_IPC_H

#include <stdint.h>

#define VCUDA_GPU_USE_FD 3

/* The exit status where there is nothing to read: no GPU, or no such library. */
#define VCUDA_GPU_USE_NONE 2

/* Processes of one GPU; what others have is not known. */
#define VCUDA_GPU_USE_PROCESSES 4096

struct vcuda_gpu_use_process {
	uint32_t process, reserved;
	uint64_t bytes;
};

/* A message has `count` processes, and ends behind the last one. */
struct vcuda_gpu_use {
	uint32_t gpu; /* the number that the CUDA driver gives it in a worker */
	uint32_t count;
	struct vcuda_gpu_use_process processes[VCUDA_GPU_USE_PROCESSES];
};

#endif
