/* SPDX-License-Identifier: Apache-2.0 */
/* Launch configurations on their way from the <<<>>> of a program to its launch. */
#ifndef CUDART_LAUNCH_H
#define CUDART_LAUNCH_H

#include "runtime.h"

struct launch {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};

/* `extra` as the driver has it, or NULL; then `args` points to one pointer for each parameter. */
cudaError_t cudart_launch(CUfunction function, const struct launch *launch, void **args, void **extra);

/* The driver's form of a launch configuration; it keeps pointing to the same attributes. */
cudaError_t cudart_launch_config(const cudaLaunchConfig_t *config, CUlaunchConfig *driver);

#endif
