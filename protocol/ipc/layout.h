/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest memory is mapped in the worker at the guest's own addresses. Guests live high (mmap grows down from the stack);
 * with the old layout and no randomisation the worker's own libraries lie far below, where no guest is. The thread
 * sanitizer has its shadow there.
 */
#ifndef VCUDA_LAYOUT_H
#define VCUDA_LAYOUT_H

#include <sys/personality.h>

#ifdef __SANITIZE_THREAD__
#define VCUDA_WORKER_LAYOUT ((unsigned long)ADDR_NO_RANDOMIZE)
#else
#define VCUDA_WORKER_LAYOUT ((unsigned long)(ADDR_COMPAT_LAYOUT | ADDR_NO_RANDOMIZE))
#endif

#endif
