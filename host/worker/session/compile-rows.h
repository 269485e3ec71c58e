/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's statistics of each kernel, for a guest that asks (protocol/compile-rows.h). Thread-safe. */
#ifndef VCUDA_WORKER_COMPILE_ROWS_H
#define VCUDA_WORKER_COMPILE_ROWS_H

#include "protocol/compiler.h"
#include "session/session.h"

/* Counts while the guest has set `profile` in the control page. */
void worker_compile_rows_add(struct worker_session *s, const struct vcuda_compiled *c);

#endif
