/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling a version of a kernel to a piece, in this process or another one. */
#ifndef VCUDA_BACKEND_CPU_PTX_MAKE_H
#define VCUDA_BACKEND_CPU_PTX_MAKE_H

#include "jit/ptx-piece.h"

struct ptx_wanted {
	struct ptx_kernel *kernel;
	uint32_t blockdim[3];
	struct ptx_version version;
	bool choose; /* slow kernels get quick code; without it, far too slow ones are refused */
	bool urgent; /* without `choose`: the code that runs meanwhile is scalar */
};

struct ptx_made {
	struct ptx_version version; /* the one that was chosen */
	struct ptx_times times;     /* `link` is left to the caller */
	struct ptx_piece *piece;    /* for free() */
};

/* Here. Any number of threads may do so at once. */
enum ptx_status ptx_make(const struct ptx_wanted *wanted, struct ptx_made *made, struct ptx_error *error);

/* VCUDA_CPU_COMPILE=optimised: for tests and for timing, no quick code but where nothing else is made. */
bool ptx_make_is_patient(void);

/*
 * Whether this version may begin with scalar or standalone code. For tests: not with VCUDA_CPU_COMPILE=quick, and with
 * VCUDA_CPU_COMPILE=standalone all code of 32 lanes begins as standalone code.
 */
bool ptx_make_may_be_replaced(struct ptx_version version);

/* By the clock, and of the calling thread. */
double ptx_make_now_ms(void);
double ptx_make_cpu_ms(void);

#endif
