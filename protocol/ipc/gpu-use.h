/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of each GPU by the processes of this host, as NVIDIA's management library says. vcudad starts the program
 * vcuda-gpu-use with a SOCK_SEQPACKET Unix socket as descriptor VCUDA_GPU_USE_FD. The program sends a message about
 * memory once a second for each GPU, and one about samples when there are new ones, where its argument is `samples`. It
 * ends when vcudad closes the socket. vcudad sends nothing.
 */
#ifndef VCUDA_GPU_USE_H
#define VCUDA_GPU_USE_H

#include <stdint.h>

#define VCUDA_GPU_USE_FD 3

/* The exit status where there is nothing to read: no GPU, or no such library. */
#define VCUDA_GPU_USE_NONE 2

/* Processes of one GPU; what others have is not known. */
#define VCUDA_GPU_USE_PROCESSES 4096

enum vcuda_gpu_use_type {
	VCUDA_GPU_USE_MEMORY = 1, /* memory of each process */
	VCUDA_GPU_USE_SAMPLES     /* new samples of running kernels, the oldest first. Refused if they are not known */
};

struct vcuda_gpu_use_memory {
	uint32_t process, reserved;
	uint64_t bytes;
};

/* The driver looks at the GPU several times a second, and each time names one process of those that have work there. */
struct vcuda_gpu_use_sample {
	uint32_t process;
	uint32_t busy;    /* the part of the time since the last sample in which any kernel ran, in hundredths */
	uint64_t time_ns; /* by CLOCK_MONOTONIC */
};

/* A message has `count` entries, and ends behind the last one. */
struct vcuda_gpu_use {
	uint32_t type;
	uint32_t gpu; /* the number that the CUDA driver gives it in a worker */
	uint32_t count, reserved;
	union {
		struct vcuda_gpu_use_memory memory[VCUDA_GPU_USE_PROCESSES];
		struct vcuda_gpu_use_sample samples[VCUDA_GPU_USE_PROCESSES];
	};
};

/* The bytes of a message. Entries of both types have the same size. */
#define VCUDA_GPU_USE_BYTES(count) (16 + 16 * (uint64_t)(count))

#endif
