/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a module, for tools that ask NVIDIA's private tables for them. */
#ifndef VCUDA_ENUMERATE_H
#define VCUDA_ENUMERATE_H

#include "protocol/cuda-abi.h"

/* Calls take() for each function of a module of the current context. */
CUresult libcuda_for_each_function(CUmodule module, void (*take)(void *data, CUfunction function), void *data);

#endif
