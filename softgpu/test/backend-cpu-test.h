/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the software GPU: a device, and small kernels. */
#ifndef VCUDA_BACKEND_CPU_TEST_H
#define VCUDA_BACKEND_CPU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "softgpu/backend-cpu.h"
#include "protocol/backend.h"

extern const struct vcuda_backend_ops *cuda;

/*
 * A variable `counter`, 7, and a constant `scale`. Kernels: add(a, b, n): a[i] += b[i]; store(p, v): *p = v; count():
 * counter++ in each thread; spin(p): while (!*p).
 */
#define BACKEND_PTX_BYTES 2048
extern const char backend_ptx[BACKEND_PTX_BYTES];

/* The environment and `cuda`; the latter also calls cuInit(). */
void start_device(void);
void init_device(void);

/* Each test has a context of its own, so one that makes it fail disturbs no other. `*state` is the context. */
int make_context(void **state);
int destroy_context(void **state);
#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, make_context, destroy_context)

/* These fail the test where the call fails. */
CUdeviceptr alloc(size_t bytes);
CUmodule load(void); /* backend_ptx */
CUfunction function(CUmodule module, const char *name);
CUstream stream(unsigned int flags);

CUresult launch(CUfunction f, unsigned int grid, unsigned int block, CUstream s, void **params);
CUresult launch_store(CUfunction f, CUstream s, uint64_t address, uint32_t value);

/* A page of the host's whose first word a kernel waits for. */
uint32_t *shared_word(void);
CUresult launch_spin(CUfunction f, CUstream s, uint32_t *word);
void open_gate(uint32_t *word);

#endif
