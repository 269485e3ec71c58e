/* SPDX-License-Identifier: Apache-2.0 */
#include "backend-cpu.h"
#include "ops.h"
#include "common/log.h"

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda-cpu"};

/*
 * Functions that are not listed stay NULL, and the caller answers CUDA_ERROR_NOT_SUPPORTED. One group is persisting L2,
 * which the device does not have.
 */
/* clang-format off */
static const struct vcuda_backend_ops ops = {
	.name = "cpu",
#define X(function) .function = softgpu_##function,
	SOFTGPU_FUNCTIONS(X)
#undef X
};
/* clang-format on */

__attribute__((visibility("default"))) const struct vcuda_backend_ops *vcuda_backend_cpu(void)
{
	return &ops;
}
