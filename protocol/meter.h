/* SPDX-License-Identifier: Apache-2.0 */
/* The meter of device memory. A back end asks the meter before it allocates memory in any way. */
#ifndef VCUDA_METER_H
#define VCUDA_METER_H

#include <stdbool.h>
#include <stdint.h>

/* All functions are thread-safe, may be called with locks of the back end held, and do not call the back end. */
struct vcuda_meter {
	/* False: the memory must not be allocated (CUDA_ERROR_OUT_OF_MEMORY). `gpu` is the device's number. */
	bool (*take)(unsigned int gpu, uint64_t bytes);
	/* Memory that was taken has been freed. */
	void (*give)(unsigned int gpu, uint64_t bytes);
	/*
	 * False: the device alone limits memory. Else *limit is what the program may ever have, and *left what it may
	 * still take; both may be more than the device has.
	 */
	bool (*limit)(unsigned int gpu, uint64_t *limit, uint64_t *left);
	/* Whether limit() returns true. Costs nothing. */
	bool (*limited)(void);
	/*
	 * For a back end whose device memory is the host's. The process is about to have about `bytes` more of the
	 * host's memory for something else. False: it must not (CUDA_ERROR_OUT_OF_MEMORY).
	 */
	bool (*host_room)(uint64_t bytes);
	/* `bytes` more of the device memory, or less, are in files that other processes may have mapped too. */
	void (*in_files)(int64_t bytes);
	/* Limits for the number of queued commands, and for the host memory that these hold. */
	void (*queue)(uint64_t *commands, uint64_t *bytes);
	/* Limit for the bytes of code of loaded modules. */
	uint64_t (*modules)(void);
	/* The back end has refused a command at the limit of queue(), or a module at that of modules(): to be counted. */
	void (*queue_refused)(void);
	void (*module_refused)(void);
};

#endif
