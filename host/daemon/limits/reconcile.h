/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of device memory against what the GPU's driver says that workers have. A worker's grants do not show
 * kernels that the driver loads late and work areas of its libraries, and a worker that is taken over asks for no
 * grants.
 *
 * A worker that has more of a GPU than it was granted and a tolerance is charged with what the driver says. If a limit
 * is exceeded by more than a tolerance then, the worker is ended. The driver's figures and the ledger do not change at
 * the same moment: a worker is charged the second time in a row, and ended the third time.
 */
#ifndef VCUDA_RECONCILE_H
#define VCUDA_RECONCILE_H

#include <stdint.h>

#include "protocol/ipc/gpu-use.h"

/* Returns the surplus that is allowed beyond `bytes`: beyond a worker's grants, and beyond a limit of all workers. */
uint64_t daemon_reconcile_tolerance(uint64_t bytes);

/* Takes the memory of the processes of one GPU: a message of this type that is whole. */
void daemon_reconcile(const struct vcuda_gpu_use *m);

#endif
