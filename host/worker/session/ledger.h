/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This worker's device memory in vcudad's ledger (protocol/ipc/ledger.h). Grants come in chunks, and a small surplus
 * stays here, so that an allocation seldom asks. Without a limit nothing is asked: vcudad is only told. A worker that
 * was not started by vcudad has no ledger and no limit.
 *
 * GPUs are the back end's device numbers. Thread-safe. May be called with locks of a back end held.
 */
#ifndef VCUDA_WORKER_LEDGER_H
#define VCUDA_WORKER_LEDGER_H

#include "protocol/ipc/ledger.h"
#include "protocol/meter.h"

/*
 * Maps vcudad's page, at the latest when it is first needed: a sandbox may take the rights for that away afterwards.
 */
void worker_ledger_join(void);

/* What a back end counts its memory with. */
extern const struct vcuda_meter worker_ledger_meter;

/* What this guest process may have now. */
uint64_t worker_ledger_process_limit(enum vcuda_ledger_process_limit which);

/* The guest process was refused something at that limit: vcudad counts it. */
void worker_ledger_refused(enum vcuda_ledger_process_limit which);

#endif
