/* SPDX-License-Identifier: Apache-2.0 */
/* Having versions compiled by other processes, once vcuda_cpu_compile_with() has said how. */
#ifndef VCUDA_BACKEND_CPU_PTX_ELSEWHERE_H
#define VCUDA_BACKEND_CPU_PTX_ELSEWHERE_H

#include "protocol/compiler.h"
#include "jit/ptx-make.h"

bool ptx_elsewhere_is_used(void);

/* Tells who has asked for that, by vcuda_cpu_compile_with(), what a version took. Fills in the kernel's name. */
void ptx_elsewhere_tell(const struct ptx_kernel *kernel, struct vcuda_compiled *compiled);

/* As ptx_make(). A version that is not chosen is compiled in the background, until its module is gone. */
enum ptx_status ptx_elsewhere_make(const struct ptx_wanted *wanted, struct ptx_made *made, struct ptx_error *error);

#endif
